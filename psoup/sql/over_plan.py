"""The place of window functions in a plan: after groups, before the SELECT list, with QUALIFY and DISTINCT ON.

    Project sym, price              QUALIFY rank() OVER (…) = 1         SELECT DISTINCT ON (sym) … ORDER BY price
      Filter rank() = 1             keeps the rows of a condition       row_number() OVER (PARTITION BY sym
        Over rank() …                                                     ORDER BY price) = 1
          Having, Aggregate, Join, Source

A second Over numbers the rows for DISTINCT ON, as these are the rows that QUALIFY keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from psoup.expressions.conversion import truth
from psoup.expressions.functions import resolve
from psoup.expressions.tree import OVER, AttributeRef, Call, Expr, Literal
from psoup.model import BIGINT
from psoup.plan.nodes import Filter, Measure, Node, OrderKey, Output, Over
from psoup.plan.over import UP_TO_PEERS, WHOLE, WindowFunction
from psoup.sql.binder import Binder
from psoup.sql.output_names import output_names
from psoup.sql.over import QUALIFY
from psoup.sql.source import StatementText

_ONE = Literal(BIGINT, 1)

Rewrite = Callable[[Expr], Expr]
"""A function that rewrites an expression so that it reads groups. It leaves references to window functions."""


def qualify_condition(
    source: StatementText, select: exp.Select, binder: Binder, outputs: Sequence[Output]
) -> Expr | None:
    """The condition of QUALIFY, if there is one. Names mean columns, or else outputs. Raises SqlError."""
    node = select.args.get("qualify")
    if node is None:
        return None
    bound = in_qualify(binder, outputs)(node.this)
    if not binder.windows.listed:
        hint = "conditions on tuples go into WHERE, conditions on groups into HAVING"
        raise source.error("QUALIFY needs a window function, in its condition or in the SELECT list", node, hint=hint)
    with source.placed(node):
        return truth(bound, QUALIFY)


def in_qualify(binder: Binder, outputs: Sequence[Output]) -> Callable[[exp.Expr], Expr]:
    """A function that binds an expression of QUALIFY."""
    names = output_names(outputs)

    def bound(node: exp.Expr) -> Expr:
        with binder.within(QUALIFY):
            return binder.with_aliases(node, names)

    return bound


class OverPlan:
    """The plan of a statement's window functions over `origin`, and of its QUALIFY.

    `grouped`: rewrites expressions to read the groups of the statement, if it has groups. `node`: the plan.
    """

    def __init__(self, origin: Node, functions: Sequence[WindowFunction], grouped: Rewrite) -> None:
        self.node = origin
        self._columns: tuple[AttributeRef, ...] = ()
        self._grouped = grouped
        if functions:
            over = Over(origin, tuple(_rewritten(function, grouped) for function in functions))
            self.node, self._columns = over, over.columns

    def outputs(self, outputs: tuple[Output, ...]) -> tuple[Output, ...]:
        """The outputs, which read groups already, over the columns of window functions."""
        if not self._columns:
            return outputs
        return tuple(Output(output.name, self._over(output.expr)) for output in outputs)

    def order(self, keys: tuple[OrderKey, ...]) -> tuple[OrderKey, ...]:
        """The keys of ORDER BY, which read groups already, over the columns of window functions."""
        if not self._columns:
            return keys
        return tuple(replace(key, expr=self._over(key.expr)) for key in keys)

    def qualify(self, condition: Expr) -> None:
        """Keep the rows that satisfy a condition."""
        self.node = Filter(self.node, self._over(self._grouped(condition)))

    def keep_first(self, keys: Sequence[Expr], order: tuple[OrderKey, ...]) -> None:
        """Keep the first row of each combination of `keys`, in an order that `order` of this plan gives."""
        placed = tuple(dict.fromkeys(self._over(self._grouped(key)) for key in keys if not isinstance(key, Literal)))
        frame = UP_TO_PEERS if order else WHOLE
        number = WindowFunction(Measure("row_number", (), BIGINT), placed, order, frame)
        over = Over(self.node, (number,), len(self._columns))
        self.node = Filter(over, resolve("eq", [over.columns[0], _ONE]))

    def _over(self, expr: Expr) -> Expr:
        if isinstance(expr, Call):
            return Call(expr.type, expr.name, tuple([self._over(arg) for arg in expr.args]))
        if isinstance(expr, AttributeRef) and expr.source == OVER:
            return self._columns[expr.index]
        return expr


def _rewritten(function: WindowFunction, grouped: Rewrite) -> WindowFunction:
    """The window function over groups."""
    call, condition = function.call, function.call.condition
    rewritten = None if condition is None else grouped(condition)
    return replace(
        function,
        call=replace(call, args=tuple(map(grouped, call.args)), condition=rewritten),
        partition=tuple(map(grouped, function.partition)),
        order=tuple(replace(key, expr=grouped(key.expr)) for key in function.order),
    )
