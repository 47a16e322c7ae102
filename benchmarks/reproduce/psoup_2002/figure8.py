"""PSoup, Figure 8: the response time of an inequality join of two windows, R.a < S.b - c.

    NoMat    amount NONE: both sides are scanned, and their pairs found, when it is asked
    P        amount PARTIAL: the matches of each side are kept; pairs are found when it is asked
    C        amount COMPLETE: the answer is kept
    loops    the condition of every pair of tuples in two nested, compiled loops, and the rows of the pairs

Values are uniform in [0, 255], as in the paper.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.processor_time import in_turns
from benchmarks.reproduce.psoup_2002.amounts import AMOUNTS, KINDS, Amounts
from benchmarks.reproduce.shapes import Differs, Series, Shape, order, ratio
from benchmarks.tool.run import Run

Integers = npt.NDArray[np.int64]
APART = 192
"""c: one pair in 32 is in the answer."""
WINDOWS = (64, 128, 256, 576, 4_096)
LAST = 576
"""The last window of the paper."""
PUBLISHED: dict[str, Series] = {"P": {LAST: 29.98}, "C": {LAST: 8.54}}
"""Milliseconds."""


def figure8(run: Run) -> Experiment:
    """The experiment; the paper's windows end at 576."""
    windows = run.of(WINDOWS, WINDOWS, WINDOWS[:2])
    series: dict[str, dict[int, float]] = {name: {} for name in (*AMOUNTS, "loops")}
    for window in windows:
        for name, spent in _point(window, run.of(31, 15, 1)).items():
            series[name][window] = spent
    no_mat, p, c, loops = series.values()
    at, large, before = min(LAST, windows[-1]), windows[-1], windows[-2]
    grown = {large: p[before] * (large / before) ** 2}
    shapes = [
        Shape(f"at {at} C is faster than P", order(at, c, p)),
        Shape(f"at {at} P takes 3.5 times as long as C", ratio(p, c, at, 1.2, 10.5)),
        Shape(f"at {at} NoMat takes a hundred times as long as P", ratio(no_mat, p, at, 10), Differs(1.0, _SIDES)),
        Shape(
            f"from {before} to {large:,} P grows with the square of the window",
            ratio(p, grown, large, 0.5, 2),
            Differs(0.35, _FIXED),
        ),
        Shape(f"at {large:,} comparing all pairs takes longer than P", order(large, p, loops)),
    ]
    published = "at a window of 576 PSoup-P 29.98 ms, PSoup-C 8.54 ms, NoMat about two orders of magnitude more"
    kinds = {**KINDS, "loops": "emulator: a NoMat without the product's range probe"}
    parameters = f"one query, R.a < S.b - {APART}: one pair in 32 is in the answer"
    source = "PSoup (VLDB 2002), Figure 8"
    return Experiment("R03", "figure8", source, published, "window", "ms", series, shapes, kinds, PUBLISHED, parameters)


_SIDES = (
    "P keeps the matches of each side, and finds pairs when it is asked. This join has no condition on one side, so P"
    " keeps nothing that NoMat lacks; the paper's P keeps the pairs. Both find pairs by a probe of ordered values"
)
_FIXED = (
    "an answer of a join has a fixed cost of 0.4 ms (two snapshots of sides, order, probe), half of its time at 576"
)


def _point(window: int, repeats: int) -> dict[str, float]:
    """Milliseconds of each way, whose rows are equal."""
    rng = np.random.default_rng(window)
    a, b = rng.integers(0, 256, (2, window))
    tuples = {"r": [pa.table({"a": a})], "s": [pa.table({"b": b})]}
    amounts = Amounts(["CREATE STREAM r (a BIGINT)", "CREATE STREAM s (b BIGINT)"], tuples)
    sql = f"SELECT r.a, s.b FROM r [ROWS {window}], s [ROWS {window}] WHERE r.a < s.b - {APART}"
    times = amounts.times([sql], repeats)
    rows = _nested_rows(a, b)
    if not rows.equals(amounts.engines["P"].ask(sql).to_table().combine_chunks().cast(rows.schema)):
        raise AssertionError(f"the answers at {window} differ from nested loops")
    return {**times, **in_turns({"loops": lambda: _nested_rows(a, b)}, repeats)}


def _nested_rows(a: Integers, b: Integers) -> pa.Table:
    left, right = np.empty(len(a) * len(b), np.int64), np.empty(len(a) * len(b), np.int64)
    count = _nested(a, b, left, right)
    return pa.table({"a": a[left[:count]], "b": b[right[:count]]})


@njit(cache=True)
def _nested(a, b, left, right):  # type: ignore[no-untyped-def]
    """Every pair is looked at; those that satisfy the condition are written."""
    count = 0
    for i in range(len(a)):
        for j in range(len(b)):
            left[count], right[count] = i, j
            count += a[i] < b[j] - APART
    return count
