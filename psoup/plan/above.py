"""Plan nodes with one input that keep its rows, drop some of them, or sort them.

Project, Distinct, Sort, Limit
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psoup.expressions.tree import ID_INDEX, TIME_INDEX, AttributeRef, reads_now
from psoup.plan.inputs import OrderKey, Output, Source, names_of
from psoup.plan.patterns import Operator

if TYPE_CHECKING:
    from psoup.plan.nodes import Leaf, Node


class Above:
    """The default properties of a plan node with one input."""

    __slots__ = ()

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The input nodes."""
        return (self.input,)

    @property
    def sources(self) -> tuple[Source, ...]:
        """All sources in the node's subtree, in the order of FROM."""
        return self.input.sources

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaves that later nodes can read, in the order of FROM."""
        return self.input.leaves

    @property
    def schema(self) -> tuple[Output, ...]:
        """The columns of the node's rows."""
        return self.input.schema

    @property
    def order(self) -> tuple[OrderKey, ...]:
        """The order of the node's rows."""
        return self.input.order

    @property
    def keeps_rows(self) -> bool:
        """Whether the node's result has a row for each row of its sources."""
        return self.input.keeps_rows

    @property
    def operator(self) -> Operator:
        """The kind of operator, which selects the rule for the node's update pattern (`psoup.plan.patterns`)."""
        return Operator.UNARY_WEAKEST


@dataclass(frozen=True, slots=True)
class Project(Above):
    """The SELECT list: computes the columns of each row. A column with NOW changes whenever NOW does."""

    input: Node
    outputs: tuple[Output, ...]

    @property
    def schema(self) -> tuple[Output, ...]:
        """The columns of the node's rows."""
        return self.outputs

    @property
    def operator(self) -> Operator:
        """The kind of operator, which selects the rule for the node's update pattern (`psoup.plan.patterns`)."""
        changing = any(reads_now(output.expr) for output in self.outputs)
        return Operator.STRICT if changing else Operator.UNARY_WEAKEST

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        names = names_of(self)
        return f"Project {', '.join(output.text(names) for output in self.outputs)}"


@dataclass(frozen=True, slots=True)
class Distinct(Above):
    """DISTINCT: of several input rows with equal columns, keeps the first."""

    input: Node

    @property
    def keeps_rows(self) -> bool:
        """Whether the node's result has a row for each row of its sources."""
        return False

    @property
    def operator(self) -> Operator:
        """The kind of operator, which selects the rule for the node's update pattern (`psoup.plan.patterns`)."""
        return Operator.WEAK

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        return "Distinct"


@dataclass(frozen=True, slots=True)
class Sort(Above):
    """ORDER BY: sorts the input by `keys`. Rows with equal keys stay in the order of the input."""

    input: Node
    keys: tuple[OrderKey, ...]

    @property
    def order(self) -> tuple[OrderKey, ...]:
        """The order of the node's rows."""
        return (*self.keys, *self.input.order)

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        names = names_of(self)
        return f"Sort {', '.join(key.text(names) for key in self.keys)}"


@dataclass(frozen=True, slots=True)
class Limit(Above):
    """LIMIT and OFFSET: keeps `rows` rows of the input after the first `skip` rows. With None, it keeps all later rows.

    If the input is in the order of arrival, no later row removes a row of the result.
    """

    input: Node
    rows: int | None
    skip: int = 0

    @property
    def keeps_rows(self) -> bool:
        """Whether the node's result has a row for each row of its sources."""
        return False

    @property
    def operator(self) -> Operator:
        """The kind of operator, which selects the rule for the node's update pattern (`psoup.plan.patterns`)."""
        return Operator.UNARY_WEAKEST if _by_arrival(self.input) else Operator.STRICT

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        if self.rows is None:
            return f"Offset {self.skip}"
        return f"Limit {self.rows}{f' Offset {self.skip}' if self.skip else ''}"


def _by_arrival(node: Node) -> bool:
    """Whether the node's rows are in the order in which their tuples arrived."""
    if not node.order:
        return False
    first = node.order[0]
    by_time = isinstance(first.expr, AttributeRef) and first.expr.index in (ID_INDEX, TIME_INDEX)
    return by_time and not first.descending and len(node.sources) == 1
