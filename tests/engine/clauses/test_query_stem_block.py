"""A block of clauses is the part that its clauses, one by one, become."""

from __future__ import annotations

import numpy as np
import pytest

from psoup.clauses.factor_table import FactorTable
from psoup.clauses.query_stem import QuerySteM
from psoup.config import EngineConfig
from psoup.errors import Internal
from psoup.expressions.tree import AttributeRef
from psoup.model import BIGINT, TEXT, Attribute, Schema
from psoup.plan.factors import Factor, Interval, Term
from psoup_testing.suite.sweeps import swept

SCHEMA = Schema((Attribute("a", BIGINT), Attribute("t", TEXT)))
A, T = AttributeRef(BIGINT, 0, "a"), AttributeRef(TEXT, 1, "t")


def random_factors(random: np.random.Generator, shared: list[Factor]) -> tuple[Factor, ...]:
    """Up to three factors, some of them the same objects as other clauses have."""
    found = []
    for _ in range(random.integers(0, 4)):
        low = int(random.integers(0, 20))
        number = Term(A, (Interval(None if low == 3 else low, low + 1 + int(random.integers(0, 5))),), low == 7)
        text = f"x{low}".encode()
        word = Term(T, (Interval(text, text + b"\0"), Interval(b"y", None)))
        either: tuple[Factor, ...] = (Factor((number,)), Factor((word,)), Factor((number, word)), Factor(()))
        new = either[int(random.choice(4, p=[0.5, 0.3, 0.15, 0.05]))]
        found.append(shared[int(random.integers(0, len(shared)))] if shared and random.random() < 0.5 else new)
        shared.append(found[-1])
    return tuple(found)


@pytest.mark.parametrize("seed", swept(range(20), fast=4))
def test_a_block_holds_the_clauses_as_they_were_given(seed: int) -> None:
    random = np.random.default_rng(seed)
    shared: list[Factor] = []
    clauses = [(slot, random_factors(random, shared)) for slot in random.permutation(100).tolist()]
    block, single = QuerySteM(SCHEMA, EngineConfig(delta_queries=64)), QuerySteM(SCHEMA, EngineConfig())
    used = block.add_many(clauses)
    assert used == [single.add(slot, factors) for slot, factors in clauses]
    block.check()
    assert block.to_arrow() == single.to_arrow()
    with pytest.raises(Internal, match="holds a clause already"):
        block.add_many(clauses[:9])
    for slot, _ in clauses[::3]:
        block.remove(np.array([slot]))
        single.remove(np.array([slot]))
    assert block.to_arrow() == single.to_arrow()


@pytest.mark.parametrize("seed", swept(range(10), fast=3))
def test_some_clauses_of_a_table_that_was_made_before(seed: int) -> None:
    """What others of the table read has no ID, and their boundaries are not in the index."""
    random = np.random.default_rng(seed)
    every = [(slot, random_factors(random, [])) for slot in random.permutation(100).tolist()]
    table = FactorTable.of(factors for _, factors in every)
    clauses = [every[row] for row in np.flatnonzero(random.random(100) < 0.3).tolist()]
    block, single = QuerySteM(SCHEMA, EngineConfig(delta_queries=8)), QuerySteM(SCHEMA, EngineConfig())
    assert block.add_many(clauses, table) == [single.add(slot, factors) for slot, factors in clauses]
    block.check()
    assert block.to_arrow() == single.to_arrow()
    for stem in (block, single):
        stem.install(stem.merge_task(everything=True).compute())
    (merged,), (expected,) = block._parts, single._parts
    assert [merged.index.attributes.tolist(), merged.index.base.tolist()] == [
        expected.index.attributes.tolist(),
        expected.index.base.tolist(),
    ]


def test_an_attribute_that_only_others_of_the_table_read_is_not_known() -> None:
    numbers = [(k, (Factor((Term(A, (Interval(k, k + 1),)),)),)) for k in range(50)]
    texts = [(k, (Factor((Term(T, (Interval(b"x", None),)),)),)) for k in range(50, 60)]
    stem = QuerySteM(SCHEMA, EngineConfig(delta_queries=8))
    stem.add_many(numbers, FactorTable.of(factors for _, factors in [*texts, *numbers]))
    assert list(stem.attributes.values()) == [A]
    stem.check()
