"""Copies of answers over data on disk: history that is attached below, chunks in the archive, restarts.

history [-100, 0)      archive [0, 190)      memory ──> NOW
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from psoup.answer.copies import rows_since as since_module
from psoup.answer.copies.answer_again import Unchanged
from psoup.answer.copies.id_intervals import Intervals
from psoup.answer.copies.range_plans import ranged
from psoup.answer.copies.rows_since import Most, since
from psoup.answer.question import Question
from psoup.config import EngineConfig
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.copies.positions import PositionClient, answer
from psoup_testing.engines.attachments import attach, write
from psoup_testing.engines.restarts import RestartingPSoup

CONFIG = EngineConfig(chunk_rows=64, block_rows=64, archive_rows=2**40)
STREAM = "CREATE STREAM s (n BIGINT, at TIMESTAMP NOT NULL) TIMESTAMP BY at RETENTION 100 SECONDS ARCHIVE 9900 SECONDS"
STATEMENTS = [
    "SELECT n % 7 AS k, count(*), sum(n), first(n), avg(n / 3.0) FROM s GROUP BY k BEGIN (START)",
    "SELECT n % 5 AS k, last(n) FROM s WHERE n % 3 = 1 GROUP BY k BEGIN (NOW - 150 SECONDS)",
    "SELECT DISTINCT n % 11 AS k FROM s BEGIN (START)",
    "SELECT n, at FROM s WHERE n % 2 = 0 ORDER BY n % 10 DESC, n LIMIT 12 OFFSET 2 BEGIN (NOW - 250 SECONDS)",
    "SELECT r.n FROM s AS r, s AS t WHERE r.n = t.n + 60 LIMIT 40 BEGIN (START)",
]


def timed(first: int, end: int) -> pa.Table:
    times = pa.array([n * SECOND for n in range(first, end)], pa.timestamp("us"))
    return pa.table({"n": list(range(first, end)), "at": times})


def attach_history(soup: RestartingPSoup, folder: Path) -> None:
    """Attach the seconds 200 to 300."""
    spec = soup.engine.snapshot().stream("s", soup.tenant).spec
    write(folder, spec, timed(200, 300), [n * SECOND for n in range(200, 300)], range(0, 100, 30))
    attach(soup, "s", "job", folder)


@pytest.mark.long
def test_answers_are_computed_again_from_disk(tmp_path: Path) -> None:
    soup = RestartingPSoup(CONFIG, VirtualClock(1_000 * SECOND), tmp_path / "data")
    soup.execute(STREAM)
    clients = [PositionClient(soup, soup.register(statement)) for statement in STATEMENTS]

    stayed = list[bool]()

    def compare(*, unchanged: bool = False) -> None:
        for client in clients:
            change = client.ask(10**9)
            assert client.rows == answer(client)
            if isinstance(change, Unchanged):
                continue
            assert not unchanged
            assert not change.anew, "the answer of before can be computed from disk"
            stayed.append(0 < len(change.at) < change.table.num_rows)

    soup.push("s", timed(300, 500))
    compare()
    attach_history(soup, tmp_path / "history")
    compare()
    for first in range(500, 700, 40):
        soup.push("s", timed(first, first + 40))
        soup.maintain()
        compare()
    assert soup.engine.snapshot().by_id[1].archived
    soup.restart()
    compare(unchanged=True)
    soup.push("s", timed(700, 720))
    compare()
    assert any(stayed), "rows stay beside new ones"
    soup.check()
    soup.store.close()


def first_rows(soup: RestartingPSoup, query: int) -> list[int]:
    """What a copy of a query with LIMIT has after history was attached, of which it had rows before."""
    have: Intervals = ()
    rows: dict[int, int] = {}
    for push in (lambda: soup.push("s", timed(300, 400)), lambda: attach_history(soup, soup.path / "history")):
        push()
        snapshot = soup.engine.snapshot()
        record = snapshot.query(query, soup.tenant)
        how = ranged(record.query.plan)
        assert how is not None
        change = since(snapshot, record, how, have, Most(10**9, 10**9), Question(soup.clock.now()))
        have = change.have
        rows = {number: n for number, n in rows.items() if any(low <= number < high for low, high in change.keep)}
        table = change.answer.to_table()
        rows |= dict(zip(table["_id"].to_pylist(), table["n"].to_pylist(), strict=True))
    return [rows[number] for number in sorted(rows)]


def end_at_the_window(self: Any, low: int, high: int, limit: int | None) -> int:
    """Takes the end that LIMIT had before the history came."""
    return end_of(self, max(low, 0), high, limit)


end_of = since_module.RangeSearch.end_of


@pytest.mark.seeded("the end of LIMIT stays where it was when history is attached below")
@pytest.mark.parametrize("planted", [False, True])
def test_the_end_of_limit_goes_back_when_history_comes(
    planted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soup = RestartingPSoup(CONFIG, VirtualClock(1_000 * SECOND), tmp_path / "data")
    soup.execute(STREAM)
    query = soup.register("SELECT n FROM s WHERE n % 2 = 0 LIMIT 10 BEGIN (START)")
    if planted:
        monkeypatch.setattr(since_module.RangeSearch, "end_of", end_at_the_window)
    held = first_rows(soup, query)
    assert (held == soup.invoke(query).to_table()["n"].to_pylist()) is not planted
    soup.store.close()
