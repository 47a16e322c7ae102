"""An experiment: its series, what the paper says of them, and which of its shapes hold here.

Experiment("figure8", "PSoup, Figure 8", "at 576 …", "window", "ms", {"sides": {64: 0.1, …}, …}, [Shape(…)])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Series = Mapping[Any, float]


@dataclass(frozen=True, slots=True)
class Shape:
    """Something that the paper's figure shows; `why`: where it does not hold here, the reason."""

    text: str
    holds: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A figure or table. `published`: its known values, because the text of the paper has no curves."""

    name: str
    source: str
    published: str
    x: str
    unit: str
    series: Mapping[str, Series]
    shapes: Sequence[Shape]

    @property
    def unexplained(self) -> list[Shape]:
        """The shapes that do not hold, and nothing says why."""
        return [shape for shape in self.shapes if not shape.holds and not shape.why]

    def lines(self) -> Iterator[str]:
        """The experiment as Markdown."""
        yield f"## {self.source} ({self.name})"
        yield ""
        yield f"Published: {self.published}"
        yield ""
        yield f"| {self.x} | {' | '.join(f'{name}, {self.unit}' for name in self.series)} |"
        yield f"|---|{'---|' * len(self.series)}"
        for point in dict.fromkeys(point for values in self.series.values() for point in values):
            figures = [f"{values[point]:,.4g}" if point in values else "" for values in self.series.values()]
            yield f"| {point} | {' | '.join(figures)} |"
        yield ""
        for shape in self.shapes:
            verdict = "holds" if shape.holds else f"does not hold: {shape.why}"
            yield f"- {shape.text}: {verdict}"
        yield ""

    def to_dict(self) -> dict[str, Any]:
        """The experiment as it stands in the JSON file."""
        return asdict(self)
