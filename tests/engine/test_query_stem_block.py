"""A block of clauses is the part that its clauses, one by one, become."""

from __future__ import annotations

import numpy as np
import pytest

from psoup.config import EngineConfig
from psoup.errors import Internal
from psoup.expressions.tree import AttributeRef
from psoup.model import BIGINT, TEXT, Attribute, Schema
from psoup.query import Factor, Interval, Term
from psoup.stems.query_stem import QuerySteM

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


@pytest.mark.parametrize("seed", range(20))
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
        block.remove(slot)
        single.remove(slot)
    assert block.to_arrow() == single.to_arrow()
