"""Shares of the writer's time that queries take, by a timer that ticks: each look at it is a second later.

a piece of tuples   |began| expression |began 20 s ended| ended|     23 seconds, of which 21 are the expression's
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from psoup.answer.figures.arrival_shares import ArrivalShare, ArrivalShares
from psoup.answer.invoke import invoke
from psoup.clauses.quarantine import Precautions
from psoup.config import EngineConfig
from psoup.engine.maintenance.dear import TooDear
from psoup.expressions.error_guard import guarded
from psoup.expressions.tree import Call
from psoup.model import DEFAULT_TENANT
from psoup.values.columns import Column
from psoup.work.clock import VirtualClock
from psoup_testing.engines.recorded import RecordingPSoup

WINDOW = 10.0
SMALL = EngineConfig(chunk_rows=64, delta_queries=4)


class Ticks:
    """A timer. `slowly` computes an expression, which takes 20 seconds."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        self.at += 1
        return self.at

    def slowly(self, *asked: Any) -> Column:
        self.at += 20 * isinstance(asked[0], Call)
        return guarded(*asked)


@pytest.fixture
def soup() -> RecordingPSoup:
    made = RecordingPSoup(SMALL, VirtualClock())
    clock = Ticks()
    made.engine._spent.now = clock
    made.engine.take_precautions(Precautions(compute=clock.slowly))
    for stream in ("s", "t"):
        made.execute(f"CREATE STREAM {stream} (a BIGINT, n BIGINT)")
    return made


def push(soup: RecordingPSoup, stream: str = "s") -> None:
    soup.push(stream, pa.table({"a": range(8), "n": [1] * 8}))


def looked(soup: RecordingPSoup, least: float = 0.01) -> dict[int, ArrivalShare]:
    """The shares of the third window: the first says which streams matter, the second where their counters stand."""
    shares = ArrivalShares(least)
    for _ in range(2):
        assert shares.look(soup.engine.snapshot(), WINDOW) == []
        push(soup)
    return {share.query_id: share for share in shares.look(soup.engine.snapshot(), WINDOW)}


def rows(soup: RecordingPSoup, query_id: int) -> list[int]:
    answer = invoke(soup.engine.snapshot(), query_id, tenant=DEFAULT_TENANT, now=0).to_table()
    return [int(value) for value in answer.column("a").to_pylist()]


def test_an_expression_is_paid_by_who_reads_it_and_a_clause_is_divided_among_its_queries(soup: RecordingPSoup) -> None:
    dear = soup.register("SELECT a FROM s WHERE abs(a) > 2")
    shared = [soup.register(f"SELECT {column} FROM s WHERE a > 5") for column in ("a", "n")]
    push(soup)
    found = looked(soup)
    assert {*found} == {dear, *shared} and next(iter(found)) == dear
    assert sum(share.share for share in found.values()) == pytest.approx(23 / WINDOW)
    assert found[dear].share > 21 / WINDOW, "the seconds of its expression, and its part of the rest"
    assert len(found[dear].dearest.exprs) == 1
    assert found[shared[0]].share == found[shared[1]].share > 0
    assert not found[shared[0]].dearest.exprs
    told = soup.explain(dear)
    assert told.cost.arrival == found[dear].share
    assert any(f"takes {found[dear].share:.0%} of the time in which tuples arrive" in line for line in told.lines())


def test_sides_of_a_join_count_for_the_join(soup: RecordingPSoup) -> None:
    join = soup.register("SELECT x.a FROM s x, s y WHERE x.a = y.a AND x.n > 0 AND y.a > 3")
    push(soup)
    (share,) = looked(soup).values()
    assert share.query_id == join and len(share.clauses) == 2
    assert share.share == pytest.approx(1 / WINDOW)
    assert soup.explain(join).cost.arrival == pytest.approx(share.share), "the stream of both sides counts once"


def test_what_is_little_is_not_looked_at_and_what_stops_is_forgotten(soup: RecordingPSoup) -> None:
    query = soup.register("SELECT a FROM s WHERE a > 5")
    assert looked(soup, least=0.9) == {}
    shares = ArrivalShares(0.01)
    for quiet in (False, False, False, True):
        found = shares.look(soup.engine.snapshot(), WINDOW)
        if not quiet:
            push(soup)
    assert found and soup.explain(query).cost.arrival == found[0].share
    assert shares.look(soup.engine.snapshot(), WINDOW) == []
    assert soup.explain(query).cost.arrival == 0
    soup.unregister(query)
    soup.execute("DROP STREAM s")
    assert shares.look(soup.engine.snapshot(), WINDOW) == [] and len(shares._before) == 1


@pytest.mark.parametrize("where", ["abs(a) > 2", "a > 2"])
def test_a_query_that_is_too_dear_leaves_the_index_and_its_answers_stay(soup: RecordingPSoup, where: str) -> None:
    query = soup.register(f"SELECT a FROM s WHERE {where}")
    mate = soup.register("SELECT a FROM s WHERE abs(a) > 4")
    other = soup.register("SELECT a FROM s WHERE a > 4")
    push(soup)
    dearest = looked(soup)[query].dearest
    assert bool(dearest.exprs) == (where != "a > 2")
    soup.engine.install(TooDear(dearest.clause, dearest.exprs, "too dear"))
    push(soup)
    assert rows(soup, query) == [3, 4, 5, 6, 7] * 4 and rows(soup, mate) == rows(soup, other) == [5, 6, 7] * 4
    (outside,) = soup.explain(query).source.outside
    assert "too dear" in outside and not soup.explain(other).source.outside
    assert bool(soup.explain(mate).source.outside) == bool(dearest.exprs), "what is computed is computed for all"
    assert not soup.engine.kept_out(), "the next start tries again"
    (left,) = soup.engine.news()
    assert query in left.query_ids and left.clauses == 1 + bool(dearest.exprs)
    again = TooDear(dearest.clause, dearest.exprs, "again")
    soup.engine.install(again)
    soup.unregister(query)
    soup.unregister(mate)
    soup.engine.install(again)
    soup.maintain()
    back = soup.register(f"SELECT a FROM s WHERE {where}")
    push(soup)
    assert rows(soup, back) == [3, 4, 5, 6, 7] * 5 and not soup.explain(back).source.outside
    soup.check()
