"""The search of one clause in closed chunks: codes, edges, NULLs and the rest agree with the scan of the values."""

from __future__ import annotations

import random

import numpy as np
import pytest

from psoup.data.chunk import ChunkView
from psoup.data.narrow import narrow
from psoup.data.places import Places
from psoup.data.zones import narrow_all, narrowed
from psoup.expressions import deferral
from psoup.expressions.tree import AttributeRef
from psoup.matching.scan import scan
from psoup.matching.search import Search
from psoup.model import BIGINT, DOUBLE
from psoup.plan.factors import Factor, Interval, Term
from psoup.values.columns import Column
from psoup_testing.histories.stems import random_factors, random_piece
from psoup_testing.suite.sweeps import swept


def chunk_of(columns: tuple[Column, ...], first_id: int, times: np.ndarray) -> ChunkView:
    return ChunkView(0, Places(first_id, len(times)), times, columns, 0)


@pytest.mark.parametrize("seed", swept(range(6), fast=2))
def test_a_search_finds_what_a_scan_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    hits = 0
    for number in range(40):
        monkeypatch.setattr(deferral, "LEAST_ROWS", (1, 10**9)[number % 2])
        piece = random_piece(rng, rng.choice([1, 63, 64, 200]), 0)
        chunk = chunk_of(piece.columns, int(piece.ids[0]), piece.times)
        factors = tuple(f for _ in range(rng.randint(1, 2)) for f in random_factors(rng))
        start, stop = sorted(rng.sample(range(len(chunk) + 1), 2))
        found = Search(factors).find(chunk, start, stop)
        monkeypatch.setattr(deferral, "LEAST_ROWS", 10**9)
        wanted = scan(
            factors, [c.slice(start, stop) for c in chunk.columns], piece.ids[start:stop], piece.times[start:stop]
        )
        assert found.offsets.tolist() == (np.flatnonzero(wanted.mask) + start).tolist(), factors
        assert found.errors == wanted.errors
        hits += len(found.offsets) > 0
    assert hits > 10


VALUES = {
    "bytes": [3, 250, 7, 3, 100],
    "words": [-5, 60_000, 17],
    "far apart": [-(2**63), 2**63 - 1, 0, 5, 6, -1, 2**62],
    "clusters": [10**12 + k for k in range(70)] + list(range(70)),
    "one": [7],
}


@pytest.mark.parametrize("name", VALUES)
def test_spans_hold_every_value_of_the_interval_and_exact_ones_no_other(name: str) -> None:
    values = np.array(VALUES[name], np.int64)
    codes = narrow(Column(BIGINT, values), int(values.min()), int(values.max()))
    edges = sorted({int(v) + d for v in values for d in (-1, 0, 1) if -(2**63) <= int(v) + d < 2**63})
    for low in [None, *edges]:
        for high in [None, *edges]:
            span = codes.span(Interval(low, high))
            inside = [(low is None or v >= low) and (high is None or v < high) for v in values.tolist()]
            coded = (codes.codes >= span.first) & (codes.codes <= span.last)
            assert all(coded[k] for k, is_in in enumerate(inside) if is_in)
            if span.exact:
                assert coded.tolist() == inside
            assert 0.0 <= codes.share(span) <= 1.0


def test_rows_that_share_a_code_with_an_edge_are_asked_for_their_value() -> None:
    """Doubles over the whole range: a code is 1/16 of a power of two wide."""
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.normal(0, 1, 500) * 10.0 ** rng.integers(-200, 200, 500), [np.nan, np.inf, -0.0, 0.0]])
    valid = rng.random(len(values)) < 0.9
    column = Column(DOUBLE, values, valid)
    chunk = chunk_of((column,), 0, np.arange(len(values)))
    keys = column.order_keys()
    ref = AttributeRef(DOUBLE, 0, "x")
    for _ in range(200):
        low, high = sorted(rng.choice(keys, 2).tolist())
        factors = (Factor((Term(ref, (Interval(low, high),)),)),)
        found = Search(factors).find(chunk, 0, len(values)).offsets
        assert found.tolist() == np.flatnonzero(valid & (keys >= low) & (keys < high)).tolist()
    assert narrowed(chunk, 0).shift > 0


def test_codes_are_as_narrow_as_the_values_allow() -> None:
    columns = tuple(Column(BIGINT, np.array([7, 7 + span], np.int64)) for span in (255, 256, 65_534, 65_535))
    some = np.array([True, True, False])
    columns += tuple(Column(BIGINT, np.array([7, 7 + span, 0]), some).slice(0, 2) for span in (254, 255))
    chunk = chunk_of(columns, 0, np.arange(2))
    narrow_all(chunk)
    assert [(codes.codes.itemsize, codes.shift) for codes in chunk.caches.narrow.values()] == [
        (1, 0), (2, 0), (2, 0), (2, 1), (1, 0), (2, 0),
    ]  # fmt: skip


def test_codes_that_a_kernel_was_told_of_stay_and_are_not_made_twice() -> None:
    """A join reads a column by the addresses of its codes: memory that is given back under it is not its own."""
    values = np.arange(100)
    columns = (Column(BIGINT, values), Column(BIGINT, values + 7), Column(BIGINT, values * 1_000_000))
    chunk = ChunkView(0, Places(0, len(values)), values, columns, 1_600)
    narrow_all(chunk)
    told = chunk.addresses()
    codes = chunk.caches.narrow[0]
    for _ in range(5):
        chunk.caches.forget_codes()
        assert chunk.addresses() is told and set(chunk.caches.narrow) == {0, 1}
        narrow_all(chunk)
        assert chunk.addresses() is told and chunk.caches.narrow[0] is codes and len(chunk.caches.places) == 1
