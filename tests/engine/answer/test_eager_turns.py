"""Turns of eager updates: budgets, tenants, notes of a host, and the queries that are eager."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from psoup.answer.eager.eager_updates import EagerUpdates
from psoup.answer.kept_answers.sent_answers import KeepingAnswer, SentAnswer
from psoup.errors import ResourceExhausted
from psoup.events.tenants import CreateTenant, Quotas
from psoup.execution.ahead.attempts import Lent, Work
from psoup.plan.amounts import Amount
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import NO_LIMIT, ReadBudget, ReadEnded
from psoup_testing.engines.eager_engine import EAGER, JOIN, ROWS, advance, asked, facts, made, push
from psoup_testing.suite.sweeps import swept


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
    advance(soup, 60)
    asked(soup, query)
    push(soup, 40, 600)
    settle(updates, soup.engine.snapshot(), soup.clock.now())
    assert len(spare.tried) == 2 and type(asked(soup, query)) is SentAnswer


class Ended(Lent):
    """Resources of a process after two that have ended during the update of a query. `begun`: those noted."""

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
        advance(soup, 0.02)
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


@pytest.mark.parametrize("count", swept([200, 2_000], fast=1))
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
