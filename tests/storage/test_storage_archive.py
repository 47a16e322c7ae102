"""Streams with an ARCHIVE: old chunks are on disk only, and answers are what they would be with all in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from psoup.clock import VirtualClock
from psoup.config import EngineConfig
from psoup.model import SECOND
from psoup_testing.gate import rows
from psoup_testing.recording import RecordingPSoup
from psoup_testing.restarting import RestartingPSoup

SMALL = EngineConfig(chunk_rows=64, piece_rows=16)


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    made = RestartingPSoup(SMALL, VirtualClock(0), tmp_path / "data")
    yield made
    made.store.close()


def values(soup: RecordingPSoup, query: int, **more: Any) -> list[Any]:
    return [row["x"] for row in soup.invoke(query, **more).to_table().to_pylist()]


def fill(soup: RecordingPSoup, count: int, start: int = 0, batch: int = 10) -> None:
    for n in range(start, start + count, batch):
        soup.push("s", rows(t=list(range(n, n + batch)), x=list(range(n, n + batch))))
        soup.maintain()


def parts(soup: RecordingPSoup) -> tuple[int, int]:
    view = soup.engine.snapshot().by_id[1]
    return view.archived, len(view.chunks) - view.archived


def test_old_chunks_leave_the_memory_and_answers_stay(soup: RestartingPSoup) -> None:
    soup.execute("CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t RETENTION 100 SECONDS ARCHIVE 500 SECONDS")
    query = soup.register("SELECT x FROM s WHERE x % 7 = 0 BEGIN (START)")
    whole = soup.register("SELECT x FROM s BEGIN (NOW - 600)")
    for n in range(0, 2_000, 50):
        fill(soup, 50, n)
        oldest = max(0, n + 49 - 600)
        assert values(soup, whole) == list(range(oldest, n + 50))
        assert values(soup, query) == [x for x in range(oldest, n + 50) if x % 7 == 0]
        if n % 300 == 0:
            soup.restart()
            soup.engine.check()
    assert parts(soup) == (8, 3)
    as_of = values(soup, whole, as_of=1_500 * SECOND, accept_truncation=True)
    assert as_of == list(range(1_399, 1_501))
    assert values(soup, query, window="BEGIN (NOW - 550) END (NOW - 500)") == [
        1_449,
        1_456,
        1_463,
        1_470,
        1_477,
        1_484,
        1_491,
        1_498,
    ]
    bill = soup.engine.bill()
    assert bill["tuples_bytes"] == soup.admission.reserved_bytes
    assert bill["tuples_bytes"] < 3 * 64 * 30


def test_a_window_may_be_as_wide_as_both_parts(soup: RestartingPSoup) -> None:
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 100 ROWS ARCHIVE 1000 ROWS")
    query = soup.register("SELECT x FROM s BEGIN (NOW - 1100 ROWS)")
    for n in range(0, 3_000, 50):
        soup.push("s", pa.table({"x": range(n, n + 50)}))
        soup.maintain()
    assert values(soup, query) == list(range(1_900, 3_000))
    with pytest.raises(Exception, match="keeps 1,100 rows"):
        soup.register("SELECT x FROM s BEGIN (NOW - 1101 ROWS)")
