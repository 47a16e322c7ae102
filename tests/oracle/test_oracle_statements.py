"""Random composed statements, over one to four streams: every answer against DuckDB.

joins       LEFT, RIGHT, FULL, SEMI, ANTI, ASOF, USING, NATURAL.
subselects  EXISTS, IN, scalar subselects, correlated or not, subselects in FROM, WITH, VALUES.
sets        UNION, INTERSECT, EXCEPT.
over        OVER, QUALIFY, DISTINCT ON
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import note
from hypothesis import strategies as st

from psoup_testing.histories.composed_parts import SetOperation
from psoup_testing.histories.composer import DERIVED, FEATURES, JOINS, OVERS, SETS, SUBSELECTS, Composer
from psoup_testing.histories.join_statements import Chance
from psoup_testing.oracles.composed_duel import ComposedDuel
from psoup_testing.oracles.duckdb_answers import normal_rows
from psoup_testing.oracles.duckdb_tables import drop_database, empty_database
from psoup_testing.oracles.join_duel import BASE, SPAN
from psoup_testing.oracles.small_pieces import small_pieces
from psoup_testing.suite.budget import Budget, run_cases
from psoup_testing.suite.sweeps import swept

OUTER = frozenset(("outer",))
WANTED = {
    "joins": (JOINS, ("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN", "ASOF JOIN")),
    "subselects": (SUBSELECTS | OUTER, ("EXISTS", "NOT EXISTS", "IN", "NOT IN", "scalar subselect")),
    "correlated": (frozenset(("scalar", "correlated", "outer")), ("scalar subselect", "LEFT JOIN")),
    "sets": (SETS | DERIVED, ("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")),
    "derived": (DERIVED | OUTER, ("subselect in FROM", "WITH", "VALUES")),
    "over": (OVERS | OUTER, ("QUALIFY", "DISTINCT ON")),
    "all": (FEATURES, ("LEFT JOIN", "NOT EXISTS", "UNION", "subselect in FROM")),
}
"""The features of each set of statements, and the parts that its answers must have."""


@pytest.mark.parametrize("cases", swept([32, 80], fast=1))
def test_the_oracles_set_operations_are_duckdbs(cases: int) -> None:
    """Rows in order by counts of equal rows, beside the rows of DuckDB's own operators."""
    budget, duck, rng = Budget("composed sets", cases=cases), empty_database(optimized=True), random.Random(7)
    for stream in range(3):
        rows = "(range % 5)::BIGINT k, (range % 3)::BIGINT j, range / 4 d, (range % 4)::DECIMAL(9,2) m"
        texts = f"CASE WHEN range % 7 <> {stream} THEN chr(97 + (range % 3)::INT) END t"
        times = 'make_timestamp(range * 1000000) AS "at", make_timestamp(range * 1000000) _time'
        duck.execute(f"CREATE TABLE s{stream} AS SELECT range _pos, range _id, {rows}, {texts}, {times} FROM range(60)")
    for seed in range(budget.cases * 9):
        statement = Composer(Chance(seed), 3, True, BASE, SPAN, SETS | OUTER).draw()
        body = statement.statement
        if not isinstance(body, SetOperation) or body.limited:
            continue
        spans = {named: (rng.randint(0, 20), rng.randint(20, 60)) for named in statement.named}
        rows = duck.execute(f"SELECT {', '.join(body.names)} FROM ({body.ranked(spans)})").fetchall()
        assert Counter(normal_rows(rows)) == Counter(normal_rows(duck.execute(body.bag(spans)).fetchall())), seed
        budget.count()
        if budget.spent:
            break
    assert budget.spent
    drop_database(duck)


def play(name: str, path: Path, cases: int) -> Counter[str]:
    """Run histories until so many answers were compared; the counts of the parts of those with rows."""
    budget, kinds, histories = Budget(f"composed {name}", cases=cases), Counter[str](), 0

    def case(draw: Any) -> int:
        nonlocal histories
        seed = draw(st.integers(0, 2**48))
        note(f"seed {seed}")
        histories += 1
        duel = ComposedDuel(seed, path / str(histories), WANTED[name][0])
        with pytest.MonkeyPatch.context() as patch, closing(duel):
            if seed % 2:
                small_pieces(patch)
            duel.run(events=16)
        kinds.update(duel.kinds)
        return duel.compared

    run_cases(budget, case)
    return kinds


def test_statements_equal_duckdbs(tmp_path: Path) -> None:
    play("all", tmp_path, 20)


@pytest.mark.long
@pytest.mark.parametrize("name", WANTED)
def test_statements_of_each_kind_equal_duckdbs(name: str, tmp_path: Path) -> None:
    kinds = play(name, tmp_path, 400)
    missing = [part for part in WANTED[name][1] if not kinds[part]]
    assert not missing, f"{missing} are not in {kinds}"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["idle", "jobs"])
def test_composed_statements_with_idle_streams_and_jobs(tmp_path: Path, kind: str) -> None:
    """Streams that are idle and wake; history that is attached, and sides that jobs cover."""
    met = Counter[str]()
    for seed in range(6):
        duel = ComposedDuel(seed, tmp_path / str(seed), WANTED["all"][0], **{kind: True})
        try:
            duel.run(events=8)
            duel.work()
            duel.wake()
        finally:
            duel.close()
        met.update(idle=duel.idled, attached=duel.attached, covered=duel.covered)
    wanted = ["attached", "covered"] if kind == "jobs" else [kind]
    assert all(met[name] > 3 for name in wanted), met
