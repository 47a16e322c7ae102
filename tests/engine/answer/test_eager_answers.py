"""Eager answers: updated after events, so that an invocation has nothing left to do; and when they are left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.eager.eager_updates import EagerUpdates
from psoup.answer.invoke import Answer, invoke, updated_answer
from psoup.answer.kept_answers.kept_values import KeptSelection
from psoup.answer.kept_answers.sent_answers import KeepingAnswer, SentAnswer
from psoup.answer.question import Question
from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.events.tenants import CreateTenant, Quotas
from psoup.execution.ahead.attempts import Lent, Work
from psoup.local import LocalPSoup
from psoup.model import DAY, SECOND
from psoup.plan.amounts import Amount, Keeping
from psoup.published.answer_room import AnswerRoom, GivenUp
from psoup.published.eager_queries import EagerFacts
from psoup.published.snapshot import Snapshot
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import NO_LIMIT, ReadBudget, ReadEnded
from psoup_testing.engines.restarts import making
from psoup_testing.oracles.complete_answers import COMPLETE, told

EAGER = Keeping(Amount.COMPLETE, eager=True)
CONFIG = EngineConfig(chunk_rows=64)
ROWS = "SELECT _id, v FROM s WHERE v < 50 BEGIN (NOW - 200 ROWS)"
SORTED = "SELECT DISTINCT t FROM s WHERE v < 50 ORDER BY t BEGIN (NOW - 100 ROWS)"
JOIN = "SELECT a.v, b.t FROM s [ROWS 90] AS a, r [ROWS 50] AS b WHERE a.v = b.v AND a.v < 50"


def made(tenant: str = "default") -> LocalPSoup:
    """Streams `s` and `r` without tuples."""
    soup = LocalPSoup(CONFIG, VirtualClock(SECOND))
    soup.tenant = tenant
    for name in "sr":
        soup.execute(f"CREATE STREAM {name} (v BIGINT NOT NULL, t TEXT)")
    return soup


def push(soup: LocalPSoup, count: int, first: int = 0, stream: str = "s") -> None:
    """Push tuples. Half of them match `ROWS`."""
    numbers = np.arange(first, first + count)
    soup.push(stream, pa.table({"v": numbers * 37 % 100, "t": (numbers % 7).astype(str)}))


def asked(soup: LocalPSoup, query: int) -> Answer:
    """An answer that was read to its end. It is the one under PARTIAL."""
    snapshot = soup.engine.snapshot()
    partial = told(invoke(replace(snapshot, answers=AnswerRoom(0)), query, tenant=soup.tenant, now=soup.clock.now()))
    answer = soup.invoke(query)
    assert told(answer) == partial
    return answer


def facts(soup: LocalPSoup, query: int) -> EagerFacts:
    """The facts about the updates of a query."""
    return soup.engine.snapshot().eager.facts[query]


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
        soup.clock.advance(seconds=DAY // SECOND // 2)
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
        soup.clock.advance(seconds=DAY // SECOND)
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
        soup.clock.advance(seconds=10)
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


class Refusing(Lent):
    """Resources whose budgets refuse. `tried`: the tenants in the order of the updates."""

    def __init__(self) -> None:
        super().__init__(NO_LIMIT)
        self.tried = list[str]()
        self.refuses = True

    def spent(self) -> float:
        """Each update takes 4 ms."""
        return 0.004 * len(self.tried)

    def budget(self, tenant: str, limit: int) -> AbstractContextManager[ReadBudget]:
        """A budget that ends at the first check."""

        @contextmanager
        def opened() -> Iterator[ReadBudget]:
            def ask() -> None:
                if self.refuses:
                    raise ResourceExhausted("a test refuses", reason="READ_CPU")

            self.tried.append(tenant)
            yield ReadBudget(ask)

        return opened()


def settle(updates: EagerUpdates, snapshot: Snapshot, now: int) -> None:
    """Do all updates that are due."""
    while updates.step(snapshot, now):
        pass


def test_an_update_that_a_budget_refuses_is_not_repeated_at_once() -> None:
    soup, spare = made(), Refusing()
    query, updates = soup.register(ROWS, keeping=EAGER), EagerUpdates(spare)
    for step in range(10):
        push(soup, 40, 40 * step)
        settle(updates, soup.engine.snapshot(), soup.clock.now())
    assert len(spare.tried) == 1 and soup.engine.snapshot().eager.refused == 1
    assert any("an update was refused: a test refuses" in line for line in soup.explain(query).lines())
    spare.refuses = False
    asked(soup, query)  # less than a minute later
    push(soup, 40, 500)
    settle(updates, soup.engine.snapshot(), soup.clock.now())
    assert len(spare.tried) == 1
    soup.clock.advance(seconds=60)
    asked(soup, query)
    push(soup, 40, 600)
    settle(updates, soup.engine.snapshot(), soup.clock.now())
    assert len(spare.tried) == 2 and type(asked(soup, query)) is SentAnswer


class Ended(Lent):
    """Resources of a process before which two others have ended during the update of a query. `begun`: those noted."""

    def __init__(self, query: int) -> None:
        super().__init__(NO_LIMIT)
        self.query, self.begun, self.under_way = query, list[int](), 0

    def begin(self, work: Work) -> bool:
        """Refuse the query."""
        self.begun.append(work.query_id)
        self.under_way += work.query_id != self.query
        return work.query_id != self.query

    def end(self) -> None:
        """Count."""
        self.under_way -= 1


def test_an_answer_during_which_processes_have_ended_is_left_out() -> None:
    soup = made()
    bad, good = (soup.register(ROWS, key=key, keeping=EAGER) for key in "ab")
    spare = Ended(bad)
    updates = EagerUpdates(spare)
    for step in range(3):
        push(soup, 40, 40 * step)
        settle(updates, soup.engine.snapshot(), soup.clock.now())
    assert spare.begun == [bad, good] and not spare.under_way, "only the first update is noted"
    assert facts(soup, bad).why_not == "the process has ended twice while its answer was made"
    assert facts(soup, bad).updates == 0 and facts(soup, good).updates == 3


def test_work_that_the_host_ends_leaves_no_note() -> None:
    soup = made()
    soup.register(ROWS, keeping=EAGER)
    push(soup, 40)

    class Ending(Ended):
        @contextmanager
        def budget(self, tenant: str, limit: int) -> Iterator[ReadBudget]:
            def ask() -> None:
                raise ReadEnded

            yield ReadBudget(ask)

    spare = Ending(-1)
    with pytest.raises(ReadEnded):
        EagerUpdates(spare).step(soup.engine.snapshot(), soup.clock.now())
    assert not spare.under_way


def test_tenants_take_turns_and_no_query_waits_for_ever() -> None:
    soup, spare = made(), Refusing()
    spare.refuses = False
    soup.submit(CreateTenant("acme"))
    many = [soup.register(f"SELECT v FROM s WHERE v < {n} BEGIN (NOW - 50 ROWS)", keeping=EAGER) for n in range(9)]
    soup.tenant = "acme"
    soup.execute("CREATE STREAM s (v BIGINT NOT NULL, t TEXT)")
    few = soup.register(ROWS, keeping=EAGER)
    updates = EagerUpdates(spare)
    for round_ in range(9):
        for soup.tenant in ("default", "acme"):
            push(soup, 10, 10 * round_)
        assert updates.step(soup.engine.snapshot(), soup.clock.now())  # a turn of 12 ms is three updates
        updates.step(soup.engine.snapshot(), soup.clock.now())
    assert facts(soup, few).updates >= 8, "another tenant with many queries does not delay it"
    shares = [facts(soup, query).updates for query in many]
    assert min(shares) >= max(shares) - 1 >= 1, f"each query has its turn: {shares}"


def test_a_tenant_with_a_read_share_is_passed_over_until_it_has_paid() -> None:
    soup, spare = made(), Refusing()
    spare.refuses = False
    soup.submit(CreateTenant("acme", quotas=Quotas(read_share=0.1)))
    soup.tenant = "acme"
    soup.execute("CREATE STREAM s (v BIGINT NOT NULL, t TEXT)")
    soup.register(ROWS, keeping=EAGER)
    updates = EagerUpdates(spare)
    for step in range(10):  # an update takes 4 ms, and half of the quota pays for it in 80 ms
        push(soup, 10, 10 * step)
        updates.step(soup.engine.snapshot(), soup.clock.now())
        soup.clock.advance(seconds=0.02)
    assert len(spare.tried) == 3
    assert type(asked(soup, soup.queries()[0])) in (SentAnswer, KeepingAnswer)


def test_the_flags_follow_every_change() -> None:
    soup = made()
    eager = soup.engine.snapshot().eager
    first = soup.register(ROWS, key="one", keeping=EAGER)
    many = soup.register_many(
        "SELECT v FROM s WHERE v < ? BEGIN (NOW - 50 ROWS)", [(n,) for n in range(5_000)], keeping=EAGER
    )
    join = soup.register(JOIN, keeping=EAGER)
    assert eager.ids().tolist() == [first, *many, join]
    soup.alter_queries([many[0], join], active=False)
    soup.alter_queries([many[1]], amount=Amount.PARTIAL)
    soup.alter_queries([many[2]], eager=False)
    soup.unregister_many([*many[3:4_990]])
    again = soup.register(ROWS, key="one", replace=True, keeping=EAGER)
    soup.check()
    assert eager.ids().tolist() == sorted([*many[4_990:], again])
    push(soup, 60)
    soup.update_answers()
    assert sorted(eager.facts) == eager.ids().tolist()
    soup.alter_queries([many[0], join], active=True)
    soup.alter_queries([many[1]], amount=Amount.COMPLETE)
    assert eager.ids().tolist() == sorted([many[0], many[1], *many[4_990:], join, again])
    soup.update_answers()
    assert sorted(eager.facts) == eager.ids().tolist()
    soup.drop_stream("s", cascade=True)
    soup.update_answers()
    assert not eager and not eager.facts and not eager.has_work and not len(soup._eager._index)


def test_a_query_that_was_altered_back_is_made_anew() -> None:
    soup = made()
    query = soup.register(ROWS, keeping=EAGER)
    push(soup, 300)
    soup.update_answers()
    for amount in (Amount.PARTIAL, Amount.COMPLETE):  # both before the next update
        soup.alter_queries([query], amount=amount)
    soup.update_answers()
    assert type(asked(soup, query)) is SentAnswer


@pytest.mark.parametrize("count", [200, 2_000])
def test_an_event_of_another_stream_costs_no_step_for_each_query(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    soup = made()
    soup.register_many("SELECT v FROM s WHERE v < ? BEGIN (NOW - 9 ROWS)", [(n,) for n in range(count)], keeping=EAGER)
    soup.register(ROWS.replace("FROM s", "FROM r"), keeping=EAGER)
    soup.update_answers()
    looked = list[int]()
    of_query = soup._eager._is_updated

    def is_updated(snapshot: Snapshot, row: int, query_id: int, now: int) -> bool:
        looked.append(query_id)
        return of_query(snapshot, row, query_id, now)

    monkeypatch.setattr(soup._eager, "_is_updated", is_updated)
    push(soup, 10, stream="r")
    soup.update_answers()
    assert len(looked) == 1


def test_aggregates_and_answers_that_show_now_are_not_updated() -> None:
    soup = made()
    for sql in ("SELECT count(*) FROM s", "SELECT v, now() AS n FROM s"):
        query = soup.register(sql, keeping=EAGER)
        push(soup, 30)
        soup.update_answers()
        assert facts(soup, query).updates == 0 and soup.engine.snapshot().answers.look(query) is None
        asked(soup, query)
