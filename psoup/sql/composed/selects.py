"""A SELECT of a composed statement: from its tree to the plan of its rows.

FROM ──> scope, tree of joins
WHERE ─> conditions, placed in the tree; EXISTS and IN become joins on top of it
SELECT, GROUP BY, ORDER BY … ──> the nodes above, as for a plain SELECT
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from sqlglot import exp

from psoup.expressions.tree import Call, Expr
from psoup.plan.nodes import Aggregate, Distinct, Join, JoinKind, Limit, Node, Project, Relation, Sort
from psoup.sql.aggregates import AGGREGATES
from psoup.sql.binder import Binder
from psoup.sql.composed.as_of import existing_as_of, refuse_first
from psoup.sql.composed.composed_binder import ComposedBinder
from psoup.sql.composed.composition import Composition
from psoup.sql.composed.condition_places import Condition, Inner, Kept, Part, Placing, Tree, simplified
from psoup.sql.composed.constant_rows import constant_select, values_plan
from psoup.sql.composed.from_items import FromItems, Inlined
from psoup.sql.composed.from_tree import from_tree
from psoup.sql.composed.looked_up import LookedUp, joined, key_pairs, looked_up, refuse_existence
from psoup.sql.composed.scope import Scope, hidden_from_groups, item_of
from psoup.sql.composed.set_operations import operation_plan
from psoup.sql.composed.shapes import bare, is_existence, negated
from psoup.sql.join_conditions import and_nodes
from psoup.sql.row_values import ROW, row_of
from psoup.sql.select import check_conjuncts, plan_above
from psoup.sql.select_list import listed_outputs

_READING = ("having", "qualify", "order")
"""The parts of a SELECT above its groups that may have scalar subselects."""

_SCALAR = "a subselect in an expression gives one value: an aggregate without GROUP BY, such as (SELECT avg(x) FROM s)"


def query_plan(composition: Composition, query: exp.Expr) -> Node:
    """The plan of a SELECT, a set operation or VALUES, perhaps in parentheses. Raises SqlError."""
    query = bare(query)
    with composition.reading(query):
        if isinstance(query, exp.Select):
            if query.args.get("from_") is not None:
                return _Select(composition, None).plan(query)
            plan: Node = constant_select(composition, query)
        elif isinstance(query, exp.Values):
            plan = values_plan(composition, query)
        elif isinstance(query, exp.SetOperation):
            plan = operation_plan(composition, query, partial(query_plan, composition))
        else:
            plan = query_plan(composition, query.this)
    return _in_order(composition, query, plan)


def _in_order(composition: Composition, query: exp.Expr, rows: Node) -> Node:
    """The plan of a query's rows with its ORDER BY, LIMIT and OFFSET, as of SELECT * FROM (query)."""
    relation = composition.add_relation(rows, query.key, [output.name for output in rows.schema])
    scope = Scope(composition.source)
    scope.items.append(item_of(relation, "the result"))  # with its names as written
    clauses = {part: node for part in ("order", "limit", "offset") if (node := query.args.get(part)) is not None}
    whole = exp.Select(expressions=[exp.Star()], **clauses)
    return plan_above(composition.source, whole, Binder(composition.source, scope, composition.parameters), relation)


@dataclass(slots=True)
class _Members:
    """The rows of a subselect of EXISTS or IN. `correlated`: its conditions that also read the outer scope.

    `columns`: the columns of the subselect of IN. `pair`: the two operands of IN, if it compares one value. `equal`:
    the comparison of IN.
    """

    tree: Tree
    correlated: list[Condition]
    columns: tuple[Expr, ...]
    pair: tuple[Expr, Expr] | None = None
    equal: list[Condition] = field(default_factory=list)


class _Select:
    """Binds one SELECT."""

    def __init__(self, composition: Composition, outer: Scope | None) -> None:
        self._composition = composition
        self._source = composition.source
        self._outer = outer

    def plan(self, select: exp.Select) -> Node:
        """The plan of a SELECT."""
        scope, tree = self._from(select, self._outer)
        binder = self._binder(scope)
        _bind_scalars(select, binder)
        tree, conditions = self._where(select, scope, tree, binder)
        return plan_above(self._source, select, binder, self._placed(tree, conditions))

    def inlined(self, select: exp.Select) -> Inlined:
        """The tree and the columns of a SELECT that only selects and joins."""
        with self._composition.reading(select):
            scope, tree = self._from(select, self._outer)
            binder = self._binder(scope)
            outputs = listed_outputs(self._source, select, binder)
            tree, conditions = self._where(select, scope, tree, binder)
        return Inlined(Inner([tree], conditions) if conditions else tree, outputs)

    def _from(self, select: exp.Select, outer: Scope | None) -> tuple[Scope, Tree]:
        """The scope and the tree of FROM. `outer`: the scope around the SELECT."""
        composition = self._composition
        inner = _Select(composition, None)
        plan_of = partial(query_plan, composition)
        items = FromItems(composition, plan_of, inner.inlined, lambda tree: self._placed(tree, []))
        return from_tree(composition, select, outer, items)

    def _placed(self, tree: Tree, conditions: list[Condition]) -> Node:
        """The plan of a tree with all conditions."""
        return Placing(self._composition).plan(self._settled(tree, conditions))

    def _settled(self, tree: Tree, conditions: list[Condition]) -> Tree:
        """The simplified tree, with all conditions in their places."""
        tree = simplified(tree, conditions, self._composition.note)
        placing = Placing(self._composition)
        for condition in conditions:
            placing.place(tree, condition)
        placing.settle(tree)
        return tree

    def _where(
        self, select: exp.Select, scope: Scope, tree: Tree, binder: ComposedBinder
    ) -> tuple[Tree, list[Condition]]:
        """The tree with the subselects of WHERE on top of it, and the other conditions of WHERE."""
        where = select.args.get("where")
        conditions, subselects = list[Condition](), list[exp.Expr]()
        if where is not None:
            check_conjuncts(self._source, where.this)
            for node in and_nodes([where.this]):
                if is_existence(negated(node)[0]):
                    subselects.append(node)
                else:
                    conditions.append(Condition(binder.condition(node), node, scope.renamed(node)))
        tree = self._with_values(tree, binder, select)
        for node in subselects:
            tree = self._tested(node, scope, tree, conditions)
        return tree, conditions

    # EXISTS and IN -----------------------------------------------------------------------------------------

    def _tested(self, node: exp.Expr, scope: Scope, tree: Tree, conditions: list[Condition]) -> Tree:
        """The rows of a tree that satisfy a condition with EXISTS or IN.

        If the subselect reads a scope around this one, its rows are joined, and its conditions become `conditions`.
        """
        test, odd = negated(node)
        if isinstance(test, exp.Exists):
            members = self._members(test.this, scope, 0)
        else:
            members = self._members(test.args["query"], scope, len(row_of(test.this) or [test.this]))
            tree = self._compared(test, scope, tree, members)
        kind = JoinKind.NOT_IN if members.pair is not None and odd else JoinKind.ANTI if odd else JoinKind.SEMI
        stated = [*members.correlated, *members.equal]
        select = bare(test.this if isinstance(test, exp.Exists) else test.args["query"])
        at_time = existing_as_of(self._composition, scope, tree, members.tree, select, kind, stated)
        if at_time is not None:
            return at_time
        if any(not condition.places <= tree.places | members.tree.places for condition in members.correlated):
            return self._joined(node, tree, members, conditions, odd=odd)
        if members.equal and odd and members.pair is None:
            hint = "NOT EXISTS (SELECT 1 FROM s WHERE s.a = t.a AND s.b = t.b) keeps the rows without a partner"
            raise self._source.unsupported(f"{ROW} before NOT IN (SELECT …)", test, hint=hint)
        if members.pair is not None and odd:
            return Kept(tree, members.tree, JoinKind.NOT_IN, members.correlated, members.pair)
        return Kept(tree, members.tree, kind, stated)

    def _compared(self, test: exp.Expr, scope: Scope, tree: Tree, members: _Members) -> Tree:
        """Note the comparison of IN in `members`. Returns the tree, joined with the scalar subselects before IN."""
        binder = self._binder(scope)
        row = row_of(test.this)
        values = [binder.operand(node) for node in row or [test.this]]
        equals = [binder.call("eq", test, [*pair]) for pair in zip(values, members.columns, strict=True)]
        if row is None:
            (column,) = members.columns
            pair = equals[0].args if isinstance(equals[0], Call) and equals[0].name == "eq" else (values[0], column)
            members.pair = pair[0], pair[1]
        members.equal = [Condition(equal) for equal in equals]
        return self._with_values(tree, binder, test)

    def _with_values(self, tree: Tree, binder: ComposedBinder, at: exp.Expr) -> Tree:
        """The tree, joined with the scalar subselects that a binder has met."""
        if binder.scalars:
            tree = Inner([tree, *map(Part, binder.scalars.values())])
        return joined(self._source, tree, binder.looked_up.values(), at)

    def _joined(self, node: exp.Expr, tree: Tree, members: _Members, conditions: list[Condition], *, odd: bool) -> Tree:
        """The rows of a tree joined with the rows of a subselect that reads a scope around this one.

        This SELECT belongs to an EXISTS or IN, so the number of its rows does not matter.
        """
        if odd:
            raise self._source.unsupported(
                "NOT before a subselect that reads a source two levels up",
                node,
                hint="read the sources of the SELECT around it only",
            )
        conditions += [*members.correlated, *members.equal]
        return Inner([tree, members.tree])

    def _members(self, node: exp.Expr, scope: Scope, width: int) -> _Members:
        """The rows of the subselect of EXISTS or IN. `width`: the number of values before IN, 0 for EXISTS."""
        select = bare(node)
        if isinstance(select, exp.Select) and select.args.get("from_") is not None and not _computed(select, width):
            with self._composition.reading(select):
                return self._matched(select, scope, width)
        with self._composition.beside(hidden_from_groups(scope)):
            return self._whole(node, width)

    def _matched(self, select: exp.Select, scope: Scope, width: int) -> _Members:
        """The rows of a subselect that only selects and joins. It may read columns of the outer scope."""
        inner, tree = self._from(select, scope)
        binder = self._binder(inner)
        outputs = plan_above(self._source, select, binder, self._nothing(tree)).schema
        self._check_width(select, width, len(outputs))
        columns = tuple(output.expr for output in outputs) if width else ()
        tree, conditions = self._where(select, inner, tree, binder)
        inner_conditions = [condition for condition in conditions if condition.places <= tree.places]
        correlated = [condition for condition in conditions if not condition.places <= tree.places]
        return _Members(self._settled(tree, inner_conditions), correlated, columns)

    def _nothing(self, tree: Tree) -> Node:
        """A node with the leaves of a tree, to bind a SELECT list over it."""
        return Join(tuple(part.leaf for part in _parts(tree)), (), (), ())

    def _whole(self, node: exp.Expr, width: int) -> _Members:
        """The rows of a subselect that is computed as a whole. It cannot read columns of the outer scope."""
        relation = self._relation(node)
        self._check_width(node, width, len(relation.names))
        return _Members(Part(relation), [], tuple(output.expr for output in relation.schema))

    def _check_width(self, at: exp.Expr, width: int, columns: int) -> None:
        """Refuse a subselect of IN whose number of columns differs from the number of values before IN."""
        if width == 1 != columns:
            hint = "write x IN (SELECT y FROM …), or (a, b) IN (SELECT c, d FROM …)"
            raise self._source.error("the subselect of IN has one column", at, hint=hint)
        if width > 1 and width != columns:
            message = f"the row before IN has {width} values, and the subselect {columns} columns"
            raise self._source.error(message, at, hint="write (a, b) IN (SELECT c, d FROM …)", reason="COLUMN_COUNT")

    # Relations ---------------------------------------------------------------------------------------------

    def _scalar(self, node: exp.Expr) -> Relation:
        """The relation of a scalar subselect. Raises SqlError unless it certainly has one row and one column."""
        relation = self._relation(node, single=True)
        if len(relation.names) != 1 or not _one_row(relation.input):
            raise self._source.unsupported("this subselect in an expression", node, hint=_SCALAR)
        return relation

    def _look_up(self, node: exp.Expr, scope: Scope) -> LookedUp:
        """The value of a scalar subselect that reads the scope around it by equalities. Raises SqlError."""
        select = bare(node)
        if not isinstance(select, exp.Select) or select.args.get("from_") is None:
            raise self._source.unsupported("this subselect in an expression", node, hint=_SCALAR)
        refuse_existence(self._source, select)
        refuse_first(self._source, select.args["from_"].this)
        with self._composition.reading(select):
            inner, tree = self._from(select, scope)
            binder = self._binder(inner)
            _bind_scalars(select, binder)
            (output,) = listed_outputs(self._source, select, binder)
            tree, conditions = self._where(select, inner, tree, binder)
        alone = [condition for condition in conditions if condition.places <= tree.places]
        correlated = [condition for condition in conditions if not condition.places <= tree.places]
        pairs = key_pairs(self._source, correlated, tree.places)
        return looked_up(self._composition, select, binder, self._placed(tree, alone), pairs, output)

    def _binder(self, scope: Scope) -> ComposedBinder:
        return ComposedBinder(self._composition, scope, self._scalar, self._look_up)

    def _relation(self, node: exp.Expr, *, single: bool = False) -> Relation:
        plan = query_plan(self._composition, node)
        names = [output.name for output in plan.schema]
        return self._composition.add_relation(plan, "subselect", names, single=single)


def _bind_scalars(select: exp.Select, binder: ComposedBinder) -> None:
    """Bind the scalar subselects outside of FROM and WHERE, before FROM is joined with their values."""
    for item in (*select.expressions, *(select.args.get(part) for part in _READING)):
        for node in () if item is None else item.find_all(exp.Subquery):
            if node.parent_select is select and not isinstance(node.parent, exp.In | exp.Exists):
                binder.bind(node)


def _computed(select: exp.Select, width: int) -> bool:
    """Whether the rows of a subselect are more than matches: groups, or the first rows. `width`: 0 for EXISTS."""
    if any(select.args.get(part) for part in ("group", "having", "offset", "qualify")):
        return True
    if (limit := select.args.get("limit")) is not None and (width or not _is_positive(limit)):
        return True
    calls = (name for item in select.expressions for name in item.find_all(exp.Anonymous, exp.Filter, exp.Window))
    return any(isinstance(call, exp.Filter | exp.Window) or call.name.lower() in AGGREGATES for call in calls)


def _is_positive(limit: exp.Expr) -> bool:
    """Whether a LIMIT is a number above 0: EXISTS does not depend on it."""
    rows = limit.args.get("expression")
    return isinstance(rows, exp.Literal) and not rows.is_string and rows.name.isdecimal() and int(rows.name) > 0


def _one_row(plan: Node) -> bool:
    """Whether a plan has exactly one row: an aggregate without keys and HAVING."""
    while isinstance(plan, Project | Sort | Distinct) or (isinstance(plan, Limit) and plan.rows != 0 and not plan.skip):
        plan = plan.input
    return isinstance(plan, Aggregate) and not plan.keys


def _parts(tree: Tree) -> list[Part]:
    """The leaves of a tree that later nodes may read."""
    if isinstance(tree, Part):
        return [tree]
    if isinstance(tree, Inner):
        return [part for below in tree.inputs for part in _parts(below)]
    return _parts(tree.left) if tree.kind.filters else [*_parts(tree.left), *_parts(tree.right)]
