"""Equal derived streams and memory: their state takes room once, and each needs room for its own rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted, Unavailable
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import PumpCommand, PushDerived
from psoup.local import LocalPSoup
from psoup.pumps import Pump, Pumps
from psoup.pumps.instants import NO_PROMISE
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_testing.engines.derived_rows import SECOND, TIMED, rows, shown

MEMORY = 2_000_000
COUNTS = "SELECT k, count(*) AS n FROM e [RANGE 1 DAY] GROUP BY k"
GROUPS = f"({COUNTS} HAVING count(*) > 1 AND k > -{{}})"
SINGLE = "(SELECT k, at AS then FROM e WHERE k >= 0)"


@pytest.fixture
def soup() -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(memory_bytes=MEMORY), VirtualClock(10**6 * SECOND), verify="cheap")
    soup.execute(f"CREATE STREAM e {TIMED}")
    return soup


def _pump(soup: LocalPSoup, name: str) -> Pump:
    return soup._pumps.by_id[soup.engine.snapshot().stream(name, soup.tenant).stream_id]


def _push(soup: LocalPSoup, first: int, last: int) -> None:
    """Push tuples with the keys from `first` to `last`, at successive instants."""
    at = np.arange(first, last)
    soup.push("e", pa.table({"k": at, "at": at.astype("M8[ms]").astype("M8[us]")}))


def _halted(soup: LocalPSoup, names: Sequence[str]) -> list[str]:
    return [name for name in names if _pump(soup, name).halt is not None]


def test_a_state_that_streams_share_takes_room_once(soup: LocalPSoup) -> None:
    """Ten streams have a state that takes most of the room. Beyond it they stop, and one alone stops there, too."""
    names = [f"x{number}" for number in range(10)]
    for name in names:
        soup.execute(f"CREATE STREAM {name} AS {GROUPS.format(1)}")
    largest, last = 0, 0
    for last in range(0, 60_000, 1_000):
        _push(soup, last, last + 1_000)
        pumps = [_pump(soup, name) for name in names]
        if pumps[0].halt is not None:
            break
        assert len({id(pump._kept) for pump in pumps}) == 1
        largest = pumps[0].state_bytes
        assert soup._pumps._room.held_by(soup.tenant) == largest
    assert MEMORY // 3 < largest <= MEMORY // 2
    assert _halted(soup, names) == names
    assert soup._pumps._room.held_by(soup.tenant) == 0
    alone = LocalPSoup(EngineConfig(memory_bytes=MEMORY), VirtualClock(10**6 * SECOND))
    alone.execute(f"CREATE STREAM e {TIMED}")
    alone.execute(f"CREATE STREAM x AS {GROUPS.format(1)}")
    for first in range(0, last, 1_000):
        _push(alone, first, first + 1_000)
    assert _pump(alone, "x").halt is None
    _push(alone, last, last + 1_000)
    assert _pump(alone, "x").halt is not None


def test_no_stream_stops_for_the_state_of_one_that_has_just_stopped(soup: LocalPSoup) -> None:
    """States of different plans grow in step. The streams that find no room stop, and the other ones have all rows."""
    names = [f"x{number}" for number in range(8)]
    for number, name in enumerate(names):
        soup.execute(f"CREATE STREAM {name} AS {GROUPS.format(number + 1)}")
    stopped = list[int]()
    for first in range(0, 6_000, 500):
        _push(soup, first, first + 500)
        soup.push("e", rows((first, (first + 499) / 1_000)))
        running = [_pump(soup, name) for name in names if name not in _halted(soup, names)]
        assert len({id(pump._kept) for pump in running}) == len(running)
        assert sum([pump.state_bytes for pump in running]) <= MEMORY // 2
        stopped.append(8 - len(running))
    assert stopped[0] == 0 < stopped[-1] < 8
    soup.heartbeat("e", 7 * SECOND)
    halted = _halted(soup, names)
    for name in names:
        got = [row[0] for row in shown(soup, name)]
        assert got == [*range(0, 6_000, 500)][: len(got)], name
        assert len(got) == 12 or name in halted
    for other in names:
        if other != halted[0]:
            soup.execute(f"DROP STREAM {other}")
    soup.execute(f"ALTER STREAM {halted[0]} RESUME")
    soup.heartbeat("e", 8 * SECOND)
    assert [row[0] for row in shown(soup, halted[0])] == [*range(0, 6_000, 500)]


WIDE = "k, k + 1 AS l, k + 2 AS m, k + 3 AS o, k + 4 AS p, k + 5 AS q,"
LARGE = [
    GROUPS.format(1),
    f"{GROUPS.format(1)} EVERY 1 SECOND",
    f"DSTREAM ({COUNTS.replace('k,', WIDE, 1)} ORDER BY k LIMIT 90000) EVERY 1 SECOND STATE AT MOST 64 MB",
]
ENOUGH = 0.6 * MEMORY / 2
"""More than half of the room for states."""


def _grown(soup: LocalPSoup, derivation: str) -> int:
    """Create equal streams x and y, and let their state grow beyond `ENOUGH`. Returns the next second."""
    for name in ("x", "y"):
        soup.execute(f"CREATE STREAM {name} AS {derivation}")
    pushed = 0
    while _pump(soup, "x").state_bytes < ENOUGH:
        _push(soup, pushed, pushed + 4_000)
        pushed += 4_000
        soup.push("e", rows((pushed - 4_000, pushed / 1_000)))
        assert not _halted(soup, ["x", "y"])
    return pushed // 1_000 + 1


class Failing:
    """The pushes of one stream fail until `ends`."""

    def __init__(self, soup: LocalPSoup, name: str) -> None:
        self._soup, self._submit, self._fails = soup, soup._submit, _pump(soup, name).stream_id
        soup._submit = self._submitted  # type: ignore[method-assign,assignment]

    def _submitted(self, command: PumpCommand) -> Acknowledgement:
        if isinstance(command, PushDerived) and command.stream_id == self._fails:
            raise Unavailable("the log takes nothing")
        return self._submit(command)

    def ends(self) -> None:
        self._soup._submit = self._submit  # type: ignore[method-assign]


@pytest.mark.parametrize("derivation", LARGE)
def test_streams_at_different_positions_find_room_after_a_restart(derivation: str, soup: LocalPSoup) -> None:
    """Their state takes more than half of the room. The stream that is behind is the first, and both have its state."""
    at = _grown(soup, derivation)
    failing = Failing(soup, "y")
    soup.push("e", rows((0, at), (1, at + 2)))
    assert [*soup.not_derived] == ["y"]
    assert len(shown(soup, "x")) > len(shown(soup, "y")) > 0
    failing.ends()
    soup._pumps = Pumps()
    soup.push("e", rows((2, at + 4)))
    first, second = _pump(soup, "x"), _pump(soup, "y")
    assert (first.halt, second.halt) == (None, None)
    assert first._kept is second._kept and first.state_bytes > ENOUGH
    assert shown(soup, "x") == shown(soup, "y")


@pytest.mark.parametrize("why", ["fails", "suspended", "created"])
@pytest.mark.parametrize("derivation", LARGE)
def test_a_stream_that_is_behind_catches_up_without_room_for_a_second_state(
    derivation: str, why: str, soup: LocalPSoup
) -> None:
    """The stream that is ahead loses its state meanwhile, and both go on with one. Neither stops."""
    at = _grown(soup, derivation)
    failing = Failing(soup, "y")
    if why == "suspended":
        soup.execute("ALTER STREAM y SUSPEND")
    for _ in range(3):
        soup.push("e", rows((0, at), (1, at + 2)))
        at += 4
    assert len(shown(soup, "x")) > len(shown(soup, "y"))
    failing.ends()
    if why == "suspended":
        soup.execute("ALTER STREAM y RESUME")
    if why == "created":
        soup.execute("DROP STREAM y")
        soup.execute(f"CREATE STREAM y AS {derivation}")
    for _ in range(3):
        soup.push("e", rows((2, at), (3, at + 2)))
        at += 4
    first, second = _pump(soup, "x"), _pump(soup, "y")
    assert (first.halt, second.halt, [*soup.not_derived]) == (None, None, [])
    assert shown(soup, "x") == shown(soup, "y")
    assert first._kept is second._kept and first.state_bytes > ENOUGH
    assert soup._pumps._room.held_by(soup.tenant) == first.state_bytes


def test_a_stream_ahead_waits_for_one_behind_that_has_the_only_room(soup: LocalPSoup) -> None:
    """Its status has the reason. It goes on once the other stream is at its position."""
    at = _grown(soup, LARGE[0])
    failing = Failing(soup, "y")
    soup.push("e", rows((0, at), (1, at + 2)))
    failing.ends()
    snapshot, ahead, behind = soup.engine.snapshot(), _pump(soup, "x"), _pump(soup, "y")
    for pump, _ in soup._pumps.due(snapshot, soup.clock.now()):
        assert pump is behind
        pump._share = 1
        pump.step(snapshot, NO_PROMISE, ReadBudget())
        assert pump.reached is not None and ahead.reached is not None and pump.reached < ahead.reached
    assert ahead.state_bytes == 0 < behind.state_bytes
    soup._pumps.run = lambda *_: 0  # type: ignore[method-assign]
    soup.push("e", rows((0, at + 4), (1, at + 6)))
    with pytest.raises(ResourceExhausted, match="stream 'x' waits until a stream with an equal plan") as refused:
        ahead.step(soup.engine.snapshot(), NO_PROMISE, ReadBudget())
    assert refused.value.reason == "MEMORY_BUDGET"
    del soup._pumps.run
    soup.heartbeat("e", (at + 9) * SECOND)
    soup.heartbeat("e", (at + 10) * SECOND)
    assert not _halted(soup, ["x", "y"]) and not soup.not_derived
    assert ahead._kept is behind._kept
    assert shown(soup, "x") == shown(soup, "y")


def test_a_stream_that_waits_for_room_holds_up_no_equal_stream(soup: LocalPSoup) -> None:
    """No steps are held for it, and it has all its rows later."""
    soup.execute("CREATE STREAM large AS (SELECT k, k + 1 AS l, k + 2 AS m FROM e WHERE k < 12000)")
    soup.execute(f"CREATE STREAM x AS {SINGLE}")
    for first in range(0, 16_000, 1_000):
        _push(soup, first, first + 1_000)
    soup.execute(f"CREATE STREAM y AS {SINGLE} FROM NOW")
    for first in range(16_000, 20_000, 1_000):
        _push(soup, first, first + 1_000)
    assert [*soup.not_derived] == ["x"]
    waiting, plan = _pump(soup, "x"), _pump(soup, "y")._plan
    assert plan is not None and plan is waiting._plan
    assert (plan.streams, plan.nbytes) == (1, 0)
    assert (waiting.progress.equal, waiting.progress.behind) == (1, True)
    assert len(shown(soup, "y")) == 4_000
    soup.execute("DROP STREAM large")
    _push(soup, 20_000, 20_001)
    assert not soup.not_derived
    assert [row[0] for row in shown(soup, "x")] == [*range(20_000)]
    assert plan.streams == 2
    assert waiting.progress.tuples == 20_000


def test_a_step_that_is_too_large_is_not_taken_again(soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step is held for a stream that rests meanwhile. The one whose push was refused makes a smaller one."""
    for name in ("x", "y"):
        soup.execute(f"CREATE STREAM {name} AS {SINGLE}")
    soup.push("e", rows((0, 0)))
    submit, due, y, refused = soup._submit, Pumps.due, _pump(soup, "y").stream_id, list[int]()

    def refusing(command: PumpCommand) -> Acknowledgement:
        if isinstance(command, PushDerived) and len(command.batch) > 300:
            refused.append(len(command.batch))
            raise ResourceExhausted("too many rows", reason="ROWS")
        return submit(command)

    with monkeypatch.context() as patched:
        patched.setattr(Pumps, "due", lambda self, snapshot, now, without: due(self, snapshot, now, {y, *without}))
        patched.setattr(soup, "_submit", refusing)
        _push(soup, 1, 1_001)
        soup.heartbeat("e", 2 * SECOND)
    assert not soup.not_derived and len(shown(soup, "y")) < 2
    assert refused
    assert [row[0] for row in shown(soup, "x")] == [*range(1_001)]
    _push(soup, 3_000, 3_001)
    assert shown(soup, "y") == shown(soup, "x")


def test_a_stream_that_takes_a_step_is_behind_as_the_one_that_made_it(soup: LocalPSoup) -> None:
    """Closed instants are left for both, and both have the same counts."""
    soup._pumps.run = lambda *_: 0  # type: ignore[method-assign]
    for name in ("x", "y"):
        soup.execute(f"CREATE STREAM {name} AS (SELECT k, count(*) AS n FROM e [RANGE 1 DAY] GROUP BY k)")
    _push(soup, 0, 1_000)
    snapshot = soup.engine.snapshot()
    pumps = [pump for pump, _ in soup._pumps.due(snapshot, soup.clock.now())]
    for pump in pumps:
        pump._share = 100
    for pump in pumps:
        command = pump.step(snapshot, NO_PROMISE, ReadBudget())
        assert command is not None and pump.behind and pump._passes == 0
        pump.pushed(command, soup._submit(command).sequence)
    assert pumps[0]._kept is pumps[1]._kept
    assert pumps[0].progress == pumps[1].progress
    assert pumps[0].progress.state_bound == "the tuples of e of 1 DAY"
