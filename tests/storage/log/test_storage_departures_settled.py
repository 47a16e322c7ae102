"""A service's log forgets what is gone between its commits, in slices of few bytes, and rests where it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from psoup.answer.describe import list_queries
from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.work.clock import VirtualClock
from psoup_storage.contract import at_once
from psoup_storage.durable.log import departures, slices
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.engines.spools import settle

SLICE, LONG = 8, 5_000
MOST = 4 * LONG
"""Bytes of a slice here: four long registrations."""


@pytest.fixture
def soup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestartingPSoup]:
    monkeypatch.setattr(departures, "SLICE", SLICE)
    monkeypatch.setattr(slices, "SLICE_BYTES", MOST)
    made = RestartingPSoup(EngineConfig(chunk_rows=64, piece_rows=64), VirtualClock(0), tmp_path / "data")
    made.execute("CREATE STREAM s (x TEXT)")
    made.store.share(at_once)
    yield made
    made.engine.check()
    made.store.close()


def rows(soup: RestartingPSoup) -> int:
    """Rows of the log."""
    return int(next(soup.store._database.query("SELECT count(*) FROM log"))[0])


def come_and_go(soup: RestartingPSoup, number: int, length: int, together: bool = False) -> None:
    """Long queries that are unregistered again, one by one or all at once."""
    queries = [soup.register(f"SELECT x FROM s WHERE x = '{n}{'y' * length}'") for n in range(number)]
    if together:
        assert soup.unregister_many(queries) == number
        return
    for query in queries:
        soup.unregister(query)


@pytest.mark.seeded("what is gone is forgotten inside a commit of a service")
@pytest.mark.seeded("a slice has no bound of bytes, alone or of a set")
@pytest.mark.seeded("what a slice left is not looked at again")
@pytest.mark.seeded("the last event is due although it stays")
@pytest.mark.seeded("nothing is forgotten when there is time")
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("length", "in_a_slice"), [(10, SLICE), (LONG, 4)])
def test_a_slice_has_few_steps_and_few_bytes(
    soup: RestartingPSoup, length: int, in_a_slice: int, together: bool
) -> None:
    stays = soup.register("SELECT x FROM s")
    come_and_go(soup, 40, length, together)
    assert rows(soup) > 40, "no commit waits for what is forgotten"
    assert not together or not soup.store.due, "the last event stays"
    soup.register("SELECT x FROM s WHERE x = 'newest'")
    seen = [rows(soup)]
    while soup.store.due:
        soup.store.settle()
        seen.append(rows(soup))
    each = in_a_slice * (1 if together else 2)  # without a set, the unregistration goes, too
    assert max(before - after for before, after in pairwise(seen)) <= each + together
    assert rows(soup) < 5 + 2 * SLICE, "all slices that are full have gone"
    soup.restart()
    standing = list_queries(soup.engine.snapshot(), tenant="default", after=-1, limit=9)
    assert [record.query_id for record in standing][:-1] == [stays]


@pytest.mark.seeded("a store without room is due for ever")
def test_what_cannot_be_forgotten_waits_for_the_next_event(
    soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who settles while something is due would go on for ever."""
    attempts = 0

    def full(self: departures.Departures, last: int) -> bool:
        nonlocal attempts
        attempts += 1
        raise ResourceExhausted("no room", reason="DISK_FULL")

    with monkeypatch.context() as patched:
        patched.setattr(departures.Departures, "forget", full)
        come_and_go(soup, 2 * SLICE, 10)
        assert settle(soup.store) == attempts == 1
        soup.register("SELECT x FROM s")
        assert settle(soup.store) == 1 and attempts == 2
    before = rows(soup)
    soup.register("SELECT x FROM s WHERE x = 'more'")
    assert settle(soup.store) >= 1
    assert rows(soup) < before
    soup.restart()


def test_a_registration_longer_than_a_slice_goes_alone(soup: RestartingPSoup) -> None:
    come_and_go(soup, SLICE, 2 * MOST)
    soup.register("SELECT x FROM s")
    before = rows(soup)
    soup.store.settle()
    assert before - rows(soup) == 2
    assert settle(soup.store) < SLICE
    soup.restart()
    soup.store.close()
    assert examine(soup.path).well


def test_an_event_that_ends_many_queries_is_not_due_before_another(soup: RestartingPSoup) -> None:
    """Who settles while something is due would go on for ever."""
    named = pa.table({"x": [str(n) for n in range(5 * SLICE)], "key": [f"k{n}" for n in range(5 * SLICE)]})
    for operator in ("=", "<>"):
        soup.register_many(f"SELECT x FROM s WHERE x {operator} ?", named, key="key", replace=True)
    assert not soup.store.due
    soup.register("SELECT x FROM s")
    assert settle(soup.store) >= 4
    soup.restart()
    assert len(list_queries(soup.engine.snapshot(), tenant="default", after=-1, limit=99)) == 5 * SLICE + 1
