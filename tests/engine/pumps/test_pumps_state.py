"""Pumps with state: DISTINCT and its like; bounds of the state, and steps that are not logged."""

from __future__ import annotations

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import CloseInstants, PushDerived
from psoup.local import LocalPSoup
from psoup.pumps import Pump, Pumps, pump
from psoup.work.clock import VirtualClock
from psoup_testing.engines.derived_rows import SECOND, TIMED, rows, shown


def pump_of(soup: LocalPSoup, name: str) -> Pump:
    return soup._pumps.by_id[soup.engine.snapshot().stream(name, soup.tenant).stream_id]


@pytest.fixture
def soup() -> LocalPSoup:
    return LocalPSoup(EngineConfig(chunk_rows=64, piece_rows=16), VirtualClock(1_000 * SECOND), verify="all")


def test_a_value_enters_again_after_its_last_row_has_left(soup: LocalPSoup) -> None:
    """A row leaves one microsecond after its window; a value that enters then has never been away."""
    soup.execute(f"CREATE STREAM e {TIMED}")
    for name, operator in (("x", "ISTREAM"), ("y", "DSTREAM")):
        soup.execute(f"CREATE STREAM {name} AS {operator} (SELECT DISTINCT k FROM e [RANGE 10 SECONDS])")
    soup.push("e", rows((1, 1), (2, 2), (1, 5), (1, 15.000001), (2, 12.000002)))
    soup.heartbeat("e", 100 * SECOND)
    assert shown(soup, "x") == [(1, SECOND), (2, 2 * SECOND), (2, 12 * SECOND + 2)]
    assert shown(soup, "y") == [(2, 12 * SECOND + 1), (2, 22 * SECOND + 3), (1, 25 * SECOND + 2)]


@pytest.mark.parametrize(("columns", "left"), [("k", 1), ("k, _id AS n", 2)])
def test_a_row_that_leaves_as_an_equal_one_enters_is_in_dstream_by_its_id(
    soup: LocalPSoup, columns: str, left: int
) -> None:
    """ISTREAM of a SELECT without state has a row for each tuple. DSTREAM has the differences of values."""
    soup.execute(f"CREATE STREAM e {TIMED}")
    for name, operator in (("x", "ISTREAM"), ("y", "DSTREAM")):
        soup.execute(f"CREATE STREAM {name} AS {operator} (SELECT {columns} FROM e [RANGE 10 SECONDS])")
    soup.push("e", rows((1, 1), (1, 11.000001)))
    soup.heartbeat("e", 100 * SECOND)
    assert shown(soup, "x", "k") == [(1, SECOND), (1, 11 * SECOND + 1)]
    assert shown(soup, "y", "k") == [(1, 11 * SECOND + 1), (1, 21 * SECOND + 2)][-left:]


def test_rows_leave_although_nothing_comes(soup: LocalPSoup) -> None:
    """A heartbeat closes the instants at which they leave."""
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE STREAM y AS DSTREAM (SELECT DISTINCT k FROM e [RANGE 10 SECONDS])")
    soup.push("e", rows((1, 1), (2, 2)))
    soup.heartbeat("e", 11 * SECOND + 1)
    assert shown(soup, "y") == []
    soup.heartbeat("e", 11 * SECOND + 2)
    assert shown(soup, "y") == [(1, 11 * SECOND + 1)]
    assert (pump_of(soup, "y").state_rows, pump_of(soup, "y").state_bytes > 0) == (1, True)


def test_a_window_that_ends_before_now_shows_its_tuples_later(soup: LocalPSoup) -> None:
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE STREAM x AS (SELECT k FROM e END (NOW - 5 SECONDS))")
    soup.push("e", rows((1, 1), (2, 2), (3, 8)))
    assert shown(soup, "x") == [(1, 6 * SECOND), (2, 7 * SECOND)]
    soup.heartbeat("e", 20 * SECOND)
    assert shown(soup, "x")[2:] == [(3, 13 * SECOND)]


def test_a_state_that_reaches_its_limit_stops_the_stream_and_says_so(soup: LocalPSoup) -> None:
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE STREAM x AS (SELECT DISTINCT k FROM e) STATE AT MOST 1 MB")
    soup.push("e", rows((1, 1), (2, 2)))
    assert shown(soup, "x") == [(1, SECOND)]
    soup.push("e", rows(*[(k, 3 + k / SECOND) for k in range(50_000)]))
    halt = pump_of(soup, "x").halt
    assert halt is not None and halt.word == "stopped"
    assert "STATE AT MOST allows 1,000,000" in halt.why and "larger STATE AT MOST" in halt.why
    soup.push("e", rows((3, 200)))
    assert pump_of(soup, "x").state_rows == 0, "a stopped stream keeps no state"
    assert soup.ask("SELECT count(*) AS n FROM x").to_table().to_pylist()[0]["n"] < 50_000


def test_rows_that_find_no_room_are_pushed_later_as_they_are(soup: LocalPSoup) -> None:
    """The rows are not made again: the state has passed them. Each try pushes half as many."""
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE STREAM x AS (SELECT DISTINCT k FROM e [RANGE 10 SECONDS])")
    submit, left, sizes = soup._submit, [3], list[int]()

    def full(command: CloseInstants | PushDerived) -> Acknowledgement:
        if isinstance(command, PushDerived):
            sizes.append(len(command.batch))
            left[0] -= 1
            if left[0] >= 0:
                raise ResourceExhausted("the memory is full", reason="MEMORY_BUDGET")
        return submit(command)

    soup._submit = full  # type: ignore[method-assign,assignment]
    soup.push("e", rows(*[(k, k / 10) for k in range(41)]))
    for _ in range(2):
        assert soup.not_derived["x"].reason == "MEMORY_BUDGET"
        soup.heartbeat("e", 5 * SECOND)
    soup.heartbeat("e", 6 * SECOND)
    assert not soup.not_derived
    assert shown(soup, "x") == [(k, k * SECOND // 10) for k in range(41)]
    assert sizes[:4] == [40, 20, 10, 5]
    assert sum(sizes[3:]) == 41


def test_a_step_with_many_rows_is_pushed_in_parts_of_whole_instants(
    soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is not made again for that, and the rows and IDs are the same."""
    monkeypatch.setattr(pump, "MOST_BYTES", 300)
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE STREAM x AS (SELECT DISTINCT k FROM e [RANGE 10 SECONDS])")
    submit, sizes = soup._submit, list[int]()

    def counted(command: CloseInstants | PushDerived) -> Acknowledgement:
        sizes.extend([len(command.batch)] if isinstance(command, PushDerived) else [])
        return submit(command)

    soup._submit = counted  # type: ignore[method-assign,assignment]
    soup.push("e", rows(*[(k, k // 4) for k in range(41)]))
    soup.heartbeat("e", 60 * SECOND)
    assert shown(soup, "x") == [(k, k // 4 * SECOND) for k in range(41)]
    assert max(sizes) <= 12
    assert all(size % 4 == 0 for size in sizes[:-1])


def after_a_history(*, disturbed: bool) -> list[list[tuple[object, ...]]]:
    """The rows of a stream and of its DSTREAM. `disturbed`: with restarts, and steps that are made again."""
    soup = LocalPSoup(EngineConfig(chunk_rows=64, piece_rows=16), VirtualClock(1_000 * SECOND), verify="all")
    soup.execute(f"CREATE STREAM e {TIMED}")
    for name, operator in (("x", "ISTREAM"), ("y", "DSTREAM")):
        soup.execute(f"CREATE STREAM {name} AS {operator} (SELECT DISTINCT k FROM e [RANGE 5 SECONDS])")
    for at in range(40):
        soup.push("e", rows((at % 4, at), (at % 7, at)))
        if disturbed and at % 7 == 6:
            for name in ("x", "y"):
                pump_of(soup, name).again(soup.engine.snapshot().stream(name, soup.tenant))
        if disturbed and at % 5 == 4:
            soup._pumps = Pumps()
        soup.heartbeat("e", at * SECOND)
    soup.heartbeat("e", 100 * SECOND)
    return [shown(soup, "x"), shown(soup, "y")]


def test_a_state_is_made_again_after_a_restart_and_after_a_refused_step() -> None:
    entered, left = after_a_history(disturbed=False)
    assert [len([k for k, _ in entered if k == key]) for key in range(7)] == [1, 1, 1, 1, 6, 5, 5]
    assert sorted(str(k) for k, _ in entered) == sorted(str(k) for k, _ in left)
    assert after_a_history(disturbed=True) == [entered, left]


def test_versions_stay_for_the_state_that_is_made_again_from_them() -> None:
    """The version of a row has ended, and is older than HISTORY, before the row leaves its window."""
    clock = VirtualClock(1_000 * SECOND)
    soup = LocalPSoup(EngineConfig(chunk_rows=64, piece_rows=16), clock)
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute("CREATE TABLE c (k BIGINT PRIMARY KEY, n BIGINT) HISTORY 1 SECOND")
    origin = "t [RANGE 300 SECONDS] t JOIN c AS OF t ON t.k = c.k"
    soup.execute(f"CREATE STREAM y AS DSTREAM (SELECT DISTINCT c.n FROM {origin})")
    soup.push("c", pa.table({"k": [1], "n": [-7]}))
    soup.push("t", pa.table({"k": [1]}))
    came = clock.now()
    for step in range(200):
        clock.advance(seconds=1)
        soup.push("c", pa.table({"k": [1, 2], "n": [step, step]}))
    soup.push("t", pa.table({"k": [1] * 64}))
    soup.maintain()
    soup._pumps = Pumps()
    clock.advance(seconds=150)
    soup.push("t", pa.table({"k": [3]}))
    assert [(n, at) for n, at in shown(soup, "y") if n == -7] == [(-7, came + 300 * SECOND + 2)]


def test_rows_of_the_clock_leave_as_it_goes_on(soup: LocalPSoup) -> None:
    """A command of any kind lets the pump look at the clock, which has passed the end of the window."""
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute("CREATE STREAM other (k BIGINT)")
    soup.execute("CREATE STREAM x AS (SELECT count(*) AS n FROM t [RANGE 10 SECONDS])")
    came = soup.clock.now()
    soup.push("t", pa.table({"k": [1, 2]}))
    soup.clock.advance(seconds=20)  # type: ignore[attr-defined]
    soup.push("other", pa.table({"k": [1]}))
    assert shown(soup, "x") == [(2, came), (0, came + 10 * SECOND + 1)]
    soup.push("t", pa.table({"k": [3]}))
    assert shown(soup, "x")[2:] == [(1, soup.clock.now() + 1)], "the clock stands still, and its instant is closed"


def test_from_now_knows_the_values_of_before(soup: LocalPSoup) -> None:
    """A value that is in the answer at CREATE does not enter later, but it leaves."""
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.push("e", rows((1, 1), (2, 2), (3, 3)))
    for name, operator in (("x", "ISTREAM"), ("y", "DSTREAM")):
        select = "SELECT DISTINCT k FROM e [RANGE 10 SECONDS]"
        soup.execute(f"CREATE STREAM {name} AS {operator} ({select}) FROM NOW")
    soup.push("e", rows((1, 5), (4, 6)))
    soup.heartbeat("e", 14 * SECOND)
    assert shown(soup, "x") == [(3, 3 * SECOND), (4, 6 * SECOND)]
    assert shown(soup, "y") == [(2, 12 * SECOND + 1), (3, 13 * SECOND + 1)]


def test_an_absence_with_a_band_is_certain_at_its_end(soup: LocalPSoup) -> None:
    """Brackets show the row at its own time; it leaves when the partner comes. Without them, each row enters once."""
    for name in ("e", "f"):
        soup.execute(f"CREATE STREAM {name} {TIMED}")
    inner = "SELECT 1 FROM f {} WHERE f.k = e.k AND f.at BETWEEN e.at AND e.at + INTERVAL 5 SECONDS"
    soup.execute(f"CREATE STREAM x AS (SELECT e.k FROM e WHERE NOT EXISTS ({inner.format('')}))")
    bracketed = f"e [RANGE 8 SECONDS] e WHERE NOT EXISTS ({inner.format('[RANGE 9 SECONDS] f')})"
    for name, operator in (("y", "ISTREAM"), ("z", "DSTREAM")):
        soup.execute(f"CREATE STREAM {name} AS {operator} (SELECT e.k FROM {bracketed})")
    soup.push("e", rows((1, 1), (2, 2), (1, 6.000001), (3, 6.000001)))
    soup.push("f", rows((2, 7), (1, 11.000001)))
    soup.heartbeat("e", 30 * SECOND)
    assert shown(soup, "x") == [(1, 6 * SECOND)], "the end of the band is still open in f"
    soup.heartbeat("f", 30 * SECOND)
    assert shown(soup, "x") == [(1, 6 * SECOND), (3, 11 * SECOND + 1)]
    assert shown(soup, "y") == [(1, SECOND), (2, 2 * SECOND), (1, 6 * SECOND + 1), (3, 6 * SECOND + 1)]
    assert shown(soup, "z") == [(2, 7 * SECOND), (1, 9 * SECOND + 1), (1, 11 * SECOND + 1), (3, 14 * SECOND + 2)]
    assert pump_of(soup, "x").state_rows == 0, "rows that have entered are not kept"


def test_streams_with_state_derive_from_one_another(soup: LocalPSoup) -> None:
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE STREAM counts AS (SELECT k, count(*) AS n FROM e [RANGE 4 SECONDS] GROUP BY k)")
    soup.execute("CREATE STREAM busy AS (SELECT DISTINCT k FROM counts [RANGE 4 SECONDS] WHERE n > 1)")
    soup.execute(
        "CREATE STREAM calm AS DSTREAM (SELECT k FROM busy [RANGE 1 SECOND] EXCEPT SELECT k FROM e [RANGE 0 SECONDS])"
    )
    soup.push("e", rows((1, 1), (2, 1), (1, 2), (2, 9), (1, 3)))
    soup.heartbeat("e", 30 * SECOND)
    assert shown(soup, "counts")[:3] == [(1, 1, SECOND), (2, 1, SECOND), (1, 2, 2 * SECOND)]
    assert shown(soup, "busy") == [(1, 2 * SECOND)]
    assert shown(soup, "calm") == [(1, 3 * SECOND)]


def test_an_explanation_shows_implied_windows_and_what_bounds_the_state(soup: LocalPSoup) -> None:
    for name in ("e", "f"):
        soup.execute(f"CREATE STREAM {name} {TIMED}")
    inner = "SELECT 1 FROM f WHERE f.k = e.k AND f.at BETWEEN e.at AND e.at + INTERVAL 5 SECONDS"
    for name, select, options in (
        ("x", f"SELECT e.k FROM e WHERE NOT EXISTS ({inner})", ""),
        ("y", "SELECT DISTINCT k FROM e", " STATE AT MOST 1 MB"),
        ("z", "SELECT k FROM e", ""),
        ("t", "SELECT k FROM e [RANGE 5 SECONDS] ORDER BY k LIMIT 3", " EVERY 10 SECONDS"),
    ):
        soup.execute(f"CREATE STREAM {name} AS ({select}){options}")
    said = {name: "\n".join(soup.explain(soup.register(f"SELECT k FROM {name}")).lines()) for name in "xyzt"}
    assert "e: read with END (NOW - 5 SECONDS), a tuple is in the state for 5 SECONDS" in said["x"]
    assert "f: a tuple is in the state for 5 SECONDS" in said["x"]
    assert "e: a tuple is in the state for ever" in said["y"]
    assert "in the state" not in said["z"] and "no state" in said["z"]
    both = "the tuples of e of 5 SECONDS and the tuples of f of 5 SECONDS"
    assert "bound of the state of ANTI JOIN" in said["x"] and f": {both}" in said["x"]
    assert "bound of the state of Distinct: unbounded, as tuples of 'e' never leave it" in said["y"]
    assert "bound of the state of the answer: at most 3 rows, 27 bytes" in said["t"]


@pytest.mark.parametrize(
    ("statement", "instant"),
    [
        ("AS DSTREAM (SELECT DISTINCT k FROM x [RANGE 10 SECONDS])", 11 * SECOND + 1),
        ("AS DSTREAM (SELECT k FROM x [RANGE 10 SECONDS])", 11 * SECOND + 1),
        ("AS (SELECT k FROM x [BEGIN (NOW - 10 SECONDS) END (NOW - 5 SECONDS)])", 6 * SECOND),
        ("AS (SELECT k FROM x [RANGE 20 SECONDS] EXCEPT SELECT k FROM x [RANGE 10 SECONDS])", 11 * SECOND + 1),
        ("AS DSTREAM (SELECT DISTINCT k FROM x [RANGE 10 SECONDS]) EVERY 4 SECONDS", 12 * SECOND),
    ],
)
def test_a_quiet_derived_stream_holds_no_later_change_back(soup: LocalPSoup, statement: str, instant: int) -> None:
    """The change comes long after its tuple, and x has no other rows. There is no query, for which x logs instants."""
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE STREAM x AS (SELECT k FROM e WHERE k > 0)")
    soup.execute(f"CREATE STREAM y {statement}")
    soup.push("e", rows((1, 1), (-1, 2)))
    assert not shown(soup, "y")
    soup.heartbeat("e", instant)
    assert not shown(soup, "y")
    soup.heartbeat("e", instant + 1)
    assert shown(soup, "y") == [(1, instant)]
    last = soup.engine.snapshot().sequence
    soup.heartbeat("e", instant + 60 * SECOND)
    soup.heartbeat("e", instant + 70 * SECOND)
    assert soup.engine.snapshot().sequence <= last + 3, "x logs no instant for which nothing waits"
