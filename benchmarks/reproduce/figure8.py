"""PSoup, Figure 8: the response time of an inequality join of two windows, R.a < S.b - c.

    NoMat      nothing is kept: both conditions of every pair of tuples, when it is asked
    sides      what PSoup keeps: the matches of each side; pairs are found when it is asked
    complete   the pairs are kept, as positions: only the columns are fetched

Values are uniform in [0, 255], as in the paper. NoMat and complete are emulated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from benchmarks.reproduce.experiment import Experiment, Shape
from benchmarks.tool.measure import Sample, seconds
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup

Integers = npt.NDArray[np.int64]
APART = 192
"""c: one pair in 32 is in the answer."""
WINDOWS = (64, 128, 256, 576, 4_096)


def figure8(run: Run) -> Experiment:
    """The experiment; the paper's windows end at 576."""
    windows = run.of(WINDOWS, WINDOWS, WINDOWS[:2])
    series: dict[str, dict[int, float]] = {"NoMat": {}, "sides": {}, "complete": {}}
    for window in windows:
        for name, spent in _point(window, run.of(21, 9, 1)).items():
            series[name][window] = spent
    before, large = windows[-2:]
    last = {name: values[large] for name, values in series.items()}
    grown = series["sides"][large] / series["sides"][before]
    shapes = [
        Shape(f"at {large:,}: complete < sides < NoMat", last["complete"] < last["sides"] < last["NoMat"], _FIXED),
        Shape("PSoup is less than ten times complete", last["sides"] < 10 * last["complete"], _FIXED),
        Shape("NoMat is about a hundred times the others", last["NoMat"] > 30 * last["sides"], _COMPILED),
        Shape("time grows with the square of the window", grown > (large / before) ** 2 / 4, _FIXED),
    ]
    published = "at a window of 576 PSoup-P 29.98 ms, PSoup-C 8.54 ms, NoMat about two orders of magnitude more"
    return Experiment("figure8", "PSoup (VLDB 2002), Figure 8", published, "window", "ms", series, shapes)


_COMPILED = (
    "the paper's NoMat interprets each condition for each tuple; here it is one compiled loop over pairs, a nanosecond"
    " each, so that what all series do, fetching the rows, weighs as much"
)
_FIXED = "an invocation has a fixed cost of 0.1 ms (snapshot, windows, completeness), more than such windows take"


def _point(window: int, repeats: int) -> dict[str, float]:
    """Milliseconds of each way, whose rows are equal."""
    rng = np.random.default_rng(window)
    a, b = rng.integers(0, 256, (2, window))
    local = LocalPSoup()
    for stream, column, values in (("r", "a", a), ("s", "b", b)):
        local.execute(f"CREATE STREAM {stream} ({column} BIGINT)")
        local.push(stream, pa.table({column: values}))
    query = local.register(f"SELECT r.a, s.b FROM r [ROWS {window}], s [ROWS {window}] WHERE r.a < s.b - {APART}")
    left, right = _pairs(a, b)
    ways: dict[str, Callable[[], pa.Table]] = {
        "NoMat": lambda: _rows(a, b, *_pairs(a, b)),
        "sides": lambda: local.invoke(query).to_table(),
        "complete": partial(_rows, a, b, left, right),
    }
    first, *others = (way() for way in ways.values())
    if not all(first.equals(other.combine_chunks().cast(first.schema)) for other in others):
        raise AssertionError(f"the answers at {window} differ")
    return {name: Sample.of([1e3 * seconds(way) for _ in range(repeats)]).median for name, way in ways.items()}


def _rows(a: Integers, b: Integers, left: Integers, right: Integers) -> pa.Table:
    return pa.table({"a": a[left], "b": b[right]})


def _pairs(a: Integers, b: Integers) -> tuple[Integers, Integers]:
    left, right = np.empty(len(a) * len(b), np.int64), np.empty(len(a) * len(b), np.int64)
    count = _nested(a, b, left, right)
    return left[:count], right[:count]


@njit(cache=True)
def _nested(a, b, left, right):  # type: ignore[no-untyped-def]
    """Every pair is looked at; those that satisfy the condition are written."""
    count = 0
    for i in range(len(a)):
        for j in range(len(b)):
            left[count], right[count] = i, j
            count += a[i] < b[j] - APART
    return count
