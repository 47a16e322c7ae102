"""Amounts of materialization: NONE and inactive queries. No answer depends on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from psoup.answer.copies.watched_clauses import WatchedClauses, clause_of
from psoup.answer.follow.kept_entries import FollowPlace
from psoup.answer.follow.page import Follower, follow_page
from psoup.answer.follow.told import FollowWanted, check_named
from psoup.config import Shape
from psoup.errors import InvalidInput
from psoup.local import LocalPSoup
from psoup.plan.amounts import AS_USUAL, Amount, Keeping
from psoup.plan.sides import side_id
from psoup.published.idle_clauses import FIRST_IDLE, FIRST_INACTIVE, NO_SLOT
from psoup.published.members import with_sides
from psoup_testing.engines.amounts import (
    ALIKE,
    COMPLETE,
    CONFIG,
    INACTIVE,
    JOIN,
    MANY,
    NONE,
    ONE,
    answers,
    block,
    clause,
    make,
    push,
    register,
    results,
)
from psoup_testing.suite.sweeps import swept

# Idle clauses --------------------------------------------------------------------------------------------------


@pytest.mark.seeded("an idle clause is taken as covered by an open chunk")
def test_an_idle_clause_is_covered_by_no_chunk() -> None:
    """An open chunk claims every clause below ALL. A clause that new tuples do not meet must lie above."""
    soup = make()
    idle, inactive = soup.register(ONE, keeping=NONE), soup.register(ONE, keeping=INACTIVE)
    push(soup, 150)
    soup.maintain()
    push(soup, 20)
    usual = soup.register(ALIKE)
    assert FIRST_IDLE <= clause(soup, idle).sqc_id < FIRST_INACTIVE <= clause(soup, inactive).sqc_id
    assert not any(each.covers(clause(soup, i).sqc_id) for each in results(soup) for i in (idle, inactive))
    assert {clause(soup, i).slot for i in (idle, inactive)} == {NO_SLOT}
    assert answers(soup, [idle, inactive]) == answers(soup, [usual]) * 2


@pytest.mark.seeded("an activated clause is taken as covered by old chunks")
def test_an_activated_clause_is_not_taken_as_covered_by_earlier_chunks() -> None:
    """Earlier chunks claim its former ID. Tuples that came while it was idle met nothing."""
    soup = make()
    ids = register(soup, AS_USUAL)
    push(soup, 100)
    before = clause(soup, ids[0]).sqc_id
    assert soup.alter_queries(ids, amount=Amount.NONE) == len(ids)
    push(soup, 100)
    soup.maintain()
    wanted = answers(soup, ids)
    assert soup.alter_queries(ids, amount=Amount.PARTIAL) == len(ids)
    after = clause(soup, ids[0])
    assert after.sqc_id > before and after.slot != NO_SLOT
    assert not results(soup)[0].covers(after.sqc_id) and results(soup)[-1].covers(after.sqc_id)
    assert answers(soup, ids) == wanted
    soup.maintain()
    assert all(each.covers(after.sqc_id) for each in results(soup))
    assert answers(soup, ids) == wanted


@pytest.mark.parametrize("keeping", swept([NONE, INACTIVE, Keeping(Amount.NONE, active=False)], fast=1))
def test_a_query_is_registered_idle_and_answers_as_the_usual_one(keeping: Keeping) -> None:
    soup, other = make(), make()
    idle, usual = register(soup, keeping), register(other, AS_USUAL)
    for each in (soup, other):
        push(each, 150)
        each.maintain()
        push(each, 30)
    assert answers(soup, idle) == answers(other, usual)
    assert soup.engine.bill()["idle_clauses"] == 13 + 2 * 13
    tables = [each.invoke_table(ids[1:13]) for each, ids in ((soup, idle), (other, usual))]
    assert tables[0].to_table().to_pylist() == tables[1].to_table().to_pylist()
    for query_id in idle:
        soup.unregister(query_id)
    soup.check()
    assert soup.engine.bill()["idle_clauses"] == 0


def members(soup: LocalPSoup, query_id: int) -> list[int]:
    """The queries and sides that share the clause of a query."""
    return [*with_sides(clause(soup, query_id).members, 0)]


def test_a_clause_is_kept_as_long_as_one_of_its_queries_or_sides_is_not_idle() -> None:
    soup = make()
    first, second = soup.register(ONE), soup.register(ONE)
    join = soup.register("SELECT s.x FROM s, t WHERE s.x = t.x AND s.x > 3")
    shared = clause(soup, first).sqc_id
    assert members(soup, first) == [first, second, side_id(join, 0)]
    soup.alter_queries([first, join], amount=Amount.NONE)
    late = soup.register(ONE, keeping=NONE)
    push(soup, 40)
    assert members(soup, second) == [first, second, late, side_id(join, 0)]
    assert clause(soup, first).sqc_id == clause(soup, late).sqc_id == shared
    assert soup.engine.bill()["idle_clauses"] == 1, "the side that no other query shares"
    soup.unregister(late)
    soup.alter_queries([second], active=False)
    assert soup.engine.bill()["clauses"] == soup.engine.bill()["idle_clauses"] == 4
    soup.alter_queries([second], active=True)
    soup.alter_queries([first, join], amount=Amount.COMPLETE)
    soup.check()
    assert members(soup, first) == [first, second, side_id(join, 0)]
    assert answers(soup, [first]) == answers(soup, [second])


def test_sides_of_a_complete_join_are_kept_as_partial() -> None:
    soup = make()
    joins = [soup.register(JOIN.replace("?", "1"), keeping=COMPLETE)]
    joins += soup.register_many(JOIN, [[n] for n in range(12)], keeping=COMPLETE)
    snapshot = soup.engine.snapshot()
    sides = [side for i in joins for side in snapshot.sides_of(snapshot.query(i, "default"))]
    assert {side.keeping for side in sides} == {AS_USUAL} and soup.engine.bill()["idle_clauses"] == 0
    soup.alter_queries(joins, amount=Amount.NONE)
    snapshot = soup.engine.snapshot()
    sides = [side for i in joins for side in snapshot.sides_of(snapshot.query(i, "default"))]
    assert {side.keeping for side in sides} == {NONE} and soup.engine.bill()["idle_clauses"] == 2 * len(joins)


def test_activation_closes_the_open_chunk_if_too_much_work_is_left_over() -> None:
    soup = make(config=replace(CONFIG, chunk_rows=128, shape=replace(Shape(), open_work=1_000)))
    ids = block(soup, 60, NONE)
    push(soup, 100)
    chunks = len(results(soup))
    soup.alter_queries(ids, amount=Amount.PARTIAL)
    assert len(results(soup)) == chunks + 1 and not results(soup)[-2].covers(clause(soup, ids[0]).sqc_id)
    wanted = answers(soup, ids)
    soup.maintain()
    assert all(each.covers(clause(soup, i).sqc_id) for each in results(soup) for i in ids if i % 7)
    assert answers(soup, ids) == wanted


# Calls about tuples ----------------------------------------------------------------------------------------------


def test_matches_match_results_and_why_include_queries_that_are_kept_as_none() -> None:
    soup = make()
    usual, idle, inactive = soup.register(ALIKE), soup.register(ONE, keeping=NONE), soup.register(ONE, keeping=INACTIVE)
    many, off = block(soup, 40, NONE), block(soup, 40, INACTIVE)
    also = block(soup, 40, text=f"{MANY} AND x < 100")
    push(soup, 150)
    for _ in range(2):
        for tuple_id in (8, 70, 140):
            matching = soup.matches("s", tuple_id)
            assert [i in matching for i in (usual, idle, inactive)] == [True, True, False]
            assert not set(matching) & set(off)
            assert [i - many[0] for i in matching if i in many] == [i - also[0] for i in matching if i in also] != []
        between = soup.matches_between("s", 60, 40)
        assert [between.of(row) for row in range(40)] == soup.matches_many("s", range(60, 100))
        soup.maintain()
    rows = pa.table({"x": [9, 2], "n": ["w1", "w2"]})
    offered = soup.match("s", rows)
    assert [usual in offered.of(0), idle in offered.of(0), inactive in offered.of(0), idle in offered.of(1)] == [
        1,
        1,
        0,
        0,
    ]
    assert [i - many[0] for i in offered.of(0) if i in many] == [i - also[0] for i in offered.of(0) if i in also] != []
    bits = soup.results("s", [usual, idle, inactive])
    assert bits.of(idle) == bits.of(usual) == bits.of(inactive)
    assert {soup.why(i, 8).kept_out for i in (usual, idle, inactive)} == {None}


def test_follow_tells_a_query_with_amount_none_only_if_it_is_named() -> None:
    soup = make()
    usual, idle, off = (
        soup.register(ONE, key=key, labels={"a": "b"}, keeping=keeping)
        for key, keeping in (("usual", AS_USUAL), ("idle", NONE), ("off", INACTIVE))
    )
    some = (FollowWanted(), FollowWanted(labels=(("a", "b"),)), FollowWanted(keys=("usual", "off"), query_ids=(idle,)))
    followers, places = [*map(Follower, some)], [FollowPlace(0)] * 3

    def told(rows: int = 30) -> list[set[int]]:
        push(soup, rows)
        view = soup.engine.snapshot().stream("s", "default")
        pages = []
        for number, follower in enumerate(followers):
            limits: dict[str, Any] = {"most_rows": 1 << 20, "most_bytes": 1 << 30, "anew": False}
            page = follow_page(soup.engine.snapshot(), view, follower, places[number], **limits)
            places[number] = page.place
            pages.append(set(page.queries.tolist()))
        return pages

    assert told() == [{usual}, {usual}, {usual, idle}]
    soup.alter_queries([usual], amount=Amount.NONE)
    soup.alter_queries([idle], amount=Amount.PARTIAL)
    assert told() == [{idle}, {idle}, {usual, idle}]
    soup.alter_queries([off], active=True)
    soup.alter_queries([idle], amount=Amount.NONE)
    assert told() == [{off}, {off}, {usual, idle, off}]
    check_named(soup.engine.snapshot(), soup.engine.snapshot().stream("s", "default"), some[2], begins=True)
    soup.alter_queries([off], active=False)
    snapshot = soup.engine.snapshot()
    view = snapshot.stream("s", "default")
    check_named(snapshot, view, FollowWanted(keys=("usual", "off")), begins=False)
    with pytest.raises(InvalidInput, match="query 'off' is inactive"):
        check_named(snapshot, view, FollowWanted(query_ids=(off,)), begins=True)


def test_a_watch_of_an_idle_query_is_unsure_of_new_tuples() -> None:
    """As for a clause in quarantine: only an invocation can tell. A watched clause beside it is not disturbed."""
    soup = make()
    idle, usual = soup.register(ONE, keeping=NONE), soup.register("SELECT x FROM s WHERE x > 100")
    snapshot = soup.engine.snapshot()
    watched = WatchedClauses(snapshot.stream("s", "default"))
    clauses = [clause_of(snapshot, snapshot.query(i, "default"), None) for i in (idle, usual)]
    for each in clauses:
        assert each is not None
        watched.add(each)
    for rows in (3, 200):
        push(soup, rows)
        looked = watched.look(soup.engine.snapshot().stream("s", "default"))
        assert (looked.found.tolist(), looked.unsure.tolist()) == ([], [clauses[0].sqc_id])  # type: ignore[union-attr]
