"""Equal derived streams and memory: each needs room of its own, and the rows of the other ones do not depend on it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import PumpCommand, PushDerived
from psoup.local import LocalPSoup
from psoup.pumps import Pump, Pumps
from psoup.pumps.instants import NO_PROMISE
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_testing.engines.derived_rows import SECOND, TIMED, rows, shown

MEMORY = 2_000_000
GROUPS = "(SELECT k, count(*) AS n FROM e [RANGE 1 DAY] GROUP BY k HAVING count(*) > 1)"
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


def test_each_stream_needs_room_for_the_state_that_it_shares(soup: LocalPSoup) -> None:
    """The streams that find none stop. The other ones go on with the state, and have all rows."""
    names = [f"x{number}" for number in range(8)]
    for name in names:
        soup.execute(f"CREATE STREAM {name} AS {GROUPS}")
    stopped = list[int]()
    for first in range(0, 6_000, 500):
        _push(soup, first, first + 500)
        soup.push("e", rows((first, (first + 499) / 1_000)))
        halted = [name for name in names if _pump(soup, name).halt is not None]
        running = [_pump(soup, name) for name in names if name not in halted]
        assert len({id(pump._kept) for pump in running}) == 1
        assert sum([pump.state_bytes for pump in running]) <= MEMORY // 2
        stopped.append(len(halted))
    assert stopped[0] == 0 < stopped[-1] < 8
    soup.heartbeat("e", 7 * SECOND)
    for name in names:
        got = [row[0] for row in shown(soup, name)]
        assert got == [*range(0, 6_000, 500)][: len(got)], name
        assert len(got) == 12 or _pump(soup, name).halt is not None
    name = next(name for name in names if _pump(soup, name).halt is not None)
    for other in names:
        if other != name:
            soup.execute(f"DROP STREAM {other}")
    soup.execute(f"ALTER STREAM {name} RESUME")
    soup.heartbeat("e", 8 * SECOND)
    assert [row[0] for row in shown(soup, name)] == [*range(0, 6_000, 500)]


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
