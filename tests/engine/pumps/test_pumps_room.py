"""The memory of derived streams: a stream that grows without end waits, or stops. Clients and other streams go on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.events.tenants import AlterTenant, CreateTenant, Quotas
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.pumps.plan_bytes import PlanBytes
from psoup.pumps.room import Room
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


def test_rows_that_wait_for_room_are_bounded(soup: LocalPSoup) -> None:
    for number in range(8):
        soup.execute(PAIRS.replace("pairs", f"pairs_{number}"))
    assert len(soup.not_derived) == 9
    assert sum(part.batch.nbytes for pump in soup._pumps.by_id.values() for part in pump._unpushed) <= MEMORY // 2


def test_rows_of_one_instant_that_never_fit_are_named(soup: LocalPSoup) -> None:
    soup.push("t", pa.table({"k": np.arange(600), "one": np.ones(600, np.int64)}))
    soup.execute("CREATE STREAM large AS (SELECT x.k, y.k AS other FROM t x JOIN t y ON x.one = y.one) FROM NOW")
    soup.push("t", ROWS)
    problem = soup.not_derived["large"]
    assert "stream 'large' needs 5,096,000" in str(problem) and "for the rows of one instant" in str(problem)
    assert getattr(problem, "reason", "") == "INSTANT_BYTES"
    assert problem.__traceback__ is None  # its frames would keep the rows


GROUPS = "CREATE STREAM s{0} AS (SELECT k, count(*) AS n FROM g [RANGE 1 DAY] GROUP BY k HAVING count(*) > 9 + {0})"


def test_states_are_bounded_and_a_stream_beyond_that_stops() -> None:
    soup = LocalPSoup(EngineConfig(memory_bytes=MEMORY), clock=VirtualClock(NOW), verify="cheap")
    soup.execute("CREATE STREAM g (k BIGINT)")
    soup.push("g", pa.table({"k": np.arange(2_000)}))
    for number in range(12):
        soup.execute(GROUPS.format(number))
    stopped = [number for number in range(12) if _why(soup, f"s{number}")]
    assert stopped and len(stopped) < 12
    name = f"s{stopped[-1]}"
    assert "states of derived streams may take 1,000,000 bytes, half of the memory" in _why(soup, name)
    assert sum(pump.state_bytes for pump in soup._pumps.by_id.values()) <= MEMORY // 2
    for number in range(12):
        if f"s{number}" != name:
            soup.execute(f"DROP STREAM s{number}")
    soup.execute(f"ALTER STREAM {name} RESUME")
    soup.push("g", pa.table({"k": np.arange(2_000)}))
    assert not _why(soup, name) and not soup.not_derived


def _why(soup: LocalPSoup, name: str) -> str:
    derived = soup.engine.snapshot().stream(name, soup.tenant).spec.derived
    assert derived is not None
    return "" if derived.halt is None else derived.halt.why


def test_many_streams_of_a_tenant_leave_the_part_of_another_tenant() -> None:
    snapshot = LocalPSoup(EngineConfig(memory_bytes=MEMORY), clock=VirtualClock(NOW)).engine.snapshot()
    room = Room({**dict.fromkeys(range(1, 100), "many"), 100: "one"})
    for stream_id in range(1, 100):
        room.has_state(stream_id, stream_id, 20_000)
    for size, fits in ((MEMORY // 8, True), (MEMORY // 8 + 1, False)):
        room.has_state(100, 100, size)
        assert room.fits(snapshot, 100) == fits
    assert not room.fits(snapshot, 1)
    room.has_state(1, 1, MEMORY // 8 // 99)
    assert room.fits(snapshot, 1)


def test_equal_streams_have_their_parts_in_common_and_a_state_counts_once() -> None:
    """Two streams are equal, and a third one of the tenant is not. Each has a reserved part, a third of a quarter."""
    snapshot = LocalPSoup(EngineConfig(memory_bytes=MEMORY), clock=VirtualClock(NOW)).engine.snapshot()
    part, shared = MEMORY // 2 // 6, MEMORY // 4
    room, plan = Room(dict.fromkeys(range(1, 4), "one")), PlanBytes()
    for stream_id in (1, 2):
        room.join(stream_id, plan)
        room.has_state(stream_id, 5, 2 * part + shared - 1_000)
    room.has_state(3, 7, part + 1_000)
    assert room.fits(snapshot, 1) and room.fits(snapshot, 2) and room.fits(snapshot, 3)
    assert room.held_by("one") == 3 * part + shared
    assert not room.fits(snapshot, 2, 1)
    room.has_state(2, 6, 1, waiting=10)
    assert not room.fits(snapshot, 1) and not room.fits(snapshot, 3)
    assert room.held_by("one") == 3 * part + shared + 11
    room.has_nothing(2)
    assert room.fits(snapshot, 1), "the part of the other stream is left, as it may go on"
    room.leave(2)
    assert not room.fits(snapshot, 1)
    room.has_state(1, 5, part, 5)
    assert Room(dict.fromkeys((1, 3, 4), "one"), room).held_by("one") == 2 * part + 1_005
    assert Room({4: "one"}, room).held_by("one") == 0


def test_an_answer_that_is_too_large_stops_its_stream_and_is_not_kept() -> None:
    soup = LocalPSoup(EngineConfig(memory_bytes=MEMORY), clock=VirtualClock(NOW), verify="cheap")
    soup.execute("CREATE STREAM g (k BIGINT, at TIMESTAMP) TIMESTAMP BY at")
    soup.execute(
        "CREATE STREAM x AS (SELECT k, k + 1 AS l, k + 2 AS m FROM g ORDER BY k) STATE AT MOST 64 MB EVERY 1 SECOND"
    )
    soup.push("g", pa.table({"k": np.arange(50_000), "at": np.full(50_000, NOW - 9 * SECOND, "M8[us]")}))
    soup.push("g", pa.table({"k": [1], "at": np.full(1, NOW - SECOND, "M8[us]")}))
    assert "states of derived streams may take" in _why(soup, "x")
    soup.push("g", pa.table({"k": [1], "at": np.full(1, NOW - SECOND, "M8[us]")}))
    (pump,) = soup._pumps.by_id.values()
    assert pump.state_bytes == 0


def test_states_count_in_the_quota_of_the_tenant() -> None:
    soup = LocalPSoup(clock=VirtualClock(NOW), verify="cheap")
    soup.submit(CreateTenant("acme", Quotas()))
    soup.tenant = "acme"
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute("CREATE STREAM seen AS (SELECT DISTINCT k FROM t [RANGE 1 HOUR])")
    soup.push("t", pa.table({"k": np.arange(1_000)}))
    soup.push("t", pa.table({"k": [0]}))
    view = soup.engine.snapshot().stream("seen", "acme")
    assert view.folds.kept_bytes.held("acme") >= 16_000
    assert view.folds.kept_bytes.held("other") == 0
    soup.submit(AlterTenant("acme", {"kept_bytes": 20_000}))
    soup.push("t", pa.table({"k": np.arange(10_000)}))
    soup.push("t", pa.table({"k": [0]}))
    derived = soup.engine.snapshot().stream("seen", "acme").spec.derived
    assert derived is not None and derived.halt is not None
    assert "the quota kept_bytes of the tenant lacks" in derived.halt.why
