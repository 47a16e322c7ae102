"""An answer of a join given once more: the same tuples of each source, whatever has come or gone since."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from psoup.answer.invoke import invoke
from psoup.config import EngineConfig
from psoup.errors import FailedPrecondition, InvalidInput
from psoup.local import LocalPSoup
from psoup.model import SECOND

CONFIG = EngineConfig(chunk_rows=64, piece_rows=64, ahead=1_000 * SECOND)


def rows(first: int, stop: int) -> pa.Table:
    times = pa.array([n * SECOND for n in range(first, stop)], pa.timestamp("us", "UTC"))
    return pa.table({"at": times, "k": [n % 3 for n in range(first, stop)]})


@pytest.fixture
def soup() -> LocalPSoup:
    soup = LocalPSoup(CONFIG)
    for name in "rs":
        soup.execute(f"CREATE STREAM {name} (at TIMESTAMP, k BIGINT) TIMESTAMP BY at RETENTION 128 ROWS")
        soup.push(name, rows(0, 12))
    return soup


def again(soup: LocalPSoup, query: int, **options: Any) -> list[tuple[Any, ...]]:
    answer = invoke(soup.engine.snapshot(), query, tenant=soup.tenant, now=soup.clock.now(), **options)
    table = answer.to_table()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_an_answer_is_given_again_from_its_tuples(soup: LocalPSoup) -> None:
    query = soup.register("SELECT r._id, s._id AS other FROM r, s [ROWS 5] WHERE r.k = s.k")
    first = soup.invoke(query)
    wanted = again(soup, query)
    assert first.ranges == [(0, 12), (7, 12)] and len(wanted) == 20
    soup.push("r", rows(11, 14))
    soup.push("s", rows(11, 15))
    assert again(soup, query) != wanted
    kept = {"as_of": first.completeness.now, "ranges": first.ranges}
    assert again(soup, query, **kept) == wanted
    told = soup.invoke(query).lean()
    assert told.ranges == [(0, 15), (10, 15)], "as of NOW, which is the least watermark"
    soup.push("r", rows(20, 400))
    with pytest.raises(FailedPrecondition, match="tuples of stream 'r' that the first page was made of"):
        again(soup, query, **kept)
    assert again(soup, query, as_of=kept["as_of"], ranges=[(250, 250), (7, 12)]) == []


@pytest.mark.parametrize("ranges", [[(0, 1)], [(0, 1), (0, 99)], [(3, 2), (0, 1)], [(0, 1)] * 3])
def test_ranges_that_there_cannot_be_are_refused(soup: LocalPSoup, ranges: list[tuple[int, int]]) -> None:
    query = soup.register("SELECT r.k FROM r, s WHERE r.k = s.k")
    with pytest.raises(InvalidInput) as refused:
        again(soup, query, as_of=0, ranges=ranges)
    assert refused.value.reason == "PAGE_TOKEN"


def test_one_stream_has_no_ranges(soup: LocalPSoup) -> None:
    assert soup.invoke(soup.register("SELECT k FROM r")).ranges == ()
