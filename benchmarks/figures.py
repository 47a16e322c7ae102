"""`python -m benchmarks.figures`: pictures of build/bench.json, as PNG and SVG in build/figures.

    growth.<series>   cost against the number of queries, the window, the factors, the match rate; both axes logarithmic
    join.growth.<series>   the same of joins: the number of them, their windows, their streams
    ratios            for each row how many times faster than each peer; left of the line PSoup loses

What a benchmark did not measure is not drawn.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.tool.machine import processor
from benchmarks.tool.report import number

AXES = {
    "growth.queries.eq": ("standing queries: one equality of 10,000 symbols, two ranges", "ns a tuple"),
    "growth.queries.f4": ("standing queries: four intervals each", "ns a tuple"),
    "growth.factors": ("intervals of each of 4,096 queries", "ns a tuple"),
    "growth.match": ("share of the 4,096 queries that a tuple matches", "ns a tuple"),
    "growth.window": ("tuples in the window", "µs an answer"),
    "join.growth.queries": ("standing joins, registered in blocks of 1,024", "bytes a join"),
    "join.growth.window": ("tuples in the window of each side, of which 2 % are selected", "µs an answer"),
    "join.growth.streams": ("streams of a chain", "µs an answer"),
}
SCALES = {"growth.match": 1e-6}
"""The factor of a point of a series."""

LINE = 0.045
"""Height of a name, as a share of the axes."""

OURS = "PSoup"
COLOURS = {OURS: "#c0392b", "DuckDB": "#e0a800", "Polars": "#2471a3", "NumPy": "#7f8c8d", "C uint8 AVX": "#1e8449"}
OTHER = "#8e44ad"
MARKERS = {"SQLite": "s", "PostgreSQL": "^", "chDB": "D", "PyArrow": "v", "Pathway": "P"}


def draw(rows: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Draw the pictures of some rows of the JSON file; returns the files that were written."""
    folder.mkdir(parents=True, exist_ok=True)
    mpl.use("Agg")
    mpl.rcParams.update(
        {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "psoup"}
    )
    written: list[Path] = []
    rows = [row for row in rows if not row.get("failure")]
    for series in AXES:
        points = [row for row in rows if row["details"].get("series") == series]
        if points:
            written += _save(_curves(series, points), folder / series)
    others = [row for row in rows if "series" not in row["details"] and row["ratio"] is not None]
    if others:
        written += _save(_ratios(others), folder / "ratios")
    return written


def _curves(series: str, rows: Sequence[dict[str, Any]]) -> Figure:
    lines: dict[str, dict[float, tuple[float, float, float]]] = defaultdict(dict)
    for row in rows:
        x = row["details"]["x"] * SCALES.get(series, 1)
        lines[OURS][x] = _spread(row["value"], row["spread"])
        if row["peer_value"] is not None and not row["peer"].endswith("scaled"):
            lines[row["peer"].split(",")[0]][x] = _spread(row["peer_value"], row["peer_spread"])
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    ends = {name: _line(axes, name, points) for name, points in lines.items()}
    label, unit = AXES[series]
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel=unit)
    axes.set_title(f"{series}: {_machine(rows)}", fontsize=9)
    _names(axes, ends)
    if series == "growth.factors":
        axes.set_xscale("linear")
    axes.grid(alpha=0.3, which="both", linewidth=0.5)
    return figure


def _spread(value: float, spread: dict[str, float]) -> tuple[float, float, float]:
    return value, spread["low"], spread["high"]


def _line(axes: Axes, name: str, points: dict[float, tuple[float, float, float]]) -> tuple[float, float]:
    """Draw a curve with its spread; returns its end."""
    xs = sorted(points)
    values, lows, highs = zip(*(points[x] for x in xs), strict=True)
    colour = _colour(name)
    width = 2.5 if name == OURS else 1.2
    axes.plot(xs, values, "o-", color=colour, linewidth=width, markersize=4 if name == OURS else 3)
    axes.fill_between(xs, lows, highs, color=colour, alpha=0.12, linewidth=0)
    return xs[-1], values[-1]


def _names(axes: Axes, ends: dict[str, tuple[float, float]]) -> None:
    """Name curves at their right ends, so that readers need no legend; names keep their distance."""
    below = -1.0
    for name, (x, y) in sorted(ends.items(), key=lambda end: end[1][1]):
        _, height = axes.transAxes.inverted().transform(axes.transData.transform((x, y)))
        below = max(float(height), below + LINE)
        weight = "bold" if name == OURS else "normal"
        axes.text(1.01, below, name, transform=axes.transAxes, color=_colour(name), va="center", fontweight=weight)


def _ratios(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw a line of dots for each row, with the name of its best peer."""
    names = list(dict.fromkeys(row["name"] for row in rows))
    figure, axes = plt.subplots(figsize=(10, 1.5 + 0.3 * len(names)), layout="constrained")
    seen: set[str] = set()
    for row in rows:
        name = row["peer"].split(",")[0]
        ratio = _times_better(row)
        place = len(names) - names.index(row["name"])
        shown = _shown(name)
        label = None if shown in seen else shown
        seen.add(shown)
        axes.plot(ratio, place, _marker(name), color=_colour(name), markersize=6, label=label, alpha=0.85)
    labels = [f"{name}   {number(_value(rows, name))} {_unit(rows, name)}" for name in names]
    axes.set_yticks(range(len(names), 0, -1), labels, fontsize=8)
    axes.axvline(1, color="black", linewidth=1)
    axes.set(
        xscale="log", ylim=(0.3, len(names) + 0.7), xlabel="times better than the peer; left of the line PSoup loses"
    )
    axes.set_title(f"PSoup beside its peers: {_machine(rows)}", fontsize=9)
    axes.grid(alpha=0.3, axis="both", linewidth=0.5)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=8, frameon=False)
    return figure


def _shown(peer: str) -> str:
    """The name of a peer in the legend."""
    matches = [name for name in (*COLOURS, *MARKERS) if peer.startswith(name)]
    return matches[0] if matches else "no engine: an empty call, in memory, …"


def _times_better(row: dict[str, Any]) -> float:
    """A ratio with a limit from above is ours by theirs, and less is better."""
    ratio = float(row["ratio"])
    return 1 / ratio if (row["target"] or "").startswith("<=") and row["target"].endswith("x") else ratio


def _value(rows: Sequence[dict[str, Any]], name: str) -> float:
    return next(float(row["value"]) for row in rows if row["name"] == name)


def _unit(rows: Sequence[dict[str, Any]], name: str) -> str:
    return next(str(row["unit"]) for row in rows if row["name"] == name)


def _colour(name: str) -> str:
    colours = [colour for peer, colour in COLOURS.items() if name.startswith(peer)]
    return colours[0] if colours else OTHER


def _marker(name: str) -> str:
    return next(
        (shape for peer, shape in MARKERS.items() if name.startswith(peer)), "x" if _colour(name) == OTHER else "o"
    )


def _machine(rows: Sequence[dict[str, Any]]) -> str:
    machine = rows[0]["machine"]
    return f"{processor(machine)}, commit {machine['commit']}, {machine['date']}"


def _save(figure: Figure, stem: Path) -> list[Path]:
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=130)
    plt.close(figure)
    return paths


def main() -> int:
    """Draw the pictures; returns 0, or 1 without a file of rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description="Draw the rows of a benchmark.")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), metavar="FILE", help="the rows")
    parser.add_argument("--folder", type=Path, default=Path("build/figures"), metavar="FOLDER", help="where they go")
    options = parser.parse_args()
    if not options.json.exists():
        print(f"{options.json} is not there; make it with: make bench", file=sys.stderr)
        return 1
    for path in draw(json.loads(options.json.read_text()), options.folder):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
