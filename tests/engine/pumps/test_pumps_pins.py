"""Pins: chunks of sources stay until pumps have passed them, whatever their retention, and go afterwards."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.derivation import EVERYTHING, Derivation, DerivedSource
from psoup.errors import ResourceExhausted
from psoup.events.acknowledgements import ClosedAcknowledgement
from psoup.events.commands import CloseInstants
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.pumps import Pump
from psoup.pumps.instants import Promise
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_testing.engines.format_fixture import START, Soup

CONFIG = EngineConfig(chunk_rows=64, piece_rows=16)


class Late:
    """A derived stream whose pump does nothing until `catch_up`. `soup`: its pumps are stopped."""

    def __init__(self, soup: LocalPSoup, select: str) -> None:
        self.soup = soup
        self._run = soup._pumps.run
        soup._pumps.run = lambda *_: 0  # type: ignore[method-assign]
        soup.execute(f"CREATE STREAM x AS ({select})")

    def catch_up(self) -> None:
        self._run(self.soup.engine.snapshot, self.soup._submit, self.soup.clock.now, ReadBudget)


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"k": range(first, first + count)})


def kept(soup: LocalPSoup, name: str) -> int:
    """The number of chunks of a stream."""
    return len(soup.engine.snapshot().stream(name, soup.tenant).chunks)


@pytest.fixture
def soup() -> LocalPSoup:
    return LocalPSoup(CONFIG, VirtualClock(START), verify="all")


def test_chunks_stay_until_the_pump_has_passed_them_and_then_go(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM t (k BIGINT) RETENTION 1 SECOND")
    soup.execute("CREATE STREAM free (k BIGINT) RETENTION 1 SECOND")
    late = Late(soup, "SELECT k FROM t")
    for step in range(10):
        for name in ("t", "free"):
            soup.push(name, rows(64 * step, 64))
        soup.clock.advance(seconds=10)  # type: ignore[attr-defined]
    assert kept(soup, "free") <= 2
    assert kept(soup, "t") == 11
    late.catch_up()
    assert soup.ask("SELECT count(*) AS n, sum(k) AS s FROM x").to_table().to_pylist() == [
        {"n": 640, "s": sum(range(640))}
    ]
    soup.push("t", rows(640, 1))
    assert kept(soup, "t") <= 2
    assert soup.ask("SELECT k FROM t BEGIN (START)").to_table().num_rows == 1


def test_tuples_stay_for_the_window_in_which_later_tuples_meet_them(soup: LocalPSoup) -> None:
    for name, kept_for in (("a", 30), ("b", 1)):
        soup.execute(f"CREATE STREAM {name} (k BIGINT) RETENTION {kept_for} SECONDS")
    soup.execute("CREATE STREAM x AS (SELECT a.k FROM a, b WHERE a.k = b.k)")
    soup.push("a", rows(0, 64))
    soup.clock.advance(seconds=20)  # type: ignore[attr-defined]
    soup.push("b", rows(10, 1))
    soup.clock.advance(seconds=20)  # type: ignore[attr-defined]
    soup.push("b", rows(11, 1))
    assert soup.ask("SELECT k FROM x").to_table().to_pylist() == [{"k": 10}]
    soup.push("a", rows(100, 64))
    soup.clock.advance(seconds=60)  # type: ignore[attr-defined]
    for first in (200, 300):  # the pump passes the first before the second comes
        soup.push("a", rows(first, 64))
    assert kept(soup, "a") == 3


def test_a_dropped_stream_pins_nothing(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM t (k BIGINT) RETENTION 1 SECOND")
    Late(soup, "SELECT k FROM t")
    for step in range(5):
        soup.push("t", rows(64 * step, 64))
        soup.clock.advance(seconds=10)  # type: ignore[attr-defined]
    assert kept(soup, "t") == 6
    soup.execute("DROP STREAM x")
    soup.push("t", rows(0, 1))
    assert kept(soup, "t") <= 2


def test_versions_of_a_table_stay_until_the_pump_has_passed_the_rows_that_met_them(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute("CREATE TABLE c (k BIGINT PRIMARY KEY, n BIGINT) HISTORY 1 SECOND")
    late = Late(soup, "SELECT t.k, c.n FROM t JOIN c AS OF t ON t.k = c.k")
    soup.push("c", pa.table({"k": [1], "n": [0]}))
    soup.push("t", rows(1, 1))
    for step in range(200):
        soup.clock.advance(seconds=1)  # type: ignore[attr-defined]
        soup.push("c", pa.table({"k": [1, 2], "n": [step + 1, step]}))
    soup.maintain()
    late.catch_up()
    assert soup.ask("SELECT k, n FROM x").to_table().to_pylist() == [{"k": 1, "n": 0}]
    before = sum(len(entry.data) for entry in soup.engine.snapshot().stream("c", soup.tenant).chunks)
    soup.push("c", pa.table({"k": [1], "n": [500]}))
    soup.maintain()
    after = sum(len(entry.data) for entry in soup.engine.snapshot().stream("c", soup.tenant).chunks)
    assert after < before, "they go once the pump has passed"


def test_a_chunk_that_retention_passes_is_in_the_log_until_it_is_derived(tmp_path: Path) -> None:
    """The store would pass such a chunk, and a start would lack it."""
    soup = Soup(tmp_path, START)
    soup.execute("CREATE STREAM t (k BIGINT) RETENTION 1 SECOND")
    Late(soup, "SELECT k FROM t")
    for step in range(10):
        soup.push("t", rows(64 * step, 64))
        soup.clock.advance(seconds=10)  # type: ignore[attr-defined]
        soup.maintain()
    soup.store.close()
    again = Soup(tmp_path, soup.clock.now())
    again.push("t", rows(1_000, 1))
    assert again.ask("SELECT count(*) AS n FROM x").to_table().to_pylist() == [{"n": 641}]
    again.store.close()


@pytest.mark.long
def test_a_part_of_the_memory_is_for_derived_rows() -> None:
    """Else sources that wait for a pump could take the room that the pump needs to let them go."""
    soup = LocalPSoup(EngineConfig(chunk_rows=64, piece_rows=16, memory_bytes=4 << 20), VirtualClock(START))
    soup.execute("CREATE STREAM t (k BIGINT) RETENTION 1 SECOND")
    soup._pumps.run = lambda *_: 0  # type: ignore[method-assign]
    soup.execute("CREATE STREAM x AS (SELECT k FROM t WHERE k % 64 = 0) RETENTION 1 SECOND")

    def fill() -> None:
        for step in range(10_000):
            soup.push("t", rows(1_000 * step, 1_000))
            soup.clock.advance(seconds=5)  # type: ignore[attr-defined]

    with pytest.raises(ResourceExhausted):
        fill()
    view = soup.engine.snapshot().stream("x", soup.tenant)
    pump, done = Pump(view), 0
    while pump.due(soup.engine.snapshot(), soup.clock.now()) is not None:
        closed = soup._submit(CloseInstants((1,)))
        assert isinstance(closed, ClosedAcknowledgement)
        command = pump.step(soup.engine.snapshot(), Promise(closed.at, closed.sequence), ReadBudget())
        if command is not None:
            pump.pushed(command, soup._submit(command).sequence)
            done += len(command.batch)
    assert done > 100
    soup.clock.advance(seconds=SECOND)  # type: ignore[attr-defined]
    soup.push("t", rows(0, 1_000))


def test_a_pin_is_a_time() -> None:
    """The store compares it in SQL, which has numbers of 64 bits."""
    sources = (DerivedSource("a", 1, 2, 2**62), DerivedSource("b", 2, 2, 5))
    derived = Derivation("SELECT …", sources, event_time=True)
    assert derived.pin_of(1, -(2**63) + 10) == derived.pin_of(1, None) == EVERYTHING == -(2**63)
    assert derived.pin_of(2, 100) == 96
