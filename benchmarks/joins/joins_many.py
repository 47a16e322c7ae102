"""Rows `join.all*`, `join.counts*`, `join.having*`, `join.arrival.*`, `join.asked.*`: a thousand joins of one form, all
their answers, what these come to, and arrival.

    join.all1024.p2      the answers of 1,024 queries, sides of 2 % each, as Arrow; .p10; join.all32.p50, .all
    join.many1024.p2     the same as replies of InvokeMany, whose answers are found together, and one by one
    join.counts1024.p2   how many rows each of them has, as a table of 1,024 rows
    join.having1024.p2   the keys of which each of them has more rows than its own parameter says, and how many
    join.arrival.q64     tuples of both streams a second with 64 join queries, beside their sides as plain selections
    join.asked.q64       the same, and each query asked once per 65,536 tuples, beside pairs found on arrival

DuckDB answers all queries with one statement: a join of both windows with the table of the queries. Polars joins once
for each of some queries, scaled to all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.joins.joins import BATCH, OPEN, WINDOW
from benchmarks.peers.on_arrival import PairsOnArrival
from benchmarks.tool.measure import Row, Sample, Target, in_turns, seconds
from benchmarks.tool.run import Run
from psoup.answer.question import Question
from psoup.answer.table_rows import TableQuestion
from psoup.local import LocalPSoup
from psoup.work.read_budget import ReadBudget
from psoup_service.host.ids import Ids
from psoup_service.servicers.many import Many as Answers

Integers = npt.NDArray[np.int64]
VALUES = 1_000
SIDES = {"r": "a", "s": "b"}
SHARES = {"p2": 20, "p10": 100, "p50": 500, "all": VALUES}
QUERIES = (1, 10, 64, 1_024)
ASKED_EVERY = 65_536
ASKED_AT_ONCE = 512
"""Number of IDs of an InvokeMany, as in the SDK."""

REPLY_BYTES = 1 << 20
"""Bytes of a reply, as in the SDK."""
STREAM = {1: 10_700_000, 10: 617_000, 64: 63_000}
"""Tuples a second of STREAM (C++), which counts results for so many queries, on another day."""
POLARS_SAMPLE = 32
JOIN = "SELECT {shown} FROM r [ROWS {w}], s [ROWS {w}] WHERE r.k = s.k"
PARAMETERS = " AND r.a >= $r0 AND r.a < $r1 AND s.b >= $s0 AND s.b < $s1"
GROUPED = {
    "join.counts1024.p2": (
        "count(*) AS n",
        "",
        "SELECT id, coalesce(n, 0) AS n FROM q LEFT JOIN (SELECT q.id, count(*) AS n FROM {joined} JOIN q ON {inside}"
        " GROUP BY q.id) USING (id) ORDER BY id",
    ),
    "join.having1024.p2": (
        "r.k, count(*) AS n",
        " GROUP BY r.k HAVING count(*) > $least",
        "SELECT q.id, j.k, count(*) AS n FROM q JOIN {joined} ON {inside} GROUP BY q.id, j.k, q.least"
        " HAVING count(*) > q.least ORDER BY q.id, j.k",
    ),
}
"""The output of each query, the text after its WHERE, and DuckDB's statement for all of them."""
TARGETS = {"p2": {"DuckDB": 2.0, "Polars": 5.0}, "p10": {"DuckDB": 2.0, "Polars": 5.0}, "all": {"DuckDB": 1.0}}


class Many:
    """`queries` joins of one form that select `width` of 1,000 values of each side, over windows of `window` tuples."""

    def __init__(self, queries: int, width: int, window: int) -> None:
        rng = np.random.default_rng(9)
        self.window, self.width = window, width
        lows = rng.integers(0, VALUES - width + 1, (2, queries))
        self.bounds: Integers = np.stack([lows, lows + width], axis=2)
        self.least: Integers = np.arange(queries) % 3 + 1
        """Of each query, how many rows a key has to have and one more."""
        self.streams = {
            name: {
                "k": rng.integers(0, window // 8, 2 * window + OPEN),
                value: rng.integers(0, VALUES, 2 * window + OPEN),
            }
            for name, value in SIDES.items()
        }
        self.tables = {name: pa.table(columns) for name, columns in self.streams.items()}

    def parameters(self) -> pa.Table:
        """The values of each query."""
        (r0, r1), (s0, s1) = (bound.T for bound in self.bounds)
        return pa.table({"r0": r0, "r1": r1, "s0": s0, "s1": s1})

    def empty(self) -> LocalPSoup:
        """The streams without tuples and queries."""
        local = LocalPSoup()
        for name, columns in self.streams.items():
            declared = ", ".join(f"{column} BIGINT" for column in columns)
            local.execute(f"CREATE STREAM {name} ({declared}) RETENTION {self.window} ROWS")
        return local

    def joins(self, shown: str = "r.k, r.a, s.b", end: str = "") -> tuple[LocalPSoup, list[int]]:
        """The join queries, registered. `end`: what comes after WHERE."""
        local, values = self.empty(), self.parameters()
        if "$least" in end:
            values = values.append_column("least", pa.array(self.least))
        statement = JOIN.format(shown=shown, w=self.window) + PARAMETERS + end
        return local, [*local.register_many(statement, values)]

    def selections(self) -> LocalPSoup:
        """The sides of these, as plain selections."""
        local = self.empty()
        for (name, value), bounds in zip(SIDES.items(), self.bounds, strict=True):
            statement = f"SELECT * FROM {name} [ROWS {self.window}] WHERE {value} >= $low AND {value} < $high"
            local.register_many(statement, pa.table({"low": bounds[:, 0], "high": bounds[:, 1]}))
        return local

    def push(self, local: LocalPSoup, start: int, stop: int) -> None:
        """Push tuples of both streams in turns."""
        for at in range(start, stop, BATCH):
            for name, table in self.tables.items():
                local.push(name, table.slice(at, min(BATCH, stop - at)))


def rows(run: Run) -> Iterator[Row]:
    """All rows; quick ones are of few shares and numbers of queries."""
    window, samples = run.of(WINDOW, WINDOW, BATCH), run.of(3, 3, 1)
    for share in run.of(("p2", "p10", "p50", "all"), ("p2",), ("p2", "all")):
        few = SHARES[share] >= SHARES["p50"]
        name = f"join.all{32 if few else 1024}.{share}"
        work = partial(Many, run.of(32, 32, 4) if few else run.of(1_024, 1_024, 8), SHARES[share], window)
        yield from run.part(partial(_all_answers, name, work, TARGETS.get(share, {}), samples), name)
    name, work = "join.many1024.p2", partial(Many, run.of(1_024, 1_024, 8), SHARES["p2"], window)
    yield from run.part(partial(_replies, name, work, samples), name)
    for name, form in GROUPED.items():
        work = partial(Many, run.of(1_024, 1_024, 8), SHARES["p2"], window)
        yield from run.part(partial(_grouped, name, work, *form, samples), name)
    for queries in run.of(QUERIES, QUERIES[2:3], QUERIES[:2]):
        names = f"join.arrival.q{queries}", f"join.asked.q{queries}"
        yield from run.part(partial(_arrival, *names, partial(Many, queries, SHARES["p2"], window), samples), *names)


def _all_answers(name: str, make: Callable[[], Many], targets: dict[str, float], samples: int) -> Iterator[Row]:
    """All answers as one Arrow table, beside those of engines."""
    many = make()
    local, queries = many.joins()
    many.push(local, 0, many.window + OPEN)
    local.maintain()
    peers = _Peers(many)

    def ours() -> pa.Table:
        return local.invoke_table(queries).to_table()

    count = _check(ours(), peers)
    sampled = range(0, len(queries), max(len(queries) // POLARS_SAMPLE, 1))
    calls = [ours, peers.duckdb, lambda: [peers.polars(number) for number in sampled]]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(samples):
        for spent, call in zip(times, calls, strict=True):
            spent.append(1e3 * seconds(call))
    ours_ms, duck, some = map(Sample.of, times)
    theirs = {"DuckDB": duck, "Polars": some.scaled(len(queries) / len(sampled))}
    labels = {"DuckDB": "DuckDB, one shared statement", "Polars": f"Polars, scaled from {len(sampled)}"}
    for peer, sample in theirs.items():
        target = Target(at_least=targets[peer]) if peer in targets else None
        yield Row(
            name, ours_ms, "ms", labels[peer], sample, target, "", {"answer_rows": count, "queries": len(queries)}
        )


def _grouped(name: str, make: Callable[[], Many], shown: str, end: str, theirs: str, samples: int) -> Iterator[Row]:
    """The aggregates of each query, as one Arrow table, beside DuckDB, and an invocation each."""
    many = make()
    local, queries = many.joins(shown, end)
    many.push(local, 0, many.window + OPEN)
    local.maintain()
    peers = _Peers(many)

    def ours() -> pa.Table:
        return local.invoke_table(queries).to_table()

    actual, expected = ours(), peers.grouped(theirs)
    if not actual.equals(expected.rename_columns(actual.column_names).cast(actual.schema)):
        raise AssertionError(f"{name}: DuckDB's rows differ")
    some = queries[:: max(len(queries) // POLARS_SAMPLE, 1)]
    calls = [ours, lambda: peers.grouped(theirs), lambda: [local.invoke(query).to_table() for query in some]]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(3 * samples):
        for spent, call in zip(times, calls, strict=True):
            spent.append(1e3 * seconds(call))
    ours_ms, duck, each = map(Sample.of, times)
    each = each.scaled(len(queries) / len(some))
    yield Row(name, ours_ms, "ms", "DuckDB, one shared statement", duck, details={"answer_rows": actual.num_rows})
    yield Row(name, ours_ms, "ms", f"PSoup, an invocation each ({len(some)}, scaled)", each)


def _replies(name: str, make: Callable[[], Many], samples: int) -> Iterator[Row]:
    """All answers in the replies that the service makes, without the wire: together, and call by call."""
    many, ids = make(), Ids("0" * 8)
    local, queries = many.joins()
    many.push(local, 0, many.window + OPEN)
    local.maintain()
    names = [ids.query(query) for query in queries]

    def replies(at_once: int) -> int:
        at = size = 0
        while at < len(names):
            asking = TableQuestion(local.engine.snapshot(), local.tenant, Question(0, budget=ReadBudget()))
            with closing(Answers(asking, names[at : at + at_once], ids, lambda _: None, by_key=False)) as answers:
                answers.reply(REPLY_BYTES)
            at += answers.outcomes
            size += answers.rows
        return size

    if replies(ASKED_AT_ONCE) != replies(1):
        raise AssertionError(f"{name}: the answers differ")
    times: list[list[float]] = [[], []]
    for _ in range(3 * samples):
        for spent, at_once in zip(times, (ASKED_AT_ONCE, 1), strict=True):
            spent.append(1e3 * seconds(partial(replies, at_once)))
    ours, alone = map(Sample.of, times)
    details = {"queries": len(queries)}
    yield Row(name, ours, "ms", "PSoup, one by one", alone, Target(at_least=1.5), "", details)


def _check(table: pa.Table, peers: _Peers) -> int:
    """The number of rows; every peer has to have the same ones."""
    if _summed(table) != _summed(peers.duckdb()):
        raise AssertionError("DuckDB's rows differ")
    for number in (0, peers.count - 1):
        answer = table.filter(pc.equal(table["_query"], number)).drop_columns(["_query"])
        if _summed(answer) != _summed(pa.table(peers.polars(number))):
            raise AssertionError(f"Polars disagrees on query {number}")
    return int(table.num_rows)


def _summed(table: pa.Table) -> tuple[int, int]:
    """The number of rows, and a sum that is equal if the rows are, in whatever order, and hardly otherwise."""
    mixed: Any = np.zeros(table.num_rows, np.uint64)
    for column in table.columns:
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x9E37_79B9_7F4A_7C15) + column.to_numpy().view(
            np.uint64
        )
    return table.num_rows, int((mixed * mixed).sum())


class _Peers:
    """Engines over the windows' tuples and the table of the queries."""

    def __init__(self, many: Many) -> None:
        stop = many.window + OPEN
        windows = {name: table.slice(stop - many.window, many.window) for name, table in many.tables.items()}
        self._frames = {name: pl.DataFrame(table) for name, table in windows.items()}
        self._bounds, self.count = many.bounds, many.bounds.shape[1]
        self._connection = duckdb.connect()
        numbered = many.parameters().append_column("id", pa.array(range(many.bounds.shape[1]), pa.int64()))
        numbered = numbered.append_column("least", pa.array(many.least))
        for name, table in (windows | {"q": numbered}).items():
            self._connection.register("arrow_window", table)
            self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow_window")
            self._connection.unregister("arrow_window")

    def duckdb(self) -> pa.Table:
        """All answers, with the number of the query."""
        inside = "r.a >= q.r0 AND r.a < q.r1 AND s.b >= q.s0 AND s.b < q.s1"
        return self._connection.sql(
            f"SELECT q.id, r.k, r.a, s.b FROM r JOIN s ON r.k = s.k JOIN q ON {inside}"
        ).to_arrow_table()

    def grouped(self, statement: str) -> pa.Table:
        """The aggregates after the number of the query, in its order."""
        inside = "j.a >= q.r0 AND j.a < q.r1 AND j.b >= q.s0 AND j.b < q.s1"
        joined = "(SELECT r.k, r.a, s.b FROM r JOIN s ON r.k = s.k) AS j"
        return self._connection.sql(statement.format(joined=joined, inside=inside)).to_arrow_table()

    def polars(self, number: int) -> pl.DataFrame:
        """A single answer."""
        sides = zip(SIDES.items(), self._bounds[:, number].tolist(), strict=True)
        left, right = (
            self._frames[name].filter((pl.col(value) >= low) & (pl.col(value) < high))
            for (name, value), (low, high) in sides
        )
        return left.join(right, on="k")


def _arrival(plain: str, asked: str, make: Callable[[], Many], samples: int) -> Iterator[Row]:
    """Tuples a second: with joins and with their sides alone; then with answers, and pairs found on arrival."""
    many = make()
    (local, queries), alone = many.joins(), many.selections()
    emulated = PairsOnArrival(many.bounds, many.window, many.width / VALUES)
    window, values = many.window, list(SIDES.items())

    def pairs(start: int, stop: int) -> int:
        found = 0
        for at in range(start, stop, BATCH):
            for side, (name, value) in enumerate(values):
                columns = many.streams[name]
                found += emulated.arrive(side, columns["k"][at : at + BATCH], columns[value][at : at + BATCH])
        return found

    found = pairs(0, window)
    for soup in (local, alone):
        many.push(soup, 0, window)
        soup.maintain()
    answered = sum(local.invoke(query).to_table().num_rows for query in queries)
    if found != answered:
        raise AssertionError(f"{found:,} pairs were found on arrival, and the answers have {answered:,} rows")

    def ask() -> None:
        for start in range(window, 2 * window, ASKED_EVERY // 2):
            many.push(local, start, min(start + ASKED_EVERY // 2, 2 * window))
            local.invoke_table(queries).to_table()

    def tidy() -> None:
        for soup in (local, alone):
            soup.maintain()

    pushes = [partial(many.push, soup, window, 2 * window) for soup in (local, alone)]
    # by themselves: the push that came after the pairs, whose tables fill the caches, took 15 % longer than the other
    rates = in_turns(pushes, [2 * window] * 2, 3 * samples, tidy)
    part = window if len(queries) <= QUERIES[2] else max(window // 8, BATCH)  # many take it long
    others = in_turns([ask, partial(pairs, window, window + part)], [2 * window, 2 * part], samples, tidy)
    joined, selected, answering, emulating = (rate.wall for rate in (*rates, *others))
    note = (
        f"{plain}: {rates[0].cpu:,.0f} tuples/s by the CPU time of the pushing thread, selections {rates[1].cpu:,.0f}"
    )
    yield Row(plain, joined, "tuples/s", "its sides as selections", selected, Target(at_least=0.95), note)
    target = STREAM.get(len(queries))
    note = f"{asked}: STREAM (C++) took {target:,} tuples/s on another day" if target else ""
    yield Row(asked, answering, "tuples/s", emulated.name, emulating, None, note)
