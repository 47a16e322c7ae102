"""Window functions in a plan: OVER adds columns to the rows of its input, and removes none.

    Project sym, row_number()                       reads the new columns as attributes of the source OVER
      Filter row_number() <= 3                      QUALIFY
        Over row_number() PARTITION BY sym ORDER BY price DESC
          Source trades …

DISTINCT ON is a Filter above an Over, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psoup.expressions.times.interval_text import interval_text
from psoup.expressions.tree import OVER, AttributeRef, Expr
from psoup.model import BIGINT, SECOND, DataType, Kind
from psoup.plan.above import Above
from psoup.plan.aggregate import Measure
from psoup.plan.canonical import key_text
from psoup.plan.inputs import OrderKey, names_of
from psoup.plan.patterns import Operator
from psoup.plan.written_text import written_expr

if TYPE_CHECKING:
    from psoup.plan.nodes import Node


DAY = 86_400 * SECOND
"""A day in microseconds."""

WINDOW_FUNCTIONS = frozenset(
    (
        *("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"),
        *("lag", "lead", "first_value", "last_value", "nth_value"),
    )
)
"""The functions that need OVER. Only aggregates take OVER beside them."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows around a row over which a window function is computed: both ends, relative to the row.

    An end is a number of rows after the row: -2 is the second row before it. None is the end of the partition.
    `peers`: the end 0 includes all peers of the row, as RANGE says. Peers are rows with equal keys of ORDER BY. Another
    end is then a distance from the key of the row, in steps of its order keys. It is negative for PRECEDING.
    """

    first: float | None
    last: float | None
    peers: bool = False

    @property
    def whole(self) -> bool:
        """Whether the frame is the whole partition."""
        return self.first is None and self.last is None

    def text(self, key: DataType) -> str:
        """The frame in SQL. `key`: the type of the key of ORDER BY."""
        kind = key if self.peers else BIGINT
        ends = _end(self.first, "PRECEDING", kind), _end(self.last, "FOLLOWING", kind)
        return f"{'RANGE' if self.peers else 'ROWS'} BETWEEN {ends[0]} AND {ends[1]}"


def _end(end: float | None, beyond: str, key: DataType) -> str:
    """An end of a frame in SQL. `beyond`: the direction of an end without a number. `key`: the type of a distance."""
    if end is None:
        return f"UNBOUNDED {beyond}"
    if not end:
        return "CURRENT ROW"
    size, way = abs(end), "PRECEDING" if end < 0 else "FOLLOWING"
    if key.kind is Kind.DOUBLE:
        return f"{size!r} {way}"
    if key.kind in (Kind.TIMESTAMP, Kind.DATE):
        return f"{interval_text(0, int(size) * (DAY if key.kind is Kind.DATE else 1))} {way}"
    return f"{key_text(key, int(size))} {way}"


UP_TO_PEERS = Frame(None, 0, peers=True)
"""The default frame with ORDER BY."""
WHOLE = Frame(None, None, peers=True)
"""The default frame without ORDER BY: the whole partition."""


@dataclass(frozen=True, slots=True)
class WindowFunction:
    """A window function over the rows of a partition.

    `call`: the function with its arguments over rows of the input, in the form of an aggregate. Its name may also be
    row_number, lag or the like. `number`: the argument that is a constant: the offset of lag and
    lead, and the n of nth_value and ntile. `partition`: the keys of PARTITION BY. `order`: the keys of ORDER BY.
    `skips_nulls`: IGNORE NULLS.
    """

    call: Measure
    partition: tuple[Expr, ...] = ()
    order: tuple[OrderKey, ...] = ()
    frame: Frame = WHOLE
    number: int | None = None
    skips_nulls: bool = False

    @property
    def name(self) -> str:
        """The function's name."""
        return self.call.function

    @property
    def read(self) -> list[Expr]:
        """The expressions over rows of the input that the function reads."""
        condition = [] if self.call.condition is None else [self.call.condition]
        return [*self.partition, *[key.expr for key in self.order], *self.call.args, *condition]

    @property
    def folds(self) -> bool:
        """Whether only a fold of the whole partition computes the function: with DISTINCT, a fraction or the like."""
        call = self.call
        return call != Measure(call.function, call.args, call.type, condition=call.condition)

    def text(self, names: tuple[str, ...] = ()) -> str:
        """The text for people. Equal functions have equal texts. `names` as in `expr_text`."""
        call = self.call.text(names)
        if self.number is not None or self.skips_nulls or not (self.call.args or self.name == "count"):
            args = [written_expr(arg, names) for arg in self.call.args]
            args[1:1] = [] if self.number is None else [str(self.number)]
            call = f"{self.name}({', '.join(args)}{' IGNORE NULLS' * self.skips_nulls})"
        return f"{call} OVER ({self._window(names)})"

    def _window(self, names: tuple[str, ...]) -> str:
        """The text in the parentheses after OVER."""
        parts = []
        if self.partition:
            parts.append(f"PARTITION BY {', '.join(written_expr(key, names) for key in self.partition)}")
        if self.order:
            parts.append(f"ORDER BY {', '.join(key.text(names) for key in self.order)}")
        if self.frame != (UP_TO_PEERS if self.order else WHOLE):
            parts.append(self.frame.text(self.order[0].expr.type if self.order else BIGINT))
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Over(Above):
    """The rows of the input, each with a column for each of `functions`. The rows keep their order.

    `first`: the place of the first new column among the columns of OVER. It is 0, or the number of such columns of the
    input.
    """

    input: Node
    functions: tuple[WindowFunction, ...]
    first: int = 0

    @property
    def columns(self) -> tuple[AttributeRef, ...]:
        """The new columns, as later nodes refer to them."""
        names = names_of(self)
        return tuple(
            AttributeRef(f.call.type, at, f.text(names), OVER) for at, f in enumerate(self.functions, self.first)
        )

    @property
    def operator(self) -> Operator:
        """The kind of operator, which selects the rule for the node's update pattern (`psoup.plan.patterns`)."""
        return Operator.STRICT

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        return f"Over {', '.join(function.text(names_of(self)) for function in self.functions)}"
