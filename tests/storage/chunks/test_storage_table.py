"""Tables of answers over chunks on disk: archived, attached or covered by a job, or never met."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from psoup.answer.invoke import invoke
from psoup.answer.table import Table, invoke_table
from psoup.config import EngineConfig
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.engines.attachments import attach, take, write, write_job
from psoup_testing.engines.past import rows
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.suite.sweeps import swept

CONFIG = EngineConfig(chunk_rows=64, archive_rows=2**40, columnar_queries=8)
ARCHIVED = "CREATE STREAM s (t TIMESTAMP, x BIGINT, w TEXT) TIMESTAMP BY t RETENTION 100 SECONDS ARCHIVE 9900 SECONDS"
SELECTS = ("x, w", "count(*) AS n", "sum(x) AS s, max(w) AS m, first(x) AS f", "count(x) AS n")
WHERES = ("w = ?", "x > ? AND x % 7 = 2", "x + 9223372036854775000 > ?")


@pytest.fixture(scope="module")
def soup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestartingPSoup]:
    """Chunks -4 to -1 attached, 0 to 5 in the archive, the rest in memory; blocks of before and after, some covered."""
    path = tmp_path_factory.mktemp("table")
    made = RestartingPSoup(CONFIG, VirtualClock(1_000 * SECOND), path / "data")
    made.execute(ARCHIVED)
    spec, times = made.engine.snapshot().by_id[1].spec, [n * SECOND for n in range(100, 300)]
    write(path / "history", spec, rows(100, 300), times, range(0, 200, 50))
    attach(made, "s", "job", path / "history")
    register(made, "BEGIN (START)")
    for first in range(300, 820, 40):
        made.push("s", rows(first, first + 40))
        made.maintain()
    assert made.engine.snapshot().by_id[1].archived == 10
    late = register(made, "BEGIN (NOW - 480 SECONDS) END (NOW - 7 SECONDS)")
    write_job(made, path / "cover", late[::3])
    take(made, path / "cover", "s")
    yield made
    made.check()
    made.store.close()


def register(soup: RestartingPSoup, window: str) -> list[int]:
    """Register a block of each SELECT list and WHERE."""
    ids: list[int] = []
    for select in SELECTS:
        for where in WHERES:
            values = [f"w{n}" for n in range(18)] if where == "w = ?" else [35 * n for n in range(18)]
            ids += soup.register_many(f"SELECT {select} FROM s WHERE {where} {window}", pa.table({"p": values}))
    return ids


def asked(soup: RestartingPSoup, ids: Sequence[int], as_of: int | None, archive_rows: int = 2**40) -> Table:
    """The table of some queries, if each may evaluate so many tuples on disk."""
    snapshot = replace(soup.engine.snapshot(), config=replace(CONFIG, archive_rows=archive_rows))
    return invoke_table(snapshot, np.array(ids), tenant=soup.tenant, now=soup.clock.now(), as_of=as_of)


@pytest.mark.long
@pytest.mark.parametrize("as_of", swept([None, 600], fast=1))
@pytest.mark.parametrize("select", swept(range(len(SELECTS)), fast=(2,)))
def test_what_is_on_disk_is_in_the_table(soup: RestartingPSoup, select: int, as_of: int | None) -> None:
    snapshot, now = soup.engine.snapshot(), soup.clock.now()
    time = None if as_of is None else as_of * SECOND
    every = [query_id for query_id, _ in snapshot.queries.items()]
    half, block = len(every) // 2, len(WHERES) * 18
    ids = [*every[select * block :][:block], *every[half + select * block :][:block]]
    table = asked(soup, ids, time)
    whole = table.to_table()
    assert not table.failures()
    for place, query_id in enumerate(ids):
        answer = invoke(snapshot, query_id, tenant=soup.tenant, now=now, as_of=time)
        mine = whole.filter(pc.equal(whole["_query"], place)).drop(["_query"])
        assert mine.combine_chunks().equals(answer.to_table().combine_chunks()), answer.record.query.text
    assert whole.num_rows > (1_000 if select == 0 else len(ids) - 1)


@pytest.mark.long
def test_too_much_work_on_disk_is_a_failure_of_the_queries_that_need_it(soup: RestartingPSoup) -> None:
    every = [query_id for query_id, _ in soup.engine.snapshot().queries.items()]
    words = pa.table({"p": ["w1", "w2"] * 8})
    recent = soup.register_many("SELECT x, w FROM s WHERE w = ? BEGIN (NOW - 9 SECONDS)", words)
    table = asked(soup, [*every[:18], *recent], None, 200)
    whole = table.to_table()
    (failed,) = table.failures()
    assert (failed.error.reason, failed.places.tolist()) == ("ARCHIVE_BUDGET", list(range(18)))
    assert set(whole["_query"].to_pylist()) <= set(range(18, 34))
    assert whole.num_rows > 0
