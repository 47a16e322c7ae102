"""Row `register.one.w16m`: one new query over 16 M tuples that are there already, four factors, tuple IDs out.

PSoup registers the text and answers over everything, which it has never evaluated for this query: the time includes
parsing, the search of every chunk on both cores, and the IDs as Arrow. The peers have the columns in memory and a
statement that is prepared, or an expression. Each query is used once: an answer that is kept would be found again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.answers.invocation import in_turns
from benchmarks.arrival.arrival import Cores
from benchmarks.tool.measure import Row, Sample, Target, beside, seconds
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, Columns, Query, batches, make_columns, make_queries, to_table
from psoup.local import LocalPSoup

Ids = npt.NDArray[np.int64]
Answering = Callable[[int], Ids]
"""The tuples that the query at a position matches."""

TUPLES = 1 << 24
BATCH = 65_536
QUERIES = 8


def rows(run: Run) -> Iterator[Row]:
    """The row, which takes a minute to load; left out of a quick run."""
    name, tuples = "register.one.w16m", run.of(TUPLES, 0, BATCH)
    if tuples:
        yield from run.part(partial(measured, name, tuples), name)


def measured(name: str, tuples: int) -> Iterator[Row]:
    """The row for so many tuples, a multiple of BATCH."""
    columns = make_columns(tuples)
    queries = make_queries(3 * QUERIES, 4, seed=7)
    with closing(Cores()) as cores:
        cores.threads = 2
        local = _loaded(columns, cores)
        peers = {
            "DuckDB": _duckdb(columns, queries),
            "Polars": _polars(columns, queries),
            "NumPy": lambda number: np.flatnonzero(queries[number].mask(columns)),
        }
        for number in range(2):  # kernels and caches are warm before anything is measured
            expected = np.flatnonzero(queries[number].mask(columns))
            for peer, matches in {"PSoup": _ours(local, queries[number]), **_answers(peers, number)}.items():
                if not np.array_equal(matches, expected):
                    raise AssertionError(f"{peer}: {len(matches)} tuples match, NumPy has {len(expected)}")
        used = range(2, 2 + QUERIES)
        ours = [partial(_ours, local, queries[number]) for number in used]
        theirs: list[list[Callable[[], object]]] = [[partial(peer, n) for n in used] for peer in peers.values()]
        times = [[1e6 * seconds(call) for call in ours], *in_turns(theirs, 2)]
    samples = [Sample.of(time) for time in times]
    yield from beside(name, samples[0], "us", list(zip(peers, samples[1:], strict=True)), (), Target(at_least=5))


def _loaded(columns: Columns, cores: Cores) -> LocalPSoup:
    local = LocalPSoup(run=cores)
    local.execute(CREATE)
    for table in batches(columns, BATCH):
        local.push(STREAM, table)
    local.maintain()
    return local


def _ours(local: LocalPSoup, query: Query) -> Ids:
    query_id = local.register(f"SELECT _id FROM {STREAM} WHERE {query.predicate()}")
    return local.invoke(query_id).to_table().column(0).to_numpy()


def _answers(peers: dict[str, Answering], number: int) -> dict[str, Ids]:
    return {name: np.sort(answer(number)) for name, answer in peers.items()}


def _duckdb(columns: Columns, queries: list[Query]) -> Answering:
    connection = duckdb.connect()
    connection.register("given", to_table(columns))
    connection.execute("CREATE TABLE s AS SELECT * FROM given")
    for number, query in enumerate(queries):
        connection.execute(f"PREPARE q{number} AS SELECT rowid FROM s WHERE {query.predicate()}")
    return lambda number: np.asarray(connection.execute(f"EXECUTE q{number}").fetchnumpy()["rowid"])


def _polars(columns: Columns, queries: list[Query]) -> Answering:
    frame = pl.DataFrame({f"a{k}": column for k, column in enumerate(columns)}).with_row_index("id").lazy()

    def answer(number: int) -> Ids:
        inside = [pl.col(f"a{i.attribute}").is_between(i.low, i.high) for i in queries[number].intervals]
        return frame.filter(*inside).select("id").collect()["id"].to_numpy()

    return answer
