"""A clause over old tuples: the scan agrees with the naive evaluator and with arrival; zones never hide a match."""

from __future__ import annotations

import random

import numpy as np
import pytest

from psoup.clauses.query_stem import QuerySteM
from psoup.config import EngineConfig
from psoup.data.data_stem import Piece
from psoup.matching.new_tuples import probe
from psoup.matching.scan import Zone, scan, zone_excludes
from psoup.model import TEXT
from psoup.plan.factors import Factor, Interval, Term
from psoup.results.open import OpenResults
from psoup_testing.histories.stems import (
    B_HUGE,
    REFS,
    SCHEMA,
    naive_failures,
    naive_matches,
    random_factors,
    random_piece,
    row_keys,
)
from psoup_testing.suite.sweeps import swept


def zones_of(piece: Piece) -> dict[int, Zone]:
    zones = {}
    for index, ref in enumerate(REFS):
        keys = row_keys(ref, piece.columns, piece.ids, piece.times)
        known = sorted(key for key in keys if key is not None)  # type: ignore[type-var]
        zones[index] = Zone(known[0] if known else None, known[-1] if known else None, None in keys)
    return zones


@pytest.mark.parametrize("seed", swept(range(8), fast=2))
def test_scan_agrees_with_the_naive_evaluator(seed: int) -> None:
    rng = random.Random(seed)
    piece = random_piece(rng, 120, 0)
    for _ in range(60):
        factors = random_factors(rng)
        result = scan(factors, piece.columns, piece.ids, piece.times)
        assert np.flatnonzero(result.mask).tolist() == naive_matches(factors, piece), factors


@pytest.mark.parametrize("seed", swept(range(8), fast=2))
def test_zones_exclude_only_what_cannot_match(seed: int) -> None:
    rng = random.Random(50 + seed)
    excluded = 0
    for _ in range(160):
        piece, factors = random_piece(rng, 3, 0), random_factors(rng)
        if zone_excludes(factors, zones_of(piece)):
            excluded += 1
            assert naive_matches(factors, piece) == []
    assert excluded > 5


def test_a_zone_without_values_has_only_nulls() -> None:
    nulls, empty = {0: Zone(None, None, True)}, {0: Zone(None, None, False)}
    is_null = (Factor((Term(REFS[0], (), True),)),)
    above = (Factor((Term(REFS[0], (Interval(3, None),)),)),)
    assert not zone_excludes(is_null, nulls)
    assert zone_excludes(is_null, empty)
    assert zone_excludes(above, nulls)
    assert not zone_excludes(above, {})


def test_errors_are_counted_as_on_arrival() -> None:
    """In the rows that every other factor lets through: in none, where one of them is never true."""
    piece = random_piece(random.Random(1), 200, 0)
    stem, results = QuerySteM(SCHEMA, EngineConfig()), OpenResults(EngineConfig(), 4)
    for slot, low in enumerate((0, 1000)):
        factors = (Factor((Term(REFS[0], (Interval(low, 2000),)),)), Factor((Term(B_HUGE, (Interval(0, None),)),)))
        stem.add(slot, factors)
        probe(stem, piece, results)
        found = scan(factors, piece.columns, piece.ids, piece.times).errors
        assert found == naive_failures(factors, piece) and (found > 0) == (low == 0)
        assert results.failures.of(slot) == found


def test_no_rows() -> None:
    piece = random_piece(random.Random(1), 0, 0)
    assert len(scan(random_factors(random.Random(2)), piece.columns, piece.ids, piece.times).mask) == 0


def test_text_equal_to_a_long_common_prefix() -> None:
    """Texts that agree in the first eight bytes, and one that ends in a zero byte."""
    piece = random_piece(random.Random(9), 200, 0)
    column = SCHEMA.index("t")
    assert column is not None
    assert SCHEMA.attributes[column].type == TEXT
    for wanted in (b"abcdefgh", b"abcdefgh\0", b"abcdefghi"):
        factors = (Factor((Term(REFS[column], (Interval(wanted, wanted + b"\0"),)),)),)
        found = np.flatnonzero(scan(factors, piece.columns, piece.ids, piece.times).mask).tolist()
        assert found == naive_matches(factors, piece) != []
