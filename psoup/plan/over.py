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

from psoup.expressions.tree import OVER, AttributeRef, Expr
from psoup.model import DataType
from psoup.plan.above import Above
from psoup.plan.aggregate import Measure
from psoup.plan.canonical import expr_text
from psoup.plan.inputs import OrderKey, names_of
from psoup.plan.patterns import Operator

if TYPE_CHECKING:
    from psoup.plan.nodes import Node


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows around a row over which a window function is computed: both ends, relative to the row.

    An end is a number of rows after the row: -2 is the second row before it. None is the end of the partition.
    `peers`: the end 0 includes all peers of the row, as RANGE says. Peers are rows with equal keys of ORDER BY.
    """

    first: int | None
    last: int | None
    peers: bool = False

    @property
    def whole(self) -> bool:
        """Whether the frame is the whole partition."""
        return self.first is None and self.last is None

    @property
    def text(self) -> str:
        """The frame in SQL."""
        ends = _end(self.first, "PRECEDING"), _end(self.last, "FOLLOWING")
        return f"{'RANGE' if self.peers else 'ROWS'} BETWEEN {ends[0]} AND {ends[1]}"


def _end(end: int | None, beyond: str) -> str:
    """An end of a frame in SQL. `beyond`: the direction of an end without a number."""
    if end is None:
        return f"UNBOUNDED {beyond}"
    return f"{abs(end)} {'PRECEDING' if end < 0 else 'FOLLOWING'}" if end else "CURRENT ROW"


UP_TO_PEERS = Frame(None, 0, peers=True)
"""The default frame with ORDER BY."""
WHOLE = Frame(None, None, peers=True)
"""The default frame without ORDER BY: the whole partition."""


@dataclass(frozen=True, slots=True)
class WindowFunction:
    """A window function over the rows of a partition.

    `function`: the name of a window function, such as row_number or lag, or of an aggregate. `args`: its arguments,
    over rows of the input. `number`: the argument that is a constant: the offset of lag and lead, and the n of
    nth_value and ntile. `partition`: the keys of PARTITION BY. `order`: the keys of ORDER BY. `distinct`, `condition`,
    `fraction`: as in `Measure`. `skips_nulls`: IGNORE NULLS.
    """

    function: str
    args: tuple[Expr, ...]
    type: DataType
    partition: tuple[Expr, ...] = ()
    order: tuple[OrderKey, ...] = ()
    frame: Frame = WHOLE
    distinct: bool = False
    condition: Expr | None = None
    fraction: float | None = None
    number: int | None = None
    skips_nulls: bool = False

    @property
    def measure(self) -> Measure:
        """The function without its window. It is an aggregate only if `function` is the name of one."""
        return Measure(self.function, self.args, self.type, self.distinct, self.condition, self.fraction)

    @property
    def read(self) -> list[Expr]:
        """The expressions over rows of the input that the function reads."""
        condition = [] if self.condition is None else [self.condition]
        return [*self.partition, *[key.expr for key in self.order], *self.args, *condition]

    def text(self, names: tuple[str, ...] = ()) -> str:
        """The canonical text. Equal functions have equal texts. `names` as in `expr_text`."""
        args = [expr_text(arg, names) for arg in self.args] or ["*"] * (self.function == "count")
        args[1:1] = [] if self.number is None else [str(self.number)]
        args += [] if self.fraction is None else [repr(self.fraction)]
        call = f"{self.function}({'DISTINCT ' * self.distinct}{', '.join(args)}{' IGNORE NULLS' * self.skips_nulls})"
        if self.condition is not None:
            call += f" FILTER (WHERE {expr_text(self.condition, names)})"
        return f"{call} OVER ({self._window(names)})"

    def _window(self, names: tuple[str, ...]) -> str:
        """The text in the parentheses after OVER."""
        parts = []
        if self.partition:
            parts.append(f"PARTITION BY {', '.join(expr_text(key, names) for key in self.partition)}")
        if self.order:
            parts.append(f"ORDER BY {', '.join(key.text(names) for key in self.order)}")
        if self.frame != (UP_TO_PEERS if self.order else WHOLE):
            parts.append(self.frame.text)
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
        return tuple(AttributeRef(f.type, at, f.text(names), OVER) for at, f in enumerate(self.functions, self.first))

    @property
    def operator(self) -> Operator:
        """The kind of operator, which selects the rule for the node's update pattern (`psoup.plan.patterns`)."""
        return Operator.STRICT

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        return f"Over {', '.join(function.text(names_of(self)) for function in self.functions)}"
