"""Sides that are found by two kernels for all chunks equal what is found chunk by chunk, whatever comes after."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig, TextLimits
from psoup.execution.join.located_side import Located, chunks_of, count_of, found_sides, located
from psoup.execution.select.clause_matches import Side, sides_of_join
from psoup.local import LocalPSoup
from psoup.values.columns import Array
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup.work.runner import serial
from psoup_testing.suite.sweeps import swept

WHERE = ("", "WHERE n = 3", "WHERE n < 5", "WHERE n >= 1", "WHERE n > 8 AND f", "WHERE n > 99")
"""No condition; matches as lists, in rows and in runs, as nearly all bits, as few, none."""


def _soup(dense_share: int = 64) -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(chunk_rows=512, dense_share=dense_share), VirtualClock(100))
    soup.execute("CREATE STREAM s (n BIGINT, f BOOLEAN)")
    return soup


def _push(soup: LocalPSoup, rng: np.random.Generator, rows: int) -> None:
    soup.push("s", pa.table({"n": rng.integers(0, 10, rows), "f": rng.random(rows) < 0.5}))


def _sides(soup: LocalPSoup, queries: list[int], rng: np.random.Generator) -> Iterator[Side]:
    """Windows over all tuples, the last ones, any, and none."""
    snapshot = soup.engine.snapshot()
    for query in queries:
        record = snapshot.query(query, soup.tenant)
        view = snapshot.by_id[record.stream_id]
        end = view.next_id
        some = sorted(rng.integers(0, end + 1, 2).tolist())
        for low, high in ((0, end), (max(end - 40, 0), end), some, (end, end)):
            yield view, snapshot.clause(record.sqc_id), low, high


def _by_chunk(side: Side) -> list[tuple[int, list[int]]]:
    return [(match.data.number, match.offsets.tolist()) for match in sides_of_join([side])[0] if match.count]


def _shown(found: Located) -> list[tuple[int, list[int]]]:
    parts: list[Array] = np.split(found.rows, found.stops[:-1])
    return [(data.number, part.tolist()) for data, part in zip(found.chunks, parts, strict=True) if len(part)]


@pytest.mark.parametrize("dense_share", swept([2, 64, 400], fast=(1,)))
def test_what_is_located_equals_what_is_found_chunk_by_chunk(dense_share: int) -> None:
    soup, rng = _soup(dense_share), np.random.default_rng(dense_share)
    queries = [soup.register(f"SELECT * FROM s {where}") for where in WHERE]
    held, seen = list[tuple[Located, list[tuple[int, list[int]]]]](), 0
    for step in range(24):
        _push(soup, rng, int(rng.integers(1, 200)))
        if step % 5 == 4:
            soup.maintain()
        for side in _sides(soup, queries, rng):
            found, wanted = located(side), _by_chunk(side)
            if found is None:
                assert side[2] == side[3]
                continue
            assert found.size == count_of(found) == sum(len(rows) for _, rows in wanted)
            if rng.random() < 0.5:
                assert _shown(found) == wanted
                assert [(match.data.number, match.offsets.tolist()) for match in found if match.count] == wanted
            else:
                held.append((found, wanted))
            seen += len(wanted)
    for found, wanted in held:  # the engine has gone on: what was located stays as it was
        assert _shown(found) == wanted
    assert len(held) > 100 and seen


def test_clauses_that_have_not_met_a_chunk_are_not_located() -> None:
    soup, rng = _soup(), np.random.default_rng(3)
    soup.register("SELECT * FROM s WHERE n < 5")
    for _ in range(9):
        _push(soup, rng, 100)
    late = soup.register("SELECT * FROM s WHERE n < 4")
    whole, *_ = _sides(soup, [late], rng)
    assert located(whole) is None
    (found,) = found_sides([whole], serial, 1_000, ReadBudget(), TextLimits())
    assert not isinstance(found, Located)
    assert [(match.data.number, match.offsets.tolist()) for match in found] == _by_chunk(whole)
    soup.maintain()
    covered, *_ = _sides(soup, [late], rng)
    again = located(covered)
    assert again is not None and _shown(again) == _by_chunk(covered)
    assert [data.number for data in chunks_of(again)] == [0, 1]


def test_clauses_with_errors_in_a_chunk_are_not_located() -> None:
    soup = _soup()
    query = soup.register("SELECT * FROM s WHERE n + 9223372036854775807 > 5")
    soup.push("s", pa.table({"n": [-3, 7, 0], "f": [True] * 3}))
    (side, *_) = _sides(soup, [query], np.random.default_rng(1))
    assert located(side) is None
    assert [match.errors for match in sides_of_join([side])[0]] == [1]
