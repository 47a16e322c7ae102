"""PSoup, Figure 11: a new join probes the data of S with its hybrids, each by itself or all as one composite tuple.

    separate    each hybrid (a value of R.a) searches the tuples of S with both of its factors, in nested loops
    composite   the factor that they share, S.b RELOP3 c2, once; then hybrids and tuples are sorted and merged
    pieces      PSoup's: a step with thousands of hybrids at once, over the matches of S; both above only write pairs,
                this is the whole invocation, with its rows as Arrow

Workloads are named by RELOP2 and RELOP3, of R.a RELOP2 S.b and S.b RELOP3 c2. Only step 5 of the paper is measured.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.processor_time import in_turns
from benchmarks.reproduce.shapes import Differs, Shape, order, ratio
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup

Integers = npt.NDArray[np.int64]
CONSTANT = 64
WORKLOADS = {"Ineq/Eq": (">", "="), "Eq/Ineq": ("=", "<"), "Ineq/Ineq": (">", "<")}
"""RELOP2 and RELOP3 of each."""


def figure11(run: Run) -> Experiment:
    """The experiment: 4,096 tuples of S, as many hybrids."""
    size = run.of(4_096, 2_048, 256)
    series: dict[str, dict[str, float]] = {"separate": {}, "composite": {}, "pieces": {}}
    for workload, operators in WORKLOADS.items():
        for name, spent in _workload(size, *operators, run.of(11, 5, 1)).items():
            series[name][workload] = spent
    separate, composite, _ = series.values()
    shapes = [
        Shape(
            "a shared equality: composite about twice as fast",
            ratio(separate, composite, "Ineq/Eq", 1.5, 10),
            Differs(16, _ONCE),
        ),
        Shape("an equality of its own: composite, by sort and merge, is faster", order("Eq/Ineq", composite, separate)),
        Shape(
            "two inequalities: nested loops are preferred",
            order("Ineq/Ineq", separate, composite),
            Differs(0.6, _LOOPS),
        ),
    ]
    published = "composite: twice as fast with a shared equality, faster with one of its own, else slower"
    kinds = {"separate": "emulator", "composite": "emulator", "pieces": "product, the whole invocation"}
    source = "PSoup (VLDB 2002), Figure 11"
    parameters = f"{size:,} tuples of S and as many hybrids, values uniform in [0, 255], c2 = {CONSTANT}"
    facts = "workload", "ms", series, shapes, kinds
    return Experiment("R06", "figure11", source, published, *facts, parameters=parameters)


_ONCE = (
    "without an index each separate hybrid tests the shared factor for every tuple of S, the composite one only once;"
    " in the paper an index answers it for both, and half of the factors are what is saved"
)
_LOOPS = (
    "the merge of ranges finds the first partner of each hybrid without looking at tuples before it; the paper's"
    " merge of inequalities looked at all of them, and its nested loops had an index"
)


def _workload(size: int, second: str, third: str, repeats: int) -> dict[str, float]:
    """Milliseconds of each way, whose pairs are as many."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 256, (2, size))
    equal = second == "=", third == "="
    local = LocalPSoup()
    for stream, column, values in (("r", "a", a), ("s", "b", b)):
        local.execute(f"CREATE STREAM {stream} ({column} BIGINT)")
        local.push(stream, pa.table({column: values}))
    where = f"r.a {second} s.b AND s.b {third} {CONSTANT}"
    query = local.register(f"SELECT r.a, s.b FROM r, s WHERE {where}")
    out = np.empty((2, size * size), np.int64)
    ways: dict[str, Callable[[], int]] = {
        "separate": lambda: _separate(a, b, *equal, out),
        "composite": lambda: _composite(a, b, *equal, out),
        "pieces": lambda: local.invoke(query).to_table().num_rows,
    }
    if len({way() for way in ways.values()}) != 1:
        raise AssertionError(f"the numbers of pairs of {where} differ")
    return in_turns(ways, repeats)


@njit(cache=True)
def _nested(a, b, equal, shared_equal, out):  # type: ignore[no-untyped-def]
    """The pairs, both factors of each hybrid looked at for each tuple of S."""
    count = 0
    for i in range(len(a)):
        for j in range(len(b)):
            if (b[j] == CONSTANT) if shared_equal else (b[j] < CONSTANT):
                out[0, count], out[1, count] = i, j
                count += (a[i] == b[j]) if equal else (a[i] > b[j])
    return count


def _separate(a: Integers, b: Integers, equal: bool, shared_equal: bool, out: Integers) -> int:
    """Every hybrid by itself."""
    count: int = _nested(a, b, equal, shared_equal, out)
    return count


def _composite(a: Integers, b: Integers, equal: bool, shared_equal: bool, out: Integers) -> int:
    """The shared factor once; then a merge of the sorted hybrids and tuples."""
    rows = np.flatnonzero(b == CONSTANT) if shared_equal else np.flatnonzero(b < CONSTANT)
    rows = rows[np.argsort(b[rows], kind="stable")]
    hybrids = np.argsort(a, kind="stable")
    count: int = _merged(a[hybrids], hybrids, b[rows], rows, equal, out)
    return count


@njit(cache=True)
def _merged(values, hybrids, ordered, rows, equal, out):  # type: ignore[no-untyped-def]
    """Both ascend: partners of a hybrid begin (equality) or end (inequality) where they did for the hybrid before."""
    count, begin = 0, 0
    for i in range(len(values)):
        if equal:
            while begin < len(ordered) and ordered[begin] < values[i]:
                begin += 1
            end = begin
            while end < len(ordered) and ordered[end] == values[i]:
                out[0, count], out[1, count] = hybrids[i], rows[end]
                count, end = count + 1, end + 1
        else:
            while begin < len(ordered) and ordered[begin] < values[i]:
                begin += 1
            for j in range(begin):
                out[0, count], out[1, count] = hybrids[i], rows[j]
                count += 1
    return count
