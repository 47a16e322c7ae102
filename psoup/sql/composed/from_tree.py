"""FROM of a composed statement: a scope with its sources, and a tree of joins.

FROM a LEFT JOIN b ON …, c RIGHT JOIN d USING (k)
  Inner
    Kept a LEFT b          a JOIN before a comma binds more tightly
    Kept c RIGHT d
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from sqlglot import exp

from psoup.errors import SqlError
from psoup.expressions.tree import Expr
from psoup.plan.nodes import JoinKind, Output
from psoup.plan.sides import MOST_JOINED
from psoup.sql.binder import Binder
from psoup.sql.composed.as_of import as_of_join, refuse_first
from psoup.sql.composed.composition import Composition
from psoup.sql.composed.condition_places import Condition, Inner, Kept, Tree
from psoup.sql.composed.from_items import FromItems
from psoup.sql.composed.scope import Item, Scope, hidden_from_item
from psoup.sql.composed.shapes import as_of, join_words, nested_join
from psoup.sql.join_conditions import and_nodes
from psoup.sql.parser.compositions import COMMA
from psoup.sql.source import nearest

_KINDS = {
    "": None,
    "INNER": None,
    "CROSS": None,
    "LEFT": JoinKind.LEFT,
    "RIGHT": JoinKind.RIGHT,
    "FULL": JoinKind.FULL,
    "SEMI": JoinKind.SEMI,
    "ANTI": JoinKind.ANTI,
    "LEFT SEMI": JoinKind.SEMI,
    "LEFT ANTI": JoinKind.ANTI,
    "ASOF": JoinKind.ASOF,
    "ASOF INNER": JoinKind.ASOF,
    "ASOF LEFT": JoinKind.ASOF_LEFT,
}
"""The kinds of joins, by their words without NATURAL, INNER and OUTER."""


def from_tree(
    composition: Composition, select: exp.Select, outer: Scope | None, items: FromItems
) -> tuple[Scope, Tree]:
    """Bind the FROM of a SELECT. `outer`: the scope around the SELECT. `items`: binds the items. Raises SqlError."""
    return _FromTree(composition, outer, items).of(select)


class _FromTree:
    """Binds one FROM."""

    def __init__(self, composition: Composition, outer: Scope | None, items: FromItems) -> None:
        self._composition = composition
        self._items = items
        self._source = composition.source
        self._outer = outer
        self._before = self._scope()
        self._lone: exp.Expr | None = None
        """The only item of FROM in a subselect of EXISTS or IN. It may be a table AS OF a stream around it."""

    def of(self, select: exp.Select) -> tuple[Scope, Tree]:
        """The scope and the tree of a SELECT."""
        source, origin = self._source, select.args.get("from_")
        if origin is None:
            raise source.error("FROM is missing", select, hint="name the stream: SELECT ... FROM stream")
        joins: list[exp.Join] = select.args.get("joins") or []
        if len(joins) >= MOST_JOINED:
            raise source.error(
                f"FROM names {len(joins) + 1} sources, more than {MOST_JOINED}",
                joins[MOST_JOINED - 1],
                hint="split the query",
                reason="TOO_MANY_SOURCES",
            )
        self._lone = None if self._outer is None or joins else origin.this
        whole, trees = self._scope(), list[Tree]()
        for first, following in _groups(origin.this, joins):
            scope, tree = self._group(first, following)
            for item in scope.items:
                whole.add(item, first)
            whole.optional |= scope.optional
            whole.merged_columns |= scope.merged_columns
            trees.append(tree)
        tree = trees[0] if len(trees) == 1 else Inner(trees)
        if len(tree.places) > MOST_JOINED:
            raise source.error(
                f"FROM and the subselects in it name {len(tree.places)} sources, more than {MOST_JOINED}",
                origin,
                hint="split the query",
                reason="TOO_MANY_SOURCES",
            )
        return whole, tree

    def _group(self, first: exp.Expr, joins: Sequence[exp.Join], *, optional: bool = False) -> tuple[Scope, Tree]:
        """The scope and the tree of some items of FROM without a comma between them. `optional`: whether its rows may
        be missing."""
        if first is not self._lone:
            refuse_first(self._source, first)
        kinds = [self._kind(join) for join in joins]
        later = [optional or any(kind and kind.keeps_right for kind, _ in kinds[at:]) for at in range(len(kinds) + 1)]
        scope, tree = self._part(first, optional=later[0])
        for at, join in enumerate(joins, 1):
            tree = self._joined(scope, tree, join, *kinds[at - 1], later=later[at])
        return scope, tree

    def _part(self, table: exp.Expr, *, optional: bool) -> tuple[Scope, Tree]:
        """The scope and the tree of one item of FROM, or of a join in parentheses."""
        nested = nested_join(table)
        if nested is not None:
            scope, tree = self._group(nested.first, nested.joins, optional=optional)
            return (scope if nested.alias is None else self._named(scope, tree, nested.alias)), tree
        scope = self._scope()
        tree, item = self._item(table, optional=optional)
        scope.add(item, table)
        return scope, tree

    def _named(self, inner: Scope, tree: Tree, alias: exp.Expr) -> Scope:
        """The scope of a join in parentheses with a name: one item with all its columns."""
        scope = self._scope()
        columns = inner.star(exp.Star())
        scope.add(Item(alias.name, tuple(columns), tree.places), alias)
        scope.optional |= inner.optional
        return scope

    def _item(self, table: exp.Expr, *, optional: bool) -> tuple[Tree, Item]:
        """The tree and the scope's item of one item of FROM, which cannot read the items before it."""
        with self._composition.beside(hidden_from_item(self._before)):
            tree, item = self._items.item(table, optional=optional)
        self._before.items.append(item)
        return tree, item

    def _scope(self) -> Scope:
        return Scope(self._source, self._outer, None if self._outer else self._composition.hidden)

    def _joined(
        self, scope: Scope, left: Tree, join: exp.Join, kind: JoinKind | None, natural: bool, *, later: bool
    ) -> Tree:
        """The tree of `left` and one JOIN. Adds the item of the JOIN to the scope. `later`: whether a later JOIN makes
        its rows missing."""
        joined, right = self._part(join.this, optional=later or (kind is not None and kind.keeps_left))
        item = joined.items[0]
        if len(joined.items) > 1:
            columns = joined.star(exp.Star())
            count = Counter(output.name.lower() for output in columns)
            for node in join.args.get("using") or ():
                if count[node.name.lower()] > 1:
                    raise self._source.error(
                        f"{count[node.name.lower()]} columns of the join in parentheses are called {node.name[:128]!r}",
                        node,
                        hint="write ON, and say whose",
                        reason="AMBIGUOUS_COLUMN",
                    )
            single = [output for output in columns if count[output.name.lower()] == 1]
            item = Item("the join in parentheses", tuple(single), right.places)
        hidden, before = list(scope.items), self._scope()
        before.items = hidden
        pairs = self._pairs(scope, item, join, kind, natural=natural)
        for other in joined.items:
            scope.add(other, join)
        scope.optional |= joined.optional
        conditions = [*pairs, *self._on(scope, join)]
        if as_of(join.this) is not None:
            join_node = as_of_join(self._composition, before, left, right, join, kind, conditions)
            scope.optional |= right.places if join_node.kind.keeps_left else set()
            scope.items = hidden if join_node.kind.filters else scope.items
            return join_node
        if kind is None:
            return Inner([left, right], conditions)
        if kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT):
            self._check_asof(join, conditions)
        if kind.filters:
            scope.items = hidden
        if kind.keeps_left:
            scope.optional |= right.places
        if kind.keeps_right:
            scope.optional |= left.places
        return Kept(left, right, kind, conditions)

    def _kind(self, join: exp.Join) -> tuple[JoinKind | None, bool]:
        """The kind of a JOIN, None for an inner one, and whether it is NATURAL."""
        words = join_words(join).split()
        written = " ".join(word for word in words if word not in ("NATURAL", "OUTER"))
        return _KINDS[written], "NATURAL" in words

    def _on(self, scope: Scope, join: exp.Join) -> list[Condition]:
        node = join.args.get("on")
        if node is None:
            return []
        binder = Binder(self._source, scope, self._composition.parameters)
        return [Condition(binder.condition(part), part, scope.renamed(part)) for part in and_nodes([node])]

    def _pairs(
        self, scope: Scope, item: Item, join: exp.Join, kind: JoinKind | None, *, natural: bool
    ) -> list[Condition]:
        """The equalities of USING, or of NATURAL. Notes which column a name without a source means from now on."""
        names: Sequence[tuple[str, exp.Expr]] = [(node.name, node) for node in join.args.get("using") or ()]
        if natural:
            before = {output.name.lower() for other in scope.items for output in other.columns}
            names = [(output.name, join) for output in item.columns if output.name.lower() in before]
            if not names:
                raise self._source.error(
                    f"NATURAL JOIN: {item.alias} has no column in common with the sources before it",
                    join,
                    hint="say which columns are equal: ON a.k = b.j",
                    reason="UNKNOWN_COLUMN",
                )
        conditions, binder = list[Condition](), Binder(self._source, scope, self._composition.parameters)
        for name, node in names:
            left, right = self._sides_of(scope, item, name, node)
            equal = binder.call("eq", node, [left, right])
            conditions.append(Condition(equal))
            scope.merged_columns[name.lower()] = self._merged(binder, kind, name, node, left, right)
        return conditions

    def _sides_of(self, scope: Scope, item: Item, name: str, node: exp.Expr) -> tuple[Expr, Expr]:
        """The two columns that a name in USING makes equal. Raises SqlError."""
        folded = name.lower()
        columns, right = scope.columns_called(folded), item.column(folded)
        if not columns or right is None:
            missing = item if columns else scope.items[0]
            columns_there = [output.name for output in missing.columns]
            raise self._source.error(
                f"USING ({name[:128]}): {missing.alias!r} has no such column",
                node,
                hint=nearest(name, columns_there) or "other names join by ON a.k = b.j",
                reason="UNKNOWN_COLUMN",
            )
        if len(columns) > 1:
            owners = [other.alias for other in scope.items if other.column(folded) is not None]
            raise self._source.error(
                f"{name[:128]!r} is a column of {' and of '.join(owners)}",
                node,
                hint="write ON, and say whose",
                reason="AMBIGUOUS_COLUMN",
            )
        return columns[0], right

    def _merged(
        self, binder: Binder, kind: JoinKind | None, name: str, node: exp.Expr, left: Expr, right: Expr
    ) -> Output:
        """The column that a name of USING means after the join: the column of the source whose rows are kept."""
        if kind is JoinKind.RIGHT:
            return Output(name, right)
        return Output(name, binder.call("coalesce", node, [left, right]) if kind is JoinKind.FULL else left)

    def _check_asof(self, join: exp.Join, conditions: Sequence[Condition]) -> None:
        """Refuse an ASOF JOIN that does not have exactly one inequality, beside equalities."""
        names = [getattr(condition.expr, "name", "") for condition in conditions]
        bands = [name for name in names if name in ("lt", "le", "gt", "ge")]
        if len(bands) != 1 or any(name not in ("eq", "lt", "le", "gt", "ge") for name in names):
            raise self._wrong_asof(join)

    def _wrong_asof(self, join: exp.Join) -> SqlError:
        return self._source.error(
            "ASOF JOIN needs one inequality, and no conditions but equalities beside it",
            join,
            hint="write ON a.k = b.k AND a.t >= b.t; other conditions go into WHERE",
        )


def _groups(first: exp.Expr, joins: Sequence[exp.Join]) -> Iterator[tuple[exp.Expr, list[exp.Join]]]:
    """Split FROM at its commas: the first item of each part, and the JOINs after it."""
    following: list[exp.Join] = []
    for join in joins:
        if join.meta.get(COMMA):
            yield first, following
            first, following = join.this, []
        else:
            following.append(join)
    yield first, following
