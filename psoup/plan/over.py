"""Window functions in a plan: OVER adds columns to the rows of its input, and removes none.

Project sym, row_number()                       reads the new columns as attributes of the source OVER
  Filter row_number() <= 3                      QUALIFY
    Over row_number() PARTITION BY sym ORDER BY price DESC
      Source trades …
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psoup.expressions.tree import OVER, AttributeRef, Expr
from psoup.model import DataType
from psoup.plan.above import Above
from psoup.plan.canonical import expr_text
from psoup.plan.inputs import OrderKey, names_of
from psoup.plan.patterns import Operator

if TYPE_CHECKING:
    from psoup.plan.nodes import Node


@dataclass(frozen=True, slots=True)
class WindowFunction:
    """A window function over the rows of a partition.

    `function`: row_number, rank, dense_rank, lag, lead, first_value, last_value, or the name of an aggregate. `args`:
    its arguments, over rows of the input; a lag's offset and default are constants. `partition`: the keys of PARTITION
    BY. `order`: the keys of ORDER BY. `preceding`: n of `ROWS n PRECEDING`: the frame is the row and the n rows before
    it. None is the default frame: with `order`, all rows up to the row and its peers; without it, the whole partition.
    """

    function: str
    args: tuple[Expr, ...]
    type: DataType
    partition: tuple[Expr, ...] = ()
    order: tuple[OrderKey, ...] = ()
    preceding: int | None = None

    def text(self, names: tuple[str, ...] = ()) -> str:
        """The canonical text. Equal functions have equal texts. `names` as in `expr_text`."""
        parts = []
        if self.partition:
            parts.append(f"PARTITION BY {', '.join(expr_text(key, names) for key in self.partition)}")
        if self.order:
            parts.append(f"ORDER BY {', '.join(key.text(names) for key in self.order)}")
        if self.preceding is not None:
            parts.append(f"ROWS {self.preceding} PRECEDING")
        args = [expr_text(arg, names) for arg in self.args] or ["*"] * (self.function == "count")
        return f"{self.function}({', '.join(args)}) OVER ({' '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Over(Above):
    """The rows of the input, each with a column for each of `functions`. The rows keep their order."""

    input: Node
    functions: tuple[WindowFunction, ...]

    @property
    def columns(self) -> tuple[AttributeRef, ...]:
        """The new columns, as later nodes refer to them."""
        names = names_of(self)
        return tuple(AttributeRef(f.type, at, f.text(names), OVER) for at, f in enumerate(self.functions))

    @property
    def operator(self) -> Operator:
        """The kind of operator, which selects the rule for the node's update pattern (`psoup.plan.patterns`)."""
        return Operator.STRICT

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        return f"Over {', '.join(function.text(names_of(self)) for function in self.functions)}"
