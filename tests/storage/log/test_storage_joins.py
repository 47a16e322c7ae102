"""Joins in the log: their texts alone, bound again to all streams that they named; rows stay while one needs them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from psoup.admission import Admission
from psoup.config import EngineConfig
from psoup.events.change import change_of
from psoup.events.commands import RegisterMany
from psoup.events.events import Event, Registered, RegisteredMany
from psoup.events.tags import TagColumns
from psoup.plan.sides import FIRST_SIDE
from psoup.work.clock import VirtualClock
from psoup_storage import DurableStore
from psoup_storage.durable.log import departures
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.histories.small_joins import join_of
from psoup_testing.suite.sweeps import swept

CONFIG = EngineConfig(chunk_rows=64, piece_rows=64)
OF_R, OF_S, PLAIN = ("r", "a > 5"), ("s", "b > 7"), "SELECT * FROM s WHERE b > 7"
RS, SS, RSR = join_of(OF_R, OF_S), join_of(OF_S, ("s", "b < 3")), join_of(OF_R, OF_S, ("r", "b = 1"))


@pytest.fixture
def soup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestartingPSoup]:
    monkeypatch.setattr(departures, "SLICE", 8)
    made = RestartingPSoup(CONFIG, VirtualClock(0), tmp_path / "data")
    for stream in "rs":
        made.execute(f"CREATE STREAM {stream} (a BIGINT, b BIGINT)")
    yield made
    made.engine.check()
    made.store.close()


def stand(soup: RestartingPSoup) -> dict[int, tuple[int, str]]:
    """All that is published: the stream and the text of each query and side."""
    return {i: (record.stream_id, record.query.text) for i, record in soup.engine.snapshot().queries.items(0)}


def events_of(soup: RestartingPSoup) -> list[Event]:
    """The events of a copy of the directory, as a kill would leave it."""
    target = soup.path.parent / "copy"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(soup.path, target, ignore=shutil.ignore_patterns("lock"))
    assert examine(target).well
    store = DurableStore(target)
    events = [*store.read()]
    store.close()
    return events


def kinds(soup: RestartingPSoup) -> list[tuple[str, int]]:
    """Kind and stream of each row of the log."""
    return [(kind, stream) for kind, stream in soup.store._database.query("SELECT kind, stream FROM log")]


def test_a_restart_binds_joins_to_the_same_sides(soup: RestartingPSoup) -> None:
    soup.register(RS, "once", key="j", labels={"user": "u"}, expires_after="9 days")
    soup.register(SS)
    soup.register_many([PLAIN, RS, RSR, SS], request_id="block")
    soup.submit(RegisterMany([RSR, SS], tags=TagColumns(2, pa.array(["x", "y"]), ())))
    soup.unregister(2)
    soup.register(PLAIN, key="x", replace=True)
    soup.push("r", pa.table({"a": range(200), "b": range(200)}))
    before = stand(soup)
    assert [row for row in kinds(soup) if row[0] == "query"] == [("query", 0), ("query", 2), ("query", 2)]
    soup.restart()
    assert stand(soup) == before and soup.engine.snapshot().sides == sum(i >= FIRST_SIDE for i in before)
    assert soup.query("j") == soup.register(RS, "once", key="j", labels={"user": "u"}, expires_after="9 days") == 1
    assert [*soup.register_many([PLAIN, RS, RSR, SS], request_id="block")] == [3, 4, 5, 6]
    assert [*soup.register_many([PLAIN, RS])] == [10, 11]


def test_the_log_has_what_admission_decided(soup: RestartingPSoup) -> None:
    soup.register(RS)
    soup.register_many([PLAIN, RSR, SS])
    logged = [event for event in events_of(soup) if isinstance(event, Registered | RegisteredMany)]
    single, block = logged
    assert isinstance(single, Registered) and (single.stream_id, single.side_streams) == (1, (1, 2))
    assert isinstance(block, RegisteredMany) and list(block.stream_ids) == [2, 1, 2]
    assert list(block.side_streams) == [(), (1, 2, 1), (2, 2)]
    assert [*change_of(block).queries] == [*block.queries]


@pytest.mark.parametrize(("rest", "count"), swept([("x1.b > $n", 300), ("(x0.b > $n OR x1.a > 3)", 20)], fast=(1,)))
def test_a_block_of_a_template_is_bound_as_it_was(soup: RestartingPSoup, rest: str, count: int) -> None:
    """By columns where that is so, and row by row; some of it is gone."""
    block = soup.register_many(f"{RSR} AND {rest}", pa.table({"n": range(count)}))
    soup.unregister_many(block[5 : count // 2])
    soup.unregister(block[3])
    for number in range(9):  # so that all of that is forgotten
        soup.unregister(soup.register(PLAIN + f" AND a = {number}"))
    before = stand(soup)
    assert len(before) == 4 * (count // 2 + 4)
    soup.restart()
    assert stand(soup) == before
    soup.drop_stream("r", cascade=True)
    assert stand(soup) == {}
    soup.restart()
    assert stand(soup) == {}


def test_names_mean_what_they_meant(soup: RestartingPSoup) -> None:
    """A stream of the same name comes later: the join was of the one before."""
    first = soup.register(RS)
    soup.drop_stream("s", cascade=True)
    soup.execute("CREATE STREAM s (b BIGINT, a BIGINT, more TEXT)")
    second = soup.register(RS)
    soup.execute("ALTER STREAM r ADD COLUMN b2 BIGINT")
    before = stand(soup)
    assert {i % FIRST_SIDE for i in before} == {second} and first not in before
    soup.restart()
    assert stand(soup) == before


@pytest.mark.long
def test_the_rows_of_streams_stay_while_a_join_of_them_is_logged(soup: RestartingPSoup) -> None:
    kept = soup.register(RS)
    for number in range(16):
        soup.execute(f"CREATE STREAM u (a BIGINT, b BIGINT, c{number} TEXT)")
        joins = [soup.register(join_of(OF_S, ("u", f"b > {number}")))]
        joins += soup.register_many([PLAIN, join_of(("u", "b > 1"), OF_R), join_of(OF_R, ("u", "a = 1"), OF_S)])
        if number % 10 == 0:
            assert len(events_of(soup)) > 4
        if number % 3 == 0:
            soup.drop_stream("u", cascade=True)
            soup.unregister(joins[1])
        else:
            for part in [joins] if number % 3 == 1 else [[query] for query in joins]:
                soup.unregister_many(part)
            soup.execute("DROP STREAM u")
        if number % 7 == 0:
            soup.restart()
    assert len(kinds(soup)) < 40
    soup.restart()
    assert len(kinds(soup)) < 15 and {i % FIRST_SIDE for i in stand(soup)} == {kept}


@pytest.mark.long
def test_a_kill_at_any_event_leads_to_the_same_state(soup: RestartingPSoup) -> None:
    def look() -> None:
        admission = Admission(CONFIG)
        for event in events_of(soup):
            admission.replay(event)
        assert admission.state() == soup.admission.state()

    for step in range(2):
        soup.register(RS, key=f"k{step % 2}", replace=True)
        look()
        soup.register_many([RS, PLAIN, SS])
        look()
        soup.unregister_many(soup.queries()[1:3])
        look()
        soup.unregister(soup.queries()[-1])
        look()
    before = stand(soup)
    soup.restart()
    assert stand(soup) == before
