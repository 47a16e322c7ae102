"""Random histories of a table with EXPIRES BY beside a list of entries, and DuckDB over the rows that hold."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from psoup_testing.engines.restarts import RestartingPSoup, making
from psoup_testing.oracles.expiring_table import ExpiringTable
from psoup_testing.suite.budget import Budget, replayable

BUDGET = Budget("rows that expire", cases=9)
LONG = Budget("rows that expire, long", cases=300)


def play(path: Path, number: int, connection: duckdb.DuckDBPyConnection) -> int:
    """Play random steps. Returns the number of rows that have expired."""
    with making(path / str(number)) as made:
        table = ExpiringTable(random.Random(number), connection, made)
        assert isinstance(table.soup, RestartingPSoup)
        actions = [table.push] * 4 + [table.advance] * 3 + [table.maintain] * 3 + [table.soup.restart, table.alter]
        for _ in range(30):
            table.draw.choice(actions)()
            if table.draw.random() < 0.2:
                table.compare()
        table.soup.check()
        table.compare()
        return table.deleted


def test_rows_expire_as_in_a_list_of_entries(tmp_path: Path) -> None:
    deleted = 0
    with closing(duckdb.connect(config={"threads": 1})) as connection:
        for number in BUDGET.rounds():
            with replayable(number):
                deleted += play(tmp_path, number, connection)
                BUDGET.count()
    assert deleted > 10, "too few rows have expired to say anything"


@pytest.mark.long
def test_rows_of_many_histories_expire_as_in_a_list(tmp_path: Path) -> None:
    with closing(duckdb.connect(config={"threads": 1})) as connection:
        for number in LONG.rounds():
            with replayable(number):
                play(tmp_path, 1_000 + number, connection)
                LONG.count()
