"""To read one long statement is work with places at which it may rest, in each of its stages."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from psoup.errors import SqlError
from psoup.model import StreamSpec
from psoup.sql import create_stream, standing_query
from psoup.work.rest_points import MOVES, may_rest, resting

PARTS = 300
STAGES = (
    "psoup.sql.parser.dialect",
    "psoup.sql.parser.grammar",
    "psoup.sql.refusals",
    "psoup.sql.binder",
    "psoup.sql.parser.parse_tree",
)


@pytest.fixture(scope="module")
def spec() -> StreamSpec:
    return create_stream("CREATE STREAM s (a BIGINT, b BIGINT)")


def places(sql: str, spec: StreamSpec) -> Counter[str]:
    """How often each module asks while a statement is bound."""
    asked = Counter[str]()

    def rest() -> None:
        asked[sys._getframe(2).f_globals["__name__"]] += 1

    with resting(rest):
        standing_query(sql, lambda _: spec)
    return asked


@pytest.mark.parametrize("connective", ["OR", "AND"])
def test_every_stage_may_rest_at_every_eighth_part_of_a_condition(spec: StreamSpec, connective: str) -> None:
    parts = f" {connective} ".join(f"a <> {number}" for number in range(PARTS))
    asked = places(f"SELECT a FROM s WHERE {parts}", spec)
    assert all(asked[stage] >= PARTS // MOVES for stage in STAGES)
    assert min(asked["psoup.sql.binder"], asked["psoup.sql.where.factors"]) >= PARTS


def test_every_stage_may_rest_at_every_eighth_constant_of_a_list(spec: StreamSpec) -> None:
    asked = places(f"SELECT a FROM s WHERE a IN ({', '.join(map(str, range(PARTS)))})", spec)
    assert all(asked[stage] >= PARTS // MOVES for stage in STAGES)


def test_what_is_bound_and_refused_is_the_same_with_and_without(spec: StreamSpec) -> None:
    sql = "SELECT a FROM s WHERE a = 1 AND b < 2"
    with resting(lambda: None):
        assert standing_query(sql, lambda _: spec) == standing_query(sql, lambda _: spec)
        with pytest.raises(SqlError, match="'c'"):
            standing_query("SELECT c FROM s", lambda _: spec)


def test_a_place_calls_the_rest_of_its_context_only() -> None:
    called = list[int]()
    may_rest()
    with resting(lambda: called.append(1)):
        with resting(lambda: called.append(2)):
            may_rest()
        may_rest()
    may_rest()
    assert called == [2, 1]
