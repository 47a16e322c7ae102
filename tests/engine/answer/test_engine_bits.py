"""The Results Structure of a window: bits that say what `matches` says, whatever is covered; and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from psoup.answer.tuples.match_bits import Choice, bits_of, stretch
from psoup.config import EngineConfig
from psoup.errors import InvalidInput, NotFound, OutOfRange, ResourceExhausted
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.suite.sweeps import swept

TUPLES = 150


def filled(maintained: bool = True) -> tuple[LocalPSoup, list[int]]:
    """Two closed chunks and an open one of a = 0 to 149, at second a; queries of before and of after."""
    soup = LocalPSoup(EngineConfig(chunk_rows=64, ahead=1_000 * SECOND), VirtualClock(0))
    soup.execute("CREATE STREAM s (a BIGINT, at TIMESTAMP NOT NULL) TIMESTAMP BY at")
    soup.execute("CREATE STREAM other (a BIGINT)")
    queries = [soup.register("SELECT a FROM s WHERE a % 2 = 0", key="even", labels={"user": "u1"})]
    for start in range(0, TUPLES, 50):
        at = pa.array([1_000_000 * a for a in range(start, start + 50)], pa.timestamp("us", "UTC"))
        soup.push("s", pa.table({"a": range(start, start + 50), "at": at}))
    if maintained:
        soup.maintain()
    queries.append(soup.register("SELECT a FROM s WHERE a % 3 = 0", labels={"user": "u1"}))
    queries.append(soup.register("SELECT a FROM s WHERE a % 2 = 0 BEGIN (NOW - 10)", labels={"user": "u2"}))
    queries.append(soup.register("SELECT a FROM s WHERE a > 1000"))
    queries.append(soup.register("SELECT a FROM s"))
    return soup, queries


@pytest.mark.parametrize("maintained", swept([False, True], fast=(1,)))
@pytest.mark.parametrize("ids", [range(150), range(1, 150), range(60, 68), range(64, 128), range(3, 4), range(7, 7)])
def test_bits_are_the_matches(ids: range, maintained: bool) -> None:
    soup, queries = filled(maintained)
    found = soup.results("s", ids=ids)
    assert [record.query_id for record in found.queries] == queries
    assert (found.low, found.high) == (ids.start, ids.stop)
    wanted = soup.matches_many("s", ids)
    for query in queries:
        bits = found.of(query)
        assert len(bits) == len(ids)
        assert [at for at in ids if bits[at - ids.start]] == [at for at in ids if query in wanted[at - ids.start]]


def test_overlaps_and_counts() -> None:
    soup, (even, third, *_) = filled()
    found = soup.results("s", ["even", third])
    assert (found.of(even) & found.of(third)).count() == 25
    assert (found.of(even) | found.of(third)).count() == 100
    assert (found.of(even) & ~found.of(third)).count() == 50
    table = found.to_arrow()
    assert table.schema.names == ["tuple_id", str(even), str(third)]
    assert table[str(third)].to_pylist() == [a % 3 == 0 for a in range(TUPLES)]


def test_bits_of_whole_bytes_share_the_memory() -> None:
    soup, (even, *_) = filled()
    found = soup.results("s", [even], ids=range(8, 72))
    first = found.rows.__array_interface__["data"][0]
    assert found.of(even).buffer_info().address == first
    assert found.to_arrow()[str(even)].chunk(0).buffers()[1].address == first


def test_queries_by_their_names() -> None:
    soup, queries = filled()
    asked: list[tuple[object, list[int]]] = [
        ({"user": "u1"}, queries[:2]),
        ({"user": "nobody"}, []),
        ({}, queries),
        ([queries[3], "even", queries[3]], [queries[3], queries[0], queries[3]]),
    ]
    for names, wanted in asked:
        assert [record.query_id for record in soup.results("s", names).queries] == wanted  # type: ignore[arg-type]


def test_windows_by_time() -> None:
    soup, (_, third, *_) = filled()
    found = soup.results("s", [third], 10 * SECOND, 20 * SECOND)
    assert (found.low, found.high, found.of(third).count()) == (10, 21, 3)  # 12, 15, 18
    assert found.told.sources[0].final
    assert not soup.results("s").told.sources[0].final
    both = soup.results("s", [third], 10 * SECOND, ids=range(12))
    assert (both.low, both.high) == (10, 12)
    apart = soup.results("s", [third], 30 * SECOND, ids=range(12))
    assert (apart.high - apart.low, len(apart.of(third)), apart.to_arrow().num_rows) == (0, 0, 0)


def test_tuples_that_wait_are_not_in_it_but_said() -> None:
    soup = LocalPSoup(clock=VirtualClock(0))
    soup.execute("CREATE STREAM s (a BIGINT, at TIMESTAMP NOT NULL) TIMESTAMP BY at LATENESS 5 SECONDS AHEAD 1 MINUTE")
    query = soup.register("SELECT a FROM s")
    at = pa.array([SECOND * second for second in (1, 9, 8, 4)], pa.timestamp("us", "UTC"))
    soup.push("s", pa.table({"a": range(4), "at": at}))
    found = soup.results("s")
    assert (found.low, found.high, found.of(query).count(), found.told.sources[0].pending) == (0, 2, 2, 2)


def test_errors_are_those_of_invocations() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, ahead=1_000 * SECOND))
    soup.execute("CREATE STREAM s (t TEXT)")
    wheres = ("CAST(t AS BIGINT) > 5", "CAST(t AS BIGINT) > 5", "t = 'x'")
    queries = [soup.register(f"SELECT t FROM s WHERE {where}") for where in wheres]
    soup.push("s", pa.table({"t": ["x", "7", "y", None] * 40}))
    wanted = sum(soup.invoke(query).completeness.errors for query in queries)
    assert wanted > 0
    assert soup.results("s").told.errors == wanted
    snapshot = soup.engine.snapshot()
    view = snapshot.stream("s", "default")
    where, errors = stretch(snapshot, view, now=0), 0
    while where.low < where.high:  # page by page, each of a chunk
        page = where.first(view, 1)
        found = bits_of(snapshot, view, Choice().records(snapshot, view, "default", 9), page)
        errors, where = errors + found.told.errors, stretch(snapshot, view, now=0, ids=(page.high, None))
    assert errors == wanted


def test_what_is_refused() -> None:
    soup, queries = filled()
    foreign = soup.register("SELECT a FROM other")
    with pytest.raises(InvalidInput, match="is on stream 'other', not on 's'"):
        soup.results("s", [foreign])
    with pytest.raises(InvalidInput, match="queries is empty"):
        soup.results("s", [])
    with pytest.raises(InvalidInput, match="before it begins"):
        soup.results("s", None, 20, 10)
    with pytest.raises(InvalidInput, match="end before ID"):
        soup.results("s", ids=range(9, 3))
    for unknown in ([10**9], ["no key"]):
        with pytest.raises(NotFound):
            soup.results("s", unknown)
    with pytest.raises(NotFound):
        soup.results("s").of(foreign)
    for ids in (range(-1, 4), range(140, 151)):
        with pytest.raises(OutOfRange, match="tuple IDs kept: 0 to 149"):
            soup.results("s", queries, ids=ids)


def test_too_many_bits_are_refused_before_any_work() -> None:
    soup, _ = filled()
    snapshot = soup.engine.snapshot()
    where = stretch(snapshot, snapshot.stream("s", "default"), now=0)
    where.refuse_too_large(10, max_bytes=190)
    with pytest.raises(ResourceExhausted, match="10,000,000 queries over 150 tuples are 190,000,000 bytes"):
        where.refuse_too_large(10**7, max_bytes=10**6)
