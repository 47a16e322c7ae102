"""A block of columns is the part, and has the names, that its clauses as objects have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from psoup.clauses.names import ClauseNames
from psoup.clauses.query_stem import QuerySteM
from psoup.config import EngineConfig
from psoup.errors import Corrupt
from psoup.plan.factors import Factor
from psoup.sql import standing_query
from psoup_testing.histories.blocks import SPEC, block_of, conditions
from psoup_testing.suite.budget import scaled

CONFIG = EngineConfig(delta_queries=8)


@settings(max_examples=scaled(120), deadline=None)
@given(st.lists(conditions(), min_size=1, max_size=4), st.data())
def test_a_block_of_columns_is_the_part_of_its_clauses(
    parts: list[tuple[str, list[object]]], data: st.DataObject
) -> None:
    sources = [source for _, own in parts for source in own]
    assume(sources)
    row = st.tuples(*sources)  # type: ignore[arg-type]
    found = block_of(" AND ".join(text for text, _ in parts), data.draw(st.lists(row, min_size=1, max_size=12)))
    assume(found is not None)
    assert found is not None
    columns = found.clauses()
    names = ClauseNames()
    assert names.of_columns(columns).tolist() == [names.of_clause(query.factors).tolist()[0] for query in found]
    possible = [k for k in range(len(found)) if found[k].factors != (Factor(()),)]
    assume(possible)
    slots = data.draw(st.permutations(range(len(possible))))
    block, single = QuerySteM(SPEC.schema, CONFIG), QuerySteM(SPEC.schema, CONFIG)
    used = block.add_columns(np.array(slots, np.int64), columns.take(np.array(possible, np.int64)))
    each = {single.add(slot, found[k].factors) for slot, k in zip(slots, possible, strict=True)}
    assert len(each) == 1
    assert len(used) == len(each.pop())
    block.check()
    for slot in slots:
        assert {texts(f) for f in block.describe(slot)} == {texts(f) for f in single.describe(slot)}
    assert [set(block.factors_of(slot)) for slot in slots] == [set(found[k].factors) for k in possible]


def texts(factor: object) -> object:
    return tuple((t.attribute, t.intervals, t.nulls) for t in factor.terms)  # type: ignore[attr-defined]


def test_names_are_found_until_they_are_forgotten() -> None:
    names, random = ClauseNames(), np.random.default_rng(1)
    there: dict[tuple[int, ...], int] = {}
    for _ in range(200):
        wanted = random.integers(0, 60, (int(random.integers(1, 40)), 2)).astype(np.uint64) % np.uint64(9)
        free = sorted(set(range(200)) - set(there.values()))
        slots, fresh = names.assign(wanted, lambda count, free=free: np.array(free[:count], np.int64))
        for row in fresh.tolist():
            assert tuple(wanted[row].tolist()) not in there
            there[tuple(wanted[row].tolist())] = int(slots[row])
        assert slots.tolist() == [there[tuple(one)] for one in wanted.tolist()]
        for name in [name for name in there if random.random() < 0.4]:
            names.forget(np.array([there.pop(name)]))
        names.check(np.array(sorted(there.values()), np.int64))
    with pytest.raises(Corrupt, match="has no name"):
        names.forget(np.array([199]))


def test_names_tell_texts_and_ends_apart() -> None:
    names = ClauseNames()
    clauses = ["sym = 'a'", "sym = ''", "sym >= 'a'", "sym > 'a'", "sym <= 'a'", "sym < 'a'", "sym = 'a' AND qty = 1"]
    clauses += [
        "qty = 1",
        "qty >= 1",
        "qty <= 1",
        "price = 1",
        "amount = 1",
        "qty = 1 OR ok",
        "qty IS NULL",
        "sym > ''",
    ]
    found = {
        tuple(names.of_clause(standing_query(f"SELECT * FROM s WHERE {where}", lambda _: SPEC).factors)[0].tolist())
        for where in [*clauses, "qty = 1 AND sym = 'a'"]
    }
    assert len(found) == len(clauses)
