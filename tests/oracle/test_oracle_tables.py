"""Random tables beside a list of versions, and DuckDB over the rows that hold: at present, and at earlier times."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing

import duckdb
import pytest

from psoup_testing.oracles.table_duel import TableDuel
from psoup_testing.suite.budget import Budget, replayable

BUDGET = Budget("tables", cases=300)
LONG = Budget("tables, long", cases=6_000)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB. Opening it takes longer than ten questions."""
    with closing(duckdb.connect(config={"threads": 1})) as opened:
        yield opened


def play(duel: TableDuel, steps: int) -> int:
    """Play random steps, and compare now and then. Returns the number of comparisons."""
    actions = [duel.push] * 8 + [duel.register] * 4 + [duel.advance] * 3
    actions += [duel.beat, duel.maintain, duel.maintain, duel.restart]
    actions += [duel.alter] if duel.draw.random() < 0.5 else []
    for _ in range(steps):
        duel.draw.choice(actions)()
        if duel.draw.random() < 0.15:
            duel.compare()
            duel.soup.check()
    duel.compare()
    duel.soup.maintain()
    duel.compare()
    duel.soup.check()
    return duel.compared


def test_tables_answer_as_duckdb_over_the_versions_that_hold(connection: duckdb.DuckDBPyConnection) -> None:
    for number in BUDGET.rounds():
        with replayable(number):
            BUDGET.count(play(TableDuel(random.Random(number), connection), 16))


@pytest.mark.long
def test_tables_of_many_histories_answer_as_duckdb(connection: duckdb.DuckDBPyConnection) -> None:
    for number in LONG.rounds():
        with replayable(number):
            LONG.count(play(TableDuel(random.Random(10_000 + number), connection), 24))
