"""HOP in a plan: buckets of time that overlap, made of panes that do not.

    GROUP BY hop(t, INTERVAL 2 MINUTES, INTERVAL 6 MINUTES)        panes of gcd(2, 6) = 2 minutes

    pane      0  1  2  3  4  5        the Aggregate below has a row for each pane
    bucket 0  ├─────┤                 a bucket begins at each multiple of the slide, and has 3 panes
    bucket 2     ├─────┤
    bucket 4        ├─────┤           a tuple is in three buckets

Buckets and panes count from the origin of `time_bucket`. A tuple without a time is in a bucket of its own, whose
beginning is NULL. With a slide equal to the size, `hop` is `time_bucket`, and the plan has no Hop.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from psoup.expressions.tree import GROUPED, AttributeRef, Call, Expr, Literal
from psoup.model import BIGINT, TIMESTAMP
from psoup.plan.above import Above
from psoup.plan.aggregate import Aggregate, Measure
from psoup.plan.inputs import OrderKey, Output, names_of
from psoup.plan.patterns import Operator
from psoup.plan.written_text import written_expr

if TYPE_CHECKING:
    from psoup.plan.nodes import Node

MOST_PANES = 1_000
"""The most panes of a bucket."""

HOP = "hop"
"""The function of a key of GROUP BY in bound expressions, until the plan has a Hop."""


@dataclass(frozen=True, slots=True)
class Hop(Above):
    """GROUP BY with a `hop`: combines groups of panes into groups of buckets, in the order of the keys.

    `place`: the place of the pane's beginning among the keys of the Aggregate. `slide`, `size`: microseconds from the
    beginning of a bucket to the beginning of the next one, and to its own end.
    """

    input: Node
    place: int
    slide: int
    size: int

    @property
    def aggregate(self) -> Aggregate:
        """The input, whose groups are panes."""
        assert isinstance(self.input, Aggregate)
        return self.input

    @property
    def pane(self) -> int:
        """The length of a pane in microseconds: the greatest common divisor of slide and size."""
        return gcd(self.slide, self.size)

    @property
    def panes(self) -> int:
        """The number of panes of a bucket."""
        return self.size // self.pane

    @property
    def buckets(self) -> int:
        """The greatest number of buckets that have a tuple."""
        return -(-self.size // self.slide)

    @property
    def key(self) -> Expr:
        """The key that shows the beginning of the bucket."""
        pane = self.aggregate.keys[self.place]
        assert isinstance(pane, Call)
        return hop_call(pane.args[-1], self.slide, self.size)

    @property
    def keys(self) -> tuple[Expr, ...]:
        """The keys of GROUP BY."""
        before, after = self.aggregate.keys[: self.place], self.aggregate.keys[self.place + 1 :]
        return (*before, self.key, *after)

    @property
    def columns(self) -> tuple[AttributeRef, ...]:
        """The node's columns, as later nodes refer to them: the keys, then the measures."""
        columns = list(self.aggregate.columns)
        text = written_expr(self.key, names_of(self))
        columns[self.place] = AttributeRef(TIMESTAMP, self.place, text, GROUPED)
        return tuple(columns)

    @property
    def schema(self) -> tuple[Output, ...]:
        """The columns of the node's rows."""
        return tuple(Output(column.name, column) for column in self.columns)

    @property
    def order(self) -> tuple[OrderKey, ...]:
        """The order of the node's rows: by the keys."""
        return tuple(map(OrderKey, self.columns[: len(self.aggregate.keys)]))

    @property
    def operator(self) -> Operator:
        """The kind of operator, which selects the rule for the node's update pattern (`psoup.plan.patterns`)."""
        return Operator.GROUP_BY

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        names = names_of(self)
        return f"Hop BY {', '.join(written_expr(key, names) for key in self.keys)}"


def hop_call(time: Expr, slide: int, size: int) -> Call:
    """The bound `hop(time, slide, size)`, whose value no evaluator computes. `slide`, `size`: microseconds."""
    return Call(TIMESTAMP, HOP, (time, Literal(BIGINT, slide), Literal(BIGINT, size)))


def reads_hop(expr: Expr) -> bool:
    """Whether an expression has a `hop`. O(nodes)."""
    return isinstance(expr, Call) and (expr.name == HOP or any(map(reads_hop, expr.args)))


def grouped(origin: Node, keys: tuple[Expr, ...], measures: tuple[Measure, ...]) -> Aggregate | Hop:
    """The node of GROUP BY over the rows of `origin`. At most one key is a `hop`, and no other key has one."""
    for place, key in enumerate(keys):
        if isinstance(key, Call) and key.name == HOP:
            time, *lengths = key.args
            slide, size = (int(length.value or 0) for length in lengths if isinstance(length, Literal))
            pane = Call(TIMESTAMP, "time_bucket", (Literal(BIGINT, 0), Literal(BIGINT, gcd(slide, size)), time))
            below = Aggregate(origin, (*keys[:place], pane, *keys[place + 1 :]), measures)
            return Hop(below, place, slide, size)
    return Aggregate(origin, keys, measures)
