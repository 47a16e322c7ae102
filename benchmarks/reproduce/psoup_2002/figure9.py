"""PSoup, Figure 9: the rate at which tuples can arrive, against the number of interval queries over 1,000 tuples.

    P shared      a piece of tuples meets all clauses by the predicate index          the product
    P unshared    each clause is tested over the piece by the product's scan, one after the other
    C shared      P shared, and the eager answer of every query is updated after each piece
    C unshared    P unshared, and the same upkeep

What a push costs besides (order, time, room) is in all series. The rates are of one thread, by its processor time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.processor_time import milliseconds
from benchmarks.reproduce.psoup_2002.amounts import ANSWER_BYTES
from benchmarks.reproduce.shapes import Differs, Shape, monotone, ratio
from benchmarks.tool.measure import Sample
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, batches, make_columns, make_queries
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.matching.scan import scan
from psoup.plan.amounts import Amount, Keeping
from psoup.plan.factors import Factor
from psoup.published.snapshot import StreamView

WINDOW = 1_000
PIECE = 100
"""Tuples of a push: the paper's arrive one by one, here a tenth of the window at a time."""
COUNTS = tuple(2**power for power in range(7, 13))
PUSHES = 20
"""Pushes that are timed for each piece after which all answers are updated: these take a hundred times longer."""
INTERVALS = (1, 2, 3, 4)
"""Intervals of a query: a quarter of the queries has each number."""
KINDS = {
    "P shared": "product, amount PARTIAL",
    "P unshared": "product's scan, clause by clause",
    "C shared": "product, amount COMPLETE, eager",
    "C unshared": "by hand: P unshared, and the updates of C shared",
}


def figure9(run: Run) -> Experiment:
    """The experiment."""
    counts = run.of(COUNTS, COUNTS[::2] + COUNTS[-1:], (8, 16))
    series: dict[str, dict[int, float]] = {name: {} for name in KINDS}
    for count in counts:
        for name, rate in _rates(count, run.of(5, 3, 1)).items():
            series[name][count] = rate
    shared, unshared, complete, complete_unshared = series.values()
    at = counts[-1]
    gain = {count: shared[count] / unshared[count] for count in counts}
    shapes = [
        Shape(
            f"at {at:,} queries P shared is ten times P unshared",
            ratio(shared, unshared, at, 5, 50),
            Differs(150, _AT_ONCE),
        ),
        Shape(
            f"at {at:,} P shared is a hundred times C shared",
            ratio(shared, complete, at, 20, 500),
            Differs(900, _UPKEEP),
        ),
        Shape(
            f"at {at:,} P shared is a hundred times C unshared",
            ratio(shared, complete_unshared, at, 20, 500),
            Differs(1_050, _UPKEEP),
        ),
        Shape(f"at {at:,} sharing hardly matters for C", ratio(complete, complete_unshared, at, 0.5, 2)),
        Shape("the gain of sharing grows with the queries", monotone(gain, slack=0.1)),
    ]
    published = (
        "P shared is the best: ten times P unshared, a hundred times both forms of C; for C sharing hardly matters; the"
        " gain of sharing grows with the number of queries"
    )
    parameters = f"one to four intervals, a window of {WINDOW:,} tuples, pieces of {PIECE} tuples, one thread"
    source = "PSoup (VLDB 2002), Figure 9"
    return Experiment("R05", "figure9", source, published, "queries", "tuples/s", series, shapes, KINDS, {}, parameters)


_AT_ONCE = (
    "the index joins all clauses with 100 tuples at once, 64 pairs with one instruction; a scan is a call for each"
    " clause, which costs 50 us whatever the number of tuples"
)
_UPKEEP = (
    "the upkeep is an update of each query, 0.2 ms; P shared is that much faster than the paper's because it joins"
    " 100 tuples at once"
)


def _rates(count: int, pieces: int) -> dict[str, float]:
    """Tuples a second of each series, from the 10th percentiles of the processor times."""
    engines = {amount: _engine(count, amount) for amount in (Amount.NONE, Amount.PARTIAL, Amount.COMPLETE)}
    clauses = _clauses(engines[Amount.PARTIAL])
    engines[Amount.COMPLETE].update_answers()
    idle, push, scanned, upkeep = list[float](), list[float](), list[float](), list[float]()
    tables = batches(make_columns((1 + PUSHES) * pieces * PIECE, seed=3), PIECE)
    none, shared, complete = engines.values()
    for table in tables[:pieces]:
        none.push(STREAM, table)
        shared.push(STREAM, table)
        complete.push(STREAM, table)
        upkeep.append(milliseconds(complete.update_answers))
        view = none.engine.snapshot().stream(STREAM, none.tenant)
        scanned.append(milliseconds(partial(_scan_all, clauses, view)))
    if complete.engine.snapshot().eager.updates < (1 + pieces) * count:
        raise AssertionError("an eager answer was not updated after a piece")
    _check(shared, complete)
    for table in tables[pieces:]:
        idle.append(milliseconds(partial(none.push, STREAM, table)))
        push.append(milliseconds(partial(shared.push, STREAM, table)))
    spent = {
        name: Sample.of(values).low
        for name, values in (("idle", idle), ("push", push), ("scan", scanned), ("upkeep", upkeep))
    }
    by_series = {
        "P shared": spent["push"],
        "P unshared": spent["idle"] + spent["scan"],
        "C shared": spent["push"] + spent["upkeep"],
        "C unshared": spent["idle"] + spent["scan"] + spent["upkeep"],
    }
    return {name: 1e3 * PIECE / total for name, total in by_series.items()}


def _engine(count: int, amount: Amount) -> LocalPSoup:
    """An engine with a full window and `count` queries."""
    local = LocalPSoup(EngineConfig(answer_bytes=ANSWER_BYTES))
    local.execute(CREATE)
    queries = [query for factors in INTERVALS for query in make_queries(count // len(INTERVALS), factors)]
    keeping = Keeping(amount, eager=amount is Amount.COMPLETE)
    local.register_many([query.statement(WINDOW) for query in queries], keeping=keeping)
    for table in batches(make_columns(WINDOW), PIECE):
        local.push(STREAM, table)
    local.maintain()
    return local


def _clauses(local: LocalPSoup) -> list[tuple[Factor, ...]]:
    """The factors of every clause."""
    snapshot = local.engine.snapshot()
    records = [snapshot.query(query_id, local.tenant) for query_id in local.queries()]
    return [snapshot.clause(record.sqc_id).factors for record in records]


def _scan_all(clauses: Sequence[tuple[Factor, ...]], view: StreamView) -> None:
    """Test each clause over the last piece of a stream, and keep its matches as bits."""
    data = view.chunks[-1].data
    start, stop = len(data) - PIECE, len(data)
    columns = tuple(column.slice(start, stop) for column in data.columns)
    ids, times = data.ids_of(start, stop), data.times[start:stop]
    for factors in clauses:
        np.packbits(scan(factors, columns, ids, times).mask)


def _check(local: LocalPSoup, other: LocalPSoup) -> None:
    """Raise AssertionError if two engines with the same queries and tuples have different answers."""
    for query_id, same in zip(local.queries()[::16], other.queries()[::16], strict=True):
        if not local.invoke(query_id).to_table().equals(other.invoke(same).to_table()):
            raise AssertionError(f"the answers of query {query_id} differ by amount")
