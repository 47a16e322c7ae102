"""The rates of CACQ's throughput experiments: an emulated eddy, and PSoup with the same queries and tuples.

    tuple state   eight queries, and bitmaps of more and more bits for each tuple     PSoup's tuples have no bitmap
    queries       1 to 10,000 queries over one source                                 beside them an eddy for each query
    sources       64 queries with one predicate, over one source to ten

Five attributes with integers below 1,000. Each has a predicate, `>` or `<` with a random constant, with probability a
half. The text that we have of the paper lost its numbers, so these are a reconstruction. Rates are of one thread, by
its processor time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.reproduce.cacq_eddy import Eddy, EddyQuery, by_hand
from benchmarks.tool.run import Run
from psoup.config import EngineConfig
from psoup.local import LocalPSoup

ATTRIBUTES = 5
DOMAIN = 1_000
PIECE = 4_096
"""Tuples of a push."""
STATE_BITS = (64, 128, 256, 512, 1_024, 2_048, 4_096)
COUNTS = (1, 4, 16, 64, 256, 1_024, 4_096, 10_000)
SOURCES = (1, 2, 4, 6, 8, 10)
_OF_STATE = 8
_OF_SOURCES = 64
_ROUTES = 100_000
"""Tuples that are routed to separate eddies, over all queries."""
_ROUNDS = 3
"""The figure of a series is the best of so many rounds, because other work of the machine only adds to a time."""

Integers = npt.NDArray[np.int64]
Rates = dict[str, dict[int, float]]


def tuple_state_rates(run: Run) -> Rates:
    """Tuples a second, by the bits of a tuple's bitmap."""
    queries, (values, sources) = drawn_queries(_OF_STATE), drawn_tuples(run.of(200_000, 60_000, 300))
    rates: Rates = {"eddy": {}, "by hand": {}, "PSoup": {}}
    for bits in run.of(STATE_BITS, STATE_BITS[::2], STATE_BITS[:2]):
        eddy = Eddy(queries, 1, ATTRIBUTES, bits)
        rates["eddy"][bits] = len(values) / _seconds(lambda eddy=eddy: eddy.route(values, sources))
        rates["by hand"][bits] = len(values) / _seconds(lambda: by_hand(queries, ATTRIBUTES, values, sources))
        rates["PSoup"][bits] = len(values) / _product_seconds(queries, values, sources, 1)
    return rates


def query_rates(run: Run) -> Rates:
    """Outputs a second, by the number of queries."""
    rates: Rates = {"shared eddy": {}, "an eddy for each query": {}, "PSoup": {}}
    values, sources = drawn_tuples(run.of(8 * PIECE, 2 * PIECE, 300))
    for count in run.of(COUNTS, (1, 16, 256, 4_096), (1, 8)):
        queries = drawn_queries(count)
        shared, single = Eddy(queries, 1, ATTRIBUTES), [Eddy([query], 1, ATTRIBUTES) for query in queries]
        outputs = by_hand(queries, ATTRIBUTES, values, sources).sum() / len(values)
        few = values[: max(_ROUTES // count, 64)], sources[: max(_ROUTES // count, 64)]
        seconds = (
            _seconds(lambda shared=shared: shared.route(values, sources)) / len(values),
            _seconds(lambda single=single, few=few: [eddy.route(*few) for eddy in single]) / len(few[0]),
            _product_seconds(queries, values, sources, 1) / len(values),
        )
        for name, each in zip(rates, seconds, strict=True):
            rates[name][count] = outputs / each
    return rates


def source_rates(run: Run) -> Rates:
    """Tuples a second, by the number of sources. Each source has the same rate."""
    rates: Rates = {"eddy": {}, "PSoup": {}}
    for count in run.of(SOURCES, SOURCES[::2] + SOURCES[-1:], (1, 3)):
        queries = drawn_queries(_OF_SOURCES, count, single=True)
        values, sources = drawn_tuples(run.of(200_000, 60_000, 300), count)
        eddy = Eddy(queries, count, ATTRIBUTES)
        seconds = _seconds(lambda eddy=eddy, part=(values, sources): eddy.route(*part))
        rates["eddy"][count] = len(values) / seconds
        rates["PSoup"][count] = len(values) / _product_seconds(queries, values, sources, count)
    return rates


def drawn_queries(count: int, sources: int = 1, *, single: bool = False) -> list[EddyQuery]:
    """Random queries with at least one predicate; with `single`, exactly one."""
    rng = np.random.default_rng([21, count, sources])
    queries = list[EddyQuery]()
    while len(queries) < count:
        chosen = [int(rng.integers(ATTRIBUTES))] if single else np.flatnonzero(rng.random(ATTRIBUTES) < 0.5).tolist()
        predicates = {at: (bool(rng.integers(2)), int(rng.integers(DOMAIN))) for at in chosen}
        if predicates:
            queries.append(EddyQuery(int(rng.integers(sources)), predicates))
    return queries


def drawn_tuples(rows: int, sources: int = 1) -> tuple[Integers, Integers]:
    """Random tuples, int64[rows, attributes], and their sources in turn."""
    return np.random.default_rng([22, rows]).integers(0, DOMAIN, (rows, ATTRIBUTES)), np.arange(rows) % sources


def statement(query: EddyQuery) -> str:
    """The query for PSoup, over the stream of its source."""
    where = [f"a{at} {'>' if above else '<'} {constant}" for at, (above, constant) in query.predicates.items()]
    return f"SELECT * FROM s{query.source} WHERE {' AND '.join(where)}"


def engine_of(queries: Sequence[EddyQuery], sources: int) -> LocalPSoup:
    """PSoup with the streams s0, s1, … and the queries."""
    local = LocalPSoup(EngineConfig())
    for source in range(sources):
        columns = ", ".join(f"a{at} BIGINT NOT NULL" for at in range(ATTRIBUTES))
        local.execute(f"CREATE STREAM s{source} ({columns})")
    local.register_many([statement(query) for query in queries])
    return local


def pieces_of(values: Integers, sources: Integers, count: int) -> list[tuple[str, pa.Table]]:
    """The tuples as pushes: pieces of each source in turn."""
    pieces = list[tuple[str, pa.Table]]()
    for start in range(0, len(values), PIECE * count):
        for source in range(count):
            rows = values[start : start + PIECE * count][sources[start : start + PIECE * count] == source]
            columns = {f"a{at}": np.ascontiguousarray(rows[:, at]) for at in range(ATTRIBUTES)}
            pieces.append((f"s{source}", pa.table(columns)))
    return pieces


def _product_seconds(queries: Sequence[EddyQuery], values: Integers, sources: Integers, count: int) -> float:
    pieces, best = pieces_of(values, sources, count), float("inf")
    for _ in range(_ROUNDS):
        local = engine_of(queries, count)
        start = time.thread_time()
        for stream, table in pieces:
            local.push(stream, table)
        best = min(best, time.thread_time() - start)
    return best


def _seconds(call: Callable[[], object]) -> float:
    """The least processor time of a call in some rounds. The first call compiles, and does not count."""
    call()
    best = float("inf")
    for _ in range(_ROUNDS):
        start = time.thread_time()
        call()
        best = min(best, time.thread_time() - start)
    return max(best, 1e-9)
