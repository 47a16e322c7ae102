"""A picture of an experiment: its series as curves or bars, the published points as stars, the published result below.

    draw(experiment, Path("build/reproduce"), note="AMD EPYC …")      R03.png and R03.svg

Series with other units, and those over names instead of numbers, have axes of their own. Axes are logarithmic where
figures lie far apart. Solid lines are the product's, dashed ones an emulator's, dotted ones by hand; formulas are thin.
The same experiment gives the same bytes of SVG: no date, a fixed salt, text as paths.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.shapes import Series

_STYLE: dict[str, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.h_pad": 0.08,
    "font.size": 10,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "svg.fonttype": "path",
    "svg.hashsalt": "psoup",
}
_METADATA = {"svg": {"Date": None, "Creator": "PSoup, make reproduction"}, "png": {"Software": "PSoup"}}
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7f6000", "#56b4e9", "#000000", "#8e44ad")
"""Colours that the colour-blind distinguish, from Okabe and Ito; they differ in lightness as well."""
_MARKERS = "osD^vPXh"
_LINES = {"product": ("-", 2.2), "emulator": ("--", 1.5), "by hand": (":", 1.8)}
"""The line of a series by how its kind begins."""
_PUBLISHED = "published"
"""The entry of stars in the legend."""
_FAR = 30
"""Figures with a greater factor between them have a logarithmic axis."""
_TICKS = 9
"""At most as many points have a tick each."""
_NOTE_WIDTH, _LEGEND_WIDTH, _NAME_WIDTH = 150, 30, 14
"""Characters to a line of the note, of the legend, and of a name below bars."""


class _Panel(NamedTuple):
    """Series that share axes."""

    unit: str
    named: bool
    names: list[str]


def draw(experiment: Experiment, folder: Path, note: str = "", kinds: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write the picture of an experiment that has series, once for each kind of file; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{experiment.number}.{kind}" for kind in kinds]
    with style.context(_STYLE, after_reset=True):
        for path in paths:  # a new figure for each kind of file, as saving moves the axes
            figure(experiment, note).savefig(path, dpi=130, metadata=_METADATA[path.suffix[1:]])
    return paths


_HEIGHT = 5.2
"""Inches of a picture, unless its legend is longer."""
_ROW = 0.13
"""Inches of a line of the legend or of the note."""


def figure(experiment: Experiment, note: str = "") -> Figure:
    """The picture. `note`: a line below it, as the machine of the run."""
    panels = _panels(experiment)
    drawn = Figure(figsize=(9.5 if len(panels) == 1 else 11.5, _HEIGHT), layout="constrained")
    every = [
        *drawn.subplots(1, len(panels), squeeze=False, width_ratios=[1 if panel.named else 2 for panel in panels])[0]
    ]
    colours = dict(zip([name for panel in panels for name in panel.names], cycle(_COLOURS)))
    for axes, panel in zip(every, panels, strict=True):
        (_bars if panel.named else _curves)(axes, experiment, panel, colours)
        axes.set_ylabel(panel.unit)
    drawn.suptitle(f"{experiment.number}: {experiment.source}: {experiment.state.value}", fontsize=11)
    texts = [f"Published: {experiment.published}", experiment.parameters and f"Run here: {experiment.parameters}", note]
    lines = [line for text in texts if text for line in textwrap.wrap(text, _NOTE_WIDTH)]
    drawn.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=7.5, color="#404040")
    handles, labels = _legend(every)
    rows = len(lines) + sum(label.count("\n") + 1.4 for label in labels)  # an entry, and the space above it
    drawn.set_figheight(max(_HEIGHT, rows * _ROW))
    drawn.legend(handles, labels, loc="outside right upper", fontsize=8, frameon=False)
    return drawn


def _panels(experiment: Experiment) -> list[_Panel]:
    """The series by unit, and by whether their points are names; those over numbers come first."""
    panels: dict[tuple[bool, str], list[str]] = {}
    drawn = {name: values for name, values in experiment.series.items() if values}
    for name, values in drawn.items():
        named = any(isinstance(point, str) for point in values)
        panels.setdefault((named, experiment.unit_of(name)), []).append(name)
    waiting = [name for name in experiment.kinds if name not in drawn]
    panels[next(iter(panels))] += waiting  # they are in the legend
    ordered = sorted(panels.items(), key=lambda panel: panel[0][0])
    return [_Panel(unit, named, names) for (named, unit), names in ordered]


def _legend(every: Iterable[Axes]) -> tuple[list[Any], list[str]]:
    """The entries of all axes, each label once; the star of published points is the last."""
    entries: dict[str, Any] = {}
    for axes in every:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if _PUBLISHED in entries:
        entries[_PUBLISHED] = entries.pop(_PUBLISHED)
    return list(entries.values()), list(entries)


def _label(experiment: Experiment, name: str) -> str:
    kind = experiment.kinds.get(name, "")
    said = kind if kind.startswith(f"{name}:") else f"{name} ({kind})" if kind else name
    return textwrap.fill(said, _LEGEND_WIDTH)


def _curves(axes: Axes, experiment: Experiment, panel: _Panel, colours: dict[str, str]) -> None:
    for place, name in enumerate(panel.names):
        values, colour = experiment.series.get(name, {}), colours[name]
        kind = experiment.kinds.get(name, "")
        line, width = next((look for begin, look in _LINES.items() if kind.startswith(begin)), ("-", 1.2))
        again = [*colours].index(name) // len(_COLOURS)  # a colour that comes again has another marker
        marker = _MARKERS[(place + again) % len(_MARKERS)]
        label = _label(experiment, name)
        look: dict[str, Any] = {"color": colour, "lw": width, "marker": marker, "ms": 4.5, "clip_on": False}
        axes.plot([*values], [*values.values()], line, label=label, **look)
        _stars(axes, experiment.points.get(name, {}), colour)
    drawn = [source.get(name, {}) for name in panel.names for source in (experiment.series, experiment.points)]
    xs = sorted({float(x) for values in drawn for x in values})
    axes.set_xlabel(experiment.x)
    _scale_y(axes, drawn)
    if _geometric(xs):
        axes.set_xscale("log")
    _tick(axes, xs)


def _bars(axes: Axes, experiment: Experiment, panel: _Panel, colours: dict[str, str]) -> None:
    """Groups of bars, one group for each name."""
    series = {name: experiment.series.get(name, {}) for name in panel.names}
    published = {name: experiment.points.get(name, {}) for name in panel.names}
    names = list(dict.fromkeys(at for values in (*series.values(), *published.values()) for at in values))
    width = 0.8 / len(series)
    for place, (name, values) in enumerate(series.items()):
        colour = colours[name]
        at = {point: names.index(point) + (place - (len(series) - 1) / 2) * width for point in names}
        bars = axes.bar(
            [at[point] for point in values], [*values.values()], width, color=colour, label=_label(experiment, name)
        )
        axes.bar_label(bars, fmt=_digits, fontsize=7, padding=2)
        _stars(axes, {at[point]: figure for point, figure in published[name].items()}, colour)
    axes.set_xticks(range(len(names)), [textwrap.fill(name, _NAME_WIDTH) for name in names], fontsize=8)
    axes.grid(visible=False, axis="x")
    _scale_y(axes, [*series.values(), *published.values()])


def _stars(axes: Axes, points: Series, colour: str) -> None:
    """Published points."""
    if points:
        look: dict[str, Any] = {
            "color": colour,
            "markeredgecolor": "black",
            "markersize": 13,
            "zorder": 5,
            "clip_on": False,
        }
        axes.plot([*points], [*points.values()], "*", **look)
        axes.plot([], [], "*", color="white", markeredgecolor="black", markersize=11, label=_PUBLISHED)


def _scale_y(axes: Axes, series: Iterable[Series]) -> None:
    figures = [figure for values in series for figure in values.values()]
    positive = [figure for figure in figures if figure > 0]
    if not positive or max(positive) <= _FAR * min(positive):
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: _digits(y)))
    elif len(positive) == len(figures):
        axes.set_yscale("log")
    else:  # a few zeros: linear below what is small beside the rest
        small = max(min(positive), max(positive) / 1e4)
        axes.set_yscale("symlog", linthresh=10 ** math.floor(math.log10(small)))
        axes.set_ylim(bottom=0)


def _digits(figure: float) -> str:
    """A figure in at least three digits, never with an exponent where it is large."""
    return f"{figure:,.0f}" if abs(figure) >= 1_000 else f"{figure:.3g}"


def _geometric(xs: Sequence[float]) -> bool:
    """Whether the ratios of neighbours vary less than their distances."""
    if len(xs) < 3 or xs[0] <= 0:
        return False
    ratios = [math.log(after / before) for before, after in pairwise(xs)]
    distances = [after - before for before, after in pairwise(xs)]
    return bool(np.std(ratios) / np.mean(ratios) < np.std(distances) / np.mean(distances))


def _tick(axes: Axes, xs: Sequence[float]) -> None:
    """A tick at each of a few points; powers of two as such where they are large."""
    powers = all(x > 0 and math.log2(x).is_integer() for x in xs) and xs[-1] >= 2**12
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: f"$2^{{{math.log2(x):.0f}}}$" if powers and x > 0 else f"{x:,.6g}")
    )
    if len(xs) <= _TICKS:
        axes.xaxis.set_major_locator(FixedLocator(xs))
        axes.xaxis.set_minor_locator(FixedLocator([]))
