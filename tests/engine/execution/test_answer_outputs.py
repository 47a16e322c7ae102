"""A SELECT list, or a key of ORDER BY, that raises for one row: that value is an error, and the answer has all rows."""

from __future__ import annotations

import tracemalloc

import pyarrow as pa
import pytest

from psoup.answer.invoke import Answer, invoke
from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.model import DEFAULT_TENANT
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_testing.engines.error_expressions import poison, raising
from psoup_testing.engines.recorded import RecordingPSoup
from psoup_testing.suite.sweeps import swept

SMALL = EngineConfig(chunk_rows=64, piece_rows=8, delta_queries=4)
VALUES = [5, -13, 13, 2, -7, *range(100, 200), 13, 4]


@pytest.fixture
def soup() -> RecordingPSoup:
    made = RecordingPSoup(SMALL, VirtualClock())
    made.execute("CREATE STREAM s (a BIGINT, t TEXT)")
    made.push("s", pa.table({"a": VALUES, "t": ["x"] * len(VALUES)}))
    return made


def answer(soup: RecordingPSoup, sql: str, budget: ReadBudget | None = None) -> Answer:
    query_id = soup.register(sql)
    return invoke(soup.engine.snapshot(), query_id, tenant=DEFAULT_TENANT, now=0, budget=budget)


def absolute(value: int) -> int | None:
    return None if value == 13 else abs(value)


def test_the_value_that_raises_is_an_error_and_others_are_there(soup: RecordingPSoup) -> None:
    found = answer(soup, "SELECT a, abs(a) AS b, t FROM s")
    with raising({"abs": poison(13)}) as told:
        table = found.to_table()
    assert len(told) > 2
    assert table.column("a").to_pylist() == VALUES
    assert table.column("b").to_pylist() == [absolute(value) for value in VALUES]
    assert found.select_errors == 2
    with raising({"abs": poison(13)}):
        assert found.to_table() == table
    assert found.select_errors == 2, "a second reading counts anew"


def test_texts_that_raise_are_errors_of_their_rows(soup: RecordingPSoup) -> None:
    found = answer(soup, "SELECT upper(t) AS u, abs(a) || 'x' AS b FROM s")
    with raising({"abs": poison(13)}):
        table = found.to_table()
    assert set(table.column("u").to_pylist()) == {"X"}
    assert table.column("b").to_pylist() == [None if v == 13 else f"{abs(v)}x" for v in VALUES]


@pytest.mark.parametrize("sql", ["SELECT a FROM s ORDER BY abs(a), a", "SELECT DISTINCT abs(a) AS a FROM s ORDER BY a"])
def test_what_is_sorted_by_may_raise(soup: RecordingPSoup, sql: str) -> None:
    found = answer(soup, sql)
    with raising({"abs": poison(13)}):
        rows = found.to_table().column("a").to_pylist()
    if "DISTINCT" in sql:
        assert rows == [*sorted({abs(value) for value in VALUES if value != 13}), None]
    else:
        assert rows == [*sorted((v for v in VALUES if v != 13), key=lambda v: (abs(v), v)), 13, 13]


def test_a_read_whose_time_is_up_ends_and_is_no_error_of_a_row(soup: RecordingPSoup) -> None:
    asked = list[int]()

    def ask() -> None:
        asked.append(1)
        if len(asked) > 6:
            raise ResourceExhausted("enough", reason="READ_BUDGET")

    found = answer(soup, "SELECT abs(a) AS b FROM s", ReadBudget(ask))
    with raising({"abs": lambda _: True}), pytest.raises(ResourceExhausted, match="enough"):
        found.to_table()


@pytest.mark.parametrize("made", swept(["max(repeat(t, 4096) || a)", "repeat(t, 4096) || a"], fast=(1,)))
def test_texts_that_are_made_in_halves_take_the_memory_of_a_part(made: str) -> None:
    """An attempt that made too much is given back before its halves are tried: they are within one another."""
    soup = RecordingPSoup(EngineConfig(evaluation_bytes=1 << 19), VirtualClock())
    soup.execute("CREATE STREAM s (a BIGINT, t TEXT)")
    soup.push("s", pa.table({"a": range(4_096), "t": ["x"] * 4_096}))
    found = answer(soup, f"SELECT {made} AS m FROM s")
    tracemalloc.start()
    try:
        rows = sum(batch.num_rows for batch in found.batches())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rows in (1, 4_096)
    assert peak < 2 << 20, f"{peak:,}"
