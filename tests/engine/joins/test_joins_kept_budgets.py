"""Budgets of pairing: bytes are charged beforehand, a task that is too large is refused, and EXPLAIN says why."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from psoup.budgets import READ_CPU
from psoup.config import EngineConfig
from psoup.engine.maintenance.pair import PairTask, RefusedPairs
from psoup.errors import ResourceExhausted
from psoup.joins.pairs_store import PairTable
from psoup.local import LocalPSoup
from psoup.work.read_budget import ReadBudget
from psoup_testing.oracles.questions import again

JOIN = "SELECT r.k FROM r, s WHERE r.k = s.k"
SMALL = 1_500
"""Bytes that two chunks of 64 tuples do not fit in."""


def filled(rows: int, chunks: int, keys: int, sql: str = JOIN) -> tuple[LocalPSoup, int]:
    """A join whose pairs are to be kept, of two streams with closed chunks; and its query."""
    soup = LocalPSoup(EngineConfig(chunk_rows=rows))
    for stream in "rs":
        soup.execute(f"CREATE STREAM {stream} (k BIGINT, t TEXT)")
    query = soup.register(sql, keep_pairs=True)
    rng = np.random.default_rng(7)
    for stream in "rs":
        push(soup, stream, rng.integers(0, keys, rows * chunks))
    return soup, query


def push(soup: LocalPSoup, stream: str, keys: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    soup.push(stream, pa.table({"k": keys, "t": [f"t{key:07}" for key in keys.tolist()]}))


def pairing(soup: LocalPSoup) -> PairTask | None:
    """The next task that pairs, after all other work."""
    while (task := soup.engine.maintenance()) is not None:
        if isinstance(task, PairTask):
            return task
        soup.engine.install(task.compute())
    return None


def paired(soup: LocalPSoup, room: int) -> list[ReadBudget]:
    """Pair within so many bytes a task until nothing is due; the budgets, as tasks have left them."""
    budgets = []
    while (task := pairing(soup)) is not None:
        budgets.append(ReadBudget(sort_bytes=room))
        soup.engine.install(task.compute(budget=budgets[-1]))
        soup.check()
    return budgets


def table(soup: LocalPSoup) -> PairTable:
    (pairs,) = soup.engine.snapshot().pairs.tables.values()
    return pairs


@pytest.mark.parametrize("sql", [JOIN, JOIN.replace("k = s.k", "t = s.t"), JOIN.replace("= s.k", "+ 1 = s.k")])
def test_a_budget_changes_no_pair_only_how_many_chunks_meet_at_once(sql: str) -> None:
    (free, _), (tight, _) = filled(64, 8, 200, sql), filled(64, 8, 200, sql)
    wanted = max(budget.wanted for budget in paired(free, 1 << 40))
    halved = paired(tight, wanted // 3)
    assert max(budget.wanted for budget in halved) > wanted // 3, "some were found by halves"
    for row, second in zip(table(free).rows, table(tight).rows, strict=True):
        assert row is not None and second is not None
        assert all(map(np.array_equal, (row.starts, row.left, row.right), (second.starts, second.left, second.right)))
    assert table(free).pairs > 500 and table(tight).refused == ""


def test_bytes_are_charged_before_they_are_made() -> None:
    soup, _ = filled(4_096, 6, 3_000)
    task = pairing(soup)
    assert task is not None
    budget = ReadBudget(sort_bytes=1 << 40)
    tracemalloc.start()
    try:
        made = task.compute(budget=budget)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak > 4 << 20, "the task is large enough to tell"
    assert peak <= budget.wanted + (2 << 20), f"{peak:,} bytes were held, and {budget.wanted:,} charged"
    size = sum(row.nbytes for row in made.rows if row is not None)  # type: ignore[union-attr]
    assert size <= budget.held + budget.joined <= 2 * size, "the rows stay charged, and nothing else"


def test_a_task_that_does_not_fit_is_refused_and_explain_says_so() -> None:
    soup, query = filled(64, 3, 200)
    assert len(paired(soup, SMALL)) == 1
    refused = table(soup).refused
    needed = re.fullmatch(rf"it needs at least ([\d,]+) bytes, and {SMALL:,} were free for it", refused)
    assert needed is not None and SMALL < int(needed[1].replace(",", "")) < 10 * SMALL
    explained = "\n".join(soup.explain(query).lines())
    assert f"no more are made until a chunk comes or leaves: {refused}" in explained
    assert soup.engine.maintenance() is None and table(soup).pairs == 0, "it is not tried in vain"
    before = again(soup.invoke, query).to_table()

    push(soup, "s", np.arange(64))
    assert len(paired(soup, SMALL)) == 1, "a chunk has come: once more"
    push(soup, "s", np.arange(64))
    paired(soup, 1 << 30)
    assert table(soup).refused == "" and table(soup).pairs > 0
    assert "no more are made" not in "".join(soup.explain(query).lines())
    after = again(soup.invoke, query).to_table()
    assert after.num_rows > before.num_rows


def test_rows_that_are_long_already_are_made_longer_a_few_at_a_time() -> None:
    (free, _), (tight, query) = filled(64, 12, 200), filled(64, 12, 200)
    assert paired(free, 1 << 40)
    paired(tight, 1 << 40)
    for soup in (free, tight):
        push(soup, "s", np.arange(64))
    (whole,) = paired(free, 1 << 40)
    halves = paired(tight, whole.wanted // 3)
    assert len(halves) > 1 and table(tight).refused == "", tight.explain(query)
    rows = [[row for row in table(soup).rows if row is not None] for soup in (free, tight)]
    assert [row.left.tolist() for row in rows[0]] == [row.left.tolist() for row in rows[1]]
    assert {row.stop for row in rows[1]} == {13}


def test_a_task_that_takes_too_long_is_refused() -> None:
    soup, _ = filled(64, 3, 200)
    task = pairing(soup)
    assert task is not None
    calls = 0

    def ask() -> None:
        nonlocal calls
        calls += 1
        if calls > 2:
            raise ResourceExhausted("it has used 3 s", reason="READ_CPU", **READ_CPU.over("3", "2"))

    outcome = task.compute(budget=ReadBudget(ask, sort_bytes=1 << 30))
    assert isinstance(outcome, RefusedPairs) and outcome.why == "it has used 3 s"
    soup.engine.install(outcome)
    assert pairing(soup) is None and table(soup).refused == "it has used 3 s"
    soup.check()


def test_a_refusal_of_a_join_that_is_gone_is_dropped() -> None:
    soup, query = filled(64, 3, 200)
    task = pairing(soup)
    assert task is not None
    outcome = task.compute(budget=ReadBudget(sort_bytes=SMALL))
    soup.unregister(query)
    soup.engine.install(outcome)
    assert not soup.engine.snapshot().pairs
    soup.check()
