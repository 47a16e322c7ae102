"""Answers of joins in little room: long texts go in parts, and results that were evicted are found again; EXPLAIN."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock


def rows(answer: Any) -> list[tuple[Any, ...]]:
    table = answer.to_table()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_long_texts_are_shown_in_parts() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, evaluation_bytes=100_000), VirtualClock(100))
    soup.execute("CREATE STREAM r (k BIGINT, t TEXT)")
    soup.push("r", pa.table({"k": [1] * 40, "t": ["x" * 1_000] * 40}))
    answer = soup.ask("SELECT x.t, y.t AS u, x.t || y.t AS v FROM r x, r y WHERE x.k = y.k")
    sizes = [batch.num_rows for batch in answer.batches()]
    assert len(sizes) > 10
    assert sum(sizes) == 1_600


def test_long_texts_of_a_condition_over_several_sources_are_computed_in_parts() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, evaluation_bytes=100_000), VirtualClock(100))
    soup.execute("CREATE STREAM r (k BIGINT, n BIGINT, t TEXT)")
    soup.push("r", pa.table({"k": [1] * 40, "n": range(40), "t": ["x" * 1_000 + f"{n:02}" for n in range(40)]}))
    answer = soup.ask("SELECT x.n, y.n AS m FROM r x, r y WHERE x.k = y.k AND x.t || y.t LIKE '%7x%13'")
    assert rows(answer) == [(n, 13) for n in range(7, 40, 10)]
    assert answer.errors == 0


@pytest.mark.seeded("what was evicted is taken for empty")
def test_sides_whose_results_were_evicted_are_evaluated_again() -> None:
    kept, evicted = (
        LocalPSoup(EngineConfig(chunk_rows=64, results_bytes=most), VirtualClock(100), verify="all")
        for most in (1 << 30, 0)
    )
    answers = []
    for soup in (kept, evicted):
        soup.execute("CREATE STREAM r (k BIGINT, a BIGINT)")
        query = soup.register("SELECT x.a, y.a AS b FROM r x, r y WHERE x.k = y.k AND x.a > 300 AND y.a < 100")
        for start in range(0, 500, 50):
            soup.push("r", pa.table({"k": [n % 40 for n in range(start, start + 50)], "a": range(start, start + 50)}))
        soup.maintain()
        answers.append(rows(soup.invoke(query)))
    (view,) = evicted.engine.snapshot().by_id.values()
    assert sum(entry.results.evicted for entry in view.chunks) > 0
    assert answers[0] == answers[1] == [(a, b) for a in range(301, 500) for b in range(100) if a % 40 == b % 40]


def test_explain_tells_of_a_join_without_routes() -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM r (k BIGINT)")
    soup.push("r", pa.table({"k": [1, 2, 2, 3]}))
    query = soup.register("SELECT x.k FROM r AS x, r AS y, r AS z WHERE x.k = y.k AND y.k = z.k AND z.k < 3")
    told = soup.explain(query)
    (join,) = [node for node in told.nodes if node.operator == "join"]
    assert join.facts["order"] == "as in FROM, over the rows that have partners"
    assert join.figures["step_2_out"] == join.figures["rows"] == soup.invoke(query).to_table().num_rows == 9
    assert "| in the order of FROM, over the rows that have partners" in "\n".join(told.lines("q"))
