"""A part: an input of an operator with state, as a plan that shows the times of its tuples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from psoup.delta import BufferKind
from psoup.expressions.tree import ID_INDEX, TIME_INDEX, AttributeRef
from psoup.model import BIGINT, ID_COLUMN, TIME_COLUMN, TIMESTAMP, DataType
from psoup.plan.nodes import Node, Output, Project


class Part(NamedTuple):
    """An input of an operator. `places`: its sources, by their places in FROM.

    `plan`: shows the times of the tuples of these sources, then the columns that the operator takes. A source of the
    plan that is not among `places` has no rows.
    """

    places: tuple[int, ...]
    plan: Project

    @property
    def types(self) -> tuple[DataType, ...]:
        """The types of the columns that the operator takes."""
        return tuple([output.type for output in self.plan.outputs[len(self.places) :]])

    @property
    def buffer(self) -> BufferKind:
        """The kind of buffer for the rows. Rows over a single stream leave in the order in which they enter."""
        return "fifo" if len(self.places) == 1 else "calendar"


def part_of(node: Node, outputs: Iterable[Output], places: Iterable[int] | None = None) -> Part:
    """The part with the rows of a node. `outputs`: the columns that the operator takes. `places`: None for all."""
    chosen = tuple([source.place for source in node.sources] if places is None else places)
    return Part(chosen, Project(node, (*time_outputs(chosen), *outputs)))


def time_outputs(places: Iterable[int]) -> list[Output]:
    """The times of tuples as columns, by the places of their sources."""
    return [Output(f"_time{place}", AttributeRef(TIMESTAMP, TIME_INDEX, TIME_COLUMN, place)) for place in places]


def id_output(place: int) -> Output:
    """The tuple IDs of a source as a column."""
    return Output(f"_id{place}", AttributeRef(BIGINT, ID_INDEX, ID_COLUMN, place))
