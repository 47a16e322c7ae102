"""The steps of pumps: which instants are closed, where a stream begins, and what a row's time is."""

from __future__ import annotations

import pyarrow as pa
import pytest

from psoup.errors import FailedPrecondition, NotFound, ResourceExhausted
from psoup.events.acknowledgements import Acknowledgement, ClosedAcknowledgement
from psoup.events.commands import CloseInstants, PushDerived
from psoup.local import LocalPSoup
from psoup.pumps import Due, Pump, Pumps, advance, pump
from psoup.pumps.instants import Promise
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_testing.engines.derived_rows import SECOND, TIMED, rows, shown


def watermark(soup: LocalPSoup, name: str) -> int | None:
    return soup.engine.snapshot().stream(name, soup.tenant).watermark


@pytest.fixture
def soup() -> LocalPSoup:
    return LocalPSoup(clock=VirtualClock(1_000 * SECOND), verify="all")


def test_an_instant_at_the_watermark_is_open(soup: LocalPSoup) -> None:
    """A tuple at the watermark is still accepted, so the rows of that instant wait."""
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE STREAM x AS (SELECT k FROM e)")
    soup.push("e", rows((1, 1), (2, 2)))
    assert shown(soup, "x") == [(1, SECOND)]
    assert watermark(soup, "x") == 2 * SECOND - 1
    soup.push("e", rows((3, 2)))
    assert shown(soup, "x") == [(1, SECOND)]
    soup.heartbeat("e", 2 * SECOND + 1)
    assert shown(soup, "x") == [(1, SECOND), (2, 2 * SECOND), (3, 2 * SECOND)]


def test_tuples_of_the_clock_are_derived_at_once_and_later_ones_are_later(soup: LocalPSoup) -> None:
    """The clock stands still: an instant that was closed gets no further tuple."""
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute("CREATE STREAM x AS (SELECT k + 1 AS k FROM t WHERE k <> 7)")
    for k in (1, 7, 2):
        soup.push("t", pa.table({"k": [k]}))
    now = soup.clock.now()
    assert shown(soup, "t") == [(1, now), (7, now + 1), (2, now + 2)]
    assert shown(soup, "x") == [(2, now), (3, now + 2)]


def test_a_clock_that_jumps_back_opens_no_instant_again(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute("CREATE STREAM x AS (SELECT k FROM t)")
    soup.push("t", pa.table({"k": [1]}))
    now = soup.clock.now()
    soup.clock = VirtualClock(now - 500 * SECOND)
    soup.push("t", pa.table({"k": [2]}))
    assert shown(soup, "x") == shown(soup, "t") == [(1, now), (2, now + 1)]


def test_a_pair_enters_at_its_later_tuple_if_the_earlier_one_is_in_its_window_then(soup: LocalPSoup) -> None:
    for name in ("e", "f"):
        soup.execute(f"CREATE STREAM {name} {TIMED}")
    origin = "e [RANGE 10 SECONDS], f [RANGE 5 SECONDS] WHERE e.k = f.k"
    soup.execute(f"CREATE STREAM x AS (SELECT epoch_us(e.at) AS e, epoch_us(f.at) AS f FROM {origin})")
    soup.push("e", rows((1, 0), (1, 3), (1, 20)))
    soup.push("f", rows((1, 2), (1, 10), (1, 19)))
    assert shown(soup, "x") == [
        (0, 2 * SECOND, 2 * SECOND),
        (3 * SECOND, 2 * SECOND, 3 * SECOND),
        (0, 10 * SECOND, 10 * SECOND),
        (3 * SECOND, 10 * SECOND, 10 * SECOND),
    ]
    for name in ("e", "f"):
        soup.heartbeat(name, 30 * SECOND)
    assert shown(soup, "x")[4:] == [(20 * SECOND, 19 * SECOND, 20 * SECOND)]


def test_a_row_has_the_version_that_held_at_its_time(soup: LocalPSoup) -> None:
    """A first version holds from the beginning: a row that was there before enters when it comes."""
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute("CREATE TABLE c (k BIGINT PRIMARY KEY, n TEXT)")
    soup.execute("CREATE STREAM x AS (SELECT t.k, c.n FROM t JOIN c AS OF t ON t.k = c.k WHERE c.n <> 'B')")
    now = soup.clock.now()
    soup.push("t", pa.table({"k": [1, 2]}))
    soup.push("c", pa.table({"k": [1], "n": ["A"]}))
    soup.push("t", pa.table({"k": [1]}))
    soup.push("c", pa.table({"k": [1, 2], "n": ["B", "C"]}))
    soup.push("t", pa.table({"k": [1, 2]}))
    assert shown(soup, "x") == [(1, "A", now + 1), (1, "A", now + 2), (2, "C", now + 3), (2, "C", now + 4)]


def test_a_table_of_the_clock_beside_a_stream_in_event_time_needs_both(soup: LocalPSoup) -> None:
    soup.execute(f"CREATE STREAM e {TIMED} AHEAD 5 MINUTES")
    soup.execute("CREATE TABLE c (k BIGINT PRIMARY KEY, n TEXT)")
    soup.execute("CREATE STREAM x AS (SELECT e.k, c.n FROM e JOIN c AS OF e ON e.k = c.k)")
    soup.push("c", pa.table({"k": [1], "n": ["A"]}))
    soup.push("e", rows((1, 999), (1, 1_001), (1, 1_003)))
    assert shown(soup, "x") == [(1, "A", 999 * SECOND)], "later instants are not closed by the clock"
    soup.push("c", pa.table({"k": [1], "n": ["B"]}))
    soup.clock.advance(seconds=2)  # type: ignore[attr-defined]
    soup.push("c", pa.table({"k": [2], "n": ["Z"]}))
    assert shown(soup, "x")[1:] == [(1, "B", 1_001 * SECOND)]


def test_rows_of_the_past_meet_a_table_that_is_loaded_now(soup: LocalPSoup) -> None:
    """Its first versions hold from the beginning. One that comes later adds nothing to rows that were derived."""
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE TABLE c (k BIGINT PRIMARY KEY, n TEXT)")
    soup.execute("CREATE STREAM x AS (SELECT e.k, c.n FROM e JOIN c AS OF e ON e.k = c.k)")
    soup.push("c", pa.table({"k": [1], "n": ["A"]}))
    soup.push("e", rows((1, 5), (2, 6), (1, 7)))
    assert shown(soup, "x") == [(1, "A", 5 * SECOND)]
    soup.push("c", pa.table({"k": [1, 2], "n": ["B", "Z"]}))
    soup.push("e", rows((2, 8), (1, 9)))
    assert shown(soup, "x")[1:] == [(1, "A", 7 * SECOND), (2, "Z", 8 * SECOND)]


def test_from_start_takes_what_the_source_keeps_and_from_now_only_later_instants(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.push("t", pa.table({"k": [1, 2]}))
    soup.execute("CREATE STREAM x AS (SELECT k FROM t)")
    soup.execute("CREATE STREAM y AS (SELECT k FROM t) FROM NOW")
    soup.push("t", pa.table({"k": [3]}))
    assert [k for k, _ in shown(soup, "x")] == [1, 2, 3]
    assert [k for k, _ in shown(soup, "y")] == [3]


def test_three_streams_derive_from_one_another(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute("CREATE STREAM x AS (SELECT k * 10 AS k FROM t)")
    soup.execute("CREATE STREAM y AS (SELECT k + 1 AS k FROM x WHERE k > 10)")
    soup.execute("CREATE STREAM z AS (SELECT y.k, x.k AS base FROM y JOIN x ON y.k = x.k + 1)")
    for k in (1, 2, 3):
        soup.push("t", pa.table({"k": [k]}))
    now = soup.clock.now()
    assert shown(soup, "z") == [(21, 20, now + 1), (31, 30, now + 2)]
    query = soup.register("SELECT k FROM z WHERE base > 20")
    assert soup.invoke(query).to_table().to_pylist() == [{"k": 31}]


def test_explain_names_the_select_of_a_derived_stream(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute("CREATE STREAM x AS (SELECT k\n FROM t)")
    lines = soup.explain(soup.register("SELECT k FROM x")).lines("q")
    assert lines[0] == "query q on stream x (derived, system time)"
    assert "  derived  by SELECT k FROM t" in lines


def test_new_columns_of_a_source_change_nothing(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute("CREATE STREAM x AS (SELECT * FROM t)")
    soup.push("t", pa.table({"k": [1]}))
    soup.execute("ALTER STREAM t ADD COLUMN more TEXT")
    soup.push("t", pa.table({"k": [2], "more": ["m"]}))
    assert shown(soup, "x", "k") == [(1, 1_000 * SECOND), (2, 1_000 * SECOND + 1)]
    assert [a.name for a in soup.engine.snapshot().stream("x", soup.tenant).spec.declared] == ["k"]


def test_a_value_that_cannot_be_computed_is_null_and_counted(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM t (w TEXT)")
    soup.execute("CREATE STREAM x AS (SELECT CAST(w AS BIGINT) AS n FROM t)")
    soup.push("t", pa.table({"w": ["1", "one"]}))
    assert [n for n, _ in shown(soup, "x")] == [1, None]
    (pump,) = soup._pumps.by_id.values()
    assert (pump.progress.tuples, pump.rows, pump.progress.errors) == (2, 2, 1)


def test_one_instant_with_many_tuples_is_one_push(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute("CREATE STREAM x AS (SELECT k FROM t)")
    before = soup.engine.snapshot().sequence
    soup.push("t", pa.table({"k": range(20_000)}))
    assert soup.engine.snapshot().sequence == before + 2
    assert len(shown(soup, "x")) == 20_000


class Stepped:
    """A derived stream whose steps a test makes itself."""

    def __init__(self, soup: LocalPSoup) -> None:
        self.soup = soup
        soup.execute("CREATE STREAM t (k BIGINT)")
        soup._pumps.run = lambda *_: 0  # type: ignore[method-assign]
        soup.execute("CREATE STREAM x AS (SELECT k FROM t)")
        view = soup.engine.snapshot().stream("x", soup.tenant)
        self.stream_id, self.pump = view.stream_id, Pump(view)

    def step(self) -> PushDerived:
        closed = self.soup.submit(CloseInstants((1,)))
        assert isinstance(closed, ClosedAcknowledgement)
        command = self.pump.step(self.soup.engine.snapshot(), Promise(closed.at, closed.sequence), ReadBudget())
        assert command is not None
        return command


def test_a_step_is_pushed_once(soup: LocalPSoup) -> None:
    stepped = Stepped(soup)
    soup.push("t", pa.table({"k": [1]}))
    command = stepped.step()
    soup.submit(command)
    with pytest.raises(FailedPrecondition) as refused:
        soup.submit(command)
    assert refused.value.reason == "STEP_OUTDATED"
    assert [k for k, _ in shown(soup, "x")] == [1]


def test_a_step_without_a_promise_is_refused(soup: LocalPSoup) -> None:
    """Otherwise a tuple of the same instant could come after its rows."""
    stepped = Stepped(soup)
    soup.push("t", pa.table({"k": [1]}))
    command = stepped.pump.step(soup.engine.snapshot(), Promise(soup.clock.now(), 0), ReadBudget())
    assert command is not None
    with pytest.raises(FailedPrecondition, match="was not promised that instant"):
        soup.submit(command)


def test_a_pump_has_not_passed_a_tuple_that_came_after_the_promise(soup: LocalPSoup) -> None:
    """A read after that push waits until the tuple is derived."""
    Stepped(soup)
    soup.execute("CREATE STREAM y AS (SELECT k FROM t WHERE k > 5)")
    made = Pump(soup.engine.snapshot().stream("y", soup.tenant))
    soup.push("t", pa.table({"k": [1]}))
    closed = soup.submit(CloseInstants((1,)))
    assert isinstance(closed, ClosedAcknowledgement)
    pushed = soup.push("t", pa.table({"k": [9]}))
    assert made.step(soup.engine.snapshot(), Promise(closed.at, closed.sequence), ReadBudget()) is None
    assert made.passed < pushed.sequence
    assert made.due(soup.engine.snapshot(), soup.clock.now()) == Due((1,))


@pytest.mark.parametrize("timed", [True, False])
def test_a_pump_has_passed_what_it_pushed_though_more_has_come(soup: LocalPSoup, timed: bool) -> None:
    """Else a read of the stream would wait as long as clients push without a pause."""
    soup._pumps.run = lambda *_: 0  # type: ignore[method-assign]
    soup.execute(f"CREATE STREAM e {TIMED if timed else '(k BIGINT)'}")
    soup.execute("CREATE STREAM x AS (SELECT k FROM e)")
    made, sequences = Pump(soup.engine.snapshot().stream("x", soup.tenant)), list[int]()

    def push(k: int) -> None:
        sequences.append(soup.push("e", rows((k, k)) if timed else pa.table({"k": [k]})).sequence)

    def submit(command: CloseInstants | PushDerived) -> Acknowledgement:
        done = soup._submit(command)
        push(len(sequences))  # also between a promise and its step
        return done

    push(0)
    push(1)
    for _ in range(4):
        awaited = sequences[-1]
        due = made.due(soup.engine.snapshot(), soup.clock.now())
        assert due is not None and made.passed < awaited
        assert advance(made, due, soup.engine.snapshot, submit, ReadBudget())
        assert made.passed >= awaited
        assert made.passed < sequences[-1]
    assert len(shown(soup, "x")) >= 4


def test_a_stream_has_its_turn_after_its_source_unless_that_is_behind(soup: LocalPSoup) -> None:
    """Else a read of it would wait as long as clients push: the source has always pushed more."""
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.execute("CREATE STREAM x AS (SELECT k FROM e)")
    soup.execute("CREATE STREAM y AS (SELECT k FROM x)")
    soup.push("e", rows((1, 1), (2, 2)))
    pumps, soup._pumps.run = soup._pumps, lambda *_: 0  # type: ignore[method-assign]
    soup.push("e", rows((3, 3)))
    [(source, due)] = pumps.due(soup.engine.snapshot(), soup.clock.now())
    assert advance(source, due, soup.engine.snapshot, soup._submit, ReadBudget())
    soup.push("e", rows((4, 4)))
    for behind in (False, True):
        source.behind = behind
        order = [each.stream_id for each, _ in pumps.due(soup.engine.snapshot(), soup.clock.now())]
        assert order == ([3, 2] if behind else [2, 3])


def test_pumps_of_one_source_share_a_promise(soup: LocalPSoup) -> None:
    """A tuple that comes later needs another one."""
    Stepped(soup)
    for name in ("y", "z"):
        soup.execute(f"CREATE STREAM {name} AS (SELECT k FROM t WHERE k > 1)")
    pumps, promises = Pumps(), 0

    def submit(command: CloseInstants | PushDerived) -> Acknowledgement:
        nonlocal promises
        promises += isinstance(command, CloseInstants)
        return soup._submit(command)

    for number in (1, 2, 3):
        soup.push("t", pa.table({"k": [number]}))
        pumps.run(soup.engine.snapshot, submit, soup.clock.now, ReadBudget)
        assert promises == number
    assert [[k for k, _ in shown(soup, name)] for name in "xyz"] == [[1, 2, 3], [2, 3], [2, 3]]


def test_batches_have_the_producer_of_the_stream_and_contiguous_numbers(soup: LocalPSoup) -> None:
    stepped = Stepped(soup)
    for number in range(3):
        soup.push("t", pa.table({"k": [number]}))
        command = stepped.step()
        prepared = soup.admission.prepare(command, soup.clock.now())
        event = prepared.event
        soup.engine.apply(prepared.events)
        stepped.pump.pushed(command, prepared.acknowledgement.sequence)
        assert (event.producer, event.epoch, event.number) == ("derived:2", 1, number)  # type: ignore[union-attr]
        assert event.source == b'{"at": %d, "next": [%d]}' % (command.at, number + 1)  # type: ignore[union-attr]
        assert event.watermark == command.at  # type: ignore[union-attr]


def test_a_pump_whose_source_was_dropped_has_no_step(soup: LocalPSoup) -> None:
    """The thread of the pumps may look at a later snapshot than the one that it began with."""
    stepped = Stepped(soup)
    soup.push("t", pa.table({"k": [1]}))
    assert stepped.pump.due(soup.engine.snapshot(), soup.clock.now()) is not None
    soup.execute("DROP STREAM t CASCADE")
    assert stepped.pump.due(soup.engine.snapshot(), soup.clock.now(), instant=True) is None
    with pytest.raises(NotFound, match="a source of stream 'x' was dropped"):
        stepped.pump.step(soup.engine.snapshot(), Promise(soup.clock.now(), 0), ReadBudget())


def test_a_step_that_a_limit_refuses_is_tried_with_fewer_tuples(soup: LocalPSoup) -> None:
    Stepped(soup)
    soup.execute(f"CREATE STREAM e {TIMED}")
    soup.push("e", rows(*[(at, at) for at in range(1, 66)]))
    soup.execute("CREATE STREAM y AS (SELECT k FROM e)")
    made = Pump(soup.engine.snapshot().stream("y", soup.tenant))

    def submit(command: CloseInstants | PushDerived) -> Acknowledgement:
        if isinstance(command, PushDerived) and len(command.batch) > 10:
            raise ResourceExhausted("too many rows", reason="ROWS")
        return soup._submit(command)

    steps = 0
    while (due := made.due(soup.engine.snapshot(), soup.clock.now())) and steps < 100:
        assert advance(made, due, soup.engine.snapshot, submit, ReadBudget())
        steps += 1
    assert [k for k, _ in shown(soup, "y")] == [*range(1, 65)]
    assert 10 < steps < 40


def test_a_step_that_took_long_is_followed_by_a_smaller_one(soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump, "MOST_TUPLES", 10)
    stepped = Stepped(soup)
    for k in range(450):
        soup.clock.advance(seconds=1)  # type: ignore[attr-defined]
        soup.push("t", pa.table({"k": [k]}))
    sizes = list[int]()
    for number in range(9):
        command = stepped.step()
        stepped.pump.pushed(command, soup.submit(command).sequence)
        sizes.append(len(command.batch))
        for _ in range(5 if number > 5 else 0):
            stepped.pump.calm()
    assert sizes == [10, 20, 40, 80, 80, 80, 80, 10, 10]


@pytest.mark.parametrize("timed", [True, False])
def test_a_quiet_derived_stream_does_not_hold_a_join_back(soup: LocalPSoup, timed: bool) -> None:
    """Its last closed instant is logged if tuples of other sources wait for it."""
    for name in ("a", "b"):
        soup.execute(f"CREATE STREAM {name} {TIMED if timed else '(k BIGINT)'}")
    soup.execute("CREATE STREAM x AS (SELECT k FROM a)")
    soup.execute("CREATE STREAM near AS (SELECT k FROM b WHERE k > 0)")
    soup.execute("CREATE STREAM z AS (SELECT k FROM near)")
    soup.execute("CREATE STREAM y AS (SELECT x.k FROM x [RANGE 1 HOUR], z [RANGE 1 HOUR] WHERE x.k = z.k)")

    def push(name: str, k: int, at: int) -> None:
        soup.clock.advance(seconds=1)  # type: ignore[attr-defined]
        soup.push(name, rows((k, at)) if timed else pa.table({"k": [k]}))

    push("b", 1, 1)
    push("b", -1, 2)
    push("a", 1, 50)
    push("a", 2, 60)
    push("b", -1, 100)
    assert [k for k, _ in shown(soup, "y")] == [1]
    last = soup.engine.snapshot().sequence
    push("b", -1, 101)
    assert soup.engine.snapshot().sequence == last + 1, "no tuple waits"
