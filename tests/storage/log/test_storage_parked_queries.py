"""Parked queries: the log has their statements, and a start does not bind them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.describe import QueryFilter, list_queries, recall
from psoup.config import EngineConfig, Shape
from psoup.errors import Conflict, InvalidInput, NotFound
from psoup.events.commands import AlterQueries, RegisterMany, UnregisterMany
from psoup.events.events import Registered, RegisteredMany
from psoup.local import LocalPSoup
from psoup.plan.amounts import AS_USUAL, Amount, Keeping, KeepingChange
from psoup.published.parked_queries import ParkedQueries
from psoup.published.records import QueryBlock
from psoup.work.clock import VirtualClock
from psoup_storage import DurableStore
from psoup_storage.durable.chunks.chunk_loader import _ALTERATIONS
from psoup_storage.durable.log import logged_registrations
from psoup_storage.durable.log.logged_registrations import _DEFINITIONS, LoggedRegistrations
from psoup_storage.durable.log.stream_names import LoggedStreams
from psoup_storage.durable.tools.doctor import examine
from psoup_storage.memory import MemoryStore
from psoup_testing.engines.admission_gate import Gate
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.histories.histories import TINY
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import scaled
from psoup_testing.suite.call_counts import calls_of

CONFIG = EngineConfig(chunk_rows=64, piece_rows=64, columnar_queries=8, shape=TINY)
PARKED = Keeping(active=False, parked=True)
ONE = "SELECT x, n FROM s WHERE x > 3"
EVERY = "SELECT * FROM s WHERE x < 5"
MANY = "SELECT x FROM s WHERE x > ? AND n < ?"
JOIN = "SELECT s.x FROM s, t WHERE s.x = t.x AND s.x > ?"
TOTAL = "SELECT n, count(*) FROM s WHERE x > 1 GROUP BY n"


def made(path: Path) -> RestartingPSoup:
    soup = RestartingPSoup(CONFIG, VirtualClock(0), path)
    soup.execute("CREATE STREAM s (x BIGINT, n TEXT)")
    soup.execute("CREATE STREAM t (x BIGINT)")
    return soup


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    made_soup = made(tmp_path / "data")
    yield made_soup
    made_soup.check()
    made_soup.store.close()


def push(soup: RestartingPSoup, count: int, first: int = 0) -> None:
    numbers = [(first + n) % 10 for n in range(count)]
    soup.push("s", pa.table({"x": numbers, "n": [f"w{n % 3}" for n in numbers]}))
    soup.push("t", pa.table({"x": numbers[:3]}))


def rows(count: int) -> list[list[Any]]:
    return [[n % 7, f"w{n % 5}"] for n in range(count)]


def fill(soup: RestartingPSoup, keeping: Keeping = AS_USUAL) -> list[int]:
    """Queries by text, blocks, joins, blocks of joins, and statements without a template."""
    ids = [soup.register(sql, keeping=keeping) for sql in (ONE, EVERY, TOTAL, JOIN.replace("?", "1"))]
    ids += soup.register_many(MANY, rows(12), keeping=keeping)
    ids += soup.register_many(JOIN, [[n % 3] for n in range(12)], keeping=keeping)
    ids += soup.register_many([ONE, JOIN.replace("?", "2"), "SELECT x FROM t"], keeping=keeping)
    return [*ids, *soup.register_many(MANY, rows(3), keeping=keeping)]


def answers(soup: RestartingPSoup, ids: list[int]) -> list[Any]:
    tables = [again(soup.invoke, i).to_table() for i in ids]
    return [(table.column_names, sorted(map(repr, table.to_pylist()))) for table in tables]


def is_read(soup: RestartingPSoup, query_id: int) -> bool:
    """Whether the statement of a query is not in memory."""
    record = soup.engine.snapshot().query(query_id, "default")
    return isinstance(record.queries, ParkedQueries) and record.keeping.parked


def texts(soup: RestartingPSoup, ids: list[int]) -> list[str]:
    return [soup.engine.snapshot().query(i, "default").query.text for i in ids]


@pytest.mark.seeded("a parked query is lost at a restart")
def test_a_parked_query_is_not_lost_at_a_restart(soup: RestartingPSoup) -> None:
    """Queries that were registered as parked, and queries that were parked later. Also after a kill."""
    ids = fill(soup, PARKED) + (later := fill(soup))
    push(soup, 100)
    usual = fill(soup)
    soup.alter_queries(later, parked=True)
    assert all(is_read(soup, i) for i in ids) and not any(is_read(soup, i) for i in usual)
    wanted = answers(soup, usual)
    shutil.copytree(soup.path, soup.path.parent / "killed", ignore=shutil.ignore_patterns("lock"))
    killed = RestartingPSoup(CONFIG, VirtualClock(0), soup.path.parent / "killed")
    soup.restart()
    for each in (soup, killed):
        assert all(is_read(each, i) for i in ids)
        assert answers(each, ids) == wanted + wanted and texts(each, ids) == texts(each, usual) * 2
        each.check()
    killed.store.close()
    assert examine(soup.path.parent / "killed").well


def test_a_start_binds_no_parked_query(soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    single = [soup.register(f"SELECT x FROM s WHERE x > {n}", keeping=PARKED) for n in range(5)]
    many = [*soup.register_many(MANY, rows(20), keeping=PARKED)]
    bound = list[str]()
    bind = LoggedStreams.bind
    monkeypatch.setattr(
        LoggedStreams, "bind", lambda self, streams, text: bound.append(text) or bind(self, streams, text)
    )
    soup.restart()
    assert not bound and all(is_read(soup, i) for i in single + many)
    (block,) = [b for b in soup.engine.snapshot().queries.blocks if isinstance(b, QueryBlock)]
    assert block.is_parked and block.queries.nbytes == 0
    assert texts(soup, single[2:3]) == ["SELECT x FROM s WHERE x > 2"] == bound


@pytest.mark.long
@pytest.mark.parametrize("number", range(scaled(6)))
def test_random_parking_changes_no_answer(soup: RestartingPSoup, tmp_path: Path, number: int) -> None:
    """The same queries in two engines. The first parks and wakes them, and is started again all the time."""
    source, usual = random.Random(number), made(tmp_path / "usual")
    ids = fill(soup)
    assert fill(usual) == ids
    for step in range(8):
        more = soup.register_many(MANY, rows(9), keeping=source.choice((PARKED, Keeping(), Keeping(active=False))))
        assert more == usual.register_many(MANY, rows(9))
        ids += more
        for _ in range(2):
            change: dict[str, Any] = source.choice(
                [{"parked": True}, {"parked": True}, {"parked": False}, {"active": True}, {"active": False}]
                + [{"amount": amount} for amount in Amount]
            )
            soup.alter_queries(source.sample(ids, source.randrange(1, len(ids))), **change)
        gone = source.sample(ids, 3)
        ids = [i for i in ids if i not in gone]
        for each in (soup, usual):
            each.unregister_many(gone)
            push(each, 30, step)
            if step % 3 == 2:
                each.execute(f"ALTER STREAM s ADD COLUMN c{step} BIGINT")
        if source.random() < 0.5:
            soup.maintain()
        if source.random() < 0.5:
            soup.restart()
        some = source.sample(ids, 12)
        assert answers(soup, some) == answers(usual, some)
        keepings = {i: record.keeping for i, record in soup.engine.snapshot().queries.items() if i in ids}
        assert all(is_read(soup, i) == keeping.parked for i, keeping in keepings.items())
        for tuple_id in (0, 29):
            active = [i for i in usual.matches("s", tuple_id) if keepings[i].active]
            assert soup.matches("s", tuple_id) == active
    soup.alter_queries(ids, active=True)
    assert answers(soup, ids) == answers(usual, ids)
    usual.store.close()


def test_a_query_with_the_key_of_a_parked_one(soup: RestartingPSoup) -> None:
    table = pa.table({"x": range(20), "n": ["w1"] * 20, "k": [f"k{n}" for n in range(20)], "u": ["a", "b"] * 10})
    keyed: dict[str, Any] = {"key": "k", "labels": ("u",)}
    sql = "SELECT x FROM s WHERE x > $x AND n < $n"
    many = [*soup.register_many(sql, table, **keyed)]
    alone = soup.register(ONE, key="one", labels={"u": "a"}, keeping=PARKED)
    soup.alter_queries(labels={"u": "a"}, parked=True)
    for _ in range(2):
        assert [is_read(soup, i) for i in many] == [True, False] * 10
        assert soup.register(ONE, key="one", labels={"u": "a"}) == alone == soup.query("one")
        assert [*soup.register_many(sql, table, **keyed)] == many
        with pytest.raises(Conflict, match="another query, registered otherwise: its text is SELECT"):
            soup.register(EVERY, key="one", labels={"u": "a"})
        with pytest.raises(Conflict, match="a query of a block of 20, registered otherwise: its text"):
            soup.register(EVERY, key="k2")
        assert soup.queries(labels={"u": "a"}) == sorted([*many[::2], alone])
        soup.restart()
    assert soup.alter_queries(key_prefix="k", parked=False) == 10
    assert soup.alter_queries(key_prefix="k1", active=True) == 5  # k1 and the odd ones of k10 to k19 are active
    assert soup.unregister_many(labels={"u": "a"}) == 11
    assert soup.register(EVERY, key="one") > alone


def test_a_parked_query_leaves_with_its_stream(soup: RestartingPSoup) -> None:
    ids = fill(soup, PARKED)
    soup.execute("DROP STREAM s CASCADE")
    soup.restart()
    left = soup.queries()
    assert texts(soup, left) == ["SELECT x FROM t"] and set(left) < set(ids)
    soup.unregister(left[0])
    assert not soup.queries()


def test_what_is_asked_of_parked_queries_is_refused_by_name(soup: RestartingPSoup) -> None:
    query = soup.register(ONE)
    with pytest.raises(InvalidInput, match="a parked query is inactive, and this call says active"):
        soup.alter_queries([query], active=True, parked=True)
    with pytest.raises(InvalidInput, match="a parked query is inactive, and this call says active"):
        soup.register(ONE, keeping=Keeping(parked=True))
    with pytest.raises(InvalidInput, match="say what to change: amount, eager, active or parked"):
        soup.alter_queries([query])
    local = LocalPSoup()
    local.execute("CREATE STREAM s (x BIGINT, n TEXT)")
    with pytest.raises(InvalidInput, match="are read from the log, and this engine has none; say inactive"):
        local.register(ONE, keeping=PARKED)


def test_a_page_of_a_list_reads_a_block_once(soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [*soup.register_many(MANY, rows(40), keeping=PARKED), soup.register(ONE, keeping=PARKED)]
    ids += soup.register_many(JOIN, [[n] for n in range(9)], keeping=PARKED)
    soup.alter_queries(ids[::7], active=True)
    wanted = texts(soup, ids)
    soup.restart()
    reads = list[int]()
    read = LoggedRegistrations.read_queries
    monkeypatch.setattr(
        LoggedRegistrations, "read_queries", lambda self, *place: reads.append(place[0]) or read(self, *place)
    )
    for _ in range(2):
        listed = list_queries(soup.engine.snapshot(), tenant="default", only=QueryFilter("s"))
        assert not reads or len(reads) == 3
        recall(listed)
        assert [record.query.text for record in listed] == wanted and len(reads) == 3


def test_the_blocks_that_were_read_take_no_more_memory_than_is_allowed(
    soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small block takes 2 kB of objects. The blocks that were read last stay."""
    monkeypatch.setattr(logged_registrations, "CONTENT_BYTES", 32_768)
    small = [soup.register_many(MANY, rows(2), keeping=PARKED)[0] for _ in range(40)]
    large = soup.register_many(MANY, rows(3_000), keeping=PARKED)[0]
    soup.restart()
    log, sequences = soup.store.registrations, list[int]()
    for query in (*small, large, *small[:3]):
        record = soup.engine.snapshot().query(query, "default")
        log.read_queries(record.sequence, np.array([query]))
        sequences.append(record.sequence)
        in_memory = [*log._contents]
        assert in_memory == sequences[-len(in_memory) :] and len(in_memory) < 16
        assert log._bytes == sum(content.nbytes for content in log._contents.values())
    assert len(in_memory) == 3
    log.forget()
    assert not log._contents and not log._bytes


def test_a_reader_with_an_old_snapshot_is_told_that_a_parked_query_is_gone(soup: RestartingPSoup) -> None:
    query = soup.register(ONE, keeping=PARKED)
    record = soup.engine.snapshot().query(query, "default")
    soup.unregister(query)
    soup.register(EVERY)
    soup.restart()
    with pytest.raises(NotFound, match="has just been unregistered"):
        soup.store.registrations.read_queries(record.sequence, pa.array([query]).to_numpy())


def test_without_a_disk_readers_touch_nothing_that_the_writer_keeps_in_order() -> None:
    """The writer adds and removes blocks while a reader looks for one."""
    gate, store = Gate(), MemoryStore()
    gate.create("CREATE STREAM s (x BIGINT, n TEXT)")
    gate.register(ONE)
    for _ in range(3):
        gate.send(RegisterMany([MANY], rows(4)))
    store.append(gate.events)
    single, *blocks = [event for event in gate.events if isinstance(event, Registered | RegisteredMany)]
    assert isinstance(single, Registered)
    gate.send(UnregisterMany([*range(blocks[1].first_id, blocks[1].first_id + 4)]))  # type: ignore[union-attr]
    store.append(gate.events[-1:])
    del store._blocks
    assert [query.text for query in store.read_queries(single.sequence, np.array([single.query_id]))] == [ONE]
    for place, block in enumerate(blocks):
        assert isinstance(block, RegisteredMany)
        wanted = np.array([block.first_id + 1, block.first_id + 3])
        if place == 1:
            with pytest.raises(NotFound, match="has just been unregistered"):
                store.read_queries(block.sequence, wanted)
        else:
            queries = store.read_queries(block.sequence, wanted)
            assert [query.text for query in queries] == [block.queries[1].text, block.queries[3].text]


@pytest.mark.long
def test_parking_a_block_is_work_as_a_set(tmp_path: Path) -> None:
    """1,000 and 100,000 queries of a block cause the same number of Python calls, parked and read again."""
    counts: list[list[int]] = []
    for count in (1_000, 100_000):
        config = EngineConfig(shape=Shape(owner_page=1 << 20))
        soup = RestartingPSoup(config, VirtualClock(0), tmp_path / str(count))
        soup.execute("CREATE STREAM s (x BIGINT, n TEXT)")
        ids = soup.register_many("SELECT x FROM s WHERE x = ?", pa.table({"x": range(count)}))
        steps = [KeepingChange(active=False), KeepingChange(parked=True), KeepingChange(parked=False)]
        steps += [KeepingChange(parked=True), KeepingChange(active=True)]
        commands = [AlterQueries(np.array(ids)[: count // 2], change=step) for step in steps * 2]
        calls = [calls_of(partial(soup.submit, command)) for command in commands]
        counts.append(calls[len(steps) :])  # the first time, some steps compile what they need
        soup.store.close()
    assert counts[0] == counts[1]


@pytest.mark.parametrize(("statement", "values"), [(_DEFINITIONS, (1, 9)), (_ALTERATIONS, (1,))])
def test_the_definitions_of_a_stream_are_found_among_very_many_queries(
    tmp_path: Path, statement: str, values: tuple[int, ...]
) -> None:
    """Each query that is registered alone has a row of its stream. With 300,000 of them a search took 0.3 s."""
    store = DurableStore(tmp_path)
    plan = list(store._database.query(f"EXPLAIN QUERY PLAN {statement}", values))
    store.close()
    assert len(plan) == 1 and "USING INDEX log_definitions (stream=?" in plan[0][-1]
