"""The operator with state of a derivation: the plans of its inputs, how it is made, and what is done with its rows.

    Distinct                     part 0   Project _time0, k, w   the times of the tuples, then the operator's columns
      Project k, w               make     psoup.delta.Distinct
        Source r                 above    nothing

The rows of a part become spans (`psoup.pumps.spans`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from psoup.delta import Distinct as DistinctValues
from psoup.delta import Operator
from psoup.expressions.tree import TIME_INDEX, AttributeRef
from psoup.invariants import corrupt
from psoup.model import TIME_COLUMN, TIMESTAMP, DataType
from psoup.plan.derived_shape import Shape
from psoup.plan.nodes import Distinct, Node, Output, Project, SetOperation, SetOperator


class Part(NamedTuple):
    """An input of an operator. `places`: its sources, by their places in FROM.

    `plan`: shows the times of the tuples of these sources, then the columns that the operator takes.
    """

    places: tuple[int, ...]
    plan: Project

    @property
    def types(self) -> tuple[DataType, ...]:
        """The types of the columns that the operator takes."""
        return tuple([output.type for output in self.plan.outputs[len(self.places) :]])


class Binding(NamedTuple):
    """The operator with state of a query. `make`: makes the operator, without rows.

    `above`: the nodes above the operator, the lowest first. They read its columns by their positions.
    """

    parts: tuple[Part, ...]
    make: Callable[[], Operator]
    above: tuple[Node, ...] = ()


def binding_of(shape: Shape) -> Binding:
    """The binding of a plan that has an operator with state."""
    match shape.operator:
        case Distinct():
            parts = _projected(shape.inputs)
            return Binding(parts, lambda: DistinctValues(parts[0].types), shape.above)
        case SetOperation(operator=SetOperator.UNION, all=False):
            parts = _projected(shape.inputs)
            return Binding(parts, lambda: DistinctValues(parts[0].types), shape.above)
        case _:
            raise corrupt("derivation", "its plan has an operator that no pump has", shape=shape)


def _projected(inputs: Iterable[Node]) -> tuple[Part, ...]:
    """The parts whose columns are those of SELECTs."""
    return tuple([part_of(node.input, node.outputs) for node in inputs if isinstance(node, Project)])


def part_of(node: Node, outputs: Iterable[Output]) -> Part:
    """The part with the rows of a node. `outputs`: the columns that the operator takes."""
    places = tuple([source.place for source in node.sources])
    return Part(places, Project(node, (*time_outputs(places), *outputs)))


def time_outputs(places: Iterable[int]) -> list[Output]:
    """The times of tuples as columns, by the places of their sources."""
    return [Output(f"_time{place}", AttributeRef(TIMESTAMP, TIME_INDEX, TIME_COLUMN, place)) for place in places]
