"""Plan nodes for statements that contain other statements, and the filter of rows.

Filter         the rows that satisfy a condition that no side can test
SetOperation   UNION, INTERSECT, EXCEPT of two statements
Values         rows of constants
Relation       the whole result of a statement, as a leaf of another one

SELECT … FROM s JOIN (SELECT k, count(*) n FROM t GROUP BY k) d ON s.k = d.k
  Project
    Join s.k = d.k
      Source s              place 0
      Relation d            place 16: its columns are read by position, it has no `_id` and no `_time`
        Project k, count(*)
          Aggregate …
            Source t        place 1
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psoup.expressions.tree import AttributeRef, Expr, Literal
from psoup.plan.above import Above
from psoup.plan.canonical import exact_name, literal_text
from psoup.plan.inputs import OrderKey, Output, Source, names_of
from psoup.plan.patterns import Operator
from psoup.plan.written_text import written_expr

if TYPE_CHECKING:
    from psoup.plan.nodes import Leaf, Node

_SHOWN = 3
"""The most rows of constants in a label."""


@dataclass(frozen=True, slots=True)
class Filter(Above):
    """The rows of the input that satisfy `condition`. A condition that is NULL, or fails, removes the row."""

    input: Node
    condition: Expr

    @property
    def keeps_rows(self) -> bool:
        """Whether the node's result has a row for each row of its sources."""
        return False

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        return f"Filter {written_expr(self.condition, names_of(self))}"


@dataclass(frozen=True, slots=True)
class Relation:
    """The whole result of a statement, computed when the query is asked: a leaf of another statement.

    `place`: FIRST_RELATION or more. Expressions read the column at position i as `AttributeRef(type, i, name, place)`.
    `names`: the names of its columns, which the statement around it may choose. `alias`: its name in FROM.
    `single`: whether it is a scalar subselect, which has one row and one column.
    """

    place: int
    input: Node
    alias: str
    names: tuple[str, ...]
    single: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The input nodes."""
        return (self.input,)

    @property
    def sources(self) -> tuple[Source, ...]:
        """All sources in the node's subtree, by place."""
        return self.input.sources

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The relation itself. Later nodes cannot read the sources under it."""
        return (self,)

    @property
    def schema(self) -> tuple[Output, ...]:
        """The columns of the statement."""
        columns = enumerate(zip(self.names, self.input.schema, strict=True))
        return tuple(Output(name, AttributeRef(o.type, at, name, self.place)) for at, (name, o) in columns)

    @property
    def order(self) -> tuple[OrderKey, ...]:
        """(): no column gives the order of the rows."""
        return ()

    @property
    def keeps_rows(self) -> bool:
        """Whether the node's result has a row for each row of its sources."""
        return False

    @property
    def operator(self) -> Operator:
        """The kind of operator, which selects the rule for the node's update pattern (`psoup.plan.patterns`)."""
        return Operator.UNARY_WEAKEST

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        return f"Relation {exact_name(self.alias)}" if self.alias else "Relation"


class SetOperator(enum.Enum):
    """An operator of sets. The value is its name in SQL."""

    UNION = "UNION"
    INTERSECT = "INTERSECT"
    EXCEPT = "EXCEPT"


@dataclass(frozen=True, slots=True)
class SetOperation:
    """UNION, INTERSECT or EXCEPT of two statements with the same number and types of columns. NULLs are equal.

    `all`: equal rows are counted; without it, the result has the first of equal rows. The rows of the left come first,
    in their order. `outputs`: the columns, with the names of the left. They read the source `SET_COLUMNS` by position.
    """

    left: Node
    right: Node
    operator: SetOperator
    all: bool
    outputs: tuple[Output, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The input nodes."""
        return self.left, self.right

    @property
    def sources(self) -> tuple[Source, ...]:
        """All sources in the node's subtree, by place."""
        return tuple(sorted((*self.left.sources, *self.right.sources), key=lambda source: source.place))

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """(): a set operation is always the input of a Relation."""
        return ()

    @property
    def schema(self) -> tuple[Output, ...]:
        """The columns of the rows."""
        return self.outputs

    @property
    def order(self) -> tuple[OrderKey, ...]:
        """(): no column gives the order of the rows."""
        return ()

    @property
    def keeps_rows(self) -> bool:
        """Whether the node's result has a row for each row of its sources."""
        return False

    @property
    def update_operator(self) -> Operator:
        """The kind of operator, which selects the rule for the node's update pattern (`psoup.plan.patterns`)."""
        if self.operator is SetOperator.EXCEPT:
            return Operator.STRICT
        return Operator.BINARY_WEAKEST if self.operator is SetOperator.UNION and self.all else Operator.WEAK

    @property
    def label(self) -> str:
        """The text of the node alone, without its inputs."""
        return f"{self.operator.value.capitalize()}{' ALL' * self.all}"


@dataclass(frozen=True, slots=True)
class Values:
    """Rows of constants: VALUES (1, 'a'), (2, 'b'). All rows have the types of `outputs`."""

    rows: tuple[tuple[Literal, ...], ...]
    outputs: tuple[Output, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The input nodes: none."""
        return ()

    @property
    def sources(self) -> tuple[Source, ...]:
        """(): constants read no stream."""
        return ()

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """(): constants are always the input of a Relation."""
        return ()

    @property
    def schema(self) -> tuple[Output, ...]:
        """The columns of the rows."""
        return self.outputs

    @property
    def order(self) -> tuple[OrderKey, ...]:
        """(): no column gives the order of the rows."""
        return ()

    @property
    def keeps_rows(self) -> bool:
        """Whether the node's result has a row for each row of its sources."""
        return False

    @property
    def label(self) -> str:
        """The text of the node alone: its first rows."""
        shown = ", ".join(f"({', '.join(map(literal_text, row))})" for row in self.rows[:_SHOWN])
        more = len(self.rows) - _SHOWN
        return f"Values {shown}{f', {more} more' if more > 0 else ''}"
