"""The items of FROM: streams, subselects, items of WITH, and VALUES.

    FROM (SELECT a, b + 1 AS c FROM s WHERE b > 2) t      inlined: a and b + 1 of s are the columns of t
    FROM (SELECT k, count(*) AS n FROM s GROUP BY k) t    a relation: computed as a whole, then read like a side

A subselect is inlined if it only selects and joins. Its conditions then go to the sides, and its joins to the join of
the statement around it. A missing tuple makes all columns NULL. So a subselect with a constant column becomes a
relation if its rows may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from psoup.expressions.tree import Expr, reads_now, sources_of
from psoup.plan.nodes import Node, Output, Project
from psoup.sql.composed.composition import Composition
from psoup.sql.composed.condition_places import Part, Tree
from psoup.sql.composed.constant_rows import values_plan
from psoup.sql.composed.null_rejection import is_null
from psoup.sql.composed.scope import Item, item_of, renamed_item
from psoup.sql.composed.shapes import bare, is_selection
from psoup.sql.composed.with_items import WithItem
from psoup.sql.from_list import named_stream

_UNNAMED = "unnamed_subquery"
"""The name that DuckDB gives to a subselect in FROM without a name."""


@dataclass(slots=True)
class Inlined:
    """A bound subselect that only selects and joins: its joins with its conditions, and its columns."""

    tree: Tree
    outputs: tuple[Output, ...]


class FromItems:
    """Binds items of FROM.

    `plan_of`: the plan of a query. `inlined`: the tree and the columns of a SELECT that `is_selection`. `rows_of`: the
    plan of a tree.
    """

    def __init__(
        self,
        composition: Composition,
        plan_of: Callable[[exp.Expr], Node],
        inlined: Callable[[exp.Select], Inlined],
        rows_of: Callable[[Tree], Node],
    ) -> None:
        self._composition = composition
        self._source = composition.source
        self._plan_of = plan_of
        self._inlined = inlined
        self._rows_of = rows_of

    def item(self, table: exp.Expr, *, optional: bool) -> tuple[Tree, Item]:
        """The tree and the scope's item of one item of FROM. `optional`: whether its rows may be missing."""
        composition = self._composition
        if isinstance(table, exp.Values):
            return self._relation(values_plan(composition, table), table, self._alias(table), [])
        if isinstance(table, exp.Subquery) and isinstance(bare(table.this), exp.Query | exp.Values):
            return self._subselect(table, table.this, self._alias(table), [], optional=optional)
        named = self._with_item(table)
        if named is not None:
            alias = table.args.get("alias")
            name = table.name if alias is None else alias.name
            with composition.reading(named.node, named.visible):
                return self._subselect(table, named.node.this, name, named.columns, optional=optional)
        self._check_recursion(table)
        spec, alias = named_stream(self._source, table, composition.lookup, composition.names)
        leaf = composition.add_side(spec, alias, table)
        names = self._names([output.name for output in leaf.schema], table, [], "stream")
        return Part(leaf), renamed_item(item_of(leaf, alias), names)

    def _with_item(self, table: exp.Expr) -> WithItem | None:
        """The item of WITH that an item of FROM names."""
        if not isinstance(table, exp.Table) or table.args.get("db") or not isinstance(table.this, exp.Identifier):
            return None
        return self._composition.visible.get(table.name.lower())

    def _check_recursion(self, table: exp.Expr) -> None:
        """Refuse an item of WITH that reads itself, unless a stream has its name."""
        composition, name = self._composition, table.name.lower()
        if isinstance(table, exp.Table) and name in composition.seen and composition.lookup(table.name) is None:
            raise self._source.unsupported(
                "an item of WITH that reads itself or a later item",
                table,
                hint="it reads the items before it, and streams; join a stream with itself for each step",
            )

    def _subselect(
        self, table: exp.Expr, query: exp.Expr, alias: str, renamed: Sequence[exp.Expr], *, optional: bool
    ) -> tuple[Tree, Item]:
        composition, query = self._composition, bare(query)
        with composition.entered(table):
            if not isinstance(query, exp.Select) or not is_selection(query):
                return self._relation(self._plan_of(query), table, alias, renamed)
            inlined = self._inlined(query)
        outputs, tree = inlined.outputs, inlined.tree
        if any(reads_now(output.expr) or (optional and not _may_miss(output.expr)) for output in outputs):
            return self._relation(Project(self._rows_of(tree), outputs), table, alias, renamed)
        names = self._names([output.name for output in outputs], table, renamed, "subselect")
        columns = [Output(name, output.expr) for name, output in zip(names, outputs, strict=True)]
        return tree, Item(alias, tuple(columns), tree.places)

    def _relation(self, plan: Node, table: exp.Expr, alias: str, renamed: Sequence[exp.Expr]) -> tuple[Tree, Item]:
        names = self._names([output.name for output in plan.schema], table, renamed, "subselect")
        relation = self._composition.add_relation(plan, alias, names)
        return Part(relation), item_of(relation, alias)

    def _names(self, names: Sequence[str], table: exp.Expr, renamed: Sequence[exp.Expr], kind: str) -> list[str]:
        """The names of the columns: from `t(a, b)` in FROM, or else from WITH, or else from the query."""
        alias = table.args.get("alias")
        for columns in (renamed, alias and alias.args.get("columns")):
            if columns:
                if len(columns) > len(names):
                    raise self._source.error(
                        f"the list has {len(columns)} names, and the {kind} {len(names)} columns",
                        columns[len(names)],
                        hint="name at most as many columns as it has",
                        reason="COLUMN_COUNT",
                    )
                names = [*(column.name for column in columns), *names[len(columns) :]]
        return list(names)

    def _alias(self, table: exp.Expr) -> str:
        alias = table.args.get("alias")
        return alias.name if alias is not None and alias.this is not None else self._composition.unnamed(_UNNAMED)


def _may_miss(expr: Expr) -> bool:
    """Whether a column is NULL if all tuples that it reads are missing."""
    return any(is_null(expr, place) for place in sources_of(expr))
