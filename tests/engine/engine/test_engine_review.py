"""Corners where the engine's structures meet: what one run of events does, what is left behind, and at what cost."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.admission.budget import TEXT_BYTES
from psoup.answer.describe import describe_stream
from psoup.config import EngineConfig, Shape
from psoup.data import data_stem as reorder
from psoup.data.data_stem import ReorderBuffer
from psoup.errors import InvalidInput, ResourceExhausted
from psoup.events.commands import Command, CreateStream, DropStream, Push, Register, Unregister
from psoup.local import LocalPSoup
from psoup.model import BIGINT, SECOND
from psoup.values.columns import Batch, Column, concat_batches
from psoup_testing.suite.call_counts import calls_of

SMALL = EngineConfig(chunk_rows=64)
BIG = 2**62
FAILS = "a * 4 > 7"
"""Overflows where a is BIG, and is evaluated as a derived attribute."""


def made(config: EngineConfig = SMALL, stream: str = "CREATE STREAM s (a BIGINT)") -> LocalPSoup:
    soup = LocalPSoup(config)
    soup.execute(stream)
    return soup


def table(values: Any) -> pa.Table:
    return pa.table({"a": pa.array(list(values), pa.int64())})


def at_once(soup: LocalPSoup, *commands: Command) -> None:
    """Prepare all, then apply them as one run."""
    events = [soup.admission.prepare(command, soup.clock.now()).event for command in commands]
    effects = soup.engine.apply([event for event in events if event is not None])
    soup.admission.give_back(effects.freed_bytes)


def errors(soup: LocalPSoup, query: int) -> int:
    return soup.invoke(query).completeness.errors


@pytest.mark.parametrize("domain", ["", " TIMESTAMP BY t LATENESS 9 SECONDS"])
def test_a_stream_dropped_in_the_run_of_its_last_push_gives_all_bytes_back(domain: str) -> None:
    soup = made(stream=f"CREATE STREAM s (a BIGINT, t TIMESTAMP){domain}")
    rows = table(range(10)).append_column("t", pa.array(range(10), pa.timestamp("us", "UTC")))
    at_once(soup, Push("s", rows), DropStream("s"))
    assert soup.admission.reserved_bytes == 0


def test_a_stream_dropped_and_made_again_in_one_run_is_empty() -> None:
    soup = made()
    query = soup.register("SELECT a FROM s WHERE a > 1")
    soup.push("s", table(range(100)))
    task = soup.engine.maintenance(everything=True)
    assert task is not None
    result = task.compute()
    at_once(
        soup,
        Unregister(query),
        DropStream("s"),
        CreateStream("CREATE STREAM s (a BIGINT)"),
        Register("SELECT a FROM s WHERE a > 1"),
        Push("s", table([1, 2, 3])),
    )
    soup.engine.install(result)
    assert soup.invoke(query + 1).to_table().column("a").to_pylist() == [2, 3]
    soup.maintain()
    soup.check()


def test_queries_that_share_a_clause_are_counted_in_their_stream() -> None:
    soup = made()
    first, second = (soup.register("SELECT a FROM s WHERE a > 1") for _ in range(2))

    def count() -> int:
        return describe_stream(soup.engine.snapshot(), "s", tenant="default", now=0).queries

    assert count() == 2
    soup.unregister(first)
    assert count() == 1
    soup.unregister(second)
    assert count() == 0


def test_errors_are_counted_anew_for_a_clause_that_comes_again() -> None:
    """While nobody asked, nobody counted: what was counted before is only a part."""
    soup = made()
    query = soup.register(f"SELECT a FROM s WHERE {FAILS}")
    soup.push("s", table([BIG] * 3))
    assert errors(soup, query) == 3
    soup.unregister(query)
    soup.push("s", table([BIG] * 4))
    again = soup.register(f"SELECT a FROM s WHERE {FAILS}")
    assert errors(soup, again) == 7
    soup.push("s", table([BIG] * 5))
    assert errors(soup, again) == 12


def test_errors_are_counted_anew_over_a_closed_chunk_too() -> None:
    soup = made()
    query = soup.register(f"SELECT a FROM s WHERE {FAILS}")
    soup.push("s", table([BIG] * 3))
    soup.unregister(query)
    soup.push("s", table([BIG] * 61))
    again = soup.register(f"SELECT a FROM s WHERE {FAILS}")
    uncovered = errors(soup, again)
    while (task := soup.engine.maintenance()) is not None:
        soup.engine.install(task.compute())
    assert (uncovered, errors(soup, again)) == (64, 64)


def test_errors_of_expressions_that_nobody_uses_are_forgotten() -> None:
    soup = made()
    soup.push("s", table([BIG] * 64))
    for factor in range(4, 14):
        query = soup.register(f"SELECT a FROM s WHERE a * {factor} > 7")
        soup.maintain()
        soup.unregister(query)
        soup.maintain()
    entry = soup.engine.snapshot().stream("s", "default").chunks[0]
    assert len(entry.results.errors) == 0


def test_explain_says_where_a_window_of_rows_begins() -> None:
    soup = made()
    query = soup.register("SELECT a FROM s BEGIN (NOW - 2 ROWS)")
    for second in range(5):
        soup.clock.set(second * SECOND)  # type: ignore[attr-defined]
        soup.push("s", table([second]))
    assert soup.explain(query).source.begin == "1970-01-01 00:00:03Z"


def test_tuples_past_their_retention_leave_when_room_is_needed() -> None:
    """Refused pushes move no time in the system domain: without this the stream would be full for ever."""
    sql = "SELECT a FROM s"
    config = EngineConfig(chunk_rows=64, memory_bytes=4_000 + TEXT_BYTES + len(sql))
    soup = made(config, "CREATE STREAM s (a BIGINT) RETENTION 10 SECONDS")
    query = soup.register(sql)
    soup.push("s", table(range(100)))
    soup.push("s", table(range(100)))
    with pytest.raises(ResourceExhausted):
        soup.push("s", table(range(100)))
    soup.clock.set(11 * SECOND)  # type: ignore[attr-defined]
    soup.push("s", table(range(150)))
    assert soup.invoke(query).to_table().num_rows == 150
    soup.maintain()
    soup.check()


def test_chunks_that_are_not_sealed_leave_an_engine_behind_until_they_are() -> None:
    """Their results take the memory of the open form: here some 10 KB each, beside 512 bytes of tuples."""
    soup = made(EngineConfig(chunk_rows=64, memory_bytes=2**20))
    soup.register_many("SELECT a FROM s WHERE a >= ?", [(n,) for n in range(40)])
    pushed = 0
    while soup.engine.behind() <= 1:
        soup.push("s", table(range(64)))
        pushed += 1
        assert pushed < 200
    waiting = soup.engine._streams[1].shelf.waiting_bytes
    assert 2**20 // 16 < waiting < 2**20 // 8
    soup.maintain()
    assert (soup.engine.behind(), soup.engine._streams[1].shelf.waiting_bytes) == (0, 0)


def test_maintenance_of_one_stream_does_not_wait_for_that_of_another() -> None:
    soup = made()
    soup.execute("CREATE STREAM other (a BIGINT)")
    soup.push("other", table(range(64)))
    served = set()
    for _ in range(4):
        soup.push("s", table(range(64)))
        task = soup.engine.maintenance()
        assert task is not None
        result = task.compute()
        served.add(result.stream_id)
        soup.engine.install(result)
    assert served == {1, 2}


def test_many_clauses_are_covered_in_parts() -> None:
    soup = made(replace(SMALL, shape=Shape(cover_at_once=7)))
    soup.push("s", table(range(130)))
    queries = [soup.register(f"SELECT a FROM s WHERE a % 9 < {n % 9} AND a > {n}") for n in range(20)]
    answers = [soup.invoke(query).to_table() for query in queries]
    covers = 0
    while (task := soup.engine.maintenance()) is not None:
        covers += task.name == "cover"
        soup.engine.install(task.compute())
        assert [soup.invoke(query).to_table() for query in queries] == answers
    assert covers == 3  # of both chunks each
    assert all(soup.explain(query).source.chunks_covered == 3 for query in queries)


def test_a_clause_gone_while_it_was_covered_leaves_nothing() -> None:
    soup = made()
    soup.push("s", table(range(64)))
    soup.maintain()
    before = soup.engine.bill()
    query = soup.register("SELECT a FROM s WHERE a > 3")
    task = soup.engine.maintenance()
    assert task is not None
    assert task.name == "cover"
    result = task.compute()
    soup.unregister(query)
    soup.engine.install(result)
    soup.maintain()
    assert soup.engine.bill() == before


def test_slots_used_again_while_results_of_their_former_owners_are_under_way() -> None:
    soup = made()
    old = [soup.register(f"SELECT a FROM s WHERE a >= {n}") for n in range(10)]
    soup.push("s", table(range(64)))
    task = soup.engine.maintenance()
    assert task is not None
    assert task.name == "seal"
    result = task.compute()
    for query in old:
        soup.unregister(query)
    soup.push("s", table(range(64)))
    new = [soup.register(f"SELECT a FROM s WHERE a < {n}") for n in range(10)]
    soup.engine.install(result)
    for _ in range(2):
        assert [soup.invoke(query).to_table().num_rows for query in new] == [2 * n for n in range(10)]
        assert soup.matches("s", 5) == new[6:]
        soup.maintain()
        soup.check()


def test_a_query_that_came_and_went_leaves_the_bill_as_it_was() -> None:
    soup = made()
    stays = soup.register("SELECT a FROM s WHERE a > 30")
    soup.push("s", table(range(200)))
    soup.maintain()
    before = soup.engine.bill()
    for _ in range(3):
        query = soup.register(f"SELECT a FROM s WHERE a < 50 AND {FAILS}")
        soup.maintain()
        assert soup.engine.bill() != before
        soup.unregister(query)
        soup.maintain()
        assert soup.engine.bill() == before
    assert soup.invoke(stays).to_table().num_rows == 169


def test_buffered_tuples_are_not_sorted_again_with_every_few_pushes(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = 0

    def counting(batches: Any) -> Batch:
        nonlocal copied
        copied += sum(len(batch) for batch in batches)
        return join(batches)

    join = concat_batches
    monkeypatch.setattr(reorder, "concat_batches", counting)
    buffer, total = ReorderBuffer(), 4_096
    times = np.random.default_rng(1).integers(0, 1_000, total)
    for n in range(total):
        buffer.add(Batch((Column(BIGINT, np.array([n])),), times[n : n + 1]))
    assert copied < 12 * total
    buffer.check()
    released = buffer.release(1_000)
    assert released is not None
    assert released.batch.columns[0].values.tolist() == np.argsort(times, kind="stable").tolist()


@pytest.mark.parametrize("rows", [0, 100, 131_072])
def test_chunks_of_an_impossible_size_are_refused(rows: int) -> None:
    with pytest.raises(InvalidInput, match="chunk_rows"):
        EngineConfig(chunk_rows=rows)


@pytest.mark.parametrize("where", ["a > 63", "a < 0", "a IS NULL", "_time < TIMESTAMP '1970-01-01'", "FALSE"])
def test_a_closed_chunk_whose_zones_exclude_a_clause_is_not_scanned(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    soup = made()
    soup.push("s", table(range(70)))
    query = soup.register(f"SELECT a FROM s WHERE {where}")
    scanned: list[object] = []
    for name in ("scan", "codes_mask"):
        monkeypatch.setattr(sys.modules["psoup.matching.search"], name, lambda *args: scanned.append(args))
    found = soup.invoke(query).to_table().column("a").to_pylist()
    assert (found, scanned) == ([*range(64, 70)] if where == "a > 63" else [], [])


def test_zones_hide_no_match_and_no_error() -> None:
    """NULLs, NaN, both zeros and the ends of a zone, in clauses that no chunk has been covered for."""
    soup = made(stream="CREATE STREAM s (a DOUBLE, b TEXT)")
    values = [None, float("nan"), -0.0, 3.5, *[1.0] * 60]
    soup.push("s", pa.table({"a": pa.array(values, pa.float64()), "b": ["x"] * 64}))
    counts = {
        "a IS NULL": 1, "a > 3.5": 1, "a >= 3.5": 2, "a = 0.0": 1, "a < 0.0": 0, "a <= 0.0": 1, "b = 'x'": 64,
        "b = 'y'": 0, "a = 3.5 OR b = 'y'": 1, "a > 4 AND b = 'x'": 1, "CAST(b AS BIGINT) > 1": 0,
    }  # fmt: skip
    for where, count in counts.items():
        query = soup.register(f"SELECT a FROM s WHERE {where}")
        uncovered = soup.invoke(query)
        assert uncovered.matched == count, where
        soup.maintain()
        assert soup.invoke(query).completeness == uncovered.completeness, where


def cost_of_a_push(chunks: int, streams: int) -> tuple[int, int]:
    """Calls to apply a push, and to ask for maintenance, with so many closed chunks and other streams."""
    soup = made()
    for n in range(streams):
        soup.execute(f"CREATE STREAM other{n} (a BIGINT)")
    soup.register("SELECT a FROM s WHERE a > 5")
    for _ in range(chunks):
        soup.push("s", table(range(64)))
    soup.maintain()
    soup.push("s", table(range(8)))
    while soup.engine.maintenance() is not None:
        raise AssertionError("nothing can be due")
    event = soup.admission.prepare(Push("s", table(range(8))), 0).event
    assert event is not None
    return calls_of(lambda: soup.engine.apply([event])), calls_of(soup.engine.maintenance)


def test_a_push_costs_the_same_whatever_there_is_beside_it() -> None:
    assert cost_of_a_push(chunks=2, streams=1) == cost_of_a_push(chunks=40, streams=30)


def cost_of_a_seal(chunks: int) -> int:
    """Calls to find, and to install, the seal of a chunk with so many before it."""
    soup = made()
    soup.register("SELECT a FROM s WHERE a > 5")
    for _ in range(chunks):
        soup.push("s", table(range(64)))
    soup.maintain()
    soup.push("s", table(range(64)))
    result = soup.engine.maintenance().compute()  # type: ignore[union-attr]
    return calls_of(lambda: soup.engine.install(result))


def test_taking_in_maintenance_costs_the_same_whatever_is_kept() -> None:
    assert cost_of_a_seal(2) == cost_of_a_seal(40)


def test_a_chunk_that_was_asked_for_before_its_stream_got_a_column_shows_null_in_it() -> None:
    soup = made()
    soup.push("s", table(range(64)))
    assert soup.invoke(soup.register("SELECT a FROM s WHERE a < 3")).to_table().num_rows == 3
    soup.execute("ALTER STREAM s ADD COLUMN b BIGINT")
    wider = soup.register("SELECT a, b, _id FROM s WHERE a > 61")
    expected = {"a": [62, 63], "b": [None, None], "_id": [62, 63]}
    assert soup.invoke(wider).to_table().to_pydict() == expected
    soup.push("s", pa.table({"a": [70], "b": [7]}))
    expected = {"a": [62, 63, 70], "b": [None, None, 7], "_id": [62, 63, 64]}
    assert soup.invoke(wider).to_table().to_pydict() == expected


def test_fast_producers_starve_neither_sealing_nor_storing() -> None:
    stored: list[int] = []
    soup = LocalPSoup(SMALL, keep=lambda stream, spec, chunk, oldest: stored.append(chunk.number))
    soup.execute("CREATE STREAM s (a BIGINT)")
    names = []
    for turn in range(8):  # two chunks are closed while one task is computed
        soup.push("s", table(range(128)))
        task = soup.engine.maintenance()
        assert task is not None
        names.append(task.name)
        soup.engine.install(task.compute())
        assert len(stored) == (turn + 1) // 2
    assert names == ["seal", "store"] * 4
