"""Rounds of AUTO in an engine: what they choose, how little they do, and that no answer depends on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.automatic.cost_model import ROWS
from psoup.answer.automatic.rounds import EVERY_S, AutoRounds
from psoup.answer.follow.kept_entries import FollowPlace
from psoup.answer.follow.page import Follower, follow_page
from psoup.answer.follow.told import FollowWanted
from psoup.config import EngineConfig, Shape
from psoup.local import LocalPSoup
from psoup.plan.amounts import AS_USUAL, AUTOMATIC, Amount, Keeping
from psoup.published.automatic import AmountChoice
from psoup.published.idle_clauses import is_idle
from psoup_testing.engines.amounts import CONFIG, JOIN, MANY, ONE, answers, block, clause, make, push, register
from psoup_testing.suite.call_counts import calls_of

NOTHING: Sequence[int] = ()


def amounts(soup: LocalPSoup, query_ids: Sequence[int]) -> list[Amount]:
    snapshot = soup.engine.snapshot()
    return [snapshot.query(i, "default").keeping.amount for i in query_ids]


def rounds(soup: LocalPSoup, count: int, work: Callable[[], object] = list) -> None:
    """So many rounds, with the same work before each."""
    for _ in range(count):
        work()
        soup.clock.advance(seconds=EVERY_S)  # type: ignore[attr-defined]
        soup.maintain()


def choose(soup: LocalPSoup, query_ids: Sequence[int], amount: Amount) -> None:
    soup.engine.install(AmountChoice(amount, np.array(sorted(query_ids), np.int64)))


def busy(queries: Sequence[int] = NOTHING, rows: int = 0, count: int = 0) -> tuple[LocalPSoup, Callable[[], object]]:
    """An engine, and the work of a round: so many new rows, and so many invocations of each query."""
    soup = make(verify="cheap", config=EngineConfig())
    soup.maintain()

    def work() -> None:
        if rows:
            push(soup, rows)
        for query in queries or every:
            for _ in range(count):
                soup.invoke(query).to_table()

    every = [soup.register(ONE, keeping=AUTOMATIC)]
    return soup, work


def test_a_query_that_nobody_asks_becomes_none_after_three_rounds_with_tuples() -> None:
    soup, work = busy(rows=20_000)
    query = soup.queries()[0]
    rounds(soup, 3, work)
    assert amounts(soup, [query]) == [Amount.PARTIAL]
    rounds(soup, 1, work)
    assert amounts(soup, [query]) == [Amount.NONE] and is_idle(clause(soup, query).sqc_id)
    rounds(soup, 20, work)
    assert soup.engine.snapshot().automatic.switches == {Amount.NONE: 1}
    soup.check()


def test_a_query_that_is_asked_often_becomes_complete_and_back() -> None:
    soup, ask = busy(count=40)
    query = soup.queries()[0]
    push(soup, 60_000)
    rounds(soup, 5, ask)
    assert amounts(soup, [query]) == [Amount.COMPLETE]
    rounds(soup, 9, ask)
    assert soup.engine.snapshot().automatic.switches == {Amount.COMPLETE: 1}
    rounds(soup, 6, lambda: push(soup, 500))
    assert amounts(soup, [query]) == [Amount.NONE]
    rounds(soup, 6, ask)
    assert amounts(soup, [query]) == [Amount.COMPLETE]
    soup.check()


@pytest.mark.long
def test_alternating_work_does_not_make_a_query_change_to_and_fro() -> None:
    soup, ask = busy(count=40)
    push(soup, 60_000)
    rounds(soup, 5, ask)
    for turn in range(20):
        rounds(soup, 1, ask if turn % 2 else lambda: push(soup, 500))
    assert sum(soup.engine.snapshot().automatic.switches.values()) <= 2


@pytest.mark.long
def test_the_answers_are_those_of_partial_whatever_is_chosen() -> None:
    soup = make()
    ids, usual = register(soup, AUTOMATIC), register(soup, AS_USUAL)
    soup.clock.advance(seconds=EVERY_S)  # type: ignore[attr-defined]
    soup.maintain()
    for number, amount in enumerate([*Amount, Amount.NONE, Amount.COMPLETE, Amount.PARTIAL, Amount.NONE]):
        choose(soup, ids[:: 1 + number % 2] + usual, amount)
        assert amounts(soup, usual) == [Amount.PARTIAL] * len(usual)
        push(soup, 150, number)
        for _ in range(2):
            assert answers(soup, ids) == answers(soup, usual)
        soup.maintain()
        soup.check()


def test_the_sides_of_a_join_move_with_it() -> None:
    soup = make()
    (join,) = soup.register_many(JOIN, [[1]], keeping=AUTOMATIC)
    for amount in (Amount.NONE, Amount.COMPLETE, Amount.PARTIAL):
        choose(soup, [join], amount)
        snapshot = soup.engine.snapshot()
        sides = snapshot.sides_of(snapshot.query(join, "default"))
        assert [is_idle(side.sqc_id) for side in sides] == [amount is Amount.NONE] * 2
        assert not any(side.keeping.auto for side in sides)
    soup.check()


def test_a_shared_clause_is_kept_at_the_highest_amount() -> None:
    soup = make()
    auto, usual = soup.register(ONE, keeping=AUTOMATIC), soup.register(ONE)
    choose(soup, [auto], Amount.NONE)
    assert clause(soup, auto).sqc_id == clause(soup, usual).sqc_id and not is_idle(clause(soup, auto).sqc_id)
    soup.unregister(usual)
    assert is_idle(clause(soup, auto).sqc_id)
    choose(soup, [auto], Amount.COMPLETE)
    assert not is_idle(clause(soup, auto).sqc_id)
    soup.check()


def test_a_choice_leaves_queries_alone_that_are_not_auto_any_more() -> None:
    soup = make()
    fixed, inactive, gone = (soup.register(ONE, keeping=AUTOMATIC) for _ in range(3))
    soup.alter_queries([fixed], amount=Amount.PARTIAL)
    soup.alter_queries([inactive], active=False)
    soup.unregister(gone)
    choose(soup, [fixed, inactive, gone], Amount.COMPLETE)
    snapshot = soup.engine.snapshot()
    assert snapshot.query(fixed, "default").keeping == AS_USUAL
    assert snapshot.query(inactive, "default").keeping == Keeping(Amount.COMPLETE, active=False, auto=True)
    assert soup.alter_queries([fixed], auto=True) == 1 and soup.alter_queries([fixed], auto=True) == 0
    soup.alter_queries([inactive], active=True)
    assert soup.alter_queries([inactive], amount=Amount.COMPLETE) == 1
    soup.check()


@pytest.mark.parametrize("named", [False, True])
def test_a_follower_is_told_the_same_whatever_is_chosen(*, named: bool) -> None:
    soup = make()
    auto = soup.register(ONE, keeping=AUTOMATIC, key="k")
    soup.maintain()
    soup.register(ONE.replace("> 3", "> 5"), keeping=Keeping(Amount.NONE))
    pages = list[Any]()
    follower, place = Follower(FollowWanted(keys=("k",)) if named else FollowWanted()), FollowPlace(1)
    for amount in (Amount.PARTIAL, Amount.NONE, Amount.COMPLETE, Amount.NONE):
        choose(soup, [auto], amount)
        push(soup, 10)
        snapshot = soup.engine.snapshot()
        page = follow_page(snapshot, snapshot.stream("s", "default"), follower, place, most_rows=99, most_bytes=9_999)
        pages.append(([*page.tuple_ids - place.next_id], [*page.queries]))
        place = page.place
    assert pages[0][0] and set(pages[0][1]) == {auto}
    assert all(pairs == pages[0] for pairs in pages)


def test_a_followed_stream_has_no_idle_auto_queries() -> None:
    soup, work = busy(rows=500)
    query = soup.queries()[0]
    follower = Follower(FollowWanted())

    def follow() -> None:
        work()
        snapshot = soup.engine.snapshot()
        view = snapshot.stream("s", "default")
        follow_page(snapshot, view, follower, FollowPlace(view.next_id), most_rows=9, most_bytes=999)

    rounds(soup, 6, follow)
    assert amounts(soup, [query]) == [Amount.PARTIAL]


@pytest.mark.long
def test_a_query_with_a_copy_does_not_become_none() -> None:
    soup, work = busy(rows=20_000)
    query = soup.queries()[0]

    def copy() -> None:
        work()
        soup.engine.snapshot().automatic.note_copied(query)

    rounds(soup, 1, work)
    rounds(soup, 6, copy)
    assert amounts(soup, [query]) == [Amount.PARTIAL]
    rounds(soup, 62, lambda: push(soup, 1_000))
    assert amounts(soup, [query]) == [Amount.PARTIAL]
    rounds(soup, 2, lambda: push(soup, 20_000))
    assert amounts(soup, [query]) == [Amount.NONE]


def test_a_dear_query_stays_none() -> None:
    soup, ask = busy(count=30)
    query = soup.queries()[0]
    push(soup, 20_000)
    rounds(soup, 1)
    soup.engine.install(AmountChoice(Amount.NONE, np.array([query]), dear=True, time=7))
    rounds(soup, 6, ask)
    assert amounts(soup, [query]) == [Amount.NONE]
    assert "quarantine_share" in "\n".join(soup.explain(query).lines())


def test_a_query_that_is_auto_anew_begins_anew() -> None:
    soup, work = busy(rows=500, count=3)
    query = soup.queries()[0]
    rounds(soup, 2, work)
    soup.engine.install(AmountChoice(Amount.NONE, np.array([query]), dear=True, time=7))
    soup.alter_queries([query], amount=Amount.COMPLETE)
    soup.alter_queries([query], auto=True)
    rounds(soup, 5, work)
    assert amounts(soup, [query]) == [Amount.PARTIAL]
    assert "quarantine_share" not in "\n".join(soup.explain(query).lines())


def test_eager_has_no_effect_while_the_amount_is_auto() -> None:
    soup = make()
    query = soup.register(ONE, keeping=Keeping(Amount.COMPLETE, eager=True))
    for auto in (True, False):
        soup.alter_queries([query], auto=auto, amount=None if auto else Amount.COMPLETE)
        choose(soup, [query], Amount.COMPLETE)
        push(soup, 20)
        soup.update_answers()
        soup.invoke(query).to_table()
        explained = soup.explain(query)
        assert explained.kept_answer and explained.kept_answer.eager is not auto
        assert ("eager" in "\n".join(explained.lines())) is not auto
        assert soup.engine.snapshot().eager.updates == (0 if auto else 1)


def test_explain_says_what_was_chosen_and_why() -> None:
    soup, ask = busy(count=40)
    query = soup.queries()[0]
    assert "observed nothing yet" in "\n".join(soup.explain(query).lines())
    push(soup, 60_000)
    rounds(soup, 5, ask)
    explained = soup.explain(query)
    assert (explained.amount, explained.choice.amount if explained.choice else "") == ("AUTO", "COMPLETE")
    text = "\n".join(explained.lines())
    assert "  amount   AUTO" in text and "chosen   COMPLETE since 1970-01-01 00:00:40" in text
    assert "invoked 4.00 times a second" in text and "60,001 tuples" in text
    plain = soup.explain(soup.register(ONE))
    assert plain.choice is None and "chosen" not in "\n".join(plain.lines())


def test_many_invocations_at_once_are_counted() -> None:
    soup = make()
    ids = block(soup, 20, AUTOMATIC)
    join = soup.register(JOIN.replace("?", "1"), keeping=AUTOMATIC)
    soup.maintain()
    push(soup, 50)
    soup.invoke_table([*ids[3:6], ids[4]]).to_table()
    soup.invoke(join).to_table()
    rows = soup.engine.snapshot().automatic.rows
    assert rows["asked"].tolist() == [0, 0, 0, 1, 1, 1, *[0] * 14, 1]
    assert rows["window"][3] > 0


def test_removed_queries_leave_the_columns() -> None:
    soup = make()
    ids = [*block(soup, 30, AUTOMATIC), soup.register(ONE, keeping=AUTOMATIC)]
    soup.maintain()
    automatic = soup.engine.snapshot().automatic
    soup.unregister_many(ids[:29])
    soup.alter_queries(ids[29:30], amount=Amount.NONE)
    rounds(soup, 1)
    assert automatic.rows.ids.tolist() == ids[30:]
    soup.drop_stream("s", cascade=True)
    rounds(soup, 1)
    assert not automatic
    soup.check()


def note_asked(soup: LocalPSoup) -> None:
    """Note that each AUTO query was asked so often that COMPLETE pays."""
    rows = soup.engine.snapshot().automatic.rows
    for name, value in (("asked", 7_200), ("window", 100_000), ("matches", 5_000), ("form", ROWS)):
        rows[name][:] = value


def test_the_changes_of_a_round_are_bounded_by_their_work() -> None:
    soup = make(verify="cheap", config=EngineConfig())
    ids = [*soup.register_many(MANY, [[n, "x"] for n in range(20_000)], keeping=AUTOMATIC)]
    soup.maintain()
    rounds(soup, 4, lambda: note_asked(soup))
    first = soup.engine.snapshot().automatic.switches[Amount.COMPLETE]
    assert 0 < first < len(ids) // 4
    rounds(soup, 2, lambda: note_asked(soup))
    assert first < soup.engine.snapshot().automatic.switches[Amount.COMPLETE] < len(ids) // 2


@pytest.mark.long
def test_a_round_is_work_as_a_set() -> None:
    """1,000 and 100,000 AUTO queries of a block cause the same number of Python calls, with their change."""
    counted = list[list[int]]()
    for count in (1_000, 100_000):
        soup = LocalPSoup(EngineConfig(shape=Shape(owner_page=1 << 20)), verify="off")
        soup.execute("CREATE STREAM s (x BIGINT, n TEXT)")
        soup.register_many("SELECT x FROM s WHERE x = ?", pa.table({"x": range(count)}), keeping=AUTOMATIC)
        every, automatic, calls = AutoRounds(), soup.engine.snapshot().automatic, list[int]()
        for now in range(5):
            choices = list[AmountChoice]()
            look = partial(every.look, soup.engine.snapshot(), now * 3_600_000_000)
            calls.append(calls_of(lambda look=look, choices=choices: choices.extend(look())))  # type: ignore[misc]
            calls += [calls_of(partial(soup.engine.install, choice)) for choice in choices]
            soup.push("s", pa.table({"x": range(2_000), "n": ["w"] * 2_000}))
            note_asked(soup)
        assert automatic.switches == {Amount.COMPLETE: count}
        counted.append(calls)
        soup.check()
    assert counted[0] == counted[1]


def test_a_restart_begins_with_partial() -> None:
    """The events of a log have no choices: another engine that applies them begins with PARTIAL."""
    soup = make(config=CONFIG)
    ids = block(soup, 4, AUTOMATIC)
    soup.maintain()
    choose(soup, ids, Amount.COMPLETE)
    assert amounts(soup, ids) == [Amount.COMPLETE] * 4
    codes = soup.admission._keepings.codes(np.array(ids))
    assert {Keeping.of(int(code)) for code in codes} == {AUTOMATIC}
