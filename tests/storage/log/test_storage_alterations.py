"""The log has the keeping of queries: a start restores it, and the log does not grow with outdated changes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import Internal
from psoup.events.commands import AlterQueries, Register
from psoup.events.events import QueriesAltered
from psoup.plan.amounts import AUTOMATIC, Amount, Keeping, KeepingChange
from psoup.work.clock import VirtualClock
from psoup_storage import DurableStore, MemoryStore
from psoup_storage.alterations import LEAST, needed
from psoup_storage.durable.log import alterations
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.engines.admission_gate import Gate
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.oracles.altered_queries import choose
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

CONFIG = EngineConfig(chunk_rows=64, piece_rows=64)
MANY = "SELECT x FROM s WHERE x > ?"
JOIN = "SELECT s.x FROM s, t WHERE s.x = t.x AND s.x > ?"
CHANGES = (
    {"amount": Amount.NONE},
    {"amount": Amount.PARTIAL},
    {"amount": Amount.COMPLETE, "eager": True},
    {"active": False},
    {"active": True},
    {"eager": False, "active": True},
    {"auto": True},
)


@pytest.fixture
def soup(tmp_path: Path) -> Iterator[RestartingPSoup]:
    made = RestartingPSoup(CONFIG, VirtualClock(0), tmp_path / "data")
    made.execute("CREATE STREAM s (x BIGINT)")
    made.execute("CREATE STREAM t (x BIGINT)")
    yield made
    made.check()
    made.store.close()


def altered(soup: RestartingPSoup) -> int:
    """The rows of changes in the log."""
    return int(next(soup.store._database.query("SELECT count(*) FROM log WHERE kind = 'altered'"))[0])


def kept(soup: RestartingPSoup) -> dict[int, Keeping]:
    """The keeping of each query and side."""
    return {i: record.keeping for i, record in soup.engine.snapshot().queries.items()}


def fill(soup: RestartingPSoup, keeping: Keeping) -> list[int]:
    ids = [*soup.register_many(MANY, [[n] for n in range(20)], keeping=keeping)]
    ids += [
        soup.register(MANY.replace("?", "3"), keeping=keeping),
        soup.register(JOIN.replace("?", "0"), keeping=keeping),
    ]
    return [*ids, *soup.register_many(JOIN, [[n] for n in range(3)], keeping=keeping)]


@pytest.mark.parametrize("number", swept(range(2), fast=1))
def test_a_restart_restores_how_queries_are_kept(soup: RestartingPSoup, number: int) -> None:
    """Also after a kill, which leaves a copy of the directory with its write-ahead log."""
    source = random.Random(number)
    ids = [i for amount in Amount for active in (True, False) for i in fill(soup, Keeping(amount, active=active))]
    for step in range(6):
        change: dict[str, Any] = source.choice(CHANGES)
        soup.alter_queries(source.sample(ids, source.randrange(1, len(ids))), **change)
        soup.unregister_many([ids.pop(source.randrange(len(ids))) for _ in range(3)])
        soup.push("s", pa.table({"x": [step, 3]}))
        soup.push("t", pa.table({"x": [3]}))
        if source.random() < 0.3:
            soup.maintain()
    before, state = kept(soup), soup.admission.state()
    answers = [again(soup.invoke, i).to_table().num_rows for i in ids]
    shutil.copytree(soup.path, soup.path.parent / "killed", ignore=shutil.ignore_patterns("lock"))
    killed = RestartingPSoup(CONFIG, VirtualClock(0), soup.path.parent / "killed")
    soup.restart()
    for each in (soup, killed):
        assert kept(each) == before
        assert {**each.admission.state(), "reserved": 0} == {**state, "reserved": 0}
        assert [again(each.invoke, i).to_table().num_rows for i in ids] == answers
        each.check()
    killed.store.close()


@pytest.mark.long
def test_the_log_does_not_grow_with_changes(soup: RestartingPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alterations, "LEAST", 8)
    ids, source = fill(soup, Keeping(Amount.NONE)), random.Random(1)
    stays = ids[:3]
    for number in range(16):
        soup.alter_queries(source.sample(ids, 9), active=number % 2 == 0)
        soup.alter_queries(ids, amount=(Amount.NONE, Amount.PARTIAL)[number % 2])
        soup.unregister_many(soup.register_many(MANY, [[n] for n in range(9)], keeping=Keeping(Amount.NONE)))
        passing = soup.register(MANY.replace("?", "7"))
        soup.alter_queries([passing], amount=Amount.NONE)
        soup.unregister(passing)
    assert altered(soup) < 20
    before = kept(soup)
    soup.restart()
    assert kept(soup) == before
    soup.unregister_many([i for i in ids if i not in stays])
    for number in range(16):
        soup.alter_queries(stays, active=number % 2 == 0)
    soup.restart()
    assert [kept(soup)[i] for i in stays] == [replace(before[i], active=False) for i in stays]
    assert altered(soup) <= 8
    shutil.copytree(soup.path, soup.path.parent / "copy", ignore=shutil.ignore_patterns("lock"))
    assert examine(soup.path.parent / "copy").well


def test_a_restart_begins_with_partial_whatever_auto_has_chosen(soup: RestartingPSoup) -> None:
    ids = [soup.register("SELECT x FROM s", keeping=AUTOMATIC), soup.register("SELECT x FROM s WHERE x > 1")]
    ids += soup.register_many("SELECT x FROM s WHERE x > ?", [[n] for n in range(6)], keeping=AUTOMATIC)
    soup.alter_queries(ids[1:2], auto=True)
    soup.alter_queries(ids[2:3], active=False)
    for amount in Amount:
        choose(soup, ids, amount)
        soup.push("s", pa.table({"x": range(5)}))
        before = [sorted(soup.invoke(i).to_table().column("x").to_pylist()) for i in ids]
        soup.restart()
        assert [kept(soup)[i] for i in ids] == [replace(AUTOMATIC, active=i != ids[2]) for i in ids]
        assert [sorted(soup.invoke(i).to_table().column("x").to_pylist()) for i in ids] == before


def test_a_change_is_needed_until_a_later_one_hides_it_or_its_queries_are_gone() -> None:
    none, off, both = KeepingChange(Amount.NONE), KeepingChange(active=False), KeepingChange(Amount.PARTIAL, None, True)
    events = [
        QueriesAltered(number, "default", np.array(ids), change, 0)
        for number, (ids, change) in enumerate([([1, 2, 3], none), ([2, 3], off), ([3], both), ([2, 9], none)])
    ]
    left = needed(events, lambda ids: ids < 9)
    shown = [(event.sequence, event.query_ids.tolist(), event.change) for event in left]
    assert shown == [(0, [1], none), (1, [2], off), (2, [3], both), (3, [2], none)]


def test_a_store_without_a_disk_keeps_the_changes_that_are_needed() -> None:
    store, gate = MemoryStore(), Gate(CONFIG)
    gate.create("CREATE STREAM s (x BIGINT)")
    for keeping in (Keeping(), Keeping(Amount.COMPLETE, True, False)):
        gate.send(Register("SELECT x FROM s", keeping=keeping))
    for number in range(3 * LEAST):
        gate.send(AlterQueries(np.array([1, 2]), change=KeepingChange((Amount.NONE, Amount.PARTIAL)[number % 2])))
    store.append(gate.events)
    store.check()
    changes = [event for event in store.read() if isinstance(event, QueriesAltered)]
    assert len(changes) < LEAST and changes[-1].change.amount is Amount.PARTIAL


def test_a_damaged_change_is_named_at_the_start(soup: RestartingPSoup) -> None:
    query = soup.register("SELECT x FROM s")
    soup.alter_queries([query], amount=Amount.NONE)
    shutil.copytree(soup.path, soup.path.parent / "broken", ignore=shutil.ignore_patterns("lock"))
    database = apsw.Connection(str(soup.path.parent / "broken" / "psoup.db"))
    database.execute("UPDATE log SET body = replace(body, 'NONE', 'PARTIAL') WHERE kind = 'altered'")
    database.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    database.close()
    assert not examine(soup.path.parent / "broken").well
    with pytest.raises(Internal, match="of the log is damaged"):
        list(DurableStore(soup.path.parent / "broken").read())
