"""Derived streams in admission: changes of them and of their sources, and what goes with a dropped source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from psoup.admission import Admission
from psoup.config import EngineConfig
from psoup.errors import AlreadyExists, FailedPrecondition, InvalidInput, OutOfRange, ResourceExhausted
from psoup.events.acknowledgements import Effects
from psoup.events.commands import Attach, Extent, Locate, Push, Recall
from psoup.events.events import Event
from psoup.local import LocalPSoup
from psoup.pumps import Pump
from psoup.work.clock import VirtualClock

NOW = 1_700_000_000_000_000
ROWS = pa.table({"k": [1]})
SELECT = "CREATE STREAM x AS (SELECT k FROM t WHERE k > 0)"


@pytest.fixture
def soup() -> LocalPSoup:
    soup = LocalPSoup(clock=VirtualClock(NOW), verify="all")
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute(SELECT)
    return soup


@pytest.mark.parametrize(
    "change",
    [
        lambda soup: soup.push("x", ROWS),
        lambda soup: soup.push("x", ROWS, "meter", 1, 0),
        lambda soup: soup.heartbeat("x", NOW),
        lambda soup: soup.execute("ALTER STREAM x ADD COLUMN more TEXT"),
        lambda soup: soup.execute("ALTER STREAM x LATENESS 5 SECONDS"),
        lambda soup: soup.submit(Attach("x", "job", Extent(1, 1, 0, 0))),
        lambda soup: soup.submit(Recall("x", "meter", 0, 0)),
        lambda soup: soup.submit(Locate("x", "derived:2")),
    ],
)
def test_no_client_changes_a_derived_stream(soup: LocalPSoup, change: Callable[[LocalPSoup], object]) -> None:
    with pytest.raises(FailedPrecondition) as refused:
        change(soup)
    assert refused.value.reason == "DERIVED"


def test_no_client_has_the_name_of_a_pump(soup: LocalPSoup) -> None:
    for command in (Push("t", ROWS, "derived:1", 1, 0), Recall("t", "derived:1", 1, 0)):
        with pytest.raises(InvalidInput) as refused:
            soup.submit(command)
        assert refused.value.reason == "RESERVED_PRODUCER"


def test_a_source_stays_until_its_derived_streams_are_dropped(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM y AS (SELECT k FROM x)")
    with pytest.raises(FailedPrecondition, match="streams derive from stream 't': y, x;") as refused:
        soup.execute("DROP STREAM t")
    assert refused.value.reason == "STREAM_DERIVES"
    soup.execute("DROP STREAM y")
    soup.execute("DROP STREAM x")
    soup.execute("DROP STREAM t")
    assert not soup.engine.snapshot().streams


def test_cascade_drops_what_derives_and_all_queries_at_once(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM y AS (SELECT k FROM x)")
    soup.execute("CREATE STREAM other (k BIGINT)")
    for text in ("k FROM t", "k FROM y", "a.k FROM t a JOIN t b ON a.k = b.k", "k FROM other"):
        soup.register(f"SELECT {text}")
    before = soup.engine.snapshot()
    assert soup.drop_stream("t", cascade=True) == 3
    after = soup.engine.snapshot()
    assert [name for _, name in after.streams] == ["other"]
    assert (before.count, after.count) == (4, 1)
    soup.check()
    soup.execute("CREATE STREAM t (k BIGINT)")
    soup.execute(SELECT)


def test_creating_the_same_stream_again_is_known(soup: LocalPSoup) -> None:
    for statement, identical in ((SELECT, "true"), (SELECT.replace("k > 0", "k > 1"), "false")):
        with pytest.raises(AlreadyExists) as refused:
            soup.execute(statement)
        assert refused.value.facts["identical"] == identical
    assert "its SELECT" in str(refused.value)


def test_history_behind_a_pump_is_refused_with_the_bound() -> None:
    admission = Admission(archive=True)
    soup = LocalPSoup(clock=VirtualClock(NOW))
    soup.admission = admission
    admission.share_published(soup.engine.snapshot)
    soup.execute("CREATE STREAM e (k BIGINT, at TIMESTAMP) TIMESTAMP BY at")
    attach = Attach("e", "job", Extent(1, 5, NOW - 9_000, NOW - 8_000))
    soup.submit(attach)
    soup.execute("CREATE STREAM x AS (SELECT k FROM e)")
    soup.submit(attach)
    times = pa.array([NOW - 5_000, NOW], pa.timestamp("us"))
    soup.push("e", pa.table({"k": [1, 2], "at": times}))
    with pytest.raises(OutOfRange, match="a stream that derives from 'e' has passed") as refused:
        soup.submit(attach)
    assert refused.value.reason == "DERIVED_PASSED"
    assert refused.value.facts["bound"] == str(NOW - 1)


def test_a_replay_keeps_what_was_closed() -> None:
    """The clock was set back before a restart: no tuple gets a time that a derived stream has passed."""
    again = Admission()
    other = LocalPSoup(clock=VirtualClock(NOW))
    log = list[Event]()
    apply = other.engine.apply

    def recorded(events: Sequence[Event]) -> Effects:
        log.extend(events)
        return apply(events)

    other.engine.apply = recorded  # type: ignore[method-assign]
    other.execute("CREATE STREAM t (k BIGINT)")
    other.execute(SELECT)
    other.push("t", ROWS)
    for event in log:
        again.replay(event)
    pushed = again.prepare(Push("t", ROWS), NOW - 1_000_000).event
    assert pushed.batch.times.tolist() == [NOW + 1]  # type: ignore[union-attr]


@pytest.mark.long
def test_a_drop_looks_once_at_each_stream_of_many_layers(soup: LocalPSoup) -> None:
    """Both streams of a layer derive from both streams below: there are 2^30 ways up."""
    soup._pumps.run = lambda *_: 0  # type: ignore[method-assign]
    names = "x", "x"
    for layer in range(30):
        select = "SELECT a.k FROM {} a [RANGE 1 SECOND], {} b [RANGE 1 SECOND] WHERE a.k = b.k".format(*names)
        names = f"a{layer}", f"b{layer}"
        for name in names:
            soup.execute(f"CREATE STREAM {name} AS ({select})")
    with pytest.raises(FailedPrecondition, match="streams derive from stream 't': b29, a29, b28,"):
        soup.execute("DROP STREAM t")
    soup.execute("DROP STREAM t CASCADE")
    assert not soup.engine.snapshot().by_id


def test_a_push_without_rows_closes_nothing(soup: LocalPSoup) -> None:
    for k in ([1], [], [], [2]):
        soup.push("t", pa.table({"k": pa.array(k, pa.int64())}))
    assert soup.ask(f"SELECT epoch_us(_time) - {NOW} AS at FROM x").to_table().to_pylist() == [
        {"at": 0},
        {"at": 1},
    ]
    view = soup.engine.snapshot().stream("t", soup.tenant)
    assert view.last_time == view.watermark


def test_all_columns_of_a_derived_stream_are_those_of_its_select(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM y AS (SELECT * FROM x)")
    soup.push("t", ROWS)
    assert soup.ask("SELECT * FROM y").to_table().to_pylist() == [{"k": 1}]


def test_neither_tuples_nor_queries_take_the_memory_for_derived_rows() -> None:
    """Otherwise a pump would have no room for its rows, and the sources would keep their chunks for ever."""
    limit = 1_000_000
    soup = LocalPSoup(EngineConfig(memory_bytes=limit), VirtualClock(NOW))
    soup.execute("CREATE STREAM t (k BIGINT)")
    budget, spec = soup.admission._budget, soup.engine.snapshot().stream("t", soup.tenant).spec
    budget.check_queries(limit - 100, 1)
    soup.execute(SELECT)
    with pytest.raises(ResourceExhausted, match="of 1,000,000 bytes, less 62,500 for derived streams, is used up"):
        budget.check_queries(limit - 50_000, 1)
    with pytest.raises(ResourceExhausted, match="less 62,500 for derived streams"):
        budget.check_batch(spec, limit - 50_000)
    budget.check_batch(soup.engine.snapshot().stream("x", soup.tenant).spec, limit - 50_000)


def test_a_step_that_fails_does_not_fail_the_push(soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    """The push is accepted, so it must not be repeated. Other streams are derived, and the next command tries again."""
    soup.execute("CREATE STREAM y AS (SELECT k FROM t)")
    step = Pump.step
    bad = min(soup._pumps.by_id)

    def refused(pump: Pump, *arguments: Any, **options: Any) -> Any:
        if pump.stream_id == bad:
            raise ResourceExhausted("the memory is full", reason="MEMORY_BUDGET")
        return step(pump, *arguments, **options)

    monkeypatch.setattr(Pump, "step", refused)
    assert soup.push("t", ROWS).accepted == 1
    assert {name: str(problem) for name, problem in soup.not_derived.items()} == {"x": "the memory is full"}
    counts = [soup.ask(f"SELECT k FROM {name}").to_table().num_rows for name in ("t", "x", "y")]
    assert counts == [1, 0, 1]
    monkeypatch.undo()
    soup.push("t", ROWS)
    assert not soup.not_derived
    assert soup.ask("SELECT k FROM x").to_table().num_rows == 2
