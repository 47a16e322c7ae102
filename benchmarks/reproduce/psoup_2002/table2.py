"""PSoup, Table 2: the response time of selections over 2^15 tuples, by the number of intervals in the query."""

from __future__ import annotations

from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.psoup_2002.amounts import AMOUNTS, KINDS, Amounts
from benchmarks.reproduce.shapes import Differs, Series, Shape, crossover, monotone, ratio
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, batches, make_columns, make_queries

WINDOW = 2**15
INTERVALS = (1, 2, 4)
PUBLISHED: dict[str, Series] = {
    "NoMat": {1: 0.3940, 2: 0.4905, 4: 0.8255},
    "P": {1: 0.0465, 2: 0.0240, 4: 0.0130},
    "C": {1: 0.0565, 2: 0.0210, 4: 0.0035},
}
"""Milliseconds."""


def table2(run: Run) -> Experiment:
    """The experiment: one interval on each of 1, 2 and 4 attributes."""
    window, each = run.of(WINDOW, WINDOW, 1_024), run.of(64, 32, 2)
    amounts = Amounts([CREATE], {STREAM: batches(make_columns(window), window)})
    series: dict[str, dict[int, float]] = {name: {} for name in AMOUNTS}
    for intervals in INTERVALS:
        statements = [query.statement(window) for query in make_queries(each, intervals)]
        if intervals == INTERVALS[0]:
            amounts.times(statements[:1], 1)  # kernels and caches are warm
            amounts.forget()
        for name, spent in amounts.times(statements, run.of(21, 11, 1)).items():
            series[name][intervals] = spent
    no_mat, p, c = (series[name] for name in AMOUNTS)
    shapes = [
        Shape("NoMat rises with the number of intervals", monotone(no_mat), Differs(0.75, _ROWS)),
        Shape("P falls", monotone(p, rises=False)),
        Shape("C falls", monotone(c, rises=False, slack=0.1)),
        Shape("C and P change places between one and four intervals", crossover(p, c, 1, 4), Differs(float("nan"), _C)),
        Shape("NoMat by P: 8.5 at one interval", ratio(no_mat, p, 1, 4.25), Differs(1.0, _FIXED)),
        Shape("NoMat by P: 20 at two intervals", ratio(no_mat, p, 2, 10), Differs(1.1, _FIXED)),
        Shape("NoMat by P: 63 at four intervals", ratio(no_mat, p, 4, 32), Differs(1.7, _FIXED)),
    ]
    published = (
        "NoMat rises with the number of intervals, P and C fall; C is behind P at one interval, before it from two"
    )
    parameters = f"a window of {WINDOW:,} tuples, {each} queries for each number of intervals, SELECT *"
    source = "PSoup (VLDB 2002), Table 2"
    return Experiment(
        "R04", "table2", source, published, "intervals", "ms", series, shapes, KINDS, PUBLISHED, parameters
    )


_ROWS = (
    "at one interval half of the window is in the answer; its rows are copied, 64 bytes each, which takes longer than"
    " further intervals over columns of one byte"
)
_C = (
    "C sends the bytes of its last answer again. It follows no pointers and copies no rows, so it is the faster one at"
    " every number of intervals"
)
_FIXED = (
    "the scan of 32,768 tuples takes less time than the fixed cost of an answer and the copy of its rows, which NoMat"
    " and P have in common"
)
