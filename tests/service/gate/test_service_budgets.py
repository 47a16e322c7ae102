"""Budgets by their names: each is hit once, and the refusal says which, what is used, the limit, and what raises it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from google.rpc import error_details_pb2

from psoup.answer.copies import answer_again
from psoup.answer.invoke import invoke
from psoup.answer.question import Question
from psoup.answer.tuples.match_bits import stretch
from psoup.budgets import BUDGETS
from psoup.config import EngineConfig
from psoup.errors import PSoupError
from psoup.events.commands import Register
from psoup.execution.select.archive_work import ArchiveWork
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_proto.v1 import queries_pb2
from psoup_service.gate.principal import Principal
from psoup_service.host.reads.allowance import ReadLimits
from psoup_service.host.reads.expectations import Expectations
from psoup_service.host.reads.pins import Pins
from psoup_service.host.reads.readers import Read, Readers
from psoup_service.host.shared_bytes import SharedBytes
from psoup_service.process.settings import Settings
from psoup_service.wire.answers import Pieces
from psoup_service.wire.limits import Limits
from psoup_service.wire.stages import BatchKey, StagedPart, Stages
from psoup_service.wire.status import status_of
from psoup_service.wire.under_way import CallsUnderWay
from psoup_testing.engines.admission_gate import Gate
from psoup_testing.services.host_rig import PATIENCE

ROWS = 200


def _soup(**sizes: Any) -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, **sizes), VirtualClock(100))
    soup.execute("CREATE STREAM s (k BIGINT, t TEXT)")
    soup.push("s", pa.table({"k": range(ROWS), "t": ["x" * 100] * ROWS}))
    return soup


def _statement(sql: str) -> None:
    gate = Gate()
    gate.create("CREATE STREAM s (k BIGINT)")
    gate.send(Register(sql))


def _asked(sql: str, **sizes: Any) -> None:
    _soup(**sizes).ask(sql).to_table()


def _read(sql: str, budget: ReadBudget) -> None:
    soup = _soup()
    query, snapshot = soup.register(sql), soup.engine.snapshot()
    invoke(snapshot, query, tenant=soup.tenant, now=100, budget=budget).to_table()


def _on_disk(rows: int, budget: ReadBudget) -> None:
    ArchiveWork("plain", 10**9, 4).refuse(rows, budget)


def _row_of_much_text() -> None:
    _asked("SELECT upper(t) AS u, lower(t) AS v FROM s", evaluation_bytes=150)


def _reply() -> None:
    soup = _soup()
    pieces = Pieces(soup.invoke(soup.register("SELECT t FROM s")).lean(), queries_pb2.InvokeStreamResponse, 50, 60)
    for _ in iter(pieces.next, None):
        pass


def _bits() -> None:
    soup = _soup()
    snapshot = soup.engine.snapshot()
    stretch(snapshot, snapshot.stream("s", soup.tenant), now=100).refuse_too_large(8, 100)


def _copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_again, "MOST_BYTES", 10)
    soup = _soup()
    snapshot, query = soup.engine.snapshot(), soup.register("SELECT DISTINCT k FROM s")
    snapshot = soup.engine.snapshot()
    answer_again.again(snapshot, snapshot.query(query, soup.tenant), answer_again.NOTHING, Question(100))


def _processor_time() -> None:
    async def run() -> None:
        readers = Readers(1, 0.05)
        try:
            await readers.read(_worked, tenant="t", long=False)
        finally:
            await asyncio.to_thread(readers.close)

    def _worked(reading: Read) -> None:
        for _ in itertools.count():
            reading.ask()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def _pinned() -> None:
    view, told = SimpleNamespace(hot_id=0, tenant="t"), list[PSoupError]()
    pins = Pins(800, lambda: SimpleNamespace(by_id={1: view}))  # type: ignore[arg-type,return-value]
    chunks: Any = [SimpleNamespace(first_id=first, nbytes=100, in_memory=True) for first in (0, 10)]
    pins.hold(1, chunks, told.append)
    view.hot_id = 20
    pins.settle(0)
    raise told[0]


def _staged() -> None:
    async def run() -> None:
        stages = Stages(1_000, 60.0)
        stage = stages.open(BatchKey("t", "s", "p", 0, 0), 1)
        stages.put(stage, "a", StagedPart(pa.table({}), 0, 900))

    asyncio.run(run())


def _watched() -> None:
    under_way, principal = CallsUnderWay(Limits(watches_per_credential=2)), Principal("dash", ("reader",))
    with under_way.watched(principal), under_way.watched(principal), under_way.watched(principal):
        pass


HITS: dict[str, Callable[[], None]] = {
    "statement_bytes": lambda: _statement(f"SELECT k FROM s WHERE k = 1 /* {'x' * 70_000} */"),
    "statement_depth": lambda: _statement(f"SELECT k FROM s WHERE k = {'(' * 60}1{')' * 60}"),
    "statement_words": lambda: _statement("SELECT k FROM s WHERE k" + "+k" * 8_000 + " > 1"),
    "memory_bytes": lambda: _asked("SELECT k FROM s", memory_bytes=100),
    "staged_bytes": _staged,
    "read_cpu": _processor_time,
    "archive_seconds": lambda: _on_disk(2**62, ReadLimits(archive_s=0.1).budget()),
    "archive_rows": lambda: _on_disk(10, ReadBudget()),
    "rows_examined": lambda: ReadBudget(rows=10).examine(11),
    "sort_rows": lambda: _asked("SELECT k FROM s ORDER BY k", sort_rows=10),
    "sort_bytes": lambda: _read("SELECT k FROM s ORDER BY k", ReadBudget(sort_bytes=100)),
    "group_keys": lambda: _asked("SELECT k, count(*) AS n FROM s GROUP BY k", group_keys=10),
    "group_rows": lambda: _asked("SELECT k, count(*) AS n FROM s GROUP BY k", group_rows=10),
    "group_bytes": lambda: _read("SELECT k, count(*) AS n FROM s GROUP BY k", ReadBudget(sort_bytes=100)),
    "join_pairs": lambda: _asked("SELECT x.k FROM s x, s y WHERE x.t = y.t", join_pairs=100),
    "join_bytes": lambda: _asked("SELECT x._id FROM s x, s y WHERE x.t || '' = y.t", join_bytes=1_000),
    "shared_bytes": lambda: _read("SELECT k FROM s ORDER BY k", ReadBudget(shared=SharedBytes(100))),
    "row_bytes": _row_of_much_text,
    "reply_bytes": _reply,
    "results_bytes": _bits,
    "pinned_bytes": _pinned,
    "watches": _watched,
}


@pytest.mark.parametrize("name", BUDGETS)
def test_each_budget_is_hit_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PSoupError) as caught:
        _copy(monkeypatch) if name == "copied_bytes" else HITS[name]()
    refusal, budget = caught.value, BUDGETS[name]
    assert refusal.facts["budget"] == name
    assert refusal.facts.get("setting", "") == budget.setting
    used, limit = (float(refusal.facts[fact].removesuffix(" or more")) for fact in ("used", "limit"))
    assert used + float(refusal.facts.get("needed", 0)) > limit
    assert budget.setting in refusal.message
    assert f"{limit:,.0f}" in refusal.message or refusal.facts["limit"] in refusal.message, "the limit in words"
    ways = (
        "narrow",
        "split",
        "simplify",
        "use IN",
        "raise",
        "commit smaller",
        "select",
        "try again",
        "invoke the query",
    )
    assert any(way in refusal.message for way in ways), "the way out"
    violation = error_details_pb2.QuotaFailure()
    found = [part for part in status_of(refusal).details if part.Unpack(violation)]
    assert [violation.violations[0].subject for _ in found] == ([] if budget.of == "statement" else [name])


def test_every_setting_of_a_budget_is_one() -> None:
    assert {budget.setting for budget in BUDGETS.values()} - {""} <= set(Settings.model_fields)


@pytest.mark.parametrize(
    ("sql", "spends"),
    [
        ("SELECT k FROM s WHERE k < 50", {"reply_bytes": (400, None)}),
        ("SELECT k, t FROM s LIMIT 5", {"reply_bytes": (60, None)}),
        ("SELECT count(*) AS n FROM s", {"reply_bytes": (8, None)}),
        (
            "SELECT k FROM s WHERE k < 50 ORDER BY k",
            {"sort_rows": (50, 5_000_000), "sort_bytes": (1_600, None), "reply_bytes": (400, None)},
        ),
        (
            "SELECT k % 7 AS m, count(*) AS n FROM s GROUP BY m",
            {
                "group_keys": (7, 4_194_304),
                "group_rows": (7, 1_048_576),
                "group_bytes": (None, None),
                "reply_bytes": (112, None),
            },
        ),
        (
            "SELECT x.k FROM s x, s y WHERE x.k = y.k",
            {"join_pairs": (ROWS, 1_000), "join_bytes": (None, 2**28), "reply_bytes": (1_600, None)},
        ),
        (
            "SELECT x.k % 3 AS m, count(*) AS n FROM s x, s y WHERE x.k = y.k GROUP BY m",
            {
                "group_keys": (ROWS, 4_194_304),
                "group_rows": (ROWS, 1_048_576),
                "group_bytes": (3_200, None),
                "join_pairs": (ROWS, 1_000),
                "join_bytes": (None, 2**28),
                "reply_bytes": (3_200, None),
            },
        ),
    ],
)
def test_explain_says_what_an_invocation_would_spend(sql: str, spends: dict[str, tuple[float, float]]) -> None:
    soup = _soup(join_pairs=1_000)
    explained = soup.explain(soup.register(sql))
    told = {spend.budget: spend for spend in explained.budgets}
    assert list(told) == ["rows_examined", *spends]
    for name, (expected, limit) in spends.items():
        assert told[name].expected == expected or (expected is None and told[name].expected > 0)
        assert told[name].limit == limit
        assert f"{name} {told[name].bound} " in "\n".join(explained.lines())
    assert [spend["budget"] for spend in explained.to_dict()["budgets"]] == list(told)


def test_explain_says_the_processor_time_of_the_last_answer() -> None:
    expected = Expectations()
    assert expected.seconds(1) is None
    expected.measured(1, lambda _: None, ReadBudget())
    seconds = expected.seconds(1)
    assert seconds is not None and 0 <= seconds < PATIENCE


class _Most(ReadBudget):
    """A budget that knows the most that groups held."""

    most = 0

    def hold_grouped(self, size: int) -> None:
        super().hold_grouped(size)
        self.most = max(self.most, self.grouped)


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        ("SELECT k, count(*) AS n, sum(k) AS m, avg(k) AS o FROM s GROUP BY k", ROWS),
        ("SELECT t, max(k) AS m FROM s GROUP BY t", 1),
    ],
)
def test_expected_bytes_of_groups_are_about_what_an_invocation_holds(sql: str, keys: int) -> None:
    soup = _soup()
    query, budget = soup.register(sql), _Most()
    told = {spend.budget: spend.expected for spend in soup.explain(query).budgets}
    invoke(soup.engine.snapshot(), query, tenant=soup.tenant, now=100, budget=budget).to_table()
    assert told["group_keys"] == keys
    assert budget.most / 4 <= told["group_bytes"] <= 4 * budget.most, (told["group_bytes"], budget.most)
