"""A replay binds as the registration did: by the same way of the ladder, to the same queries, at the same charge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.events.commands import RegisterMany
from psoup.events.events import Event, RegisteredMany
from psoup.sql.templates.ladder import way_of
from psoup.work.clock import VirtualClock
from psoup_storage.durable.log import blocks
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.suite.sweeps import swept

MANY = 300
COLUMNS = EngineConfig(columnar_queries=1)
ROWS = EngineConfig(columnar_queries=10**9)
USUAL = EngineConfig()
STREAM = "CREATE STREAM s (x BIGINT, d DECIMAL(10,2), n DOUBLE, t TEXT, w TIMESTAMP, z DATE, b BOOLEAN)"
QUARTERS = [Decimal(n) / 4 for n in range(MANY)]

CASES: dict[str, tuple[EngineConfig, str, Any, str]] = {
    "int64": (USUAL, "x > ?", pa.table({"a": range(MANY)}), "columns"),
    "uint64": (USUAL, "x > ?", pa.table({"a": pa.array(range(MANY), pa.uint64())}), "rows"),
    "uint64 beside DOUBLE": (USUAL, "n > ?", pa.table({"a": pa.array(range(MANY), pa.uint64())}), "rows"),
    "float64 beside BIGINT": (USUAL, "x > ?", pa.table({"a": [n + 0.5 for n in range(MANY)]}), "rows"),
    "decimal": (USUAL, "d > ?", pa.table({"a": pa.array(QUARTERS, pa.decimal128(10, 2))}), "columns"),
    "long decimal": (USUAL, "d > ?", pa.table({"a": pa.array(QUARTERS, pa.decimal128(38, 2))}), "rows"),
    "longer decimal": (USUAL, "d > ?", pa.table({"a": pa.array(QUARTERS, pa.decimal256(40, 2))}), "rows"),
    "decimals of rows": (USUAL, "d > ?", [[q.quantize(Decimal("0.01"))] for q in QUARTERS], "columns"),
    "numbers as text": (USUAL, "x > ?", pa.table({"a": [str(n) for n in range(MANY)]}), "columns"),
    "odd numbers as text": (
        USUAL,
        "x > ?",
        pa.table({"a": [str(n) + n % 2 * ".0" for n in range(MANY)]}),
        "rows",
    ),
    "text": (USUAL, "t > ?", pa.table({"a": [f"a{n}" for n in range(MANY)]}), "columns"),
    "some are NULL": (USUAL, "t > ?", pa.table({"a": [f"a{n}" if n % 3 else None for n in range(MANY)]}), "columns"),
    "all are NULL": (USUAL, "x > ?", pa.table({"a": pa.nulls(MANY)}), "rows"),
    "days beside TIMESTAMP": (USUAL, "w > ?", pa.table({"a": pa.array(range(MANY), pa.date32())}), "rows"),
    "times": (USUAL, "w > ?", pa.table({"a": pa.array(range(MANY), pa.timestamp("us", "UTC"))}), "columns"),
    "IN": (USUAL, "x IN (?, 3)", pa.table({"a": range(MANY)}), "rows"),
    "mixed rows": (USUAL, "x > ?", [[n if n % 2 else n / 2] for n in range(MANY)], "rows"),
    "few": (USUAL, "x > ?", pa.table({"a": range(20)}), "rows"),
    "few, by columns": (COLUMNS, "x > ?", pa.table({"a": range(20)}), "columns"),
    "many, by rows": (ROWS, "x > ?", pa.table({"a": range(MANY)}), "rows"),
}


@pytest.fixture
def soups(tmp_path: Path) -> Iterator[Callable[[EngineConfig], RestartingPSoup]]:
    made = list[RestartingPSoup]()

    def make(config: EngineConfig) -> RestartingPSoup:
        made.append(RestartingPSoup(config, VirtualClock(0), tmp_path / "data"))
        made[-1].execute(STREAM)
        return made[-1]

    yield make
    for soup in made:
        soup.store.close()


def block_of(soup: RestartingPSoup, where: str, rows: Any) -> RegisteredMany:
    """The event of a registration."""
    events = list[Event]()
    append = soup.store.append
    soup.store.append = lambda new: (events.extend(new), append(new))[1]  # type: ignore[method-assign]
    soup.submit(RegisterMany([f"SELECT x FROM s WHERE {where}"], rows))
    (event,) = events
    assert isinstance(event, RegisteredMany)
    return event


@pytest.mark.parametrize("case", swept(CASES, fast=range(0, 20, 3)))
def test_a_replay_goes_the_way_of_the_registration(case: str, soups: Callable[[EngineConfig], RestartingPSoup]) -> None:
    config, where, rows, way = CASES[case]
    soup = soups(config)
    event = block_of(soup, where, rows)
    assert way_of(event.queries) == way
    soup.restart()  # which compares all that admission knows
    (again,) = (event for event in soup.store.read() if isinstance(event, RegisteredMany))
    assert way_of(again.queries) == way
    assert list(again.queries) == list(event.queries)
    assert [tuple(row) for row in again.rows] == [tuple(row) for row in event.rows]


@pytest.mark.parametrize("case", ["long decimal", "few, by columns", "many, by rows"])
def test_a_replay_that_goes_another_way_is_found(
    case: str, soups: Callable[[EngineConfig], RestartingPSoup], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, where, rows, _ = CASES[case]
    soup = soups(config)
    block_of(soup, where, rows)
    whole = blocks.bind_values
    monkeypatch.setattr(blocks, "bind_values", lambda template, values, way: whole(template, values))
    with pytest.raises(AssertionError):
        soup.restart()
