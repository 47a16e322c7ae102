"""The counted costs of each clause: equal to a count by hand, through merges, and for a reused slot."""

from __future__ import annotations

import numpy as np
import pytest

from psoup.clauses.index.posting_lists import Layout
from psoup.clauses.query_stem import QuerySteM
from psoup.config import EngineConfig
from psoup.data.data_stem import Piece
from psoup.expressions.tree import AttributeRef
from psoup.matching.new_tuples import probe
from psoup.model import BIGINT, Attribute, Schema
from psoup.plan.factors import Factor, Interval, Term
from psoup.results.open import OpenResults
from psoup.values.columns import Column

A, B = AttributeRef(BIGINT, 0, "a"), AttributeRef(BIGINT, 1, "b")
SCHEMA = Schema((Attribute("a", BIGINT, True), Attribute("b", BIGINT, True)))
CONFIG = EngineConfig(chunk_rows=4_096)


def in_range(ref: AttributeRef, low: int, high: int) -> Factor:
    return Factor((Term(ref, (Interval(low, high),)),))


def piece_of(a: list[int], b: list[int], start: int = 0) -> Piece:
    ids = np.arange(start, start + len(a), dtype=np.int64)
    columns = tuple(Column(BIGINT, np.array(values, np.int64)) for values in (a, b))
    return Piece(columns, ids, ids, start)


def meet(stem: QuerySteM, piece: Piece) -> None:
    probe(stem, piece, OpenResults(CONFIG, 1_024))


def test_what_is_looked_at_is_what_passes_the_most_selective_factor() -> None:
    stem = QuerySteM(SCHEMA, CONFIG)
    stem.add(0, (in_range(A, 0, 4), in_range(B, 0, 900)))
    stem.add(1, (in_range(A, 0, 900),))
    stem.add(2, (in_range(A, 5_000, 6_000),))
    meet(stem, piece_of(list(range(1_000)), list(range(1_000))))
    costs = stem.costs.read()
    assert costs.tuples[:3].tolist() == [1_000] * 3
    assert costs.candidates[:3].tolist() == [4, 1_000, 0]
    assert costs.units[1] > costs.units[0] > costs.units[2] == 0


@pytest.mark.parametrize("merged", [False, True])
def test_clauses_in_lists_are_counted_by_the_tuples_of_their_cells(merged: bool) -> None:
    stem = QuerySteM(SCHEMA, CONFIG, Layout(least=1))
    stem.add_many([(k, (in_range(A, k, k + 1), in_range(B, 0, 5))) for k in range(200)])
    rng = np.random.default_rng(1)
    a = rng.integers(0, 250, 700)
    for start in range(0, 700, 100):
        meet(stem, piece_of(a[start : start + 100].tolist(), [0] * 100, start))
        if merged:
            stem.add(500 + start, (in_range(B, start, start + 1),))
            stem.install(stem.merge_task(everything=True).compute())
    wanted = np.bincount(a, minlength=250)[:200]
    found = stem.costs.read().candidates[:200]
    assert (found <= wanted).all()
    hot = wanted > 8  # of a cell that many tuples are in, only what the plan lets be done is counted
    assert found[~hot].tolist() == wanted[~hot].tolist()
    assert found.sum() > 0.8 * wanted.sum()


def test_a_slot_that_is_used_again_begins_anew() -> None:
    stem = QuerySteM(SCHEMA, CONFIG)
    stem.add(0, (in_range(A, 0, 900),))
    meet(stem, piece_of(list(range(100)), [0] * 100))
    owners = np.array([5])
    stem.costs.gone([(np.array([4, 5]), np.array([2, 7]))])
    assert stem.costs.read(owners).matched[0] == 7
    stem.costs.install(stem.costs.tally(owners), owners)
    assert not stem.costs.due(everything=True)
    assert stem.costs.read(owners).matched[0] == 7
    stem.remove(np.array([0]))
    stem.add(0, (in_range(A, 50, 52),))
    meet(stem, piece_of(list(range(100)), [0] * 100, 100))
    costs = stem.costs.read()
    assert (costs.tuples[0], costs.candidates[0], costs.matched[0]) == (100, 2, 0)
