"""Random tables beside a list of versions, and DuckDB over the rows that hold: at present, and at earlier times."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from psoup_testing.engines.restarts import making
from psoup_testing.oracles.table_duel import SHORT, TableDuel
from psoup_testing.suite.budget import Budget, replayable

BUDGET = Budget("tables", cases=300)
CHURN = Budget("tables that lose versions", cases=150)
STORED = Budget("stored tables that lose versions", cases=600)
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
    actions += [duel.alter_options] * 2 if duel.draw.random() < 0.5 else []
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


def churn(duel: TableDuel, steps: int) -> int:
    """Change few keys again and again, with maintenance after each step. Returns the number of thinned chunks."""
    thinned = 0
    for step in range(steps):
        for name in "tu":
            duel.push(name)
        duel.draw.choice((duel.advance, duel.beat, duel.register, duel.push, duel.restart, duel.alter_options))()
        duel.soup.maintain()
        if step % 8 == 7:
            duel.soup.check()
            duel.compare()
        views = duel.soup.engine.snapshot().by_id.values()
        thinned = max(thinned, sum(entry.data.places.left is not None for view in views for entry in view.chunks))
    return thinned


def test_versions_that_leave_change_no_answer(connection: duckdb.DuckDBPyConnection) -> None:
    thinned = 0
    for number in CHURN.rounds():
        with replayable(number):
            duel = TableDuel(random.Random(number), connection, options=SHORT)
            thinned += churn(duel, 24)
            CHURN.count(duel.compared)
    assert thinned > 3, "too few chunks were thinned to say anything"


@pytest.mark.long
def test_versions_that_leave_stored_chunks_change_no_answer(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    thinned = 0
    for number in STORED.rounds():
        with replayable(number), making(tmp_path / str(number)) as made:
            duel = TableDuel(random.Random(number), connection, made, SHORT)
            thinned += churn(duel, 40)
            STORED.count(duel.compared)
    assert thinned > 10, "too few chunks were thinned to say anything"


@pytest.mark.long
def test_tables_of_many_histories_answer_as_duckdb(connection: duckdb.DuckDBPyConnection) -> None:
    came_late = 0
    for number in LONG.rounds():
        with replayable(number):
            duel = TableDuel(random.Random(10_000 + number), connection)
            LONG.count(play(duel, 24))
            came_late += sum(side.model.came_late for side in duel.sides.values())
    assert came_late > 20, "too few first versions came below the watermark to say anything"
