"""The nodes over one input that keep rows, drop some, or sort them.

Project, Distinct, Sort, Limit
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psoup.expressions.tree import ID_INDEX, TIME_INDEX, AttributeRef, reads_now
from psoup.plan.inputs import OrderKey, Output, Source, names_of
from psoup.plan.patterns import RULES, Operator, Pattern

if TYPE_CHECKING:
    from psoup.plan.nodes import Node


class Above:
    """Default properties of nodes over one input."""

    __slots__ = ()

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The input nodes."""
        return (self.input,)

    @property
    def sources(self) -> tuple[Source, ...]:
        """All sources below the node, in the order of FROM."""
        return self.input.sources

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
        """Whether the node keeps every row of the sources."""
        return self.input.keeps_rows

    @property
    def operator(self) -> Operator:
        """The operator whose rule of update patterns applies to the node."""
        return Operator.UNARY_WEAKEST

    @property
    def pattern(self) -> Pattern:
        """The update pattern: how rows are added and removed."""
        return RULES[self.operator]([self.input.pattern])


@dataclass(frozen=True, slots=True)
class Project(Above):
    """The SELECT list: the columns of rows. Rows with NOW in a column change with it."""

    input: Node
    outputs: tuple[Output, ...]

    @property
    def schema(self) -> tuple[Output, ...]:
        """The columns of the node's rows."""
        return self.outputs

    @property
    def operator(self) -> Operator:
        """The operator whose rule of update patterns applies to the node."""
        changing = any(reads_now(output.expr) for output in self.outputs)
        return Operator.STRICT if changing else Operator.UNARY_WEAKEST

    @property
    def label(self) -> str:
        """The node as text, without its inputs."""
        names = names_of(self)
        return f"Project {', '.join(output.text(names) for output in self.outputs)}"


@dataclass(frozen=True, slots=True)
class Distinct(Above):
    """The first of rows with equal columns, in the order of the input."""

    input: Node

    @property
    def keeps_rows(self) -> bool:
        """Whether the node keeps every row of the sources."""
        return False

    @property
    def operator(self) -> Operator:
        """The operator whose rule of update patterns applies to the node."""
        return Operator.WEAK

    @property
    def label(self) -> str:
        """The node as text, without its inputs."""
        return "Distinct"


@dataclass(frozen=True, slots=True)
class Sort(Above):
    """The same rows sorted by some keys; rows with equal keys stay in the order of the input."""

    input: Node
    keys: tuple[OrderKey, ...]

    @property
    def order(self) -> tuple[OrderKey, ...]:
        """The order of the node's rows."""
        return (*self.keys, *self.input.order)

    @property
    def label(self) -> str:
        """The node as text, without its inputs."""
        names = names_of(self)
        return f"Sort {', '.join(key.text(names) for key in self.keys)}"


@dataclass(frozen=True, slots=True)
class Limit(Above):
    """The first rows of the input after `skip`, all if `rows` is None.

    If rows come in order of arrival, no later row removes one of them.
    """

    input: Node
    rows: int | None
    skip: int = 0

    @property
    def keeps_rows(self) -> bool:
        """Whether the node keeps every row of the sources."""
        return False

    @property
    def operator(self) -> Operator:
        """The operator whose rule of update patterns applies to the node."""
        return Operator.UNARY_WEAKEST if _by_arrival(self.input) else Operator.STRICT

    @property
    def label(self) -> str:
        """The node as text, without its inputs."""
        if self.rows is None:
            return f"Offset {self.skip}"
        return f"Limit {self.rows}{f' Offset {self.skip}' if self.skip else ''}"


def _by_arrival(node: Node) -> bool:
    """Whether rows come in the order in which their tuples arrived."""
    if not node.order:
        return False
    first = node.order[0]
    by_time = isinstance(first.expr, AttributeRef) and first.expr.index in (ID_INDEX, TIME_INDEX)
    return by_time and not first.descending and len(node.sources) == 1
