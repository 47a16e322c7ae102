"""The rates of CACQ's throughput experiments: an emulated eddy, and PSoup with the same queries and tuples.

    tuple state   eight queries, and bitmaps of more and more bits for each tuple     PSoup's tuples have no bitmap
    queries       1 to 10,000 queries over one source                                 beside them an eddy for each query
    sources       64 queries with one predicate, over one source to ten

Five attributes with integers below 1,000. Each has a predicate, `>` or `<` with a random constant, with probability a
half. The text that we have of the paper lost its numbers, so these are a reconstruction. Rates are of one thread, by
its processor time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.reproduce.emulators.cacq.eddy import Eddy, EddyQuery, by_hand
from benchmarks.reproduce.processor_time import in_turns
from benchmarks.tool.run import Run
from psoup.config import EngineConfig
from psoup.local import LocalPSoup

ATTRIBUTES = 5
DOMAIN = 1_000
PIECE = 4_096
"""Tuples of a push."""
STATE_BITS = (64, 128, 256, 512, 4_096, 16_384, 65_536)
COUNTS = (1, 4, 16, 64, 256, 1_024, 4_096, 10_000)
SOURCES = (1, 2, 4, 6, 8, 10)
OF_STATE = 8
OF_SOURCES = 64
_ROUTES = 100_000
"""Tuples that are routed to separate eddies, over all queries."""
Integers = npt.NDArray[np.int64]
Rates = dict[str, dict[int, float]]
Calls = dict[tuple[str, int], Callable[[], object]]
"""The timed calls, by series and point."""


def tuple_state_rates(run: Run) -> Rates:
    """Tuples a second, by the bits of a tuple's bitmap."""
    queries, (values, sources) = drawn_queries(OF_STATE), drawn_tuples(run.of(60_000, 30_000, 300))
    calls: Calls = {}
    for bits in run.of(STATE_BITS, STATE_BITS[:1] + STATE_BITS[3:], STATE_BITS[:2]):
        calls["eddy", bits] = partial(Eddy(queries, 1, ATTRIBUTES, bits).route, values, sources)
        calls["by hand", bits] = partial(by_hand, queries, ATTRIBUTES, values, sources)
        calls["PSoup", bits] = _pushes(queries, values, sources, 1)
    return _rates(calls, run, lambda name, bits: len(values))


def query_rates(run: Run) -> Rates:
    """Outputs a second, by the number of queries."""
    values, sources = drawn_tuples(run.of(8 * PIECE, 2 * PIECE, 300))
    calls: Calls = {}
    outputs = dict[tuple[str, int], float]()
    for count in run.of(COUNTS, (1, 16, 256, 4_096), (1, 8)):
        queries = drawn_queries(count)
        few = values[: max(_ROUTES // count, 64)], sources[: max(_ROUTES // count, 64)]
        single = [Eddy([query], 1, ATTRIBUTES) for query in queries]
        calls["shared eddy", count] = partial(Eddy(queries, 1, ATTRIBUTES).route, values, sources)
        calls["an eddy for each query", count] = partial(_route_each, single, *few)
        calls["PSoup", count] = _pushes(queries, values, sources, 1)
        for name, rows in (("shared eddy", (values, sources)), ("an eddy for each query", few)):
            outputs[name, count] = max(float(by_hand(queries, ATTRIBUTES, *rows).sum()), 1.0)
        outputs["PSoup", count] = outputs["shared eddy", count]
    return _rates(calls, run, lambda name, count: outputs[name, count])


def source_rates(run: Run) -> Rates:
    """Tuples a second, by the number of sources. Each source has the same rate."""
    rows = run.of(60_000, 30_000, 300)
    calls: Calls = {}
    for count in run.of(SOURCES, SOURCES[::2] + SOURCES[-1:], (1, 3)):
        queries, (values, sources) = drawn_queries(OF_SOURCES, count, single=True), drawn_tuples(rows, count)
        calls["eddy", count] = partial(Eddy(queries, count, ATTRIBUTES).route, values, sources)
        calls["PSoup", count] = _pushes(queries, values, sources, count)
    return _rates(calls, run, lambda name, count: rows)


def _rates(calls: Calls, run: Run, amount: Callable[[str, int], float]) -> Rates:
    """The amount of work of each call by its time. The calls take turns. A first call compiles, and does not count."""
    for call in calls.values():
        call()
    times = in_turns({f"{name} {point}": call for (name, point), call in calls.items()}, run.of(9, 5, 1))
    rates: Rates = {}
    for (name, point), milliseconds in zip(calls, times.values(), strict=True):
        rates.setdefault(name, {})[point] = 1e3 * amount(name, point) / max(milliseconds, 1e-6)
    return rates


def _route_each(eddies: Sequence[Eddy], values: Integers, sources: Integers) -> None:
    for eddy in eddies:
        eddy.route(values, sources)


def _pushes(queries: Sequence[EddyQuery], values: Integers, sources: Integers, count: int) -> Callable[[], object]:
    """A call that pushes the tuples to a PSoup with the queries. Each call adds them again."""
    local, pieces = engine_of(queries, count), pieces_of(values, sources, count)

    def push() -> None:
        for stream, table in pieces:
            local.push(stream, table)

    return push


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
