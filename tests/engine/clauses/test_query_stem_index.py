"""The parts of the Query SteM: what goes in comes out again, merges lose and invent nothing, memory is given back."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from psoup.clauses.describe import expr_text
from psoup.clauses.query_stem import QuerySteM
from psoup.clauses.scratch import Scratch
from psoup.config import EngineConfig
from psoup.errors import Internal
from psoup.plan.factors import Factor, Interval, Term
from psoup_testing.histories.stems import A_MINUS_B, ATTRIBUTES, REFS, SCHEMA, random_factors
from psoup_testing.suite.sweeps import swept

CONFIG = EngineConfig(delta_queries=8)
Shape = list[dict[str, tuple[tuple[Interval, ...], bool]]]


def shape_of(factors: tuple[Factor, ...]) -> Shape:
    return [
        {expr_text(t.attribute): (t.intervals, t.nulls) for t in f.terms if t.intervals or t.nulls} for f in factors
    ]


def held(stem: QuerySteM, slot: int) -> Shape:
    return [{t.attribute: (t.intervals, t.nulls) for t in f.terms} for f in stem.describe(slot)]


def shown(stem: QuerySteM) -> list[int]:
    """The slots of the clauses that a reader joins with its rows, ascending."""
    side = stem.view().subset(Scratch()).side(0)
    parts = [*side.parts, *(part for part, _ in side.searched)]
    return sorted(slot for part in parts for slot in part.index.slots[part.alive == 1].tolist())


@pytest.mark.parametrize("seed", swept(range(10), fast=3))
def test_every_clause_is_held_as_it_was_added(seed: int) -> None:
    rng = random.Random(seed)
    stem, clauses, pending = QuerySteM(SCHEMA, CONFIG), dict[int, tuple[Factor, ...]](), []
    for step in range(150):
        action = rng.random()
        if action < 0.6:
            clauses[step] = random_factors(rng)
            stem.add(step, clauses[step])
        elif action < 0.8 and clauses:
            slot = rng.choice(sorted(clauses))
            stem.remove(np.array([slot]))
            del clauses[slot]
        elif action < 0.9:
            pending.append(stem.merge_task(everything=rng.random() < 0.3))
        elif pending:
            stem.install(pending.pop(rng.randrange(len(pending))).compute())
        assert shown(stem) == sorted(clauses)
    for _ in range(2):
        stem.check()
        assert {slot: held(stem, slot) for slot in clauses} == {slot: shape_of(f) for slot, f in clauses.items()}
        assert stem.install(stem.merge_task(everything=True).compute())
    while stem.merge_due(everything=True):  # those that look for texts are merged by themselves
        assert stem.install(stem.merge_task(everything=True).compute())
    assert {f.index for slot in clauses for f in stem.describe(slot)} <= {"main"}


def test_a_slot_can_be_used_again_while_its_old_clause_is_merged() -> None:
    stem = QuerySteM(SCHEMA, CONFIG)
    old, new = (Factor((Term(REFS[0], (Interval(1, 2),)),)),), (Factor((Term(REFS[1], (Interval(5, None),)),)),)
    stem.add(0, old)
    stem.add(1, old)
    task = stem.merge_task()
    stem.remove(np.array([0]))
    stem.add(0, new)
    assert stem.install(task.compute())
    stem.check()
    assert held(stem, 0) == shape_of(new)
    assert held(stem, 1) == shape_of(old)


def test_a_stale_merge_is_dropped() -> None:
    stem = QuerySteM(SCHEMA, CONFIG)
    stem.add(0, ())
    first, second = stem.merge_task(), stem.merge_task()
    assert stem.install(first.compute())
    assert not stem.install(second.compute())
    stem.check()
    assert len(stem) == 1


def test_merging_ends_and_is_amortised() -> None:
    """Parts grow geometrically: a clause is copied a few times, not once for every later merge."""
    stem, copied = QuerySteM(SCHEMA, CONFIG), 0
    for slot in range(1000):
        stem.add(slot, (Factor((Term(REFS[0], (Interval(slot, slot + 1),)),)),))
        while stem.merge_due():
            result = stem.merge_task().compute()
            copied += len(result.merged.index)
            assert stem.install(result)
    assert copied < 20 * 1000
    stem.check()


def test_the_bill_returns_to_its_prior_value() -> None:
    rng = random.Random(4)
    stem = QuerySteM(SCHEMA, CONFIG)
    for slot in range(40):
        stem.add(slot, random_factors(rng))
    stem.install(stem.merge_task(everything=True).compute())
    before = stem.bill()
    for round_ in range(3):
        for slot in range(100, 130):
            stem.add(slot, random_factors(rng))
            if slot == 110 + round_:
                stem.install(stem.merge_task(everything=True).compute())
        for slot in range(100, 130):
            stem.remove(np.array([slot]))
        stem.install(stem.merge_task(everything=True).compute())
        assert stem.bill() == before
        assert stem.nbytes == sum(before.values())


def test_removing_everything_leaves_nothing() -> None:
    stem = QuerySteM(SCHEMA, CONFIG)
    empty = stem.bill()
    rng = random.Random(7)
    for slot in range(30):
        stem.add(slot, random_factors(rng))
    stem.install(stem.merge_task().compute())
    for slot in range(30):
        stem.remove(np.array([slot]))
    while stem.merge_due():
        assert stem.install(stem.merge_task().compute())
    assert len(stem) == 0
    assert stem.bill() == empty
    with pytest.raises(KeyError):
        stem.attributes[0]


def test_attributes_are_shared_by_value() -> None:
    stem = QuerySteM(SCHEMA, CONFIG)
    for slot in range(3):
        stem.add(slot, (Factor((Term(A_MINUS_B, (Interval(slot, None),)),)),))
    assert {tuple(stem.attributes_of(slot).tolist()) for slot in range(3)} == {(0,)}
    assert stem.attributes[0] == A_MINUS_B


def test_to_arrow_has_every_interval() -> None:
    rng = random.Random(11)
    stem, clauses = QuerySteM(SCHEMA, CONFIG), {slot: random_factors(rng) for slot in range(50)}
    for slot, factors in clauses.items():
        stem.add(slot, factors)
    table = stem.to_arrow()
    assert table.schema.field("slot").type == pa.uint32()
    found: dict[int, list[tuple[object, ...]]] = {}
    for row in table.to_pylist():
        low = row["low"] if row["low_text"] is None else row["low_text"]
        high = row["high"] if row["high_text"] is None else row["high_text"]
        found.setdefault(row["slot"], []).append((row["factor"], row["attribute"], low, high, row["nulls"]))
    assert found == {slot: _expected_rows(factors) for slot, factors in clauses.items()}


def _expected_rows(factors: tuple[Factor, ...]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for number, factor in enumerate(factors):
        count = len(rows)
        for term in factor.terms:
            name = expr_text(term.attribute)
            reaches = bool(term.intervals) and term.intervals[-1].high is None
            for k, interval in enumerate(term.intervals):
                nulls = term.nulls and reaches and k == len(term.intervals) - 1
                rows.append((number, name, interval.low, interval.high, nulls))
            if term.nulls and not reaches:
                rows.append((number, name, None, None, True))
        if len(rows) == count:
            rows.append((number, None, None, None, None))
    return rows or [(None, None, None, None, None)]


def test_an_attribute_without_boundaries() -> None:
    """IS NULL alone has no constant; TEXT keeps its kind through merges."""
    stem = QuerySteM(SCHEMA, CONFIG)
    for slot, expr in enumerate(ATTRIBUTES):
        stem.add(slot, (Factor((Term(expr, (), True),)),))
    stem.install(stem.merge_task().compute())
    stem.add(50, (Factor((Term(REFS[2], (Interval(b"a", b"b"),)),)),))
    stem.install(stem.merge_task(everything=True).compute())
    stem.check()
    assert held(stem, 50) == [{"t": ((Interval(b"a", b"b"),), False)}]


def test_check_finds_what_is_broken() -> None:
    stem = QuerySteM(SCHEMA, CONFIG)
    stem.add(0, (Factor((Term(REFS[0], (Interval(1, 2),)),)),))
    stem.install(stem.merge_task().compute())
    part = stem._parts[0]
    part.index.iv_hi[0] = part.index.iv_lo[0]
    with pytest.raises(Internal, match="an interval is empty"):
        stem.check()
    part.index.iv_hi[0] += 1
    part.alive[0] = 0
    with pytest.raises(Internal, match="live clauses"):
        stem.check()


def test_size_counts_live_clauses() -> None:
    stem = QuerySteM(SCHEMA, CONFIG)
    for slot in range(20):
        stem.add(slot, ())
        if slot == 9:
            stem.install(stem.merge_task().compute())
    stem.remove(np.array([3]))
    stem.remove(np.array([15]))
    assert len(stem) == 18
    assert stem.subset(np.arange(20)).slots.tolist() == [s for s in range(20) if s not in (3, 15)]
