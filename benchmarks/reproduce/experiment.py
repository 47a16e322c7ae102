"""An experiment: its series, what the paper says of them, and which of its shapes hold here.

Experiment("R03", "figure8", "PSoup, Figure 8", "at 576 …", "window", "ms", {"P": {64: 0.1, …}, …}, [Shape(…)])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.reproduce.shapes import Series, Shape, State

_WORST = (State.FAILED, State.DIFFERS, State.WAITS, State.AGREES)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A figure or table.

    `published`: its known values in words, because the text of the paper has no curves; `points`: those that are
    numbers. `kinds`: for each series "product", "emulator", "by hand", "formula", or "waits for …". `parameters`: what
    was run. `failure`: why there are no series.
    """

    number: str
    name: str
    source: str
    published: str
    x: str
    unit: str
    series: Mapping[str, Series]
    shapes: Sequence[Shape]
    kinds: Mapping[str, str] = field(default_factory=dict)
    points: Mapping[str, Series] = field(default_factory=dict)
    parameters: str = ""
    failure: str = ""

    @classmethod
    def failed(cls, number: str, name: str, error: Exception) -> Experiment:
        """The row of an experiment that raised."""
        return cls(number, name, name, "", "", "", {}, (), failure=f"{type(error).__name__}: {error}")

    @property
    def state(self) -> State:
        """The worst state of its shapes and series."""
        states = {shape.state for shape in self.shapes}
        if self.failure:
            states.add(State.FAILED)
        if any(kind.startswith("waits") for kind in self.kinds.values()):
            states.add(State.WAITS)
        return next((state for state in _WORST if state in states), State.AGREES)

    def summary(self) -> str:
        """A line with the number, the source, the state, and the shapes that do not agree."""
        differing = [shape for shape in self.shapes if shape.state is not State.AGREES]
        reasons = [self.failure] if self.failure else [f"{shape.text}: {shape.verdict()}" for shape in differing]
        return f"{self.number} {self.source}: {self.state.value}{''.join(f'; {reason}' for reason in reasons)}"

    def lines(self) -> Iterator[str]:
        """The experiment as Markdown."""
        yield from (f"## {self.number}: {self.source} ({self.name}): {self.state.value}", "")
        if self.failure:
            yield from (self.failure, "")
            return
        yield from (f"Published: {self.published}", "")
        if self.parameters:
            yield from (f"Run here: {self.parameters}", "")
        yield from self._table()
        yield ""
        yield from (f"- {name}: {kind}" for name, kind in self.kinds.items())
        yield from (f"- {shape.text}: {shape.verdict()}" for shape in self.shapes)
        yield ""

    def _table(self) -> Iterator[str]:
        columns = {f"{name}, {self.unit}": values for name, values in self.series.items()}
        columns |= {f"{name}, published": values for name, values in self.points.items()}
        yield f"| {self.x} | {' | '.join(columns)} |"
        yield f"|---|{'---|' * len(columns)}"
        for point in dict.fromkeys(point for values in self.series.values() for point in values):
            figures = [f"{values[point]:,.4g}" if point in values else "" for values in columns.values()]
            yield f"| {point} | {' | '.join(figures)} |"

    def to_dict(self) -> dict[str, Any]:
        """The experiment as it is in the JSON file."""
        shapes = [{**asdict(shape), "state": shape.state.value, "verdict": shape.verdict()} for shape in self.shapes]
        return {**asdict(self), "state": self.state.value, "shapes": shapes}
