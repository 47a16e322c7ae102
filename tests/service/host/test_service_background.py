"""Work in the background: its bytes and time are a tenant's, it gives way to calls, and notes outlive the process."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.errors import ResourceExhausted
from psoup.execution.ahead.attempts import Work
from psoup.work.read_budget import ReadEnded
from psoup_service.host.background import Background
from psoup_service.host.fold_notes import FOLDING, LEFT_OUT, FoldMark, FoldNotes, read_fold_mark
from psoup_service.host.reads.allowance import ReadLimits
from psoup_service.host.turns.giving_way import GivingWay
from psoup_storage import MemoryStore
from psoup_testing.services.wire import Wire, run
from psoup_testing.suite.log_records import own_records

BUDGETS = "4096 256 512"


def work(query_id: int) -> Work:
    view: Any = SimpleNamespace(spec=SimpleNamespace(name="s"), tenant="acme")
    return Work(view, "key", query_id, 0)


class Means:
    """The means of a service. `seconds`: the thread's time; `charged`: what tenants were charged."""

    def __init__(self, **limits: Any) -> None:
        self.seconds, self.store = 0.0, MemoryStore()
        self.charged = dict[str, float]()
        self.allowance = ReadLimits(**limits)
        notes = FoldNotes(self.store, BUDGETS)
        self.background = Background(self.allowance, GivingWay(), self.charge, notes, lambda: self.seconds)

    def charge(self, tenant: str, seconds: float) -> None:
        self.charged[tenant] = self.charged.get(tenant, 0.0) + seconds


def test_it_may_hold_half_of_what_reads_could_have_and_gives_it_back() -> None:
    means = Means(sort_bytes=1_000, all_sort_bytes=800)
    background, sorts = means.background, means.allowance.sorts
    assert background.free("acme") == 400
    with background.budget("acme", background.free("acme")) as budget:
        budget.hold_grouped(300)
        assert sorts.used == 300 and background.free("acme") == 250
        with pytest.raises(ResourceExhausted, match="may hold 400"):
            budget.hold_grouped(101)
        assert budget.wanted == 401
        reader = means.allowance.budget("acme")
        reader.hold(500)
        assert background.free("acme") == 0
    assert sorts.used == 500
    reader.close()
    assert Means(sort_bytes=100, all_sort_bytes=800).background.free("acme") == 100


def test_its_time_is_bounded_and_charged_to_the_tenant() -> None:
    means = Means(cpu_s=3.0)
    with means.background.budget("acme", 10) as budget:
        means.seconds = 1.5
        budget.check()
        means.seconds = 2.5
        with pytest.raises(
            ResourceExhausted, match=r"2\.5 s of processor time, and work in the background may use 2 s"
        ):
            budget.check()
    assert means.charged == {"acme": 2.5} and means.background.spent() == 2.5
    assert budget.ask is not None
    means.background.close()
    with pytest.raises(ReadEnded):
        budget.ask()


def test_a_refusal_is_logged_with_the_query(caplog: pytest.LogCaptureFixture) -> None:
    means = Means()
    with caplog.at_level(logging.WARNING):
        means.background.refused(work(7), "too large")
    (record,) = own_records(caplog)
    facts = record.__dict__
    assert (facts["stream"], facts["query"], facts["why"]) == ("s", f"q-{means.store.incarnation}-7", "too large")
    assert means.background.refusals == 1


def test_the_second_start_after_a_kill_leaves_a_query_out_and_later_ones_do() -> None:
    store = MemoryStore()
    for times in (1, 2):  # each process is killed in the midst of it
        notes = FoldNotes(store, BUDGETS)
        assert notes.begin(work(6))
        notes.end()
        assert store.noted(FOLDING) == ""
        assert notes.begin(work(7)) and read_fold_mark(store.noted(FOLDING)) == FoldMark(7, times)
    for _ in range(2):
        notes = FoldNotes(store, BUDGETS)
        assert not notes.begin(work(7)) and notes.begin(work(6))
        notes.end()
    assert json.loads(store.noted(LEFT_OUT)) == {"budgets": BUDGETS, "queries": [7]}
    assert FoldNotes(store, "8192 256 512").begin(work(7)), "other budgets are reason to try again"


def test_processes_that_end_with_different_queries_leave_none_out() -> None:
    store = MemoryStore()
    for query in (7, 8, 7, 8):
        assert FoldNotes(store, BUDGETS).begin(work(query))


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"query": "x", "times": 1}', "null", '{"queries": 7, "budgets": "4096 256 512"}']
)
def test_a_note_that_is_not_valid_is_no_note(text: str) -> None:
    store = MemoryStore()
    store.note(FOLDING, text)
    store.note(LEFT_OUT, text)
    assert FoldNotes(store, BUDGETS).begin(work(7)) and read_fold_mark(text) is None


def test_a_service_hands_what_readers_offer_to_its_writer() -> None:
    async def body(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (a BIGINT)")
        offers = wire.service._offers
        offers.put(1, [offers.offer(0, 0, np.arange(3))])
        pushed = await wire.push("s", pa.table({"a": [1]}))
        await wire.service.host.wait_for(pushed.sequence, 30)
        assert not offers._waiting and offers.take() is None, "the writer has looked at it"
        assert wire.service._figures()["results_offered"] == 0, "there is no such chunk"

    run(body)
