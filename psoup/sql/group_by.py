"""GROUP BY and HAVING: expressions over tuples become expressions over a table of groups.

    SELECT side, sum(price) / 2 AS half … GROUP BY 1 HAVING count(*) > 3
      keys      side                         columns of the table: side, sum(price), count(*)
      outputs   column 0, column 1 / 2       keys and measures are read from the table;
      HAVING    column 2 > 3                 any other column of tuples is refused

A name in GROUP BY means a column. If there is none, it means an alias. A name in HAVING means a key, or else an alias.
GROUP BY ALL groups by the outputs that read tuples and no aggregate. Named keys that read no tuples, such as 'x', are
left out. If no other keys are left, all tuples are one group, which exists if there are tuples: HAVING count(*) > 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from sqlglot import exp

from psoup.errors import SqlError
from psoup.expressions.conversion import truth
from psoup.expressions.functions import resolve
from psoup.expressions.tree import GROUPED, OVER, AttributeRef, Call, Expr, Literal, columns_of, reads_now
from psoup.model import BIGINT
from psoup.plan.hop import HOP
from psoup.plan.nodes import Aggregate, Having, Hop, Measure, Node, OrderKey, Output
from psoup.sql.aggregates import GROUP_BY, HAVING
from psoup.sql.binder import Binder
from psoup.sql.hop import check_hops, not_a_key
from psoup.sql.output_names import output_names
from psoup.sql.over import reads_over, refused_in
from psoup.sql.source import StatementText


def group_keys(
    source: StatementText, select: exp.Select, binder: Binder, outputs: Sequence[Output]
) -> tuple[Expr, ...]:
    """The distinct keys of GROUP BY that read tuples. Raises SqlError."""
    group = select.args.get("group")
    keys = () if group is None else _group_keys(source, group, binder, outputs)
    if group is not None:
        check_hops(source, group, keys)
    return keys


def _group_keys(source: StatementText, group: exp.Expr, binder: Binder, outputs: Sequence[Output]) -> tuple[Expr, ...]:
    if group.args.get("all"):
        return tuple(dict.fromkeys(output.expr for output in outputs if _of_tuples(output.expr)))
    names = output_names(outputs)
    keys: dict[Expr, None] = {}
    for node in _flat(group.expressions):
        with binder.within(GROUP_BY):
            key = binder.with_aliases(node, names)
        keys[_checked(source, node, key, outputs)] = None
    return tuple(key for key in keys if _of_tuples(key))


def _flat(nodes: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    """Yield the keys of GROUP BY. For the list (a, b), yields a and b."""
    for node in nodes:
        if isinstance(node, exp.Tuple):
            yield from _flat(node.expressions)
        else:
            yield node


def _of_tuples(expr: Expr) -> bool:
    """Whether an output reads tuples and no aggregate."""
    columns = list(columns_of(expr))
    return bool(columns) and all(column.source >= 0 for column in columns)


def _checked(source: StatementText, node: exp.Expr, key: Expr, outputs: Sequence[Output]) -> Expr:
    """The bound key, checked. A whole number stands for the item of the SELECT list at that place. Raises SqlError."""
    if isinstance(node, exp.Literal | exp.Neg) and isinstance(key, Literal) and isinstance(key.value, int):
        if not 1 <= key.value <= len(outputs):
            raise source.error(f"the SELECT list has no column {key.value}; its last is {len(outputs)}", node)
        key = outputs[key.value - 1].expr
    if any(column.source == GROUPED for column in columns_of(key)):
        raise source.unsupported(
            "an aggregate in GROUP BY", node, hint="group by what each tuple has, and compare aggregates in HAVING"
        )
    if reads_over(columns_of(key)):
        raise refused_in(source, GROUP_BY, node)
    if reads_now(key):
        raise source.unsupported("NOW in GROUP BY", node, hint="groups must not depend on when they are asked for")
    return key


def having_condition(
    source: StatementText, select: exp.Select, binder: Binder, outputs: Sequence[Output], keys: Sequence[Expr]
) -> Expr | None:
    """The condition that groups must satisfy, if there is one: HAVING, and that a group of constants has tuples.

    Raises SqlError.
    """
    node = select.args.get("having")
    conditions: list[Expr] = []
    if not keys and _groups_by_constants(select):
        tuples = binder.measures.ref(Measure("count", (), BIGINT))
        conditions.append(resolve("gt", [tuples, Literal(BIGINT, 0)]))
    if node is not None:
        bound = in_having(binder, outputs, keys)(node.this)
        if reads_over(columns_of(bound)):
            raise refused_in(source, HAVING, node)
        with source.placed(node):
            conditions.append(truth(bound, HAVING))
    return resolve("and", conditions) if len(conditions) > 1 else next(iter(conditions), None)


def _groups_by_constants(select: exp.Select) -> bool:
    """Whether a GROUP BY without keys that read tuples names other keys."""
    group = select.args.get("group")
    return group is not None and next(_flat(group.expressions), None) is not None


def in_having(binder: Binder, outputs: Sequence[Output], keys: Sequence[Expr]) -> Callable[[exp.Expr], Expr]:
    """A function that binds an expression of HAVING."""
    grouped = {key.name.lower() for key in keys if isinstance(key, AttributeRef)}
    names = output_names(outputs)
    first = {name for name in names if name not in grouped}

    def bound(node: exp.Expr) -> Expr:
        with binder.within(HAVING):
            return binder.with_aliases(node, names, first)

    return bound


class SingleValues:
    """The values of scalar subselects, as expressions over groups: each is any of its equal values in the group.

    A subselect's only row is joined with each tuple. So a group of no tuples, which only a SELECT without GROUP BY has,
    lacks the value.
    """

    def __init__(self, binder: Binder, keys: Sequence[Expr], select: exp.Select) -> None:
        self._binder = binder
        self._keys = keys
        self._select = select

    def of(self, expr: Expr) -> Expr:
        """The expression with measures instead of the values. Raises SqlError if there is no GROUP BY."""
        if expr in self._keys:
            return expr
        if isinstance(expr, Call):
            return Call(expr.type, expr.name, tuple([self.of(arg) for arg in expr.args]))
        outer = self._binder.single_values.get(expr)
        if outer is None or not all(part in self._keys for part in outer):
            return expr
        if not self._keys:
            way = "FROM (SELECT count(*) AS n FROM s) t, (SELECT max(x) AS m FROM r) u"
            raise self._binder.source.unsupported(
                "a subselect beside aggregates without GROUP BY", self._select, hint=f"join the two values: {way}"
            )
        return self._binder.measures.ref(Measure("any_value", (expr,), expr.type))


class Groups:
    """Rewrites expressions of a statement, so that they read the table of its groups."""

    def __init__(self, source: StatementText, table: Aggregate | Hop, select: exp.Select) -> None:
        self._table = table
        self._source = source
        self._select = select
        columns, count = table.columns, len(table.keys)
        self._keys = dict(zip(table.keys, columns, strict=False))
        self._measures = columns[count:]

    def of(self, expr: Expr) -> Expr:
        """The expression rewritten over the table. Raises SqlError, reason UNGROUPED_COLUMN, if it reads another
        column."""
        key = self._keys.get(expr)
        if key is not None:
            return key
        if isinstance(expr, Call):
            if expr.name == HOP:
                raise not_a_key(self._source, self._select)
            return Call(expr.type, expr.name, tuple([self.of(arg) for arg in expr.args]))
        if not isinstance(expr, AttributeRef):
            return expr
        if expr.source == GROUPED:
            return self._measures[expr.index]
        if expr.source == OVER:
            return expr
        raise self._ungrouped(expr)

    def node(self, having: Expr | None) -> Node:
        """The plan node of the table, without the groups for which HAVING is not TRUE. Raises SqlError."""
        return self._table if having is None else Having(self._table, self.of(having))

    def outputs(self, outputs: Iterable[Output]) -> tuple[Output, ...]:
        """The outputs rewritten over the table. Raises SqlError."""
        return tuple(Output(output.name, self.of(output.expr)) for output in outputs)

    def order(self, keys: Iterable[OrderKey]) -> tuple[OrderKey, ...]:
        """The keys of ORDER BY rewritten over the table. Raises SqlError."""
        return tuple(OrderKey(self.of(key.expr), key.descending, key.nulls_first) for key in keys)

    def _ungrouped(self, column: AttributeRef) -> SqlError:
        """The error for a column that is neither a key nor in an aggregate."""
        parts = [*self._select.expressions, self._select.args.get("having"), self._select.args.get("order")]
        written = [node for part in parts if part for node in part.find_all(exp.Column, exp.Star)]
        named = [node for node in written if node.name.lower() == column.name.lower()]
        stars = [node for node in written if isinstance(node, exp.Star) and node.parent is self._select]
        name = column.name[:128]
        return self._source.error(
            f"{name!r} is neither grouped nor aggregated: a group may have many values of it",
            [*named, *stars, self._select][0],
            hint=f"GROUP BY {name}, or say which value: any_value({name}), first({name}), max({name})",
            reason="UNGROUPED_COLUMN",
        )
