"""Row `derived.lookup`: a selection of 1 % of the tuples, each with the version of a table that held at its time.

    PSoup     pushes of 100,000 tuples, each followed by the steps of the pump, in process, on one thread
    DuckDB    the same tuples inserted; then the SELECT over the tuples of the last minute, once for each 100,000 tuples
    Pathway   the same tuples by a connector; its join with the newest versions, whose rows it counts and adds up

100,000 tuples are a second of their stream. The table has 100,000 keys with ten versions each, all older than the
tuples. So the newest version is the right one, and Pathway gets these alone. DuckDB uses all cores. The new rows of
each second are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.peers import Missing, pathway
from benchmarks.tool.measure import Row, Sample, Target, in_turns
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock

Integers = npt.NDArray[np.int64]
NAME = "derived.lookup"
WINDOW_S = 60
VERSIONS = 10
DAY = 86_400 * SECOND
BEGIN = DAY // 2
VALUES, SELECTED = 10_000, 100
"""The number of different values, and how many of them the SELECT takes: the lowest 1 %."""
STREAM = f"CREATE STREAM s (k BIGINT, v BIGINT, moment TIMESTAMP) TIMESTAMP BY moment RETENTION {WINDOW_S} SECONDS"
TABLE = (
    "CREATE TABLE t (k BIGINT, p BIGINT, moment TIMESTAMP, PRIMARY KEY (k)) TIMESTAMP BY moment WATERMARK BY CLOCK"
    " FIRST VERSION FROM ARRIVAL"
)
DERIVED = f"CREATE STREAM x AS (SELECT s.moment, s.v, t.p FROM s JOIN t AS OF s ON t.k = s.k WHERE s.v < {SELECTED})"
THEIRS = f"SELECT s.moment, s.v, t.p FROM s ASOF JOIN t ON t.k = s.k AND s.moment >= t.moment WHERE s.v < {SELECTED}"


class Work(NamedTuple):
    """`versions`: the rows of the table. `seconds`: the tuples of each second. `keys`: the number of keys."""

    versions: pa.Table
    seconds: list[pa.Table]
    keys: int

    @property
    def rate(self) -> int:
        """Tuples of a second."""
        return len(self.seconds[0])

    def newest(self) -> tuple[Integers, Integers]:
        """The keys of the table, and the value of the newest version of each."""
        keys, values = (self.versions[name].to_numpy() for name in ("k", "p"))
        distinct, places = np.unique(keys[::-1], return_index=True)
        return distinct, values[::-1][places]


def work_of(rate: int, keys: int, seconds: int) -> Work:
    """A workload with `rate` tuples in each second."""
    draw, count, step = np.random.default_rng(48), VERSIONS * keys, SECOND // rate
    versions = {"k": draw.permutation(np.repeat(np.arange(keys), VERSIONS)), "p": np.arange(count)}
    stamps = pa.array(np.sort(draw.integers(0, BEGIN, count)), pa.timestamp("us"))
    tuples = []
    for second in range(seconds):
        values = {"k": draw.integers(0, keys, rate), "v": draw.integers(0, VALUES, rate)}
        times = BEGIN + second * SECOND + step * np.arange(rate)
        tuples.append(pa.table({**values, "moment": pa.array(times, pa.timestamp("us"))}))
    return Work(pa.table({**versions, "moment": stamps}), tuples, keys)


def rows(run: Run) -> Iterator[Row]:
    """The row, beside each peer."""
    rate, keys = run.of((100_000, 100_000), (100_000, 100_000), (2_000, 500))
    old, samples = run.of((WINDOW_S, 9), (WINDOW_S // 4, 5), (2, 1))
    yield from run.part(partial(_measured, work_of(rate, keys, old + samples + 1), old, samples), NAME)


class Ours:
    """An engine with the derived stream, and the seconds before the measured ones."""

    def __init__(self, work: Work, old: int) -> None:
        self.local = LocalPSoup(clock=VirtualClock(DAY))
        self.local.execute(STREAM)
        self.local.execute(TABLE)
        for start in range(0, len(work.versions), 65_536):
            self.local.push("t", work.versions.slice(start, 65_536))
        self.local.heartbeat("t", DAY)
        self.local.execute(DERIVED)
        self._seconds = iter(work.seconds)
        for _ in range(old):
            self.turn()

    def turn(self) -> None:
        """Push the tuples of the next second."""
        self.local.push("s", next(self._seconds))

    def rows(self, begin: int) -> pa.Table:
        """The derived rows since an instant, once all instants are closed."""
        self.local.heartbeat("s", DAY)
        return self.local.ask(f"SELECT moment, v, p FROM x WHERE moment >= make_timestamp({begin})").to_table()


class Recomputing:
    """DuckDB with the tuples as a table. The SELECT over the last minute is computed anew each second."""

    def __init__(self, work: Work, old: int) -> None:
        self._connection = duckdb.connect()
        self._connection.register("versions", work.versions)
        self._connection.execute("CREATE TABLE t AS SELECT * FROM versions")
        self._connection.execute("CREATE TABLE s (k BIGINT, v BIGINT, moment TIMESTAMP)")
        self._seconds = enumerate(work.seconds)
        self.begin = BEGIN
        """The beginning of the window of the last answer."""
        self.answer = pa.table({})
        for _ in range(old):
            self._insert()

    def _insert(self) -> None:
        number, second = next(self._seconds)
        self._connection.register("second", second)
        self._connection.execute("INSERT INTO s SELECT * FROM second")
        self.begin = BEGIN + max(0, number + 1 - WINDOW_S) * SECOND

    def turn(self) -> None:
        """Insert the tuples of the next second, and compute the answer over the window."""
        self._insert()
        self.answer = self._connection.sql(f"{THEIRS} AND s.moment >= make_timestamp({self.begin})").to_arrow_table()

    def close(self) -> None:
        """End it."""
        self._connection.close()


def _measured(work: Work, old: int, samples: int) -> Iterator[Row]:
    ours, theirs = Ours(work, old), Recomputing(work, old)
    mine, duck = in_turns([ours.turn, theirs.turn], [work.rate, work.rate], samples)
    theirs.close()
    _check(ours.rows(theirs.begin), theirs.answer)
    note = f"{NAME}: {mine.cpu:,.0f} tuples/s by the processor time of the thread"
    peer = f"DuckDB, each second over {min(old, WINDOW_S)} s"
    yield Row(NAME, mine.wall, "tuples/s", peer, duck.wall, Target(at_least=20), note, {"cpu_rate": mine.cpu})
    peer = "Pathway, newest versions"
    try:
        rate = _pathway(work)
    except Missing as absent:
        yield Row(NAME, mine.wall, "tuples/s", peer, None, None, f"{absent.name} is not here: {absent.why}")
    else:
        yield Row(NAME, mine.wall, "tuples/s", peer, rate, Target(at_least=3))


def _pathway(work: Work) -> Sample:
    """The rate of Pathway over a few seconds of the stream."""
    keys, newest = work.newest()
    tuples = np.stack([np.concatenate([second[name].to_numpy() for second in work.seconds[:4]]) for name in ("k", "v")])
    sums = np.where(tuples[1] < SELECTED, newest[tuples[0]], 0).reshape(-1, work.rate)
    return pathway.lookup(np.stack([keys, newest]), tuples, work.rate, SELECTED, sums.sum(axis=1).tolist())


def _check(ours: pa.Table, theirs: pa.Table) -> None:
    if not ours.sort_by("moment").equals(theirs.cast(ours.schema).sort_by("moment")):
        raise AssertionError(f"DuckDB disagrees on {NAME}: {len(theirs)} rows, PSoup has {len(ours)}")
