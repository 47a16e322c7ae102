"""PSoup, Figure 7: the response time of selections against the window. (a) equalities, (b) intervals.

A query has one to four predicates on different attributes. The paper's windows end at 2^16. Here they go on to 2^22,
where a scan costs more than the rest of an answer. The series `net` are less the fixed cost, which is the time of
such queries over a stream without tuples.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.psoup_2002.amounts import AMOUNTS, EMPTY, KINDS, Amounts
from benchmarks.reproduce.shapes import Differs, Measured, Series, Shape, flat, order, ratio
from benchmarks.tool.run import Run, Size
from benchmarks.tool.workload import ATTRIBUTES, CREATE, DOMAIN, STREAM, batches, make_columns, make_queries

BATCH = 16_384
WINDOWS = tuple(2**power for power in (7, 10, 13, 16, 18, 20, 22))
LAST = 2**16
"""The last window of the paper."""
FACTORS = (1, 2, 3, 4)
"""Predicates of a query."""

Table = dict[str, dict[int, float]]

_FIXED = (
    "an answer has a fixed cost of 0.07 ms (snapshot, window, Arrow table), and the scan of 65,536 tuples takes as"
    " long; at 2^22 NoMat takes 7 times as long as P"
)
_CODES = "a scan reads one byte for each tuple and attribute, 64 at once; the paper's NoMat follows an index in Java"
_LISTS = (
    "kept matches are lists where they are few, so P takes time for its rows alone; the paper's P traverses a bitarray"
    " as long as the window, whatever the result"
)
_ROWS = (
    "most of an answer's time is for copying its rows, a quarter of the window with 64 bytes each, and both copy them"
)


def figure7a(run: Run) -> Experiment:
    """Equality predicates."""
    series, windows = _series("equality", run.size), _windows(run.size)
    at = min(LAST, windows[-1])
    no_mat, p, c = (series[name] for name in AMOUNTS)
    gain = {window: no_mat[window] / p[window] for window in windows}
    shapes = [
        Shape(f"at {at:,} the order is C, P, NoMat", order(at, c, p, no_mat)),
        _worse(f"at {at:,}", ratio(no_mat, p, at, 4.25), 1.9, _FIXED),
        _worse("the same, net", ratio(series["NoMat net"], series["P net"], at, 4.25), 4.0, _CODES),
        Shape(f"at {at:,} P is worse than C by two orders of magnitude", ratio(p, c, at, 30), Differs(1.1, _LISTS)),
        Shape(f"from {windows[0]} to {windows[-1]:,} NoMat by P rises", ratio(_last(gain), _first(gain), 0, 1.2)),
    ]
    shapes += _rises(series)
    published = "NoMat is much worse than both, P worse than C by two orders of magnitude; all rise with the window"
    return _experiment("R01", "figure7a", "Figure 7a", published, series, shapes)


def figure7b(run: Run) -> Experiment:
    """Interval predicates."""
    series, windows = _series("interval", run.size), _windows(run.size)
    equality = _series("equality", run.size)
    at = min(LAST, windows[-1])
    no_mat, p, c = (series[name] for name in AMOUNTS)
    both = {"equality": equality["P"][at], "interval": p[at]}
    shapes = [
        _worse(f"at {at:,}", ratio(no_mat, p, at, 4.25), 1.5, _ROWS),
        _worse("the same, net", ratio(series["NoMat net"], series["P net"], at, 4.25), 1.7, _ROWS),
        Shape(f"at {at:,} P and C are comparable", ratio(p, c, at, 0.3, 3)),
        Shape(f"at {at:,} P takes as long as for equalities", flat(both, 1.5), Differs(2.5, _LISTS)),
        Shape(f"at {at:,} NoMat takes longer than for equalities", order(at, equality["NoMat"], no_mat)),
        Shape(f"at {at:,} C takes longer than for equalities", order(at, equality["C"], c)),
    ]
    shapes += _rises(series)
    published = "P and C are comparable, P is as in Figure 7a, NoMat and C are higher than there"
    return _experiment("R02", "figure7b", "Figure 7b", published, series, shapes)


def _rises(series: Table) -> list[Shape]:
    """The rise of each amount from the first window to the last."""
    return [
        Shape(
            f"{name} rises from the first window to the last",
            ratio(_last(values), _first(values), 0, 1.2),
            Differs(1, _FIXED) if name == "C" else None,
        )
        for name, values in ((name, series[name]) for name in AMOUNTS)
    ]


def _first(values: Series) -> Series:
    return {0: next(iter(values.values()))}


def _last(values: Series) -> Series:
    return {0: [*values.values()][-1]}


def _worse(where: str, measured: Measured, stated: float, why: str) -> Shape:
    """The shape that NoMat is much worse than P."""
    text = f"{where}, NoMat is much worse than P (8.5 times, the least of Table 2)"
    return Shape(text, measured, Differs(stated, why))


def _experiment(number: str, name: str, figure: str, published: str, series: Table, shapes: list[Shape]) -> Experiment:
    parameters = (
        f"{ATTRIBUTES} attributes, values uniform in [0, {DOMAIN - 1}], one to four predicates, SELECT *; the mean over"
        " the queries of the processor time of an answer"
    )
    source = f"PSoup (VLDB 2002), {figure}"
    kinds = KINDS | {f"{name} net": "product, less the fixed cost of an answer" for name in AMOUNTS}
    return Experiment(number, name, source, published, "window", "ms", series, shapes, kinds, {}, parameters)


def _windows(size: Size) -> tuple[int, ...]:
    return Run(size).of(WINDOWS, WINDOWS[:5], WINDOWS[:2])


@cache
def _series(predicates: str, size: Size) -> Table:
    """Milliseconds by amount and window, and the same less the fixed cost."""
    windows, run = _windows(size), Run(size)
    rows = -(-windows[-1] // BATCH) * BATCH if size is not Size.TINY else windows[-1]
    columns = make_columns(rows)
    amounts = Amounts(
        [CREATE, CREATE.replace(f"STREAM {STREAM} ", f"STREAM {EMPTY} ")], {STREAM: batches(columns, min(BATCH, rows))}
    )
    amounts.times(_statements(predicates, windows[0], 1), 1)  # kernels and caches are warm
    fixed = amounts.times(_statements(predicates, LAST, 2, EMPTY), run.of(51, 31, 1))
    series: Table = {f"{name}{net}": {} for net in ("", " net") for name in AMOUNTS}
    for window in windows:
        each = 2 if window > LAST or size is Size.TINY else run.of(8, 4, 1)
        spent = amounts.times(_statements(predicates, window, each), run.of(15, 9, 1) if window <= LAST else 5)
        amounts.forget()
        for name in AMOUNTS:
            series[name][window] = spent[name]
            series[f"{name} net"][window] = max(spent[name] - fixed[name], 0.0)
    return series


def _statements(predicates: str, window: int, each: int, stream: str = STREAM) -> list[str]:
    """`each` queries of one predicate, as many of two, of three and of four."""
    wheres = [
        query.predicate() if predicates == "interval" else _equalities(factors, each, place)
        for factors in FACTORS
        for place, query in enumerate(make_queries(each, factors))
    ]
    return [f"SELECT * FROM {stream} WHERE {where} BEGIN (NOW - {window} ROWS)" for where in wheres]


def _equalities(factors: int, each: int, place: int) -> str:
    """Equalities with constants that are a multiple of 32 with probability 0.2, else any."""
    random = np.random.default_rng([1, each, factors, place])
    attributes = random.choice(ATTRIBUTES, factors, replace=False)
    constants = [
        32 * random.integers(0, DOMAIN // 32) if random.random() < 0.2 else random.integers(0, DOMAIN)
        for _ in attributes
    ]
    return " AND ".join(f"a{at} = {constant}" for at, constant in zip(attributes, constants, strict=True))
