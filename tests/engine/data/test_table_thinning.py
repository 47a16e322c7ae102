"""Versions that leave memory once HISTORY has passed them: which ones leave, and what a start finds then.

└── chunk 0, keys 0 … 63 at 0 s ── keys 0 … 59 change at 10 s ── at 21 s: only the rows of 60 … 63 are left there
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.engines.recorded import RecordingPSoup
from psoup_testing.engines.restarts import RestartingPSoup, making
from psoup_testing.oracles.questions import again, rows_of

CONFIG = EngineConfig(chunk_rows=64, piece_rows=16)
TABLE = "CREATE TABLE t (k BIGINT, v BIGINT, PRIMARY KEY (k)) HISTORY 10 SECONDS DELETED FOR 10 SECONDS"
LAST = 1_000
"""A key that changes only to let time pass."""


def pushed(soup: LocalPSoup, keys: range, value: int | None) -> None:
    """Give some keys a value. None deletes them."""
    values = pa.array([value] * len(keys), pa.int64())
    soup.push("t", pa.table({"k": list(keys), "v": values, "_deleted": [value is None] * len(keys)}))


def passed(soup: RecordingPSoup, seconds: int) -> None:
    """Let time pass, and do all maintenance."""
    soup.clock.advance(seconds=seconds)
    pushed(soup, range(LAST, LAST + 1), 0)
    soup.maintain()
    soup.check()


def changed(soup: RecordingPSoup) -> None:
    """Play the history of the module's picture, up to 10 s. The versions of 10 s are in a closed chunk."""
    soup.execute(TABLE)
    pushed(soup, range(64), 1)
    soup.clock.advance(seconds=10)
    pushed(soup, range(60), 2)
    pushed(soup, range(LAST, LAST + 4), 2)


def left(soup: LocalPSoup) -> list[int]:
    """The number of rows in each chunk of the table."""
    return [len(entry.data) for entry in soup.engine.snapshot().stream("t", "default").chunks]


@pytest.fixture
def soup() -> RecordingPSoup:
    soup = RecordingPSoup(CONFIG, VirtualClock(0))
    changed(soup)
    return soup


@pytest.mark.seeded("an open version that leaves with its chunk")
@pytest.mark.seeded("an offset of a thinned chunk taken for a row")
def test_versions_leave_after_history_and_present_ones_stay(soup: RecordingPSoup) -> None:
    query = soup.register("SELECT _id, k, v FROM t WHERE k >= 58 AND k < 999")
    joined = soup.register(
        "SELECT a._id AS i, b.k AS k FROM t AS a JOIN t AS b ON a.k = b.k WHERE b.k >= 58 AND b.k < 999"
    )
    wanted = [(60, 60, 1), (61, 61, 1), (62, 62, 1), (63, 63, 1), (122, 58, 2), (123, 59, 2)]
    for seconds, rows in ((10, 64), (1, 4), (1, 4)):
        passed(soup, seconds)
        assert left(soup)[0] == rows
        assert rows_of(again(soup.invoke, query)) == wanted
        assert sorted(rows_of(again(soup.invoke, joined))) == [row[:2] for row in wanted]
        assert rows_of(again(soup.ask, "SELECT count(*) AS n FROM t")) == [(68,)]


def test_the_past_within_history_stays(soup: RecordingPSoup) -> None:
    passed(soup, 10)
    assert rows_of(again(soup.ask, "SELECT sum(v) AS s FROM t WHERE k < 64", 10 * SECOND - 1, None, True)) == [(64,)]
    passed(soup, 1)
    assert rows_of(again(soup.ask, "SELECT sum(v) AS s FROM t WHERE k < 64", 11 * SECOND)) == [(124,)]


def test_a_chunk_with_more_than_a_quarter_of_present_rows_stays_whole() -> None:
    soup = RecordingPSoup(CONFIG, VirtualClock(0))
    soup.execute(TABLE)
    pushed(soup, range(64), 1)
    pushed(soup, range(47), 2)
    passed(soup, 30)
    assert left(soup)[0] == 64
    pushed(soup, range(47, 48), 2)
    passed(soup, 30)
    assert left(soup)[0] == 16


def test_a_deleted_key_leaves_and_is_new_when_it_comes_back(soup: RecordingPSoup) -> None:
    pushed(soup, range(64), None)
    pushed(soup, range(LAST, LAST + 64), 3)
    passed(soup, 30)
    passed(soup, 1)
    assert left(soup)[:3] == [0, 0, 0]
    pushed(soup, range(2), 9)
    assert rows_of(again(soup.ask, "SELECT k, v FROM t WHERE k < 64")) == [(0, 9), (1, 9)]
    assert rows_of(again(soup.ask, "SELECT k, v FROM t WHERE k < 64", 32 * SECOND)) == [(0, 9), (1, 9)], "as new keys"


@pytest.mark.seeded("a delete forgotten at a restart")
def test_a_deletion_stays_while_an_older_version_of_its_key_is_stored(tmp_path: Path) -> None:
    """Chunk 0 keeps the ended versions of keys 0 … 39, as 24 of its rows are present. So their deletions stay."""
    clock = VirtualClock(0)
    with making(tmp_path) as made:
        soup: RestartingPSoup = made(CONFIG, clock)
        soup.execute(TABLE)
        pushed(soup, range(64), 1)
        pushed(soup, range(40), None)
        pushed(soup, range(2_000, 2_024), 5)
        pushed(soup, range(2_000, 2_064), 6)
        passed(soup, 30)
        passed(soup, 1)
        assert left(soup)[:2] == [64, 64]
        for _ in range(2):
            assert rows_of(again(soup.ask, "SELECT count(*) AS n FROM t WHERE k < 64")) == [(24,)]
            soup.restart()
        pushed(soup, range(40, 64), 2)
        pushed(soup, range(2_000, 2_064), 7)
        passed(soup, 30)
        passed(soup, 1)
        assert left(soup)[:2] == [0, 0]
        for _ in range(2):
            assert rows_of(again(soup.ask, "SELECT count(*) AS n FROM t WHERE k < 64")) == [(24,)]
            soup.restart()


def test_a_version_stays_until_the_entry_that_ends_it_is_stored(tmp_path: Path) -> None:
    clock = VirtualClock(0)
    with making(tmp_path) as made:
        soup: RestartingPSoup = made(CONFIG, clock)
        soup.execute(TABLE)
        pushed(soup, range(64), 1)
        pushed(soup, range(60), 2)
        passed(soup, 30)
        assert left(soup) == [64, 61], "the second chunk is open"
        soup.restart()
        assert rows_of(again(soup.ask, "SELECT v, count(*) AS n FROM t WHERE k < 64 GROUP BY v ORDER BY v")) == [
            (1, 4),
            (2, 60),
        ]
        assert rows_of(again(soup.ask, "SELECT count(*) AS n FROM t WHERE v = 2", 0, None, True)) == [(60,)]
        pushed(soup, range(LAST, LAST + 4), 2)
        passed(soup, 1)
        assert left(soup)[0] == 4


def test_versions_stay_for_a_follower_until_its_place_is_forgotten(soup: RecordingPSoup) -> None:
    """The versions that entries from 64 on ended must stay while a follower may go on there."""
    view, followed = soup.engine.snapshot().stream("t", "default"), soup.engine.snapshot().followed
    followed.note(view.stream_id, "reader", 64, soup.clock.now(), newest=False)
    passed(soup, 30)
    assert left(soup)[0] == 64
    soup.clock.advance(seconds=2 * 86_400)
    passed(soup, 1)
    assert left(soup)[0] == 4
