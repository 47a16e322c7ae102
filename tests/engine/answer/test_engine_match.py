"""Rows held against the standing queries without being stored: as arrival would, whatever has changed since.

That `match` says what arrival then finds is tested in the random histories, before each push
(`psoup_testing.oracles.duel`).
"""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import psoup.answer.tuples.match_rows as module
from psoup.admission.rows.pushes import offered
from psoup.answer.tuples.match_rows import Matched, match
from psoup.config import EngineConfig
from psoup.errors import InvalidBatch, NotFound
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_TENANT
from psoup.published import match_room
from psoup.published.snapshot import Snapshot
from psoup_testing.engines.error_expressions import poison, raising
from psoup_testing.suite.sweeps import swept

SMALL = EngineConfig(chunk_rows=64, piece_rows=64, delta_queries=8)


def ranges(soup: LocalPSoup, rng: random.Random, known: dict[int, tuple[int, int]], count: int) -> None:
    """Some queries of their own, and some of a block."""
    for block in (False, True):
        bounds = [tuple(sorted(rng.sample(range(40), 2))) for _ in range(count)]
        if block:
            ids = [*soup.register_many("SELECT a FROM s WHERE a >= ? AND a < ?", bounds)]
        else:
            ids = [soup.register(f"SELECT a FROM s WHERE a >= {low} AND a < {high}") for low, high in bounds]
        known.update(zip(ids, bounds, strict=True))  # type: ignore[arg-type]


def of(snapshot: Snapshot, values: list[int], **options: int) -> Matched:
    table = pa.table({"a": values})
    offer = offered(snapshot.stream("s", DEFAULT_TENANT).spec, table, None, None, snapshot.config, 0)
    return match(snapshot, "s", offer.batch, tenant=DEFAULT_TENANT, **options)


def lists(found: Matched) -> list[list[int]]:
    return [found.of(row) for row in range(len(found.ends) - 1)]


@pytest.mark.parametrize("turns", swept([12, 30], fast=1))
def test_a_snapshot_says_what_it_said_while_clauses_come_go_and_are_merged(turns: int) -> None:
    """Each snapshot is asked again after everything that came later: parts killed in place, deltas, merges, reuse."""
    rng, soup, known = random.Random(5), LocalPSoup(SMALL), dict[int, tuple[int, int]]()
    soup.execute("CREATE STREAM s (a BIGINT)")
    values = list(range(40))
    taken: list[tuple[Snapshot, list[list[int]]]] = []
    for turn in range(turns):
        ranges(soup, rng, known, rng.choice([1, 5, 60]))
        for query in rng.sample(sorted(known), len(known) // rng.choice([2, 3, 20])):
            soup.unregister(query)
            del known[query]
        if rng.random() < 0.3:
            soup.push("s", pa.table({"a": values}))
        if rng.random() < 0.3:
            soup.maintain()
        wanted = [[query for query, (low, high) in sorted(known.items()) if low <= a < high] for a in values]
        taken.append((soup.engine.snapshot(), wanted))
        soup.check()
        for snapshot, then in taken[-4:] if turn % 4 else taken:
            assert lists(of(snapshot, values)) == then
    assert len(known) > 50


@pytest.mark.parametrize("most", [1, 7, 100, 1_000])
def test_pages_are_the_whole(most: int) -> None:
    """Of rows that match all, some, or none; many queries share a clause."""
    soup = LocalPSoup(SMALL)
    soup.execute("CREATE STREAM s (a BIGINT)")
    for low in [*range(10), *[3] * 20]:
        soup.register(f"SELECT a FROM s WHERE a >= {low}")
    values = [99, 0, -1, 3, -1, 5, 99]
    snapshot = soup.engine.snapshot()
    whole, found, after = lists(of(snapshot, values)), [list[int]() for _ in values], -1
    done = calls = 0
    while done < len(values):
        page, calls = of(snapshot, values[done:], most=most, after=after), calls + 1
        assert len(page.queries) <= most
        for row in range(len(page.ends) - 1):
            found[done + row] += page.of(row)
        done, after = done + page.done, -1 if page.more is None else page.more
    assert found == whole
    assert len(whole[0]) == 30
    assert calls >= sum(map(len, whole)) // most


def test_what_matches_too_much_is_done_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=512))
    soup.execute("CREATE STREAM s (a BIGINT)")
    queries = soup.register_many("SELECT a FROM s WHERE a > ?", [(-k,) for k in range(300)])
    snapshot = soup.engine.snapshot()
    for limit in ("_MOST_PAIRS", "_LOOKED_AT"):
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, 1_000)
            assert lists(of(snapshot, [1] * 200)) == [list(queries)] * 200
    with monkeypatch.context() as patch:
        patch.setattr(match_room, "ROWS_BYTES", 1_000)
        assert lists(of(snapshot, [1] * 200)) == [list(queries)] * 200
    assert lists(of(snapshot, [1] * 200)) == [list(queries)] * 200


def test_clauses_that_are_out_of_the_index_are_evaluated_row_by_row() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, piece_rows=8))
    soup.execute("CREATE STREAM s (a BIGINT)")
    bad, good = soup.register("SELECT a FROM s WHERE abs(a) > 5"), soup.register("SELECT a FROM s WHERE a > 5")
    with raising({"abs": poison(13)}):
        for _ in range(4):
            soup.push("s", pa.table({"a": [13] * 8}))
        assert len(soup.engine.snapshot().stream("s", DEFAULT_TENANT).outside.ids) == 1
        assert lists(of(soup.engine.snapshot(), [-7, 13, 7, 2])) == [[bad], [good], [bad, good], []]


def test_rows_that_a_push_refuses() -> None:
    """A batch as a whole, with the same error; late and early rows alone."""
    soup = LocalPSoup()
    soup.execute("CREATE STREAM e (t TIMESTAMP, a BIGINT NOT NULL) TIMESTAMP BY t LATENESS 1 SECOND AHEAD 5 MINUTES")
    query = soup.register("SELECT a FROM e WHERE a > 0")
    with pytest.raises(NotFound):
        soup.match("nothing", pa.table({"a": [1]}))
    for wrong in ({"t": [1], "a": [None]}, {"t": [None], "a": [1]}, {"t": [1], "b": [1]}, {"t": [1], "a": ["x"]}):
        with pytest.raises(InvalidBatch) as matched:
            soup.match("e", pa.table(wrong))
        with pytest.raises(InvalidBatch) as pushed:
            soup.push("e", pa.table(wrong))
        assert (str(matched.value), matched.value.reason) == (str(pushed.value), pushed.value.reason)
    soup.push("e", pa.table({"t": pa.array([10_000_000], pa.timestamp("us")), "a": [1]}))
    before = soup.engine.snapshot()
    times = pa.array([9_000_000, 8_999_999, 10**17, 10_000_000], pa.timestamp("us"))
    assert lists(soup.match("e", pa.table({"t": times, "a": [1, 1, 1, 0]}))) == [[query], [], [], []]
    assert soup.engine.snapshot() is before
    assert lists(soup.match("e", pa.table({"t": times[:0], "a": np.zeros(0, np.int64)}))) == []
