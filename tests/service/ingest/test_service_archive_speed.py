"""The time of an invocation on disk: estimated before it, measured during it, and refused by name."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from psoup.answer.explain.explain import explain
from psoup.answer.invoke import invoke
from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_service.host.reads.allowance import ReadLimits
from psoup_service.host.reads.archive_speed import START, ArchiveSpeed, TenantSpeed
from psoup_testing.engines.restarts import RestartingPSoup

MIL = 1_000_000


class _Clock:
    """Time that goes on by `step` seconds at each look."""

    def __init__(self, step: float = 0.0) -> None:
        self.now, self.step = 100.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def test_a_speed_is_measured_by_kind_and_forgotten_after_a_minute() -> None:
    clock = _Clock()
    speed = ArchiveSpeed(10, clock)
    assert speed.expected("1 columns", 100 * MIL) == 100 * MIL / START == 5.0
    told = speed.start("2 columns, texts", 10 * MIL)
    clock.now += 0.1
    assert told(500_000) == 0, "too early to say"
    clock.now += 0.9
    assert told(500_000) == 10.0, "a million a second"
    assert speed.expected("2 columns, texts", 20 * MIL) == 20.0
    assert speed.expected("1 columns", 20 * MIL) == 1.0, "another kind"
    clock.now += 61
    assert speed.expected("2 columns, texts", 20 * MIL) == 1.0
    short = speed.start("1 columns", 1_000)
    clock.now += 9
    assert short(1_000) == 0, "it says nothing of the speed"
    quick = speed.start("1 columns", MIL)
    clock.now += 0.01
    assert quick(MIL) == pytest.approx(0.01)
    assert speed.expected("1 columns", 200 * MIL) == pytest.approx(2.0)


def test_a_slow_clause_of_one_tenant_says_nothing_of_anothers() -> None:
    clock = _Clock()
    speeds = ArchiveSpeed(10, clock)
    told = speeds.of("acme").start("1 columns", MIL)
    clock.now += 20
    assert told(MIL) == 20.0
    assert speeds.of("acme").expected("1 columns", MIL) == 20.0
    assert speeds.of("umbra").expected("1 columns", 20 * MIL) == 1.0
    budgets = ReadLimits(archive_s=7).budget("acme"), ReadLimits(archive_s=7).budget("umbra")
    assert all(isinstance(budget.archive, TenantSpeed) and budget.archive.seconds == 7 for budget in budgets)


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> RestartingPSoup:
    """Six chunks on disk of 100,000 tuples, and a query that came later."""
    made = RestartingPSoup(EngineConfig(chunk_rows=16_384), VirtualClock(0), tmp_path_factory.mktemp("archive"))
    made.execute("CREATE STREAM s (n BIGINT, m BIGINT) RETENTION 10 ROWS ARCHIVE 1000000 ROWS")
    for start in range(0, 120_000, 20_000):
        numbers = pa.array(range(start, start + 20_000), pa.int64())
        made.push("s", pa.table({"n": numbers, "m": numbers}))
        made.maintain()
    assert made.engine.snapshot().by_id[1].archived >= 6
    return made


def _invoke(soup: RestartingPSoup, query: int, speed: ArchiveSpeed) -> list[int]:
    snapshot = soup.engine.snapshot()
    answer = invoke(snapshot, query, tenant=soup.tenant, now=soup.clock.now(), budget=ReadBudget(archive=speed))
    values: list[int] = answer.to_table().column("n").to_pylist()
    return values


def test_what_would_take_too_long_is_refused_beforehand_and_explain_says_it_before(archived: RestartingPSoup) -> None:
    query = archived.register("SELECT n FROM s WHERE n % 20000 = 7 AND m >= 0")
    view = archived.engine.snapshot().by_id[1]
    tuples, wanted = view.hot_id - view.first_id, list(range(7, 120_000, 20_000))
    assert _invoke(archived, query, ArchiveSpeed(10)) == wanted
    budget = ReadBudget(archive=ArchiveSpeed(10, _Clock()))
    said = explain(archived.engine.snapshot(), query, tenant=archived.tenant, now=archived.clock.now(), budget=budget)
    source = said.source
    assert (source.to_evaluate, source.chunks_to_evaluate, source.refused) == (tuples, view.archived, False)
    assert source.expected_seconds == pytest.approx(tuples / START)
    work = f"an invocation evaluates {tuples:,} of these tuples, in {view.archived} chunks, in"
    assert f"{work} less than 0.1 s" in [line.strip() for line in said.lines("q-1")]
    assert replace(source, expected_seconds=2.0).result_lines("q-1")[-1].strip() == (
        f"{work} about 2.0 s; psoup spark cover q-1 has a job do it once"
    )
    none = replace(source, to_evaluate=0, chunks_to_evaluate=0)
    assert none.result_lines("q-1")[-1].strip() == "an invocation evaluates none of these tuples"
    slow = ArchiveSpeed(10, _Clock())
    slow._measured["2 columns, expressions"] = tuples / 34, slow._clock()
    with pytest.raises(
        ResourceExhausted, match=r"about 34\.0 s where one invocation may take 10 s \(archive_seconds\)"
    ) as no:
        _invoke(archived, query, slow)
    assert "psoup spark cover ID" in str(no.value)
    assert "narrow the window" in str(no.value)
    assert no.value.reason == "ARCHIVE_BUDGET"
    assert (no.value.facts["expected_seconds"], no.value.facts["archive_seconds"]) == ("34.0", "10")
    said = explain(
        archived.engine.snapshot(),
        query,
        tenant=archived.tenant,
        now=archived.clock.now(),
        budget=ReadBudget(archive=slow),
    )
    assert said.source.refused
    assert not said.source.counted
    text = "\n".join(said.lines("q-1"))
    assert f"refused: it would have to evaluate {tuples:,} of these tuples, in {view.archived} chunks, and that" in text
    with pytest.raises(ResourceExhausted, match="may take 0 s"):
        _invoke(archived, query, ArchiveSpeed(0))


def test_a_read_that_turns_out_to_take_too_long_ends_as_soon_as_that_shows(archived: RestartingPSoup) -> None:
    query = archived.register("SELECT n FROM s WHERE m % 20000 = 8")
    speed = ArchiveSpeed(3, _Clock(step=0.7))
    with pytest.raises(ResourceExhausted, match=r"about 4\.\d s where one invocation may take 3 s"):
        _invoke(archived, query, speed)
    assert _invoke(archived, query, ArchiveSpeed(9, _Clock(step=0.7))) == list(range(8, 120_000, 20_000))
