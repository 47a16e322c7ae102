"""Equal derived streams in random histories: each has the rows that it would have alone.

Streams of one plan are created at different times, suspended, resumed with and without a gap, dropped and created
again. Some have options that do not belong to the plan, and some have another plan. Steps are small, pushes of rows
fail, rows wait for room, pumps are forgotten, and the service is killed. There is room for one state of a plan only.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted, Unavailable
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import Command, PushDerived
from psoup.local import LocalPSoup
from psoup.published.snapshot import Snapshot
from psoup.pumps import NO_ROOM, Pumps, pump
from psoup.pumps.room import Room
from psoup.work.clock import VirtualClock
from psoup_testing.engines.derived_rows import SECOND, TIMED, rows, shown
from psoup_testing.engines.format_fixture import START, Soup

NAMES = ("v", "w", "x", "y", "z")
CONFIG = EngineConfig(chunk_rows=64, piece_rows=16)
DERIVATIONS = (
    "(SELECT k, k * 2 AS d FROM e WHERE k > 1)",
    "(SELECT e.k, c.n FROM e JOIN c AS OF e ON c.k = e.k)",
    "(SELECT e.k, f.k + 1 AS d FROM e [RANGE 3 SECONDS], f [RANGE 5 SECONDS] WHERE e.k = f.k)",
    "(SELECT DISTINCT k FROM e [RANGE 2 SECONDS])",
    "DSTREAM (SELECT DISTINCT k FROM e [RANGE 4 SECONDS])",
    "(SELECT k, count(*) AS n FROM e [RANGE 4 SECONDS] GROUP BY k)",
    "(SELECT k FROM e [RANGE 4 SECONDS] WHERE NOT EXISTS (SELECT 1 FROM f [RANGE 3 SECONDS] WHERE f.k = e.k))",
    "(SELECT e.k, f.k AS d FROM e [RANGE 2 SECONDS] LEFT JOIN f [RANGE 3 SECONDS] ON e.k = f.k)",
    "(SELECT k, count(*) AS n FROM e [RANGE 2 SECONDS] GROUP BY k) EVERY 1 SECOND",
    "DSTREAM (SELECT k, count(*) AS n FROM e [RANGE 6 SECONDS] GROUP BY k) EVERY 1 SECOND",
    "RSTREAM (SELECT k, count(*) AS n FROM e [RANGE 2 SECONDS] GROUP BY k ORDER BY n DESC, k LIMIT 2) EVERY 2 SECONDS",
)
OPTIONS = ("", "", "LAG AT MOST 1 HOUR", "STATE AT MOST 9 MB", "RETENTION 1 DAY", "STATE AT MOST 9 MB RETENTION 1 DAY")
Row = tuple[object, ...]


class Failing(Soup):
    """A service on a directory. A part of the pushes of derived rows fails."""

    def __init__(self, path: Path, random: np.random.Generator) -> None:
        self.random, self.share, self.path = random, 0.1, path
        super().__init__(path, START)

    def _submit(self, command: Command) -> Acknowledgement:
        if isinstance(command, PushDerived) and self.random.random() < self.share:
            raise Unavailable("the log takes nothing")
        return super()._submit(command)

    def killed(self) -> Failing:
        """Start a new service on the same data directory."""
        path = self.path.with_name(f"{self.path.name}+")
        shutil.copytree(self.path, path)
        self.store.close()
        return Failing(path, self.random)


def with_sources(soup: LocalPSoup) -> None:
    for name in ("e", "f"):
        soup.execute(f"CREATE STREAM {name} {TIMED}")
    soup.execute("CREATE TABLE c (k BIGINT PRIMARY KEY, n BIGINT, at TIMESTAMP) TIMESTAMP BY at")
    soup.push("c", pa.table({"k": [*range(5)], "n": [*range(10, 15)], "at": pa.array([0] * 5, pa.timestamp("us"))}))
    soup.heartbeat("c", 900 * SECOND)


def pushes_of(random: np.random.Generator) -> list[tuple[str, pa.Table]]:
    """Random rows of e and f, with ties and with gaps."""
    pushes, at = list[tuple[str, pa.Table]](), 0
    for _ in range(30):
        times = at + np.sort(random.integers(0, 3, int(random.integers(1, 9))))
        pushes.append((str(random.choice(["e", "e", "f"])), rows(*[(int(random.integers(0, 5)), t) for t in times])))
        at = int(times[-1]) + (7 if random.random() < 0.05 else 0)
    return pushes


def alone(derivation: str, pushes: list[tuple[str, pa.Table]]) -> list[Row]:
    """The rows of a single stream."""
    soup = LocalPSoup(CONFIG, VirtualClock(START))
    with_sources(soup)
    soup.execute(f"CREATE STREAM x AS {derivation}")
    for name, table in pushes:
        soup.push(name, table)
    close(soup)
    return shown(soup, "x")


def close(soup: LocalPSoup) -> None:
    for name in ("e", "f"):
        soup.heartbeat(name, 300 * SECOND)


class Disturbed:
    """Equal streams, and what happens to them. `begins`: the position of each present stream at its CREATE."""

    def __init__(self, derivation: str, path: Path, random: np.random.Generator) -> None:
        self.derivation, self.random = derivation, random
        self.soup = Failing(path, random)
        with_sources(self.soup)
        self.begins = dict[str, int | None]()
        self.last = 0
        """The time of the last tuple. No later tuple has an earlier one."""

    def happens(self) -> None:
        """Do something that may happen, or nothing."""
        name = str(self.random.choice(NAMES))
        match int(self.random.integers(0, 13)):
            case 0 | 1 | 2 if name not in self.begins:
                self._create(name)
            case 3 if name in self.begins:
                self.soup.execute(f"DROP STREAM {name}")
                del self.begins[name]
            case 4 | 5 | 6 if name in self.begins:
                resume = str(self.random.choice(["RESUME", "RESUME", "RESUME FROM NOW"]))
                halted = self._view(name).spec.derived.halt is not None
                self.soup.execute(f"ALTER STREAM {name} {resume if halted else 'SUSPEND'}")
            case 7:
                self.soup._pumps = Pumps()
            case 8 if self.random.random() < 0.5:
                self.soup = self.soup.killed()
            case 9:
                self.soup.maintain()
            case 10:
                self.soup.heartbeat(str(self.random.choice(["e", "f"])), self.last)

    def _create(self, name: str) -> None:
        begin = str(self.random.choice(["FROM START", "FROM NOW"]))
        options = str(self.random.choice(OPTIONS))
        self.soup.execute(f"CREATE STREAM {name} AS {self.derivation} {begin} {options}")
        self.begins[name] = self._view(name).watermark if begin == "FROM NOW" else None

    def _view(self, name: str) -> Any:
        return self.soup.engine.snapshot().stream(name, self.soup.tenant)

    def has(self, name: str, instant: int) -> bool:
        """Whether a stream has the rows of an instant."""
        begin = self.begins[name]
        gaps = self._view(name).spec.derived.gaps
        return (begin is None or instant > begin) and not any(gap.meets(instant, instant) for gap in gaps)

    def end(self) -> None:
        """Resume all streams. No push fails any more."""
        self.soup.share = 0
        for name in self.begins:
            self.soup.execute(f"ALTER STREAM {name} RESUME")
        for _ in range(20):  # rows that found no room are pushed later
            close(self.soup)


def narrow(room: Room, snapshot: Snapshot, stream_id: int, more: int = 0) -> bool:
    """Whether the streams of a plan have one state at most: then there is room for it."""
    del snapshot, more
    plan = room._plans.get(stream_id)
    return plan is None or sum([size > 0 for size in plan._sizes.values()]) <= 1


def refusing(random: np.random.Generator) -> Callable[[Room, Snapshot, PushDerived], None]:
    """A check that refuses some pushes, as if there were no room for their rows."""
    check = Room.check_rows

    def checked(room: Room, snapshot: Snapshot, command: PushDerived) -> None:
        if len(command.batch) and random.random() < 0.1:
            raise ResourceExhausted("no room", reason=NO_ROOM)
        check(room, snapshot, command)

    return checked


@pytest.mark.parametrize("derivation", DERIVATIONS)
def test_each_of_many_equal_streams_has_the_rows_of_a_stream_alone(derivation: str, tmp_path: Path) -> None:
    compare(derivation, tmp_path, 0)


@pytest.mark.long
@pytest.mark.parametrize("derivation", DERIVATIONS)
@pytest.mark.parametrize("seed", range(1, 15))
def test_each_of_many_more_equal_streams_has_them_too(derivation: str, seed: int, tmp_path: Path) -> None:
    compare(derivation, tmp_path, seed)


def compare(derivation: str, path: Path, seed: int) -> None:
    """Compare the streams of a history with a stream alone."""
    random = np.random.default_rng([seed, DERIVATIONS.index(derivation)])
    pushes = pushes_of(random)
    expected = alone(derivation, pushes)
    assert len(expected) > 10
    step = int(random.choice([4, 20, pump.MOST_TUPLES]))
    with (
        patch.object(pump, "MOST_TUPLES", step),
        patch.object(pump, "BEHIND", 1),
        patch.object(Room, "fits", narrow),
        patch.object(Room, "check_rows", refusing(random)),
    ):
        disturbed = Disturbed(derivation, path / "data", random)
        for name, table in pushes:
            disturbed.soup.push(name, table)
            disturbed.last = table.column("at").cast(pa.int64())[-1].as_py()
            disturbed.happens()
            disturbed.happens()
        disturbed.end()
    soup = disturbed.soup
    for name in disturbed.begins:
        assert shown(soup, name) == [row for row in expected if disturbed.has(name, int(str(row[-1])))], name
    for plan in {each._plan for each in soup._pumps.by_id.values()}:
        states = {id(each._kept) for each in soup._pumps.by_id.values() if each._plan is plan and each._kept.nbytes}
        assert len(states) <= 1, "streams at one position have one state"
    soup.check()
    soup.store.close()
