"""Matches of clauses without results: idle ones, and clauses that became active after a chunk was closed."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from psoup.config import EngineConfig, Shape
from psoup.execution.select import clause_indexes
from psoup.local import LocalPSoup
from psoup.plan.amounts import AS_USUAL, Amount
from psoup.published import kept_indexes
from psoup.work.gc_pause import without_collector
from psoup_testing.engines.amounts import CONFIG, INACTIVE, NONE, block, make, push
from psoup_testing.suite.budget import SEED, replayable, scaled
from psoup_testing.suite.sweeps import swept

ROW = pa.table({"x": [-1]})


def python_calls(act: Callable[[], object]) -> int:
    """The calls of Python functions while `act` runs."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    with without_collector():  # it calls finalizers
        sys.setprofile(count)
        try:
            act()
        finally:
            sys.setprofile(None)
    return calls


def test_matches_of_many_clauses_without_results_are_work_as_a_set() -> None:
    """1,000 and 10,000 queries of a block cause the same number of Python calls: while idle, and after activation."""
    counted = list[list[int]]()
    for count in (1_000, 10_000):
        soup = LocalPSoup(EngineConfig(shape=replace(Shape(), owner_page=1 << 20, open_work=1)), verify="off")
        soup.execute("CREATE STREAM s (x BIGINT)")
        soup.push("s", pa.table({"x": [-1, -2]}))
        ids = soup.register_many("SELECT x FROM s WHERE x = ?", pa.table({"x": range(count)}), keeping=NONE)
        calls = list[int]()
        counted.append(calls)
        assert soup.matches("s", 0) == [] == soup.match("s", ROW).of(0)
        calls += [python_calls(lambda s=soup: s.matches("s", 0)), python_calls(lambda s=soup: s.match("s", ROW))]
        soup.alter_queries(ids, amount=Amount.PARTIAL)
        assert not soup.engine.snapshot().stream("s", "default").chunks[0].results.covers(1)
        calls += [python_calls(lambda s=soup: s.matches("s", 0)) for _ in range(2)]
    assert counted[0] == counted[1]
    assert counted[0][3] < counted[0][2] / 2  # the second call finds the index of the first one


@pytest.mark.parametrize("size", swept([1 << 26, 5_000, 0], fast=(1,)))
def test_matches_equal_the_conditions_as_clauses_come_and_go(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`size`: the most bytes of kept indexes."""
    monkeypatch.setattr(clause_indexes, "_TOGETHER", 8)
    monkeypatch.setattr(kept_indexes, "_KEPT_BYTES", size)
    for seed in range(SEED, SEED + scaled(1)):
        with replayable(seed):
            _play(random.Random(seed), size)


def _play(draw: random.Random, size: int) -> None:
    soup = make(config=replace(CONFIG, shape=replace(CONFIG.shape, open_work=1), results_bytes=draw.choice([1, 2**30])))
    values, tuples, column = dict[int, tuple[int, str, bool]](), [(0, "w0")], 0
    for _ in range(25):
        step = draw.choice(
            ["block", "block", "alter", "alter", "alter", "unregister", "push", "push", "column", "keep"]
        )
        some = draw.sample([*values], min(draw.choice([1, 9]), len(values)))
        if step == "block":
            keeping = draw.choice([AS_USUAL, NONE, NONE, INACTIVE])
            count = draw.choice([1, 3, 20])
            for place, query_id in enumerate(block(soup, count, keeping)):
                values[query_id] = place % 7, f"x{place}", keeping.active
        elif step == "alter" and some:
            amount, active = draw.choice([Amount.NONE, Amount.PARTIAL]), draw.random() < 0.8
            soup.alter_queries(some, amount=amount, active=active)
            values |= {i: (*values[i][:2], active) for i in some}
        elif step == "unregister" and some:
            soup.unregister(some[0])
            del values[some[0]]
        elif step == "push":
            count = draw.choice([1, 70])
            push(soup, count)
            tuples += [(n % 10, f"w{n % 10 % 3}") for n in range(count)]
        elif step == "column" and column < 3:
            column += 1
            soup.execute(f"ALTER STREAM s ADD COLUMN y{column} BIGINT")
        elif step == "keep":
            soup.maintain()
        sample = draw.sample(range(len(tuples)), min(3, len(tuples)))
        expected = [[i for i, value in sorted(values.items()) if _is_match(value, tuples[at])] for at in sample]
        assert [soup.matches("s", at) for at in sample] == expected
        assert soup.matches_many("s", sample) == expected
        assert [soup.match("s", _row(*tuples[at])).of(0) for at in sample] == expected
        assert soup.engine.snapshot().stream("s", "default").room.indexes.nbytes <= size


def _is_match(value: tuple[int, str, bool], row: tuple[int, str]) -> bool:
    return value[2] and row[0] > value[0] and row[1] < value[1]


def _row(x: int, n: str) -> pa.Table:
    return pa.table({"x": [x], "n": [n]})
