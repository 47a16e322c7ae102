"""Eager answers: updated after events, so that an invocation has nothing left to do; and when they are left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from psoup.answer.invoke import invoke, updated_answer
from psoup.answer.kept_answers.kept_values import KeptSelection
from psoup.answer.kept_answers.sent_answers import KeepingAnswer, SentAnswer
from psoup.answer.question import Question
from psoup.model import DAY, SECOND
from psoup.plan.amounts import Amount
from psoup.published.answer_room import GivenUp
from psoup.work.clock import VirtualClock
from psoup_testing.engines.eager_engine import CONFIG, EAGER, JOIN, ROWS, SORTED, advance, asked, facts, made, push
from psoup_testing.engines.restarts import making
from psoup_testing.oracles.complete_answers import COMPLETE


@pytest.mark.parametrize("select", [ROWS, SORTED, JOIN])
def test_an_invocation_after_an_update_has_nothing_left_to_do(select: str) -> None:
    soup = made()
    query = soup.register(select, keeping=EAGER)
    push(soup, 50, stream="r")
    for step in range(5):
        push(soup, 40, 40 * step)
        soup.update_answers()
        entry = soup.engine.snapshot().answers.look(query)
        assert entry is not None
        assert type(answer := asked(soup, query)) is SentAnswer and answer.budget.examined == 0
        assert soup.engine.snapshot().answers.look(query) is entry, "the invocation kept nothing"
        parts = entry.value.parts  # type: ignore[attr-defined]
        assert [*soup.invoke(query).messages()] == [*parts], "the same bytes"
    assert facts(soup, query).updates == 5 and facts(soup, query).updated == soup.clock.now()


def test_an_update_of_an_older_snapshot_does_not_replace_a_newer_answer() -> None:
    soup = made()
    query = soup.register(ROWS, keeping=EAGER)
    push(soup, 300)
    older = soup.engine.snapshot()
    push(soup, 40, 300)
    asked(soup, query)
    newer = older.answers.look(query)
    soup._eager.step(older, soup.clock.now())
    assert older.answers.look(query) is newer
    assert type(asked(soup, query)) is SentAnswer and older.answers.look(query) is newer


def test_an_update_that_ends_after_a_newer_one_does_not_replace_its_answer() -> None:
    soup = made()
    query = soup.register(ROWS, keeping=EAGER)
    push(soup, 300)
    record, question = soup.engine.snapshot().query(query, soup.tenant), Question(soup.clock.now())
    slow = iter(updated_answer(soup.engine.snapshot(), record, question).messages())
    next(slow)
    push(soup, 40, 300)
    soup.update_answers()
    room = soup.engine.snapshot().answers
    newer = room.look(query)
    assert [*slow] == [] and room.look(query) is newer
    assert type(asked(soup, query)) is SentAnswer and room.look(query) is newer


def test_an_event_between_two_updates_is_met_by_the_next_one() -> None:
    soup = made()
    query = soup.register(ROWS, keeping=EAGER)
    push(soup, 300)
    older = soup.engine.snapshot()
    push(soup, 40, 300)
    soup._eager.step(older, soup.clock.now())
    assert facts(soup, query).updates == 1
    soup.update_answers()
    assert facts(soup, query).updates == 2
    entry = older.answers.look(query)
    assert entry is not None and isinstance(entry.value, KeptSelection) and entry.value.covered[1] == 340
    assert type(asked(soup, query)) is SentAnswer and older.answers.look(query) is entry


def test_a_reader_with_an_older_snapshot_does_not_give_up_a_newer_answer() -> None:
    soup = made()
    query = soup.register("SELECT v FROM s [ROWS 2000]", keeping=EAGER)
    push(soup, 2_000)
    older = soup.engine.snapshot()
    push(soup, 2_000)
    soup.update_answers()
    entry = older.answers.look(query)
    assert entry is not None and entry.sequence > older.sequence
    assert invoke(older, query, tenant=soup.tenant, now=soup.clock.now()).to_table().num_rows == 2_000
    assert older.answers.look(query) is entry
    push(soup, 20)
    soup.update_answers()
    assert facts(soup, query).updates == 2


def test_only_queries_whose_streams_have_an_event_are_updated() -> None:
    soup = made()
    on_s, on_r, both = (soup.register(sql, keeping=EAGER) for sql in (ROWS, ROWS.replace("FROM s", "FROM r"), JOIN))
    plain = [soup.register(f"{ROWS} ", keeping=COMPLETE), soup.register(f"{ROWS}  ")]
    soup.update_answers()
    for stream, expected in (("s", [1, 0, 1]), ("r", [0, 1, 1])):
        before = [facts(soup, query).updates for query in (on_s, on_r, both)]
        push(soup, 60, stream=stream)
        soup.update_answers()
        after = [facts(soup, query).updates for query in (on_s, on_r, both)]
        assert [now - then for now, then in zip(after, before, strict=True)] == expected
    assert not any(soup.engine.snapshot().answers.look(query) for query in plain)


def test_a_query_that_was_not_asked_for_a_day_is_left_out_until_it_is_asked() -> None:
    soup = made()
    query, other = (soup.register(ROWS, key=key, keeping=EAGER) for key in "ab")
    for step in range(4):
        advance(soup, DAY // SECOND // 2)
        asked(soup, other)
        push(soup, 80, 80 * step)
        soup.update_answers()
    assert [facts(soup, some).updates for some in (query, other)] == [3, 4], "the first one came after half a day"
    assert facts(soup, query).why_not == "it was not asked for a day"
    assert any("not updated now: it was not asked for a day" in line for line in soup.explain(query).lines())
    asked(soup, query)
    soup.update_answers()
    push(soup, 10, 400)
    soup.update_answers()
    assert facts(soup, query).why_not == "" and facts(soup, query).updates >= 3
    assert type(asked(soup, query)) is SentAnswer


def test_questions_about_other_times_and_expiry_do_not_count() -> None:
    soup = made()
    query = soup.register(ROWS, keeping=EAGER, expires_after="2 days")
    push(soup, 80)
    soup.update_answers()
    for step in range(4):
        advance(soup, DAY // SECOND)
        push(soup, 80, 80 + 80 * step)
        soup.update_answers()
    soup.engine.snapshot().lifetimes.tick(soup.clock.now())
    assert soup.engine.snapshot().lifetimes.due(soup.clock.now()).tolist() == [query], "updates do not count as a use"


def test_answers_are_made_again_after_a_restart(tmp_path: Path) -> None:
    with making(tmp_path) as make:
        soup = make(CONFIG, VirtualClock(SECOND))
        for name in "sr":
            soup.execute(f"CREATE STREAM {name} (v BIGINT NOT NULL, t TEXT)")
        queries = [soup.register(sql, keeping=EAGER) for sql in (ROWS, JOIN)]
        altered = soup.register(SORTED)
        soup.alter_queries([altered], amount=Amount.COMPLETE, eager=True)
        for stream in "sr":
            push(soup, 300, stream=stream)
        soup.restart()
        assert soup.engine.snapshot().answers.answers == 0
        soup.update_answers()
        for query in (*queries, altered):
            assert type(asked(soup, query)) is SentAnswer


def test_a_dropped_answer_comes_back_when_it_is_asked_for() -> None:
    soup = made()
    query = soup.register(ROWS, keeping=EAGER)
    push(soup, 300)
    soup.update_answers()
    room = soup.engine.snapshot().answers
    room.give_up(room.held)  # as the writer does when memory is full
    for step in range(3):
        push(soup, 40, 300 + 40 * step)
        soup.update_answers()
        assert room.look(query) is None
    assert type(asked(soup, query)) is KeepingAnswer
    push(soup, 40, 500)
    soup.update_answers()
    assert type(asked(soup, query)) is SentAnswer


def test_no_answer_is_made_while_the_room_is_nearly_full() -> None:
    soup = made()
    query = soup.register(ROWS, keeping=EAGER)
    soup.engine.snapshot().answers.bound(0)
    push(soup, 300)
    soup.update_answers()
    assert soup.engine.snapshot().answers.look(query) is None
    soup.engine.snapshot().answers.bound(1 << 20)
    push(soup, 300)
    soup.update_answers()
    assert type(asked(soup, query)) is SentAnswer


def test_an_answer_that_was_given_up_stays_given_up() -> None:
    soup = made()
    query = soup.register(ROWS, keeping=EAGER)
    push(soup, 300)
    soup.update_answers()
    room = soup.engine.snapshot().answers
    room.refuse(query, soup.tenant, soup.clock.now(), "a test gives it up")
    before = facts(soup, query).updates
    for step in range(15):
        push(soup, 10, 300 + 10 * step)
        advance(soup, 10)
        soup.update_answers()
    entry = room.look(query)
    assert facts(soup, query).updates == before
    assert entry is not None and isinstance(entry.value, GivenUp) and entry.value.invocations == 0
    for _ in range(10):
        soup.invoke(query).to_table()
    assert not isinstance(room.look(query).value, GivenUp), "the existing rule tries again"  # type: ignore[union-attr]
    push(soup, 10, 900)
    soup.update_answers()
    assert facts(soup, query).updates == before + 1


def test_explain_does_not_promise_updates_of_an_aggregate() -> None:
    soup = made()
    query = soup.register("SELECT count(*) FROM s", keeping=EAGER)
    push(soup, 300)
    soup.update_answers()
    lines = [line.strip() for line in soup.explain(query).lines()]
    assert "eager: not updated: its answer is not kept" in lines
