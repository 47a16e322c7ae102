"""Folding ahead: aggregates that stand are folded over chunks that leave the memory or are attached, asked or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from psoup.config import EngineConfig, Shape
from psoup.errors import ResourceExhausted
from psoup.execution.ahead import attempts, folds_ahead
from psoup.execution.ahead.attempts import Lent
from psoup.execution.ahead.folds_ahead import FoldingAhead
from psoup.matching.outside import Beforehand
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_service.chores import fold_ahead
from psoup_service.chores.fold_ahead import FoldAhead
from psoup_service.host.threads import Threads
from psoup_testing.engines.attachments import attach, take, write, write_job
from psoup_testing.engines.past import rows
from psoup_testing.engines.restarts import RestartingPSoup

CREATE = "CREATE STREAM s (t TIMESTAMP, x BIGINT, w TEXT) TIMESTAMP BY t RETENTION 90 SECONDS ARCHIVE 9 DAYS"
COUNT = "SELECT count(*) AS n FROM s WHERE x % 3 = 0 BEGIN (START)"
SUM = "SELECT count(*) AS n, sum(x) AS total FROM s WHERE x % 2 = 0 BEGIN (START)"
GROUPS = "SELECT x % 4 AS k, count(*) AS n FROM s WHERE x % 2 = 0 GROUP BY 1 BEGIN (START)"


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    config = EngineConfig(chunk_rows=64, archive_rows=150, shape=Shape(fold_fan=2))
    made = RestartingPSoup(config, VirtualClock(3_000 * SECOND), tmp_path / "data")
    made.execute(CREATE)
    yield made
    made.check()
    made.store.close()


def push(soup: RestartingPSoup, first: int, stop: int) -> None:
    for start in range(first, stop, 50):
        soup.push("s", rows(start, start + 50))
        soup.maintain()


def answer(soup: RestartingPSoup, query: int) -> list[dict[str, Any]]:
    return list(soup.invoke(query).to_table().to_pylist())


def expected(first: int, stop: int) -> list[list[dict[str, Any]]]:
    """The answers to COUNT, SUM and GROUPS."""
    values = range(first, stop)
    even = [x for x in values if x % 2 == 0]
    groups = [{"k": k, "n": sum(x % 4 == k for x in even)} for k in (0, 2)]
    return [[{"n": sum(x % 3 == 0 for x in values)}], [{"n": len(even), "total": sum(even)}], groups]


def test_a_chunk_leaves_its_folds_though_nobody_has_asked(soup: RestartingPSoup) -> None:
    queries = [soup.register(text) for text in (COUNT, SUM, GROUPS)]
    block = soup.register_many("SELECT max(x) AS m FROM s WHERE x > ? BEGIN (START)", [[k] for k in range(18)])
    push(soup, 0, 1_000)
    for _ in range(2):
        soup.restart()
        assert soup.engine.snapshot().by_id[1].archived > 10
        assert [answer(soup, query) for query in queries] == expected(0, 1_000)
        assert answer(soup, block[17]) == [{"m": 999}]
        assert soup.store.archive_reads == 0
    push(soup, 1_000, 1_300)
    assert [answer(soup, query) for query in queries] == expected(0, 1_300)
    soup.drop_stream("s", cascade=True)
    soup.execute(CREATE)
    push(soup, 0, 100)


def test_chunks_are_folded_once_and_only_some_of_very_many_aggregates(
    soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folds_ahead, "_MOST", 2)
    monkeypatch.setattr(attempts, "_TURN", 3)
    queries = [soup.register(text) for text in (COUNT, SUM, GROUPS)]
    push(soup, 0, 1_000)
    folds = soup.engine.snapshot().by_id[1].folds
    assert len(folds.kept()) == 2
    assert FoldingAhead(Lent(1 << 30)).step(soup.engine.snapshot()) == 0, (
        "what is in memory is folded, or on disk alone"
    )
    assert [answer(soup, query) for query in queries[:2]] == expected(0, 1_000)[:2]
    with pytest.raises(ResourceExhausted, match="were never evaluated"):
        soup.invoke(queries[2])


def test_a_table_of_aggregates_over_an_archive_is_that_of_the_answers(soup: RestartingPSoup) -> None:
    """Not all of them are folded: these are refused, as they are alone."""
    statement = "SELECT count(*) AS n, max(x) AS m FROM s WHERE x % 7 = ? BEGIN (START)"
    block = soup.register_many(statement, [[k % 7] for k in range(12)])
    push(soup, 0, 1_000)
    late = soup.register_many(statement.replace("7", "11"), [[k] for k in range(11)])
    soup.restart()
    table = soup.invoke_table([*block, *late, 999])
    rows = table.to_table().to_pylist()
    wanted = [[x for x in range(1_000) if x % 7 == k % 7] for k in range(12)]
    assert rows == [{"_query": k, "n": len(values), "m": values[-1]} for k, values in enumerate(wanted)]
    assert soup.store.archive_reads == 0
    failures = {failed.error.reason: failed.places.tolist() for failed in table.failures()}
    assert failures == {"ARCHIVE_BUDGET": [*range(12, 23)], "UNKNOWN_QUERY": [23]}


@pytest.mark.seeded("history whose matches are not known is folded as empty")
@pytest.mark.parametrize("found", ["beforehand", "covered", "never"])
def test_history_is_folded_when_it_comes_where_its_matches_are_known(
    soup: RestartingPSoup, tmp_path: Path, found: str
) -> None:
    spec = soup.engine.snapshot().by_id[1].spec
    queries = [soup.register(text) for text in (COUNT, SUM, GROUPS)]
    push(soup, 1_000, 1_200)
    known = Beforehand(spec, list(zip(queries[:2], (COUNT, SUM), strict=True))) if found == "beforehand" else None
    times = [n * SECOND for n in range(400, 1_000)]
    write(tmp_path / "history", spec, rows(400, 1_000), times, range(0, 600, 60), known, soup.store.incarnation)
    attach(soup, "s", "job", tmp_path / "history")
    assert soup.engine.snapshot().by_id[1].chunks[0].data.number == -10
    soup.maintain()
    if found == "covered":
        write_job(soup, tmp_path / "cover", queries)
        take(soup, tmp_path / "cover", "s")
    if found == "never":
        with pytest.raises(
            ResourceExhausted, match=r"^600 tuples of the window are on disk, in 10 chunks, and were nev"
        ):
            soup.invoke(queries[0])
        return
    before = soup.store.archive_reads
    assert [answer(soup, query) for query in queries[:2]] == expected(400, 1_200)[:2]
    assert soup.store.archive_reads == before or found == "covered"
    soup.restart()
    assert [answer(soup, query) for query in queries[:2]] == expected(400, 1_200)[:2]
    assert soup.store.archive_reads == 0


def test_a_look_waits_for_a_publication(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, listeners = list[object](), list[Callable[[], None]]()

    def listen(published: Callable[[], None]) -> Callable[[], None]:
        listeners.append(published)
        return listeners.clear

    monkeypatch.setattr(fold_ahead, "EVERY_S", 0)
    monkeypatch.setattr(fold_ahead, "_LOOKS", 1_000)
    host, threads = SimpleNamespace(snapshot=lambda: None, listen=listen), Threads()
    folding = FoldAhead(host, threads, Lent(1 << 30))  # type: ignore[arg-type]

    async def once() -> int:
        looks.append(None)
        return 0

    async def turns() -> None:
        for _ in range(100):
            await asyncio.sleep(0)

    async def watched() -> None:
        monkeypatch.setattr(folding, "once", once)
        task = asyncio.create_task(folding.run())
        await turns()
        assert len(looks) == 1
        listeners[0]()
        await turns()
        assert len(looks) == 2
        while len(looks) < 3:  # refused folds are tried again without a publication
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(watched())
    threads.close()
    assert not listeners


def test_a_service_folds_ahead_on_its_threads(soup: RestartingPSoup) -> None:
    """What is sealed is folded at the next look, while it is in memory."""
    query = soup.register(COUNT)
    soup.ahead = SimpleNamespace(step=lambda snapshot: 0)  # type: ignore[assignment]
    threads = Threads()
    folding = FoldAhead(SimpleNamespace(snapshot=soup.engine.snapshot), threads, Lent(1 << 30))  # type: ignore[arg-type]
    assert asyncio.run(folding.once()) == 0
    for start in range(0, 1_000, 50):
        push(soup, start, start + 50)
        asyncio.run(folding.once())
    threads.close()
    soup.restart()
    assert answer(soup, query) == expected(0, 1_000)[0]
    assert soup.store.archive_reads == 0
