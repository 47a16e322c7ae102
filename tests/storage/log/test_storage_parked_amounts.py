"""Parked queries of all amounts, also AUTO and eager ones: an engine knows the same of them as it starts again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from psoup.answer.follow.kept_entries import FollowPlace
from psoup.answer.follow.page import Follower, follow_page
from psoup.answer.follow.told import FollowWanted, check_named
from psoup.config import EngineConfig
from psoup.engine.engine import Engine
from psoup.errors import InvalidInput
from psoup.events.events import Registered
from psoup.plan.amounts import AUTOMATIC, Amount, Keeping
from psoup.work.clock import VirtualClock
from psoup_storage import DurableStore
from psoup_testing.engines.amounts import CONFIG, ONE, push, register
from psoup_testing.engines.restarts import RestartingPSoup

EAGER = Keeping(Amount.COMPLETE, eager=True)


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    made = RestartingPSoup(CONFIG, VirtualClock(0), tmp_path / "data")
    made.execute("CREATE STREAM s (x BIGINT, n TEXT)")
    made.execute("CREATE STREAM t (x BIGINT)")
    yield made
    made.check()
    made.store.close()


def check_each_event(soup: RestartingPSoup) -> None:
    """Read the log again, with all checks after each event."""
    soup.store.close()
    soup.store = store = DurableStore(soup.path)
    config: EngineConfig = soup.config
    engine = Engine(config, keep=store.keep, thin=store.thin, log=store.registrations, verify="all")
    for event in store.read():
        engine.apply([event])
    assert engine.snapshot().count == soup.engine.snapshot().count


@pytest.mark.parametrize("keeping", [AUTOMATIC, EAGER])
def test_queries_that_are_registered_as_parked(soup: RestartingPSoup, keeping: Keeping) -> None:
    parked = Keeping(keeping.amount, keeping.eager, active=False, parked=True, auto=keeping.auto)
    ids = register(soup, parked)
    soup.check()
    soup.alter_queries(ids[::2], active=True)
    soup.check()
    soup.restart()
    check_each_event(soup)


@pytest.mark.parametrize("keeping", [AUTOMATIC, EAGER])
def test_queries_that_are_parked_later(soup: RestartingPSoup, keeping: Keeping) -> None:
    ids = register(soup, keeping)
    push(soup, 30)
    soup.update_answers()
    soup.alter_queries(ids[::2], parked=True)
    updates = soup.engine.snapshot().eager.updates
    push(soup, 30)
    soup.update_answers()
    active = len(ids) - len(ids[::2])
    assert soup.engine.snapshot().eager.updates - updates == (active if keeping.eager else 0)
    check_each_event(soup)


def test_a_follower_reads_no_parked_query(soup: RestartingPSoup) -> None:
    sql, labels = "SELECT x FROM s WHERE x > ?", {"of": "ann"}
    ids = [soup.register(sql.replace("?", str(n)), labels=labels) for n in range(4)]
    rows = pa.table({"x": [*range(12)], "of": ["ann"] * 12})
    ids += soup.register_many(sql, rows, labels=("of",))
    parked = ids[:2] + ids[4:8]
    soup.alter_queries(parked, parked=True)
    push(soup, 30)
    snapshot = soup.engine.snapshot()
    view, active = snapshot.stream("s", "default"), set(ids) - set(parked)
    for wanted in (FollowWanted(labels=(("of", "ann"),)), FollowWanted(query_ids=tuple(ids)), FollowWanted()):
        check_named(snapshot, view, wanted, begins=False)
        page = follow_page(snapshot, view, Follower(wanted), FollowPlace(0), most_rows=999, most_bytes=1 << 20)
        assert not len(soup.engine.recalled)
        assert {*page.queries.tolist()} == active - {*ids[-3:]}  # x > 9, 10, 11
    with pytest.raises(InvalidInput, match="a parked query without a key is inactive"):
        check_named(snapshot, view, FollowWanted(query_ids=(ids[0],)), begins=True)
    assert not len(soup.engine.recalled)


def test_an_eager_query_that_was_auto_for_a_while_is_eager_again(soup: RestartingPSoup) -> None:
    ids = register(soup, EAGER)
    soup.alter_queries(ids, auto=True)
    assert not soup.engine.snapshot().eager
    soup.restart()
    assert not soup.engine.snapshot().eager
    soup.alter_queries(ids, amount=Amount.COMPLETE)
    assert soup.engine.snapshot().eager.ids().tolist() == ids
    check_each_event(soup)


def test_a_start_with_an_eager_query_and_a_replaced_query_that_is_gone(soup: RestartingPSoup) -> None:
    """A replaced query, which the log has forgotten. The event that replaced it still names it."""
    eager = soup.register(ONE, keeping=EAGER)
    soup.register(ONE, key="k")
    soup.maintain()
    later = soup.register(f"{ONE} ", key="k", replace=True)
    push(soup, 10)
    soup.maintain()
    soup.store.close()
    soup.store = store = DurableStore(soup.path)
    names = [event.query_id for event in store.read() if isinstance(event, Registered)]
    assert names == [eager, later], "the log has not forgotten the replaced query"
    soup.restart()
    assert soup.queries() == [eager, later] and soup.engine.snapshot().eager.ids().tolist() == [eager]
