"""Derived streams that are suspended, resumed or stopped: their rows, the pins on their sources, and the gaps."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.derivation import MOST_GAPS, Derivation, Gap, with_gap
from psoup.errors import FailedPrecondition, SqlError
from psoup.events.commands import AlterStream, ReleasePins, StopPump
from psoup.local import LocalPSoup
from psoup.model import DAY, SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.engines.format_fixture import START, Soup
from psoup_testing.suite.sweeps import swept

CONFIG = EngineConfig(chunk_rows=64, piece_rows=16)


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"k": range(first, first + count)})


def shown(soup: LocalPSoup, name: str = "x") -> list[int]:
    return soup.ask(f"SELECT k FROM {name}").to_table().column("k").to_pylist()


def derived(soup: LocalPSoup, name: str = "x") -> Derivation:
    derivation = soup.engine.snapshot().stream(name, soup.tenant).spec.derived
    assert derivation is not None
    return derivation


def chunks(soup: LocalPSoup, name: str) -> int:
    return len(soup.engine.snapshot().stream(name, soup.tenant).chunks)


def advance(soup: LocalPSoup, seconds: float) -> None:
    soup.clock.advance(seconds=seconds)  # type: ignore[attr-defined]


@pytest.fixture
def soup() -> LocalPSoup:
    soup = LocalPSoup(CONFIG, VirtualClock(START), verify="all")
    soup.execute("CREATE STREAM t (k BIGINT) RETENTION 1 SECOND")
    soup.execute("CREATE STREAM x AS (SELECT k FROM t)")
    return soup


def test_a_suspended_stream_gets_no_rows_and_resume_adds_all_of_them(soup: LocalPSoup) -> None:
    soup.push("t", rows(0, 2))
    soup.execute("ALTER STREAM x SUSPEND")
    for step in range(5):
        soup.push("t", rows(64 * step + 2, 64))
        advance(soup, 10)
    assert shown(soup) == [0, 1]
    assert chunks(soup, "t") >= 5, "the tuples that it has not read stay"
    soup.execute("ALTER STREAM x RESUME")
    assert shown(soup) == [*range(322)]
    assert derived(soup).halt is None and not derived(soup).gaps
    soup.push("t", rows(322, 1))
    assert chunks(soup, "t") <= 2


def test_a_repeated_statement_changes_nothing(soup: LocalPSoup) -> None:
    first = soup.submit(AlterStream("ALTER STREAM x SUSPEND"))
    again = soup.submit(AlterStream("ALTER STREAM x SUSPEND"))
    assert (first.duplicate, again.duplicate) == (False, True)
    for change in ("RESUME", "RESUME", "RESUME FROM NOW"):
        last = soup.submit(AlterStream(f"ALTER STREAM x {change}"))
    assert last.duplicate and not derived(soup).gaps


def test_resume_from_now_leaves_a_gap_out_also_in_what_derives_from_the_stream(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM u (k BIGINT)")
    soup.execute("CREATE STREAM y AS (SELECT k * 10 AS k FROM x)")
    soup.execute("CREATE STREAM z AS (SELECT y.k FROM y [RANGE 1 HOUR], y q [RANGE 2 HOURS] WHERE y.k = q.k)")
    soup.push("t", rows(0, 1))
    last = soup.engine.snapshot().stream("x", soup.tenant).watermark
    assert last is not None
    soup.execute("ALTER STREAM x SUSPEND")
    advance(soup, 5)
    soup.push("t", rows(1, 1))
    advance(soup, 5)
    soup.execute("ALTER STREAM x RESUME FROM NOW")
    end = soup.clock.now()
    soup.push("t", rows(2, 1))
    assert shown(soup) == [0, 2]
    assert shown(soup, "y") == [0, 20]
    assert derived(soup).gaps == (Gap(last + 1, end),)
    assert derived(soup, "y").gaps == (Gap(last + 1, end),)
    assert derived(soup, "z").gaps == (Gap(last + 1, end + 7_200 * SECOND),), "a pair needs its earlier tuple"
    assert not soup.engine.snapshot().stream("u", soup.tenant).spec.derived


def test_pins_are_released_after_lag_at_most_and_the_stream_resumes_from_now_only(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM hour AS (SELECT k FROM t) LAG AT MOST 1 HOUR")
    soup.execute("DROP STREAM x")
    soup.execute("ALTER STREAM hour SUSPEND")
    for step in range(5):
        soup.push("t", rows(64 * step, 64))
        advance(soup, 600)
    assert chunks(soup, "t") >= 5
    advance(soup, 601)
    soup.push("t", rows(1_000, 1))
    soup.push("t", rows(1_001, 1))
    halt = derived(soup, "hour").halt
    assert halt is not None and halt.released
    assert chunks(soup, "t") <= 2
    with pytest.raises(FailedPrecondition, match="RESUME FROM NOW") as refused:
        soup.execute("ALTER STREAM hour RESUME")
    assert refused.value.reason == "PINS_RELEASED"
    soup.execute("ALTER STREAM hour RESUME FROM NOW")
    soup.push("t", rows(2_000, 1))
    assert shown(soup, "hour") == [2_000]


def test_the_default_of_lag_at_most_is_a_day(soup: LocalPSoup) -> None:
    soup.execute("ALTER STREAM x SUSPEND")
    advance(soup, DAY // SECOND)
    soup.push("t", rows(0, 1))
    halt = derived(soup).halt
    assert halt is not None and not halt.released
    advance(soup, 1)
    soup.push("t", rows(1, 1))
    halt = derived(soup).halt
    assert halt is not None and halt.released


def test_the_host_cannot_release_pins_early_or_of_a_running_pump(soup: LocalPSoup) -> None:
    stream_id = soup.engine.snapshot().stream("x", soup.tenant).stream_id
    soup.submit(ReleasePins(stream_id, 2**60))
    assert derived(soup).halt is None
    soup.execute("ALTER STREAM x SUSPEND")
    soup.submit(ReleasePins(stream_id, 2**60))
    halt = derived(soup).halt
    assert halt is not None and not halt.released, "the clock decides, too"


def test_a_stopped_pump_goes_on_with_resume(soup: LocalPSoup) -> None:
    stream_id = soup.engine.snapshot().stream("x", soup.tenant).stream_id
    soup.submit(StopPump(stream_id, "row 1: the value is bad"))
    soup.push("t", rows(0, 3))
    halt = derived(soup).halt
    assert halt is not None and (halt.word, halt.why) == ("stopped", "row 1: the value is bad")
    assert shown(soup) == []
    soup.execute("ALTER STREAM x RESUME")
    assert shown(soup) == [0, 1, 2]


def test_only_derived_streams_are_suspended(soup: LocalPSoup) -> None:
    soup.execute("CREATE TABLE c (k BIGINT PRIMARY KEY)")
    with pytest.raises(FailedPrecondition, match="stream 't' is not derived") as refused:
        soup.execute("ALTER STREAM t SUSPEND")
    assert refused.value.reason == "NOT_DERIVED"
    with pytest.raises(FailedPrecondition, match="'c' is a table") as refused:
        soup.execute("ALTER STREAM c SUSPEND")
    assert refused.value.reason == "WRONG_KIND"
    for text, problem in (
        ("ALTER STREAM x SUSPEND, ADD COLUMN a TEXT", "SUSPEND stands alone"),
        ("ALTER STREAM x RESUME FROM START", "RESUME FROM needs NOW"),
        ("ALTER STREAM x PAUSE", "a derived stream has SUSPEND"),
        ("ALTER TABLE c SUSPEND", "columns can be added"),
    ):
        with pytest.raises(SqlError, match=problem):
            soup.execute(text)


def test_an_equal_create_of_a_suspended_stream_is_the_same_stream(soup: LocalPSoup) -> None:
    """The state of its pump differs, and its definition does not."""
    soup.execute("ALTER STREAM x SUSPEND")
    view = soup.engine.snapshot().stream("x", soup.tenant)
    assert view.spec.derived is not None and view.spec.derived.halt is not None
    with pytest.raises(Exception, match="exists") as refused:
        soup.execute("CREATE STREAM x AS (SELECT k FROM t)")
    assert refused.value.facts["identical"] == "true"  # type: ignore[attr-defined]


def test_a_restart_keeps_halts_gaps_and_released_pins(tmp_path: Path) -> None:
    soup = Soup(tmp_path, START)
    soup.execute("CREATE STREAM t (k BIGINT) RETENTION 1 SECOND")
    soup.execute("CREATE STREAM x AS (SELECT k FROM t) LAG AT MOST 1 HOUR")
    soup.execute("CREATE STREAM y AS (SELECT k FROM x)")
    soup.push("t", rows(0, 1))
    soup.execute("ALTER STREAM x SUSPEND")
    advance(soup, 1)
    soup.execute("ALTER STREAM x RESUME FROM NOW")
    soup.push("t", rows(1, 1))
    soup.execute("ALTER STREAM x SUSPEND")
    advance(soup, 5_000)
    for step in range(5):
        soup.push("t", rows(64 * step, 64))
        advance(soup, 10)
        soup.maintain()
    before = derived(soup)
    assert before.halt is not None and before.halt.released
    soup.store.close()
    again = Soup(tmp_path, soup.clock.now())
    assert (derived(again).halt, derived(again).gaps) == (before.halt, before.gaps)
    assert derived(again, "y").gaps == before.gaps and len(before.gaps) == 1
    assert shown(again) == [0, 1]
    again.push("t", rows(500, 1))
    assert chunks(again, "t") <= 2
    again.execute("ALTER STREAM x RESUME FROM NOW")
    again.push("t", rows(501, 1))
    assert shown(again) == [0, 1, 501]
    assert len(derived(again).gaps) == len(before.gaps) + 1
    again.check()
    again.store.close()


def test_a_stream_remembers_some_gaps_and_none_is_forgotten() -> None:
    """The oldest ones become one. A gap without an end has none afterwards."""
    gaps: tuple[Gap, ...] = ()
    for number in range(MOST_GAPS + 2):
        gaps = with_gap(gaps, Gap(10 * number, 10 * number + 3))
    assert len(gaps) == MOST_GAPS
    assert gaps[:2] == (Gap(0, 23), Gap(30, 33))
    assert gaps[0].meets(12, 15) and not gaps[1].meets(34, 39) and gaps[1].meets(None, 30)
    forever = with_gap((Gap(0, None), *gaps[1:]), Gap(9_000, 9_001))
    assert forever[0] == Gap(0, None) and forever[0].meets(10_000, 10_001)


TIMED = "(k BIGINT, at TIMESTAMP) TIMESTAMP BY at"
WAYS = [
    "ISTREAM (SELECT k FROM e WHERE k % 3 <> 0)",
    "ISTREAM (SELECT e.k FROM e [RANGE 20 SECONDS], f [RANGE 20 SECONDS] WHERE e.k = f.k)",
    "ISTREAM (SELECT DISTINCT k FROM e [RANGE 9 SECONDS])",
    "DSTREAM (SELECT DISTINCT k FROM e [RANGE 2 SECONDS])",
    "ISTREAM (SELECT k, count(*) AS n FROM e [RANGE 9 SECONDS] GROUP BY k)",
    "ISTREAM (SELECT k FROM e [RANGE 9 SECONDS] WHERE NOT EXISTS (SELECT 1 FROM f WHERE f.k = e.k))",
    "RSTREAM (SELECT k FROM e [RANGE 30 SECONDS] ORDER BY k LIMIT 3) EVERY 7 SECONDS",
    "ISTREAM (SELECT k, count(*) AS n FROM e [RANGE 9 SECONDS] GROUP BY k) EVERY 5 SECONDS",
    "DSTREAM (SELECT k, count(*) AS n FROM e [RANGE 29 SECONDS] GROUP BY k) EVERY 5 SECONDS",
]


class Row(NamedTuple):
    """A row of a derived stream: its values, and its time."""

    values: tuple[object, ...]
    time: int


def run_with(way: str, changes: dict[int, str]) -> tuple[list[Row], tuple[Gap, ...]]:
    """The rows of a derived stream in the order of their IDs, and its gaps.

    `changes`: the changes of its pump, by the step before which they are made.
    """
    soup = LocalPSoup(CONFIG, VirtualClock(START), verify="all")
    for name in ("e", "f"):
        soup.execute(f"CREATE STREAM {name} {TIMED} RETENTION 40 SECONDS")
    soup.execute(f"CREATE STREAM x AS {way}")
    for step in range(30):
        if step in changes:
            soup.execute(f"ALTER STREAM x {changes[step]}")
        for name in ("e", "f"):
            times = [START + (3 * step + at) * SECOND for at in range(3)]
            keys = [(step * 5 + at * (1 + (name == "f"))) % 7 for at in range(3)]
            soup.push(name, pa.table({"k": keys, "at": pa.array(times, pa.timestamp("us"))}))
        advance(soup, 3)
    table = soup.ask("SELECT *, epoch_us(_time) AS instant FROM x").to_table()
    *columns, times = [column.to_pylist() for column in table.columns]
    return [Row(values, time) for *values, time in zip(*columns, times, strict=True)], derived(soup).gaps  # type: ignore[arg-type]


@pytest.mark.parametrize("way", swept(WAYS, fast=(0, 3, 6)))
def test_rows_are_those_of_a_stream_that_was_never_suspended(way: str) -> None:
    rows, _ = run_with(way, {})
    assert rows
    assert run_with(way, {4: "SUSPEND", 9: "RESUME", 15: "SUSPEND", 29: "RESUME"}) == (rows, ())


@pytest.mark.parametrize("way", swept(WAYS, fast=(1, 4, 8)))
def test_only_rows_of_the_gap_are_missing_after_resume_from_now(way: str) -> None:
    rows, _ = run_with(way, {})
    resumed, ((begin, end),) = run_with(way, {10: "SUSPEND", 20: "RESUME FROM NOW"})
    assert begin is not None and end is not None
    assert resumed == [row for row in rows if not begin <= row.time <= end]
    assert START + 50 * SECOND < end < START + 60 * SECOND
