"""Followers of AUTO queries: each pair is told once, also right after a query is AUTO no longer."""

from __future__ import annotations

import numpy as np
import pytest

from psoup.answer.follow.kept_entries import FollowPlace
from psoup.answer.follow.page import Follower, follow_page
from psoup.answer.follow.told import FollowWanted
from psoup.local import LocalPSoup
from psoup.plan.amounts import AUTOMATIC, Amount
from psoup.published.automatic import AmountChoice
from psoup_testing.engines.amounts import ONE, block, make, push

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
