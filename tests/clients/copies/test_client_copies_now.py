"""Copies and watches of joins as NOW goes on: rows come and go with the watermark of the slower stream alone.

orders   0         20        40            pushed at once
stock    0   6 ─ heartbeats ─> 20 ─> 40    each lets the orders up to it into the answer, and matches nothing
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_client import AnswerCopy, Client, Query, Synced
from psoup_service.watching import rounds, topics
from psoup_testing.copies.copied_rows import same
from psoup_testing.services.threaded_service import serving

START = datetime(2026, 7, 1)
END = "BEGIN TIMESTAMP '2026-07-01' END TIMESTAMP '2026-07-02'"
BOTH = "FROM orders o JOIN stock s USING (item)"
EACH = "FROM orders o [BEGIN (START) END TIMESTAMP '2026-07-02'] JOIN stock s [ROWS 1] USING (item)"
STATEMENTS = {
    "new rows": f"SELECT o.id, s.item {BOTH} {END}",
    "sorted": f"SELECT o.id {BOTH} ORDER BY o.id DESC {END}",
    "from START": f"SELECT o.id {BOTH}",
    "computed again": f"SELECT DISTINCT o.id {BOTH} {END}",
    "groups": f"SELECT s.item, count(*) AS pairs, sum(o.id) AS total {BOTH} GROUP BY s.item {END}",
    "a window each": f"SELECT o.id {EACH}",
}


def at(second: int) -> datetime:
    return START + timedelta(seconds=second)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(int((START - datetime(1970, 1, 1)).total_seconds()) * SECOND + 3_600 * SECOND)


@pytest.fixture
def soup(clock: VirtualClock) -> Iterator[Client]:
    with serving(clock=clock) as service, Client(service.address) as client:
        yield client


@pytest.fixture
def queries(soup: Client, request: pytest.FixtureRequest) -> list[Query]:
    """The queries over two streams, one of which is ahead of the other."""
    idle = getattr(request, "param", "")
    for name, column in (("orders", "id BIGINT, "), ("stock", "")):
        soup.create_stream(f"CREATE STREAM {name} ({column}item TEXT, at TIMESTAMP NOT NULL) TIMESTAMP BY at {idle}")
    soup.push("stock", {"item": ["tea"], "at": [at(0)]})
    soup.heartbeat("stock", at(6))
    soup.push("orders", {"id": [0, 20, 40], "item": ["tea"] * 3, "at": [at(0), at(20), at(40)]})
    return [soup.register(statement) for statement in STATEMENTS.values()]


def push_cups(soup: Client, second: int) -> None:
    """Push a tuple that no tuple of the other stream belongs to."""
    soup.push("stock", {"item": ["cup"], "at": [at(second)]})


def test_a_copy_is_brought_the_rows_that_a_watermark_lets_in(soup: Client, queries: list[Query]) -> None:
    copies = [soup.copy(query) for query in queries]
    steps = [lambda: None, lambda: soup.heartbeat("stock", at(20)), lambda: push_cups(soup, 60)]
    for number, step in enumerate(steps, 1):
        step()
        for copy, query, name in zip(copies, queries, STATEMENTS, strict=True):
            synced = copy.sync()
            same(copy, query)
            if name not in ("groups", "a window each"):
                assert (len(copy), synced.came, synced.gone) == (number, 1, 0), name
            assert not copy.final and soup.copy_from(copy.to_bytes()).rows() == copy.rows()


def follow(changes: Iterator[tuple[AnswerCopy, Synced]], pairs: list[tuple[AnswerCopy, Query]]) -> None:
    """Read changes until all copies are the answers. A watch that is not told waits until the test's timeout."""
    while not all(copy.complete and copy.rows() == query.invoke().rows() for copy, query in pairs):
        assert next(changes)[1].error is None


def test_a_watch_is_told_when_a_watermark_moves(
    soup: Client, queries: list[Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (rounds, topics):
        monkeypatch.setattr(module, "SLOW_S", 0.01)
    pairs = [(soup.copy(query), query) for query in queries]
    with soup.watch([copy for copy, _ in pairs], progress=300) as changes:
        follow(changes, pairs)
        assert len(pairs[0][0]) == 1
        soup.heartbeat("stock", at(20))
        follow(changes, pairs)
        assert len(pairs[0][0]) == 2
        push_cups(soup, 60)
        follow(changes, pairs)
        assert len(pairs[0][0]) == 3


@pytest.mark.parametrize("queries", ["IDLE AFTER 30 SECONDS"], indirect=True)
def test_a_watch_is_told_when_a_stream_is_idle_and_when_it_goes_on(
    soup: Client, queries: list[Query], clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock alone moves NOW: the stock has been silent for longer than its IDLE AFTER, and the orders have not."""
    for module in (rounds, topics):
        monkeypatch.setattr(module, "SLOW_S", 0.01)
    pairs = [(soup.copy(query), query) for query in queries]
    clock.advance(seconds=20)
    soup.push("orders", {"id": [41], "item": ["tea"], "at": [at(41)]})
    with soup.watch([copy for copy, _ in pairs], progress=300) as changes:
        follow(changes, pairs)
        assert len(pairs[0][0]) == 1
        clock.advance(seconds=20)
        follow(changes, pairs)
        assert len(pairs[0][0]) == 4
        soup.heartbeat("stock", at(20))
        follow(changes, pairs)
        assert len(pairs[0][0]) == 2, "NOW steps back"
