"""An experiment: its series, what the paper says of them, and which of its shapes hold here.

Experiment("R03", "figure8", "PSoup, Figure 8", "at 576 …", "window", "ms", {"P": {64: 0.1, …}, …}, [Shape(…)])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.reproduce.shapes import Series, Shape, State

_SEVERITY = (State.FAILED, State.DIFFERS, State.WAITS, State.AGREES)
_RESULTS = 4
"""Results in the line of an experiment, unless more of its shapes do not hold."""
_WAITS = "waits"
"""Begins the kind of a series that the product cannot run yet."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A figure or table.

    `published`: its known values in words, because the text of the paper has no curves; `points`: those that are
    numbers. `kinds`: for each series "product", "emulator", "by hand", "formula", or "waits for …". `parameters`: what
    was run. `failure`: why there are no series. `units`: units of series that have another one than `unit`.
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
    units: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def failed(cls, number: str, name: str, error: Exception) -> Experiment:
        """The row of an experiment that raised."""
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        way_out = f"; install {missing}: make setup" if missing else ""
        return cls(number, name, name, "", "", "", {}, (), failure=f"{type(error).__name__}: {error}{way_out}")

    @property
    def state(self) -> State:
        """The worst state of its shapes and series."""
        states = {shape.state for shape in self.shapes}
        if self.failure:
            states.add(State.FAILED)
        if self._waiting():
            states.add(State.WAITS)
        return next((state for state in _SEVERITY if state in states), State.AGREES)

    @property
    def severity(self) -> int:
        """The place of the state in a table that begins with failures and differences."""
        return _SEVERITY.index(self.state)

    def unit_of(self, name: str) -> str:
        """The unit of a series."""
        return self.units.get(name, self.unit)

    def summary(self) -> str:
        """A line with the number, the source, the published result, the result here, and the conclusion."""
        if self.failure:
            return f"{self.number} {self.source}: {self.conclusion()}"
        return f"{self.number} {self.source}. Published: {self.published}. Here: {self.here()}. {self.conclusion()}"

    def here(self) -> str:
        """The measured results of all shapes that do not hold, and of some that do."""
        shapes = sorted(self.shapes, key=lambda shape: shape.measured.holds)
        shown = max(_RESULTS, sum(not shape.measured.holds for shape in shapes))
        results = [f"{shape.text}: {shape.figure}" for shape in shapes[:shown]]
        return "; ".join([*results, f"{len(shapes) - shown} more hold"] if len(shapes) > shown else results)

    def conclusion(self) -> str:
        """`agrees`, `differs because …`, `waits for …`, or `failed: …`."""
        if self.failure:
            return f"failed: {self.failure}"
        failed = [f"{shape.text}: {shape.reason()}" for shape in self.shapes if shape.state is State.FAILED]
        differing = list(dict.fromkeys(shape.reason() for shape in self.shapes if shape.state is State.DIFFERS))
        unneeded = [
            f"{shape.text}, {shape.reason()}" for shape in self.shapes if shape.measured.holds and shape.differs
        ]
        parts = [f"failed: {'; '.join(failed)}"] if failed else []
        parts += [f"differs because {'; '.join(differing)}"] if differing else []
        parts += [f"{kind} ({name})" for name, kind in self._waiting().items()]
        return ". ".join([*(parts or ["agrees"]), *unneeded])

    def lines(self) -> Iterator[str]:
        """Tables in Markdown: the published result and what was run, the series, the shapes."""
        if self.failure:
            yield from ("```", self.failure, "```", "")
            return
        facts = {"published": self.published, "run here": self.parameters, **self.kinds}
        yield from table(["", ""], ([name, text] for name, text in facts.items() if text))
        yield from self._figures()
        shapes = ([shape.text, shape.figure, shape.state.value, shape.reason()] for shape in self.shapes)
        yield from table(["shape", "measured", "state", "reason"], shapes)

    def _waiting(self) -> dict[str, str]:
        return {name: kind for name, kind in self.kinds.items() if kind.startswith(_WAITS)}

    def _figures(self) -> Iterator[str]:
        columns = {f"{name}, {self.unit_of(name)}": values for name, values in self.series.items()}
        columns |= {f"{name}, published": values for name, values in self.points.items()}
        points = dict.fromkeys(point for values in columns.values() for point in values)
        rows = (
            [str(point), *(f"{values[point]:,.4g}" if point in values else "" for values in columns.values())]
            for point in points
        )
        yield from table([self.x, *columns], rows)

    def to_dict(self) -> dict[str, Any]:
        """The experiment as it is in the JSON file. Figures have six digits there."""
        names = dict.fromkeys([*self.series, *self.kinds, *self.points])
        return {
            "number": self.number,
            "name": self.name,
            "state": self.state.value,
            "source": self.source,
            "published": self.published,
            "parameters": self.parameters,
            "failure": self.failure,
            "x": self.x,
            "unit": self.unit,
            "series": {
                name: {
                    "kind": self.kinds.get(name, ""),
                    "unit": self.unit_of(name),
                    "points": _pairs(self.series.get(name, {})),
                    "published": _pairs(self.points.get(name, {})),
                }
                for name in names
            },
            "shapes": [shape.to_dict() for shape in self.shapes],
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Experiment:
        """The experiment of a row of the JSON file."""
        rows = row["series"]
        return cls(
            **{name: row[name] for name in ("number", "name", "source", "published", "x", "unit")},
            series={name: dict(map(tuple, series["points"])) for name, series in rows.items() if series["points"]},
            shapes=[Shape.from_dict(shape) for shape in row["shapes"]],
            kinds={name: series["kind"] for name, series in rows.items() if series["kind"]},
            points={
                name: dict(map(tuple, series["published"])) for name, series in rows.items() if series["published"]
            },
            parameters=row["parameters"],
            failure=row["failure"],
            units={name: series["unit"] for name, series in rows.items() if series["unit"] != row["unit"]},
        )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table in Markdown, and an empty line."""
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"
    yield ""


def _pairs(series: Series) -> list[tuple[Any, float]]:
    """Points and figures. JSON has no other keys than texts."""
    return [(point, float(f"{figure:.6g}")) for point, figure in series.items()]
