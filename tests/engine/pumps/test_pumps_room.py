"""The memory of derived streams: a stream that grows without end waits, and clients and other streams go on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock

NOW = 1_700_000_000_000_000
MEMORY = 2_000_000
PAIRS = "CREATE STREAM pairs AS (SELECT x.k, y.k AS other FROM t x JOIN t y ON x.one = y.one)"
ROWS = pa.table({"k": np.arange(40), "one": np.ones(40, np.int64)})


@pytest.fixture
def soup() -> LocalPSoup:
    """A service whose stream of pairs, which has no window, has taken the memory that derived streams may take."""
    soup = LocalPSoup(EngineConfig(memory_bytes=MEMORY), clock=VirtualClock(NOW), verify="cheap")
    soup.execute("CREATE STREAM t (k BIGINT, one BIGINT)")
    soup.execute(PAIRS)
    for _ in range(30):
        soup.push("t", ROWS)
    return soup


def _bytes(soup: LocalPSoup, name: str) -> int:
    return soup.engine.snapshot().stream(name, soup.tenant).nbytes


def test_pairs_without_windows_leave_memory_to_clients(soup: LocalPSoup) -> None:
    assert MEMORY // 4 < _bytes(soup, "pairs") <= MEMORY // 2
    for _ in range(100):
        assert soup.push("t", ROWS).accepted == 40
    waits = soup.not_derived["pairs"]
    assert "rows of derived streams may take 1,000,000 bytes, half of the memory; stream 'pairs' has" in str(waits)
    assert getattr(waits, "reason", "") == "MEMORY_BUDGET"


def test_other_derived_streams_go_on_while_one_waits(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM few AS (SELECT k FROM t WHERE k < 2)")
    soup.push("t", ROWS)
    assert "pairs" in soup.not_derived
    assert "few" not in soup.not_derived
    assert soup.ask("SELECT k FROM few").to_table().num_rows == 62


def test_a_waiting_stream_goes_on_once_another_is_dropped(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM again AS (SELECT x.k, y.k AS other FROM t x JOIN t y ON x.one = y.one)")
    soup.push("t", ROWS)
    before = _bytes(soup, "again")
    assert "again" in soup.not_derived
    soup.execute("DROP STREAM pairs")
    soup.push("t", ROWS)
    assert before < _bytes(soup, "again") <= MEMORY // 2
