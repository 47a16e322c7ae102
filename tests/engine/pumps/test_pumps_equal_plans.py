"""Derived streams with equal plans: the work that they share, and rows that do not depend on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import Unavailable
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import PumpCommand, PushDerived
from psoup.local import LocalPSoup
from psoup.pumps import Pump, Pumps, equal_plans
from psoup.pumps.equal_plans import EqualPlan
from psoup.pumps.instants import NO_PROMISE
from psoup.pumps.kept_state import KeptState
from psoup.pumps.ticks import TickPump
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_testing.engines.attachments import attach, write
from psoup_testing.engines.derived_rows import SECOND, TIMED, rows, shown
from psoup_testing.engines.format_fixture import START, Soup

DISTINCT = "(SELECT DISTINCT k FROM e [RANGE 10 SECONDS])"


def pump_of(soup: LocalPSoup, name: str) -> Pump:
    return soup._pumps.by_id[soup.engine.snapshot().stream(name, soup.tenant).stream_id]


def plan_of(soup: LocalPSoup, name: str) -> EqualPlan:
    plan = pump_of(soup, name)._plan
    assert plan is not None
    return plan


@pytest.fixture
def soup() -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, piece_rows=16), VirtualClock(1_000 * SECOND), verify="all")
    soup.execute(f"CREATE STREAM e {TIMED}")
    return soup


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the streams whose pumps evaluate a step, one for each step."""
    names = list[str]()
    for kind in (Pump, TickPump):

        def noted(self: Pump, *given, make=kind.__dict__["_rows"]):  # type: ignore[no-untyped-def]
            names.append(self._spec.name)
            return make(self, *given)

        monkeypatch.setattr(kind, "_rows", noted)
    return names


@pytest.mark.parametrize(
    "derivation",
    [
        "(SELECT k, k * 2 AS d FROM e WHERE k > 0)",
        "(SELECT e.k FROM e [RANGE 9 SECONDS] JOIN e [RANGE 9 SECONDS] b ON e.k = b.k)",
        DISTINCT,
        "DSTREAM (SELECT k, count(*) AS n FROM e [RANGE 1 SECOND] GROUP BY k)",
        "(SELECT k, count(*) AS n FROM e [RANGE 1 SECOND] GROUP BY k) EVERY 1 SECOND",
        "RSTREAM (SELECT k FROM e [RANGE 1 SECOND] ORDER BY k LIMIT 3) EVERY 1 SECOND",
    ],
)
def test_many_equal_streams_evaluate_a_step_once(derivation: str, soup: LocalPSoup, evaluated: list[str]) -> None:
    for number in range(20):
        soup.execute(f"CREATE STREAM x{number} AS {derivation}")
    for at in range(1, 11):
        soup.push("e", rows(*[(k * at, at) for k in range(5)]))
    assert 1 <= len(evaluated) <= 10, "one for each push that closes an instant"
    expected = shown(soup, "x0")
    assert len(expected) > 20
    for number in range(1, 20):
        assert shown(soup, f"x{number}") == expected
    plan = plan_of(soup, "x0")
    assert (plan.streams, plan.nbytes) == (20, 0), "no step is held after all streams have taken it"


def test_a_stream_that_comes_later_evaluates_what_it_lacks_and_then_shares(
    soup: LocalPSoup, evaluated: list[str]
) -> None:
    """Its own step ends at the position of the streams that are ahead."""
    for name in ("x", "y"):
        soup.execute(f"CREATE STREAM {name} AS {DISTINCT}")
    for at in range(5):
        soup.push("e", rows((at, at)))
    soup.execute(f"CREATE STREAM z AS {DISTINCT}")
    assert evaluated.count("z") == 1
    soup.execute("ALTER STREAM y SUSPEND")
    assert plan_of(soup, "x").streams == 2
    evaluated.clear()
    soup.push("e", rows((5, 5)))
    soup.push("e", rows((6, 6)))
    soup.execute("ALTER STREAM y RESUME")
    assert evaluated == ["x", "x", "y"]
    soup.push("e", rows((7, 7)))
    assert evaluated == ["x", "x", "y", "x"]
    assert shown(soup, "x") == shown(soup, "y") == shown(soup, "z") == [(at, at * SECOND) for at in range(7)]


def test_equal_streams_have_one_state_in_memory(soup: LocalPSoup) -> None:
    for name in ("x", "y", "z"):
        soup.execute(f"CREATE STREAM {name} AS {DISTINCT}")
    soup.push("e", rows(*[(at, at / 10) for at in range(50)]))
    first, second, third = [pump_of(soup, name) for name in ("x", "y", "z")]
    assert first._kept is second._kept is third._kept
    assert first.state_rows == second.state_rows == 49
    soup.execute("ALTER STREAM y SUSPEND")
    assert second.state_bytes == 0 < first.state_bytes
    soup.execute("ALTER STREAM y RESUME")
    soup.execute("DROP STREAM x")
    assert plan_of(soup, "z").streams == 2
    soup.push("e", rows((1, 7)))
    assert second._kept is third._kept
    assert shown(soup, "y") == shown(soup, "z")


EQUAL = [
    "(SELECT k AS other, 1 AS one FROM e WHERE k > 3)",
    "(select  e.K, 1 as one from E where K >= 4 and k > 3)",
    "(SELECT a.k, 1 FROM e a WHERE a.k > 3) LAG AT MOST 1 HOUR RETENTION 1 DAY",
    "(SELECT k, 1 AS one FROM e WHERE k > 3) FROM NOW",
]
OTHER = [
    "DSTREAM (SELECT k, 1 AS one FROM e [RANGE 1 HOUR] WHERE k > 3)",
    "(SELECT k, 1 AS one FROM e WHERE k > 2)",
    "(SELECT k, 2 AS one FROM e WHERE k > 3)",
    "(SELECT k, 1.0 AS one FROM e WHERE k > 3)",
    "(SELECT k, CAST(1 AS DOUBLE) AS one FROM e WHERE k > 3)",
    "(SELECT 1 AS one, k FROM e WHERE k > 3)",
    "(SELECT k, 1 AS one FROM f WHERE k > 3)",
    "(SELECT k, 1 AS one FROM e WHERE k > 3) EVERY 1 SECOND STATE AT MOST 1 MB",
    "(SELECT k, 1 AS one FROM e END (NOW - 1 SECOND) WHERE k > 3)",
]


def test_the_names_of_columns_and_sources_are_no_part_of_a_plan(soup: LocalPSoup) -> None:
    """Neither are the options that say nothing about the rows. All else is."""
    soup.execute(f"CREATE STREAM f {TIMED}")
    soup.push("e", rows((1, 1)))
    soup.execute("CREATE STREAM x AS (SELECT k, 1 AS one FROM e WHERE k > 3)")
    for number, derivation in enumerate([*EQUAL, *OTHER]):
        soup.execute(f"CREATE STREAM y{number} {'(p, q) ' * (number == 2)}AS {derivation}")
    soup.push("e", rows((2, 2), (5, 3), (6, 4)))
    soup.push("f", rows((2, 2)))
    equal = [plan_of(soup, f"y{number}") is plan_of(soup, "x") for number in range(len(EQUAL + OTHER))]
    assert equal == [True] * len(EQUAL) + [False] * len(OTHER)
    for name in ("x", "y0", "y1", "y2", "y3"):
        assert shown(soup, name) == [(5, 1, 3 * SECOND)]


def test_a_limit_of_the_state_is_a_part_of_the_plan(soup: LocalPSoup) -> None:
    for name, limit in (("x", 1), ("y", 1), ("z", 64)):
        soup.execute(f"CREATE STREAM {name} AS (SELECT DISTINCT k FROM e) STATE AT MOST {limit} MB")
    soup.push("e", rows(*[(k, k / SECOND) for k in range(50_000)]))
    halts = [pump_of(soup, name).halt for name in ("x", "y", "z")]
    assert [halt is not None and "allows 1,000,000" in halt.why for halt in halts] == [True, True, False]
    assert len(shown(soup, "z")) == 49_999


@pytest.mark.parametrize("failing", ["x", "y"])
def test_a_push_that_fails_disturbs_no_equal_stream(failing: str, soup: LocalPSoup, evaluated: list[str]) -> None:
    """Also if it is the push of the stream that evaluates the step. It has all its rows later."""
    for name in ("x", "y", "z"):
        soup.execute(f"CREATE STREAM {name} AS {DISTINCT}")
    soup.push("e", rows((0, 0), (1, 1)))
    evaluated.clear()
    submit, fails = soup._submit, pump_of(soup, failing).stream_id

    def failed(command: PumpCommand) -> Acknowledgement:
        if isinstance(command, PushDerived) and command.stream_id == fails:
            raise Unavailable("the log takes nothing")
        return submit(command)

    soup._submit = failed  # type: ignore[method-assign,assignment]
    soup.push("e", rows((2, 2)))
    assert [*soup.not_derived] == [failing]
    assert evaluated == ["x"]
    for name in {"x", "y", "z"} - {failing}:
        assert shown(soup, name) == [(0, 0), (1, SECOND)]
    soup.push("e", rows((3, 3)))
    soup._submit = submit  # type: ignore[method-assign]
    soup.push("e", rows((4, 4)))
    for name in ("x", "y", "z"):
        assert shown(soup, name) == [(at, at * SECOND) for at in range(4)]
    evaluated.clear()
    soup.push("e", rows((5, 5)))
    assert len(evaluated) == 1, "it shares again"


def test_steps_that_no_stream_takes_are_not_held_for_ever(soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream whose pump rests for long evaluates its steps later, when the steps are not held any more."""
    for name in ("x", "y"):
        soup.execute(f"CREATE STREAM {name} AS {DISTINCT}")
    soup.push("e", rows((0, 0), (1, 1)))
    rests, due, plan = pump_of(soup, "y").stream_id, Pumps.due, plan_of(soup, "x")

    def after(first: int, last: int) -> list[int]:
        """The numbers of steps that are held after some pushes."""
        with monkeypatch.context() as patched:
            patched.setattr(Pumps, "due", lambda self, snapshot, now, _: due(self, snapshot, now, {rests}))
            return [(soup.push("e", rows((at, at))), len(plan._steps))[1] for at in range(first, last)]

    assert after(2, 12) == [1, 2, 3, 4, 5, 6, 7, 8, 0, 0], "without its first step, it cannot take the later ones"
    soup.push("e", rows((12, 12)))
    monkeypatch.setattr(equal_plans, "MOST_BYTES", 1)
    assert after(13, 16) == [1, 0, 0]
    soup.push("e", rows((16, 16)))
    assert shown(soup, "y") == shown(soup, "x") == [(at, at * SECOND) for at in range(16)]
    assert plan.nbytes == 0


def test_all_plans_hold_few_bytes_together(soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest steps go, of whichever plan. Their streams evaluate them again."""
    for number in range(6):
        soup.execute(f"CREATE STREAM x{number} AS (SELECT k + {number % 3} AS k FROM e)")
    soup.push("e", rows((0, 0)))
    plans = [plan_of(soup, f"x{number}") for number in range(3)]
    soup._pumps.run = lambda *_: 0  # type: ignore[method-assign]
    soup.push("e", rows(*[(k, k / 10) for k in range(1, 22)]))
    snapshot = soup.engine.snapshot()
    due = [pump for pump, _ in soup._pumps.due(snapshot, soup.clock.now())]
    assert len(due) == 6 and [pump._plan for pump in due[:3]] == plans
    for pump in due[:2]:
        pump.step(snapshot, NO_PROMISE, ReadBudget())
    size = plans[0].nbytes
    assert plans[1].nbytes == size == plans[0]._held.nbytes // 2 > 0
    monkeypatch.setattr(equal_plans, "MOST_BYTES", 2 * size)
    due[2].step(snapshot, NO_PROMISE, ReadBudget())
    assert [plan.nbytes for plan in plans] == [0, size, size]
    for pump in due[3:]:
        pump.step(snapshot, NO_PROMISE, ReadBudget())
    assert [plan.nbytes for plan in plans] == [0, 0, 0] and plans[0]._held.nbytes == 0
    assert [pump.reached for pump in due] == [due[0].reached] * 6


def test_a_step_that_no_other_stream_needs_is_not_held(soup: LocalPSoup) -> None:
    soup.execute(f"CREATE STREAM x AS {DISTINCT}")
    with patch.object(EqualPlan, "drop") as dropped:
        soup.push("e", rows((0, 0), (1, 1), (2, 2)))
    assert not plan_of(soup, "x")._steps and not dropped.called


@pytest.mark.parametrize(
    "derivation", [DISTINCT, "(SELECT k, count(*) AS n FROM e [RANGE 9 SECONDS] GROUP BY k) EVERY 1 SECOND"]
)
def test_a_stream_follows_one_that_passes_instants_without_rows(
    derivation: str, soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it needs no state of its own. For example, only one of the two has readers that wait for its position."""
    rebuilt = list[int | None]()
    rebuild = KeptState._rebuilt

    def noted(self: KeptState, *given: Any) -> Any:
        rebuilt.append(given[6])
        return rebuild(self, *given)

    for name in ("x", "y"):
        soup.execute(f"CREATE STREAM {name} AS {derivation}")
    soup.push("e", rows((0, 0), (1, 1), (2, 2.5)))
    first, second = pump_of(soup, "x"), pump_of(soup, "y")
    soup._pumps.run = lambda *_: 0  # type: ignore[method-assign]
    monkeypatch.setattr(KeptState, "_rebuilt", noted)
    for at in range(31, 55):
        soup.heartbeat("e", at * SECOND // 10)
        snapshot = soup.engine.snapshot()
        soup._pumps.due(snapshot, soup.clock.now())
        for pump in (first, second) if at < 35 else (first,):
            command = pump.step(snapshot, NO_PROMISE, ReadBudget(), instant=True)
            if command is not None:
                pump.pushed(command, soup._submit(command).sequence)
    soup._pumps.due(soup.engine.snapshot(), soup.clock.now())
    assert first.reached == second.reached == 54 * SECOND // 10 - 1
    assert first._kept is second._kept
    del soup._pumps.run
    soup.push("e", rows((3, 6), (4, 8)))
    assert shown(soup, "x") == shown(soup, "y") and len(shown(soup, "x")) > 3
    assert rebuilt == []


def test_the_status_says_that_work_is_shared(soup: LocalPSoup) -> None:
    for name in ("x", "y", "z"):
        soup.execute(f"CREATE STREAM {name} AS {DISTINCT}")
    soup.push("e", rows((0, 0)))
    assert pump_of(soup, "x").progress.equal == 2
    said = soup.explain(soup.register("SELECT k FROM x")).lines()
    assert any("shares steps and state with 2 streams of an equal plan" in line for line in said)
    for name in ("y", "z"):
        soup.execute(f"DROP STREAM {name}")
    soup.push("e", rows((1, 1)))
    assert pump_of(soup, "x").progress.equal == 0


def test_a_step_from_before_an_attached_history_is_not_taken(tmp_path: Path) -> None:
    """A pump has looked further than the logged position, as no tuple had a row. Another one has not."""
    soup = Soup(tmp_path / "data", START)
    soup.execute("CREATE STREAM e (k BIGINT, at TIMESTAMP) TIMESTAMP BY at RETENTION 3650 DAYS ARCHIVE 1 DAY")
    for name in ("x", "y"):
        soup.execute(f"CREATE STREAM {name} AS (SELECT k FROM e WHERE k > 10)")

    def timed(keys: list[int], seconds: list[int]) -> tuple[pa.Table, list[int]]:
        times = [START + at * SECOND for at in seconds]
        return pa.table({"k": keys, "at": pa.array(times, pa.timestamp("us"))}), times

    run = soup._pumps.run
    soup._pumps.run = lambda *_: 0  # type: ignore[method-assign]
    soup.push("e", timed([1, 2], [-100, -99])[0])
    snapshot = soup.engine.snapshot()
    assert len(soup._pumps.due(snapshot, START)) == 2
    assert pump_of(soup, "x").step(snapshot, NO_PROMISE, ReadBudget()) is None
    assert len(plan_of(soup, "y")._steps) == 1
    soup._pumps.run = run  # type: ignore[method-assign]
    write(tmp_path / "job", snapshot.stream("e", soup.tenant).spec, *timed([11, 3], [-120, -110]), [])
    attach(soup, "e", "job", tmp_path / "job")  # type: ignore[arg-type]
    soup.heartbeat("e", START - 10 * SECOND)
    for name in ("x", "y"):
        assert shown(soup, name, "k") == [(11, START - 120 * SECOND)]
    soup.store.close()
