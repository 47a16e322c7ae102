"""Followers of AUTO and NONE queries: each pair is told once, whatever happens to the clause of the query."""

from __future__ import annotations

import numpy as np
import pytest

from psoup.answer.follow.idle_auto import idle_auto_clauses
from psoup.answer.follow.kept_entries import FollowPlace
from psoup.answer.follow.page import Follower, follow_page
from psoup.answer.follow.told import FollowWanted
from psoup.local import LocalPSoup
from psoup.plan.amounts import AUTOMATIC, Amount, Keeping
from psoup.published.automatic import AmountChoice
from psoup.published.idle_clauses import idle_clauses
from psoup.values.columns import Array
from psoup_testing.engines.amounts import NONE, ONE, block, make, push
from psoup_testing.engines.within import in_calls
from psoup_testing.suite.sweeps import swept

FEW, MANY = 10, 300
"""Numbers of named queries: their clauses are read alone, or picked from the matches of all clauses."""


def told(soup: LocalPSoup, query_ids: list[int], rows: int) -> list[tuple[int, int]]:
    """All pairs that a follower of some queries is told, in pages of so many pairs."""
    snapshot, pairs = soup.engine.snapshot(), list[tuple[int, int]]()
    view = snapshot.stream("s", "default")
    follower, place = Follower(FollowWanted(query_ids=tuple(query_ids))), FollowPlace(1)
    while place.next_id < view.next_id:
        page = follow_page(snapshot, view, follower, place, most_rows=rows, most_bytes=1 << 20)
        pairs += zip(page.tuple_ids.tolist(), page.queries.tolist(), strict=True)
        place = page.place
    return pairs


@pytest.mark.parametrize("rows", swept([40, 9_999, 7], fast=2))
def test_no_pair_is_told_twice_before_the_next_round(rows: int) -> None:
    """The columns of AUTO still have the queries then."""
    soup = make()
    auto = [soup.register(ONE, keeping=AUTOMATIC), *block(soup, FEW, AUTOMATIC)]
    usual = block(soup, MANY)
    soup.maintain()
    push(soup, 20)
    wanted = told(soup, auto, rows)
    assert wanted and len({*wanted}) == len(wanted)
    for change in ("choice", "none"):
        if change == "choice":
            soup.engine.install(AmountChoice(Amount.NONE, np.array(auto)))
        else:
            soup.alter_queries(auto, amount=Amount.NONE)
        assert told(soup, auto, rows) == wanted
        assert [pair for pair in told(soup, auto + usual, rows) if pair[1] in auto] == wanted


@pytest.mark.parametrize("keeping", [NONE, AUTOMATIC])
def test_a_query_is_told_after_the_last_other_query_has_left_its_clause(keeping: Keeping) -> None:
    """Then it has an idle clause of its own, although no query that concerns the follower has come."""
    soup = make()
    other, query = soup.register(ONE), soup.register(ONE, keeping=keeping)
    soup.maintain()
    if keeping.auto:
        soup.engine.install(AmountChoice(Amount.NONE, np.array([query])))
    follower = Follower(FollowWanted(query_ids=(query,)))

    def page(first: int) -> list[int]:
        snapshot = soup.engine.snapshot()
        view = snapshot.stream("s", "default")
        place = FollowPlace(first)
        page = follow_page(snapshot, view, follower, place, most_rows=100, most_bytes=1 << 20, anew=first == 1)
        return page.tuple_ids.tolist()

    push(soup, 10)  # the numbers 0 to 9: six of them match
    assert len(page(1)) == 6
    soup.unregister(other)
    push(soup, 10)
    assert len(page(11)) == 6


def test_the_idle_clauses_of_all_streams_are_found_once_until_queries_change() -> None:
    """New tuples publish a snapshot, too, and each follower and each call of `matches` asks for these clauses."""
    soup = make(verify="off")
    on_s = [soup.register(f"SELECT x FROM s WHERE x > {n}", keeping=AUTOMATIC) for n in range(60)]
    on_t = [soup.register(f"SELECT x FROM t WHERE x > {n}", keeping=AUTOMATIC) for n in range(60)]
    some = block(soup, 20, AUTOMATIC)
    soup.maintain()

    def found() -> list[Array]:
        snapshot = soup.engine.snapshot()
        views = [snapshot.stream(name, "default") for name in ("s", "t")]
        clauses = [idle_auto_clauses(snapshot, view) for view in views]
        assert [ids.tolist() for ids in clauses] == [
            idle_clauses(snapshot.clauses, v.stream_id).tolist() for v in views
        ]
        return clauses

    assert [len(ids) for ids in found()] == [0, 0]
    soup.engine.install(AmountChoice(Amount.NONE, np.array(on_s + on_t + some)))
    assert [len(ids) for ids in found()] == [80, 60]
    push(soup, 3)
    in_calls(100, found)
    soup.unregister(on_t[0])
    assert [len(ids) for ids in found()] == [80, 59]
