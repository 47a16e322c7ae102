"""Budgets of statements inside of statements: each refusal is clear, and each end of a read returns all bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.invoke import Answer, invoke
from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.local import LocalPSoup
from psoup.work.read_budget import ReadBudget, ReadEnded
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

ROWS = 3_000
STATEMENTS = (
    "SELECT r.v, d.n FROM r JOIN (SELECT k, count(*) AS n FROM s GROUP BY k) d ON r.k = d.k ORDER BY n, v",
    "SELECT d.n, count(*) AS c FROM r LEFT JOIN (SELECT k, max(t) AS n FROM s GROUP BY k) d ON r.k = d.k GROUP BY n",
    "SELECT k, t FROM r EXCEPT ALL SELECT k, t FROM s",
    "SELECT t, v FROM r INTERSECT SELECT t, v FROM s",
    "SELECT k, v FROM r UNION SELECT k, v FROM s ORDER BY v, k",
    "SELECT DISTINCT k FROM (SELECT k FROM r UNION ALL SELECT v FROM s) d",
    "SELECT k, v FROM r WHERE v > (SELECT avg(v) FROM s)",
    "SELECT k FROM r WHERE k NOT IN (SELECT k FROM s WHERE v > 50 UNION SELECT v FROM s)",
    "SELECT r.k, u.t FROM r JOIN (SELECT t, max(v) AS m FROM s GROUP BY t UNION ALL SELECT t, v FROM r) u ON r.v = u.m",
)


@pytest.fixture(scope="module")
def soup() -> LocalPSoup:
    """Two streams of equal distributions, in chunks of 512 rows."""
    soup, draw = LocalPSoup(EngineConfig(chunk_rows=512)), np.random.default_rng(1)
    for name in ("r", "s"):
        soup.execute(f"CREATE STREAM {name} (k BIGINT, v BIGINT, t TEXT)")
        columns = {"k": draw.integers(0, 700, ROWS), "v": draw.integers(0, 100, ROWS)}
        soup.push(name, pa.table({**columns, "t": [f"text {number % 97}" for number in range(ROWS)]}))
    return soup


def _asked(soup: LocalPSoup, query: int, budget: ReadBudget) -> Answer:
    return invoke(soup.engine.snapshot(), query, tenant=soup.tenant, now=soup.clock.now(), budget=budget)


def _held(budget: ReadBudget) -> tuple[int, int, int]:
    return budget.held, budget.joined, budget.grouped


@pytest.mark.parametrize("sql", swept(STATEMENTS, fast=range(0, 9, 3)))
def test_every_end_of_a_read_returns_all_bytes(soup: LocalPSoup, sql: str) -> None:
    query = soup.register(sql)
    expected = again(soup.invoke, query).to_table()
    refused = set()
    for size in (0, 1_000, 10_000, 20_000, 50_000, 100_000, 200_000, 1_000_000):
        budget = ReadBudget(sort_bytes=size)
        try:
            assert again(_asked, soup, query, budget).to_table().equals(expected)
        except ResourceExhausted as problem:
            refused.add(problem.reason)
        assert _held(budget) == (0, 0, 0), f"{size} bytes: {sql}"
    assert refused <= {"SORT_BUDGET", "GROUP_BUDGET"}
    assert refused, sql
    budget = ReadBudget()
    batches = _asked(soup, query, budget).batches(10)
    next(batches)
    batches.close()
    assert _held(budget) == (0, 0, 0), f"a reader left: {sql}"
    for checks in (1, 2, 5, 10, 20, 40):
        budget = ReadBudget(_leaving(checks).__next__)
        with suppress(ReadEnded):
            _asked(soup, query, budget).to_table()
        assert _held(budget) == (0, 0, 0), f"the caller left after {checks} checks: {sql}"


def _leaving(checks: int) -> Iterator[None]:
    """Let a read check `checks` times that its caller still waits. Then the caller has left."""
    yield from [None] * checks
    raise ReadEnded


@pytest.mark.parametrize(
    ("sql", "opening"),
    [
        (
            "SELECT r.v FROM r JOIN (SELECT k FROM s UNION ALL SELECT v FROM s) days ON r.k = days.k",
            "the subselect days would hold",
        ),
        ("SELECT k, v FROM r UNION ALL SELECT k, v FROM s ORDER BY v", "UNION ALL would hold"),
        ("SELECT k, v FROM r WHERE k IN (SELECT k FROM s UNION ALL SELECT v FROM s)", "a subselect would hold"),
        ("SELECT k, t FROM r EXCEPT SELECT k, t FROM s", "EXCEPT would hold"),
    ],
)
def test_a_refusal_names_the_part_that_is_too_large(soup: LocalPSoup, sql: str, opening: str) -> None:
    query = soup.register(sql)
    needed = ReadBudget()
    _asked(soup, query, needed).to_table()
    messages = []
    for share in range(1, 40, 3):
        try:
            _asked(soup, query, ReadBudget(sort_bytes=needed.wanted * share // 40)).to_table()
        except ResourceExhausted as problem:
            messages.append(str(problem))
    assert any(message.startswith(opening) for message in messages), messages
