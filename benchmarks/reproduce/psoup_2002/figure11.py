"""PSoup, Figure 11: a new join probes the data of S with its hybrids, each by itself or all as one composite tuple.

    separate    each hybrid (a value of R.a) looks the shared factor, S.b RELOP3 c2, up in the index of S, and tests its
                own factor on what it finds
    composite   the shared factor is looked up once. If it is an equality, few tuples are left, and each hybrid tests
                them; else the hybrids are sorted, and merged with the tuples
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
_NOISE = 1.15
"""The least ratio of times that is more than noise."""


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
            ratio(separate, composite, "Ineq/Eq", 1.3, 10),
        ),
        Shape("an equality of its own: composite, by sort and merge, is faster", order("Eq/Ineq", composite, separate)),
        Shape(
            "two inequalities: nested loops are preferred",
            ratio(composite, separate, "Ineq/Ineq", _NOISE),
            Differs(1.0, _PAIRS),
        ),
    ]
    published = "composite: twice as fast with a shared equality, faster with one of its own, else slower"
    kinds = {"separate": "emulator", "composite": "emulator", "pieces": "product, the whole invocation"}
    source = "PSoup (VLDB 2002), Figure 11"
    parameters = f"{size:,} tuples of S and as many hybrids, values uniform in [0, 255], c2 = {CONSTANT}"
    facts = "workload", "ms", series, shapes, kinds
    return Experiment("R06", "figure11", source, published, *facts, parameters=parameters)


_PAIRS = (
    "both take their time to write the pairs, most of those that the shared factor leaves. The merge finds the first"
    " partner of each hybrid without looking at tuples before it; the paper's merge looked at all of them"
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
    index = b.argsort(kind="stable")
    stored = b[index], index
    out = np.empty((2, size * size), np.int64)
    ways: dict[str, Callable[[], int]] = {
        "separate": lambda: _separate(a, *stored, *equal, out),
        "composite": lambda: _composite(a, *stored, *equal, out),
        "pieces": lambda: local.invoke(query).to_table().num_rows,
    }
    if len({way() for way in ways.values()}) != 1:
        raise AssertionError(f"the numbers of pairs of {where} differ")
    return in_turns(ways, repeats)


@njit(cache=True)
def _separate(a, ordered, index, equal, shared_equal, out):  # type: ignore[no-untyped-def]
    """Every hybrid by itself. `ordered`, `index`: the values of S.b in ascending order, and their rows."""
    count = 0
    for i in range(len(a)):
        begin, end = _of_constant(ordered, shared_equal)
        count = _test(i, a[i], ordered, index, begin, end, equal, out, count)
    return count


@njit(cache=True)
def _of_constant(ordered, shared_equal):  # type: ignore[no-untyped-def]
    """The places of the values that satisfy the shared factor."""
    end = np.searchsorted(ordered, CONSTANT)
    return (end, np.searchsorted(ordered, CONSTANT + 1)) if shared_equal else (0, end)


@njit(cache=True)
def _test(i, value, ordered, index, begin, end, equal, out, count):  # type: ignore[no-untyped-def]
    """Test the own factor of hybrid `i` in a loop. Returns the number of pairs."""
    for at in range(begin, end):
        out[0, count], out[1, count] = i, index[at]
        count += (value == ordered[at]) if equal else (value > ordered[at])
    return count


@njit(cache=True)
def _tested(a, ordered, index, begin, end, equal, out):  # type: ignore[no-untyped-def]
    """All hybrids, after the shared factor."""
    count = 0
    for i in range(len(a)):
        count = _test(i, a[i], ordered, index, begin, end, equal, out, count)
    return count


def _composite(a: Integers, ordered: Integers, index: Integers, equal: bool, shared_equal: bool, out: Integers) -> int:
    """The shared factor once; then the hybrids one by one, or a merge of the sorted hybrids and the tuples."""
    begin, end = _of_constant(ordered, shared_equal)
    if shared_equal:
        tested: int = _tested(a, ordered, index, begin, end, equal, out)
        return tested
    hybrids = np.argsort(a, kind="stable")
    count: int = _merged(a[hybrids], hybrids, ordered[begin:end], index[begin:end], equal, out)
    return count


@njit(cache=True)
def _merged(values, hybrids, ordered, index, equal, out):  # type: ignore[no-untyped-def]
    """Both ascend: partners of a hybrid begin (equality) or end (inequality) where they did for the hybrid before."""
    count, begin = 0, 0
    for i in range(len(values)):
        if equal:
            while begin < len(ordered) and ordered[begin] < values[i]:
                begin += 1
            end = begin
            while end < len(ordered) and ordered[end] == values[i]:
                out[0, count], out[1, count] = hybrids[i], index[end]
                count, end = count + 1, end + 1
        else:
            while begin < len(ordered) and ordered[begin] < values[i]:
                begin += 1
            for j in range(begin):
                out[0, count], out[1, count] = hybrids[i], index[j]
                count += 1
    return count
