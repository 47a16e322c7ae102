"""Rows `arrival.text.*`: tuples that meet queries with a text filter.

    .q32, .q1k   a = ? AND n LIKE '%word%'    the equality passes one tuple in 1,000; every query has its own word
    .q32.plain   a = ?                        the same without the text
    .q100k       n LIKE '%word%'              nothing but the word

A text is five of 300,000 made-up words, some 60 bytes. Batches are pushed into the embedded engine and all matches
kept, as in `benchmarks.arrival.arrival`, on one core. The peers have the batch in memory, find the pairs of one batch
and forget them, and use all cores: DuckDB joins it with a table of the queries, Polars joins on `a` or searches for all
words together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from benchmarks.tool.measure import Row, Target, beside, in_turns
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_TENANT

BATCH, CHUNK, KEYS, VOCABULARY, WORDS = 4_096, 65_536, 1_000, 300_000, 5
CREATE = f"CREATE STREAM s (a BIGINT NOT NULL, n TEXT NOT NULL) RETENTION {2 * CHUNK} ROWS"
SYLLABLES = ("ka", "lo", "mi", "ter", "vos", "en", "da", "ri", "su", "po", "net", "al", "or", "qui", "be", "shi")

Pairs = set[tuple[int, int]]
"""(query, tuple)."""


class Workload:
    """`words`: one for each query. `keys`: the constant of `a`, or None if there is none. `table`: CHUNK tuples."""

    def __init__(self, queries: int, keyed: bool, texts: bool = True, vocabulary: int = VOCABULARY) -> None:
        random, words = np.random.default_rng([5, queries]), _vocabulary(vocabulary)
        self.words = [str(word) for word in words[:queries]]
        self.keys = [int(key) for key in random.integers(0, KEYS, queries)] if keyed else None
        self.texts = texts
        picked = words[random.integers(0, vocabulary, (CHUNK, WORDS))]
        whole = [" ".join(row) for row in picked.tolist()]
        self.table = pa.table({"a": random.integers(0, KEYS, CHUNK), "n": pa.array(whole, pa.large_string())})

    def statements(self) -> list[str]:
        """A SELECT for each query."""
        keys: Sequence[int | None] = [None] * len(self.words) if self.keys is None else self.keys
        return [
            "SELECT * FROM s WHERE "
            + " AND ".join([f"a = {key}"] * (key is not None) + [f"n LIKE '%{word}%'"] * self.texts)
            for key, word in zip(keys, self.words, strict=True)
        ]

    def pairs(self, table: pa.Table) -> Pairs:
        """The matches, by Python."""
        rows = list(zip(table.column("a").to_pylist(), table.column("n").to_pylist(), strict=True))
        keys: Sequence[int | None] = self.keys or [None] * len(self.words)
        return {
            (query, place)
            for query, (key, word) in enumerate(zip(keys, self.words, strict=True))
            for place, (a, text) in enumerate(rows)
            if key in (None, a) and (not self.texts or word in text)
        }


@cache
def _vocabulary(size: int) -> npt.NDArray[np.str_]:
    """Different words, in no order: few of three syllables, some of four, most of five."""
    random, words = np.random.default_rng(5), dict[str, None]()
    for syllables, share in ((3, 100), (4, 8), (5, 1)):
        for number in random.permutation(len(SYLLABLES) ** syllables)[: size // share].tolist():
            digits = [number // len(SYLLABLES) ** place % len(SYLLABLES) for place in range(syllables)]
            words["".join([SYLLABLES[digit] for digit in digits])] = None
    return random.permutation(np.array([*words][:size]))


class Searched:
    """An embedded engine with the queries."""

    def __init__(self, work: Workload) -> None:
        self.local = LocalPSoup()
        self.local.execute(CREATE)
        self.ids = list(self.local.register_many(work.statements()))
        self.local.maintain()

    def arrive(self, batches: Sequence[pa.Table]) -> None:
        """Push each batch."""
        for table in batches:
            self.local.push("s", table)

    def pairs(self, count: int) -> Pairs:
        """The matches of the last `count` tuples."""
        last = self.local.engine.snapshot().stream("s", DEFAULT_TENANT).next_id
        places = {query_id: place for place, query_id in enumerate(self.ids)}
        return {
            (places[query_id], place)
            for place in range(count)
            for query_id in self.local.matches("s", last - count + place)
        }


class DuckDBText:
    """The batch joined with a table of the queries."""

    name = "DuckDB"

    def __init__(self, work: Workload, rows: int) -> None:
        self.rows = rows
        self._connection = duckdb.connect()
        queries = {"query": range(len(work.words)), "word": work.words, "key": work.keys or [0] * len(work.words)}
        self._connection.register("given", pa.table({name: pa.array(values) for name, values in queries.items()}))
        self._connection.execute("CREATE TABLE q AS SELECT * FROM given")
        factors = ["t.a = q.key"] * (work.keys is not None) + ["contains(t.n, q.word)"] * work.texts
        self._join = f"SELECT q.query, t.place FROM q JOIN t ON {' AND '.join(factors)}"

    def find(self, table: pa.Table) -> pa.Table:
        """A table of query and place."""
        numbered = table.append_column("place", pa.array(np.arange(len(table))))
        self._connection.register("t", numbered)
        return self._connection.sql(self._join).to_arrow_table()


class PolarsText:
    """A join on `a` and a comparison; without `a` all words searched for together, their automaton made anew."""

    name = "Polars"

    def __init__(self, work: Workload, rows: int) -> None:
        self.rows = rows
        self._keyed, self._texts = work.keys is not None, work.texts
        numbers = pl.Series(range(len(work.words)), dtype=pl.Int64)
        self._queries = pl.DataFrame({"query": numbers, "word": work.words, "key": work.keys or [0] * len(work.words)})

    def find(self, table: pa.Table) -> pa.Table:
        """A table of query and place."""
        frame = pl.DataFrame(table).with_row_index("place")
        if self._keyed:
            joined = frame.join(self._queries, left_on="a", right_on="key")
            if self._texts:
                joined = joined.filter(pl.col("n").str.contains(pl.col("word"), literal=True))
            return joined.select("query", "place").to_arrow()
        words = pl.col("n").str.extract_many(self._queries["word"].implode(), overlapping=True).alias("word")
        hits = frame.select("place", words).explode("word").drop_nulls().unique()
        return hits.join(self._queries, on="word").select("query", "place").to_arrow()


def rows(run: Run) -> Iterator[Row]:
    """Each workload beside its peers."""
    samples, vocabulary = run.of(5, 3, 1), run.of(VOCABULARY, VOCABULARY, 1_000)
    few, some, many = 32, run.of(1_000, 1_000, 40), run.of(100_000, 10_000, 50)
    works: list[tuple[str, int, bool, bool, float, int]] = [
        ("arrival.text.q32.plain", few, True, False, 0, BATCH),
        ("arrival.text.q32", few, True, True, 5e6, BATCH),
        ("arrival.text.q1k", some, True, True, 1e6, BATCH),
        ("arrival.text.q100k", many, False, True, 1e5, 64),
    ]
    for name, queries, keyed, texts, target, rows_of_peers in works:
        if not run.wants(name):
            continue
        measured = partial(_row, name, Workload(queries, keyed, texts, vocabulary), target, rows_of_peers, samples)
        yield from run.part(measured, name)


def _row(name: str, work: Workload, target: float, duckdb_rows: int, samples: int) -> Iterator[Row]:
    batches = [work.table.slice(start, BATCH) for start in range(0, CHUNK, BATCH)]
    engine = Searched(work)
    peers: list[DuckDBText | PolarsText] = [DuckDBText(work, duckdb_rows), PolarsText(work, BATCH)]
    turns: list[Callable[[], object]] = [partial(engine.arrive, batches)]
    turns += [partial(peer.find, batches[-1].slice(BATCH - peer.rows)) for peer in peers]
    rates = in_turns(turns, [CHUNK, *(peer.rows for peer in peers)], samples, engine.local.maintain)
    _check(work, engine, peers, batches[-1].slice(BATCH - 64))
    theirs = [(peer.name, rate) for peer, rate in zip(peers, rates[1:], strict=True)]
    yield from beside(name, rates[0], "tuples/s", theirs, target=Target(value_at_least=target) if target else None)


def _check(work: Workload, engine: Searched, peers: Sequence[DuckDBText | PolarsText], last: pa.Table) -> None:
    """Check that the matches of the last tuples are those of Python, for all engines."""
    wanted = work.pairs(last)
    matches = {"PSoup": engine.pairs(len(last))}
    for peer in peers:
        table = peer.find(last)
        matches[peer.name] = set(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))
    for who, pairs in matches.items():
        if pairs != wanted:
            raise AssertionError(f"{who} finds {len(pairs)} matches, and {len(wanted)} are there")
