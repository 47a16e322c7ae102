"""Joins written by mistake or with bad intent: each is answered, or refused with a way out, and keeps no resources."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.invoke import invoke
from psoup.config import EngineConfig
from psoup.execution.join import parallel_join
from psoup.execution.ways import ANSWER
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget, ReadEnded
from psoup_testing.oracles.ways import only

ROWS = 130


@pytest.fixture(scope="module")
def soup() -> LocalPSoup:
    """Two streams of several chunks: a key of one value, one that is NULL, one that none share, one that all do."""
    soup = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(100))
    for place, stream in enumerate("rs"):
        soup.execute(f"CREATE STREAM {stream} (one BIGINT, none BIGINT, own BIGINT, n BIGINT, w TEXT)")
        numbers = np.arange(ROWS)
        columns = {
            "one": np.full(ROWS, 7),
            "none": pa.nulls(ROWS, pa.int64()),
            "own": 2 * numbers + place,
            "n": numbers,
            "w": [None if n % 3 else f"{n}" for n in numbers],
        }
        soup.push(stream, pa.table(columns))
    soup.maintain()
    return soup


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("r.one = s.one", ROWS**2),
        ("r.one = s.one AND r.one = 7 AND s.one = 7", ROWS**2),
        ("r.one = s.one AND r.one = 8", 0),
        ("r.none = s.none", 0),
        ("r.none = s.n", 0),
        ("s.none BETWEEN r.none - 1 AND r.none", 0),
        ("r.own = s.own", 0),
        ("r.n = s.n AND r.n + s.n >= 0", ROWS),
        ("s.n >= r.n - 1000 AND s.n <= r.n + 1000", ROWS**2),
    ],
)
def test_keys_that_are_constant_null_of_all_or_of_none(where: str, rows: int, soup: LocalPSoup) -> None:
    query = soup.register(f"SELECT r.n, s.n AS m FROM r, s WHERE {where}")
    soup.maintain()
    table = soup.invoke(query).to_table()
    assert table.num_rows == rows
    assert soup.invoke(soup.register(f"SELECT count(*) AS c FROM r, s WHERE {where}")).to_table()["c"].to_pylist() == [
        rows
    ]


def test_keys_of_texts_of_four_megabytes_that_differ_at_their_end() -> None:
    soup, long = LocalPSoup(EngineConfig(chunk_rows=64, text_bytes=8 << 20), VirtualClock(100)), "x" * (4 << 20)
    for stream in "rs":
        soup.execute(f"CREATE STREAM {stream} (w TEXT, n BIGINT)")
    soup.push("r", pa.table({"w": [f"{long}1", f"{long}2"], "n": [1, 2]}))
    soup.push("s", pa.table({"w": [f"{long}2", f"{long}3"], "n": [3, 4]}))
    query = soup.register("SELECT r.n, s.n AS m FROM r, s WHERE r.w = s.w")
    assert soup.invoke(query).to_table().to_pylist() == [{"n": 2, "m": 3}]


@pytest.mark.parametrize("way", ["small_join", "parallel_join", "join_messages"])
def test_a_deadline_at_any_moment_leaves_nothing_held(
    way: str, soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_join, "SMALL", 0)
    only(monkeypatch, ANSWER, way)
    query, ended = soup.register("SELECT r.n, s.n AS m FROM r, s WHERE r.n = s.n"), list[int]()
    for moment in range(40):
        left = iter(range(moment))

        def ask(left: object = left) -> None:
            if next(left, None) is None:  # type: ignore[call-overload]
                raise ReadEnded

        budget = ReadBudget(ask)
        try:
            answer = invoke(soup.engine.snapshot(), query, tenant=soup.tenant, now=100, budget=budget)
            assert answer.to_table().num_rows == ROWS
        except ReadEnded:
            ended.append(moment)
        assert budget.joined == 0
    assert 0 < len(ended) < 40
    assert ended == list(range(len(ended)))
