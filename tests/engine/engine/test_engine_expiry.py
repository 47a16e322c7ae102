"""Queries that expire when they are not asked: what counts as asked, and what a start knows of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.errors import Conflict, InvalidInput, NotFound
from psoup.events.commands import UnregisterMany
from psoup.local import LocalPSoup
from psoup.published.lifetimes import DAY, Lifetimes
from psoup.work.clock import VirtualClock

SQL = "SELECT x FROM s WHERE x > 1"


class Days(LocalPSoup):
    """An engine that tests take from day to day. `clock`: virtual."""

    clock: VirtualClock

    def pass_days(self, days: float) -> None:
        """Days go by, and then there is maintenance."""
        self.clock.advance(seconds=days * DAY / 1_000_000)
        self.maintain()
        self.check()


@pytest.fixture
def soup() -> Days:
    soup = Days(clock=VirtualClock(20_000 * DAY + DAY // 2), verify="all")
    soup.execute("CREATE STREAM s (x BIGINT)")
    soup.push("s", pa.table({"x": [1, 2, 3]}))
    return soup


def test_a_query_expires_when_it_was_not_asked_and_says_so(soup: Days) -> None:
    query = soup.register(SQL, key="k", expires_after="3 days")
    stays = soup.register(SQL)
    soup.pass_days(3)
    assert soup.queries() == [query, stays], "three whole days have not passed yet"
    soup.pass_days(0.5)
    assert soup.queries() == [stays]
    for call in (soup.invoke, soup.explain):
        with pytest.raises(NotFound, match=f"query {query} has expired: it was not asked") as refused:
            call(query)
        assert refused.value.reason == "QUERY_EXPIRED"
    with pytest.raises(NotFound, match="no query with key 'k'"):
        soup.query("k")
    assert soup.register(SQL, key="k", expires_after="3 days") > stays


ASKS: dict[str, Callable[[Days, int], Any]] = {
    "invoke": lambda soup, query: soup.invoke(query),
    "explain": lambda soup, query: soup.explain(query),
    "why": lambda soup, query: soup.why(query, 0),
    "key": lambda soup, _: soup.query("k"),
    "matches": lambda soup, _: soup.matches("s", 1),
    "matches_many": lambda soup, _: soup.matches_many("s", [1]),
    "matches_between": lambda soup, _: soup.matches_between("s", 0, 3),
    "match": lambda soup, _: soup.match("s", pa.table({"x": [5]})),
}


@pytest.mark.parametrize("ask", ASKS)
def test_a_query_that_is_asked_lives_on(soup: Days, ask: str) -> None:
    query = soup.register(SQL, key="k", expires_after="10 days")
    soup.pass_days(9)
    ASKS[ask](soup, query)
    soup.maintain()
    soup.pass_days(9)
    assert soup.queries() == [query]
    soup.pass_days(1.5)
    assert soup.queries() == []


def test_to_be_listed_or_not_to_match_is_not_to_be_asked(soup: Days) -> None:
    query = soup.register(SQL, expires_after="10 days")
    other = soup.register("SELECT x FROM s WHERE x > 4", expires_after="9 days")
    never = soup.register(SQL)
    assert soup.queries(expiring="7 days") == []
    soup.pass_days(4)
    assert soup.queries(expiring="7 days") == [query, other]
    assert soup.queries(expiring="6 days") == [other]
    soup.matches("s", 1)
    soup.pass_days(6)
    assert soup.queries() == [query, never]


def test_each_of_a_block_lives_for_itself(soup: Days) -> None:
    rows = pa.table({"x": range(300), "key": [f"k{n}" for n in range(300)]})
    ids = soup.register_many("SELECT x FROM s WHERE x > ?", rows, key="key", expires_after="2 weeks")
    assert soup.register_many("SELECT x FROM s WHERE x > ?", rows, key="key", expires_after="14 days") == ids
    with pytest.raises(Conflict, match=r"it expires after 14 days\. To put"):
        soup.register_many("SELECT x FROM s WHERE x > ?", rows, key="key")
    soup.pass_days(14)
    soup.invoke(ids[7])
    soup.maintain()
    later = soup.register("SELECT x FROM s WHERE x > 9", key="k9", replace=True)
    soup.pass_days(1)
    assert soup.queries() == [ids[7], later]
    with pytest.raises(NotFound, match="was replaced by"):
        soup.invoke(ids[9])


def test_who_asks_between_the_look_and_the_event_keeps_the_query(soup: Days) -> None:
    query = soup.register(SQL, expires_after="1 day")
    soup.clock.advance(seconds=3 * 86_400)
    soup.invoke(query)
    assert soup.engine.snapshot().lifetimes.due(soup.clock.now()).tolist() == []
    before = soup.engine.snapshot().sequence
    soup.submit(UnregisterMany(np.array([query]), expired=True))
    assert (soup.queries(), soup.engine.snapshot().sequence) == ([query], before)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0 days", "would expire at once; give at least 1 day"),
        ("-1 days", "is not a time after which a query expires; give it as '90 days'"),
        ("soon", "give it as '90 days'"),
        ("90", "give it as '90 days'"),
        ("1000000 years", "months and years have no fixed length, say it in days or weeks"),
        ("365000000 days", "is too long; 36,525 days are the most"),
        ("9" * 400 + " days", "give it as '90 days'"),
        ("1 day\0", "give it as '90 days'"),
    ],
)
def test_what_is_not_a_time_to_live_is_refused(soup: Days, text: str, why: str) -> None:
    before = soup.admission.state()
    with pytest.raises(InvalidInput, match=why):
        soup.register(SQL, expires_after=text)
    with pytest.raises(InvalidInput, match=why):
        soup.register_many("SELECT x FROM s WHERE x > ?", [[1]], expires_after=text)
    assert soup.admission.state() == before


def test_parts_of_a_day_count_as_a_day(soup: Days) -> None:
    hours = soup.register(SQL, expires_after=" 25 HOURS ")
    assert soup.engine.snapshot().lifetimes.end(hours) == 20_003 * DAY


def lives(days: dict[int, int]) -> Lifetimes:
    """Queries that live so long, registered on day 100."""
    made = Lifetimes()
    for query_id, living in days.items():
        made.add(query_id, 1, living, 100 * DAY)
    return made


def test_the_next_process_knows_when_queries_were_asked_and_counts_no_day_without_one() -> None:
    days = {7: 10, 4_096: 10, 9_000: 20}
    before = lives(days)
    before.note(4_096)
    before.tick(105 * DAY)
    saved = before.save(109 * DAY)
    after = lives(days)
    assert after.restore(saved, 109 * DAY)
    assert (
        [after.end(query) for query in days]
        == [before.end(query) for query in days]
        == [
            111 * DAY,
            116 * DAY,
            121 * DAY,
        ]
    )
    after = lives(days)
    assert after.restore(saved, 209 * DAY)
    assert after.due(210 * DAY).tolist() == []
    assert after.due(211 * DAY).tolist() == [7]


@pytest.mark.parametrize("damage", ["", "no", "!!", "half"])
def test_without_a_sound_note_all_queries_count_as_asked_at_the_start(damage: str) -> None:
    before = lives({7: 10, 8: 10})
    saved = before.save(105 * DAY)
    after = lives({7: 10, 8: 10})
    assert not after.restore(saved[: len(saved) // 2] if damage == "half" else damage, 150 * DAY)
    assert (after.due(160 * DAY).tolist(), after.due(161 * DAY).tolist()) == ([], [7, 8])


def test_what_is_gone_leaves_the_memory() -> None:
    made = lives(dict.fromkeys(range(4_090, 4_100), 5))
    made.note_all(np.arange(4_000, 5_000))
    made.check(dict.fromkeys(range(4_090, 4_100), 5))
    made.remove(np.arange(4_000, 4_098))
    made.check({4_098: 5, 4_099: 5})
    made.remove(np.array([4_098, 4_099, 4_090, 10**12]))
    assert not made
    made.note(4_090)
    made.check({})
