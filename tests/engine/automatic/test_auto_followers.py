"""Followers of AUTO and NONE queries: each pair is told once, whatever happens to the clause of the query."""

from __future__ import annotations

import numpy as np
import pytest

from psoup.answer.follow.kept_entries import FollowPlace
from psoup.answer.follow.page import Follower, follow_page
from psoup.answer.follow.told import FollowWanted
from psoup.local import LocalPSoup
from psoup.plan.amounts import AUTOMATIC, Amount, Keeping
from psoup.published.automatic import AmountChoice
from psoup_testing.engines.amounts import NONE, ONE, block, make, push

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


@pytest.mark.parametrize("rows", [7, 9_999])
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
        told = follow_page(snapshot, view, follower, place, most_rows=100, most_bytes=1 << 20, anew=first == 1)
        return told.tuple_ids.tolist()

    push(soup, 10)  # the numbers 0 to 9: six of them match
    assert len(page(1)) == 6
    soup.unregister(other)
    push(soup, 10)
    assert len(page(11)) == 6
