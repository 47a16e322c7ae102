"""Streams that wait for room in memory: what they pin, and what becomes of them after LAG AT MOST."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.derivation import Derivation, Halt
from psoup.errors import FailedPrecondition
from psoup.events.commands import ReleasePins
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.pumps.status import status_of
from psoup.pumps.status_text import status_lines
from psoup.work.clock import VirtualClock
from psoup_testing.engines.format_fixture import START

CONFIG = EngineConfig(memory_bytes=2_000_000, chunk_rows=64, piece_rows=16)
PAIRS = "CREATE STREAM pairs AS (SELECT x.k, y.k AS other FROM t x JOIN t y ON x.one = y.one) LAG AT MOST 1 HOUR"
ROWS = pa.table({"k": np.arange(40), "one": np.ones(40, np.int64)})


@pytest.fixture
def soup() -> LocalPSoup:
    """A process whose stream `pairs` waits for room, as it has taken all the memory that derived streams may take."""
    soup = LocalPSoup(CONFIG, VirtualClock(START), verify="all")
    soup.execute("CREATE STREAM t (k BIGINT, one BIGINT) RETENTION 1 SECOND")
    soup.execute(PAIRS)
    for _ in range(25):
        soup.push("t", ROWS)
    assert soup.not_derived["pairs"].reason == "MEMORY_BUDGET"
    return soup


def derived(soup: LocalPSoup, name: str = "pairs") -> Derivation:
    derivation = soup.engine.snapshot().stream(name, soup.tenant).spec.derived
    assert derivation is not None
    return derivation


def chunks(soup: LocalPSoup) -> int:
    return len(soup.engine.snapshot().stream("t", soup.tenant).chunks)


def advance(soup: LocalPSoup, seconds: float) -> None:
    soup.clock.advance(seconds=seconds)  # type: ignore[attr-defined]


def few(k: int) -> pa.Table:
    """A row without a partner."""
    return pa.table({"k": [k], "one": [k]})


def test_a_stream_that_waits_for_longer_than_lag_at_most_stops_and_its_pins_are_released(soup: LocalPSoup) -> None:
    advance(soup, 3_600)
    soup.push("t", few(100))
    assert derived(soup).halt is None, "LAG AT MOST has not passed"
    assert chunks(soup) >= 15, "the tuples that it has not read stay"
    advance(soup, 1)
    soup.push("t", few(101))
    soup.push("t", few(102))
    halt = derived(soup).halt
    assert halt is not None and halt.released and (halt.word, halt.since) == ("stopped", START)
    assert "waited for room in memory for longer than its LAG AT MOST 1 HOUR: rows of derived streams may" in halt.why
    assert chunks(soup) <= 2
    with pytest.raises(FailedPrecondition, match="RESUME FROM NOW") as refused:
        soup.execute("ALTER STREAM pairs RESUME")
    assert refused.value.reason == "PINS_RELEASED"


def test_after_a_release_the_stream_resumes_from_now_with_a_gap(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM over AS (SELECT k FROM pairs WHERE k > 99)")
    before = soup.engine.snapshot().stream("pairs", soup.tenant).watermark
    assert before is not None
    advance(soup, 3_601)
    soup.push("t", few(100))
    soup.execute("ALTER STREAM pairs RESUME FROM NOW")
    (gap,) = derived(soup).gaps
    assert gap.begin == before + 1 and gap.end is not None and gap.end >= START + 3_601 * SECOND
    (part,) = soup.ask("SELECT k FROM pairs").completeness.sources
    assert part.gaps == (gap,)
    assert derived(soup, "over").gaps[0].begin == gap.begin
    assert derived(soup).halt is None, "an earlier wait does not count"


def test_a_step_that_finds_room_begins_the_wait_anew(soup: LocalPSoup) -> None:
    soup.execute(PAIRS.replace("pairs", "again"))
    assert soup.not_derived["again"].reason == "MEMORY_BUDGET"
    advance(soup, 3_000)
    soup.execute("DROP STREAM pairs")
    advance(soup, 601)
    soup.push("t", few(100))
    assert soup.not_derived["again"].reason == "MEMORY_BUDGET", "it waits again"
    assert derived(soup, "again").halt is None
    advance(soup, 3_601)
    soup.push("t", few(101))
    halt = derived(soup, "again").halt
    assert halt is not None and halt.since >= START + 3_000 * SECOND


def test_the_host_cannot_stop_a_stream_early(soup: LocalPSoup) -> None:
    view = soup.engine.snapshot().stream("pairs", soup.tenant)
    soup.submit(ReleasePins(view.stream_id, 2**60, halt=Halt(soup.clock.now(), "it is full")))
    assert derived(soup).halt is None, "the clock decides, too"


def delays(soup: LocalPSoup, sql: str) -> list[tuple[str, str, int] | None]:
    """The state, the stream and the time of the delay of each source of an answer."""
    parts = soup.ask(sql).completeness.sources
    return [None if part.delay is None else (part.delay.state, part.delay.stream, part.delay.since) for part in parts]


def test_answers_say_which_stream_waits_and_since_when(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM over AS (SELECT k FROM pairs WHERE k > 99)")
    advance(soup, 5)
    soup.push("t", few(100))
    waits = ("waiting", "pairs", START)
    assert delays(soup, "SELECT k FROM t") == [None]
    assert delays(soup, "SELECT k FROM pairs") == delays(soup, "SELECT k FROM over") == [waits]
    assert delays(soup, "SELECT p.k FROM pairs p JOIN over o ON p.k = o.k") == [waits, waits]
    (part,) = soup.ask("SELECT k FROM over").completeness.sources
    assert part.delay is not None and part.delay.why.startswith("rows of derived streams may take 1,000,000 bytes")
    soup.execute("ALTER STREAM pairs SUSPEND")
    suspended = ("suspended", "pairs", soup.clock.now())
    assert delays(soup, "SELECT k FROM over") == [suspended]
    soup.execute("ALTER STREAM over SUSPEND")
    assert delays(soup, "SELECT k FROM over") == [("suspended", "over", soup.clock.now())]


def test_the_status_says_which_stream_waits_and_since_when(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM over AS (SELECT k FROM pairs WHERE k > 99)")
    soup.execute("CREATE STREAM free AS (SELECT k FROM t)")
    advance(soup, 5)
    soup.push("t", few(100))
    snapshot = soup.engine.snapshot()
    pairs, over, free = [status_of(snapshot, snapshot.stream(name, soup.tenant)) for name in ("pairs", "over", "free")]
    assert pairs is not None and over is not None and free is not None
    assert (pairs.state, pairs.since, pairs.held_by, pairs.catches_up) == ("waiting", START, "", False)
    assert pairs.reason.startswith("rows of derived streams may take")
    assert "waiting since 2" in status_lines(pairs)[0]
    assert (over.state, over.held_by) == ("running", "pairs")
    assert (free.state, free.since, free.held_by) == ("running", None, "")
