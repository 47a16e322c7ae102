"""The budget of the engine: what would exceed it is refused in words, results give way, answers stay exact."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from psoup.admission import Admission
from psoup.admission.rows.producers import ACKNOWLEDGEMENT_BYTES, PRODUCER_BYTES
from psoup.answer.figures.bill import memory_bill
from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.local import LocalPSoup

MEGABYTE = 1_000_000
CREATE = "CREATE STREAM s (a BIGINT, b BIGINT)"


def table(start: int, count: int) -> pa.Table:
    numbers = np.arange(start, start + count)
    return pa.table({"a": numbers % 10, "b": numbers})


def small(retention: str = "", memory: int = MEGABYTE) -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(chunk_rows=1_024, memory_bytes=memory))
    soup.execute(f"{CREATE} {retention}")
    return soup


def pushed_until_full(soup: LocalPSoup) -> tuple[int, ResourceExhausted]:
    count = 0
    while True:
        try:
            soup.push("s", table(count, 500))
        except ResourceExhausted as full:
            return count, full
        count += 500


def test_a_megabyte_of_tuples_and_queries() -> None:
    soup = small()
    query = soup.register("SELECT b FROM s WHERE a = 3")
    every = soup.register("SELECT b FROM s")
    count, full = pushed_until_full(soup)
    assert full.reason == "MEMORY_BUDGET"
    assert int(full.facts["would_need"]) > MEGABYTE == int(full.facts["limit"])
    assert "raise memory_mib" in full.message
    soup.maintain()
    assert soup.invoke(query).to_table().num_rows == count // 10
    assert soup.invoke(every).to_table().num_rows == count
    while True:  # small things still fit where a batch did not
        try:
            soup.register("SELECT b FROM s WHERE a = 4")
        except ResourceExhausted as no:
            assert "this query needs about 3,0" in no.message
            break
    soup.check()


def test_queries_are_refused_before_the_memory_is_full_and_fit_again_when_others_went() -> None:
    soup = small()
    registered: list[int] = []
    with pytest.raises(ResourceExhausted, match=r"by queries, and these 500 queries need about 200,000 more"):  # noqa: PT012
        for start in range(0, 100_000, 500):
            registered += soup.register_many(
                "SELECT b FROM s WHERE a = ? AND b < ?", [(1, start + k) for k in range(500)]
            )
    assert 1_000 < len(registered) < MEGABYTE // 300
    assert memory_bill(soup.engine.snapshot()).used < 2 * MEGABYTE
    for query in registered[:1_000]:
        soup.unregister(query)
    soup.register_many("SELECT b FROM s WHERE a = ? AND b < ?", [(2, k) for k in range(500)])
    for query in registered[1_000:]:
        soup.unregister(query)
    soup.check()


def test_results_over_what_is_left_are_evicted_and_answers_are_exact() -> None:
    memory = 400_000
    soup = small("RETENTION 8192 ROWS", memory)
    queries = {k: soup.register(f"SELECT b FROM s WHERE b % 37 >= {k}") for k in range(37)}
    for start in range(0, 20_480, 512):
        soup.push("s", table(start, 512))
        soup.maintain()
    view = soup.engine.snapshot().by_id[1]
    assert sum(entry.results.evicted for entry in view.chunks) > 0
    kept = sum(entry.results.nbytes for entry in view.chunks[:-1])
    assert kept < memory // 2
    for k in (0, 17, 36):
        expected = [b for b in range(20_480 - 8_192, 20_480) if b % 37 >= k]
        assert soup.invoke(queries[k]).to_table().column("b").to_pylist() == expected
    soup.check()


def test_results_leave_the_room_that_producers_are_charged() -> None:
    """Names of producers are charged to the same budget: results give way for them, as they do for tuples."""
    kept = []
    for producers in (0, 200):
        soup = small("RETENTION 8192 ROWS", 660_000)
        queries = [soup.register(f"SELECT b FROM s WHERE b % 37 >= {k}") for k in range(37)]
        for number in range(producers):
            soup.push("s", table(number, 1), producer=f"p{number}", number=0)
        assert soup.admission.producer_bytes == producers * (PRODUCER_BYTES + ACKNOWLEDGEMENT_BYTES)
        for start in range(1_000, 17_384, 512):
            soup.push("s", table(start, 512))
            soup.maintain()
        view = soup.engine.snapshot().by_id[1]
        kept.append(sum(entry.results.nbytes for entry in view.chunks[:-1]))
        assert kept[-1] > 50_000, "an eighth is theirs in any case"
        assert soup.invoke(queries[36]).to_table().num_rows == sum(b % 37 == 36 for b in range(17_384 - 8_192, 17_384))
        soup.check()
    assert kept[1] < kept[0] - 100_000


def test_one_query_a_hundred_thousand_times_is_one_clause() -> None:
    """And it is evaluated once, found by every tuple, and forgotten one by one."""
    soup = LocalPSoup(EngineConfig(chunk_rows=1_024))
    soup.execute(CREATE)
    queries = soup.register_many("SELECT b FROM s WHERE a = ?", [(3,)] * 100_000)
    soup.push("s", table(0, 100))
    snapshot = soup.engine.snapshot()
    assert (len(snapshot.queries), len(snapshot.clauses)) == (100_000, 1)
    assert len(soup.matches("s", 3)) == 1_000
    assert soup.invoke(queries[77_777]).to_table().num_rows == 10
    items = {item.structure: item for item in memory_bill(snapshot).items}
    assert items["predicate index"].bytes + items["open results"].bytes < 2_000_000
    for query in queries[::1_000]:
        soup.unregister(query)
    assert len(soup.engine.snapshot().queries) == 99_900


def test_a_query_that_matches_everything_a_thousand_times_takes_one_column() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=1_024))
    soup.execute(CREATE)
    queries = [soup.register("SELECT b FROM s WHERE b >= 0") for _ in range(1_000)]
    soup.push("s", table(0, 4_096))
    soup.maintain()
    items = {item.structure: item for item in memory_bill(soup.engine.snapshot()).items}
    assert items["sealed results"].bytes < 3 * 4_096
    assert soup.invoke(queries[500]).to_table().num_rows == 4_096


def test_replay_promises_what_was_promised() -> None:
    config = EngineConfig(memory_bytes=MEGABYTE)
    soup = LocalPSoup(config)
    events = []
    adopt = soup.admission._adopt
    soup.admission._adopt = lambda event: (events.append(event), adopt(event))[1]  # type: ignore[method-assign,func-returns-value]
    soup.execute(CREATE)
    soup.push("s", table(0, 100))
    first = soup.register("SELECT b FROM s")
    rows = soup.register_many("SELECT b FROM s WHERE a = ?", [(k,) for k in range(300)])
    soup.unregister(first)
    soup.unregister(rows[7])
    again = Admission(config)
    for event in events:
        again.replay(event)
    assert again.state() == soup.admission.state()
    assert again.query_bytes > 0
