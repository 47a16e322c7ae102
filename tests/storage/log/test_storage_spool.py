"""Tuples of large pushes that are on the disk before their events: whole with the event, and nothing without it."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pyarrow as pa
import pytest

from psoup.errors import Internal, ResourceExhausted
from psoup.events.commands import Push
from psoup.events.events import Event
from psoup.model import SECOND
from psoup.values.columns import Batch
from psoup_storage import DurableStore
from psoup_storage.durable.log import log, ready, spool
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.crash.faults import EIO, ENOSPC, Fault, failing, power, restore
from psoup_testing.engines.admission_gate import Gate, rows
from psoup_testing.engines.spools import (
    SLICE,
    as_row,
    batch_of,
    kept,
    new_gate,
    numbers,
    one,
    pieces,
    settle,
    spooled_push,
)
from psoup_testing.suite.budget import SEED
from psoup_testing.suite.sweeps import swept

IN_TIME = "CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t LATENESS 5 SECONDS"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SLICE_BYTES", SLICE)
    monkeypatch.setattr(ready, "SMALL_PUSH", SLICE)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DurableStore]:
    opened = DurableStore(tmp_path / "data")
    yield opened
    opened.close()


@pytest.mark.seeded("a start, or the upkeep, removes the pieces of an event")
def test_a_spooled_push_comes_back_as_any_other(store: DurableStore) -> None:
    gate = new_gate()
    store.append(gate.events)
    event, spooled = spooled_push(gate, store, numbers())
    assert len(list(store.read())) == 1, "nothing of it, before it is an event"
    store.append([event])
    found = pieces(store.path)
    assert list(found) == [spooled.key] and spooled.key < 0 and found[spooled.key] > 6
    assert store._database.query("SELECT length(tuples) FROM log WHERE spool IS NOT NULL").__next__() == (0,)
    store.close()
    assert examine(store.path).well
    assert kept(store.path) == [as_row(one) for one in (*gate.events, event)]
    assert list(pieces(store.path)) == [spooled.key], "a start leaves what an event names"


def test_small_pushes_go_to_the_log_between_the_pieces(store: DurableStore) -> None:
    gate = new_gate()
    store.append(gate.events)
    between: list[Event] = []

    def in_turn(work: Any) -> Any:
        result = work()
        gate.push("s", x=[len(between)])
        store.append(gate.events[-1:])
        between.append(gate.events[-1])
        return result

    store.share(in_turn)
    event, _ = spooled_push(gate, store, numbers())
    store.append([event])
    assert len(between) > 6 and event.sequence == between[-1].sequence + 1
    store.close()
    assert kept(store.path) == [as_row(one) for one in (*gate.events, event)]


@pytest.mark.seeded("keys of spools begin anew after a start")
def test_keys_are_not_given_out_twice(store: DurableStore) -> None:
    gate = new_gate()
    store.append(gate.events)
    keys, path, events = [], store.path, list(gate.events)
    for first in range(3):
        event, spooled = spooled_push(gate, store, numbers(first=first))
        store.append([event])
        keys.append(spooled.key)
        events.append(event)
        store.close()
        store = DurableStore(path)
    store.close()
    assert keys == [-1, -2, -3]
    assert kept(path) == [as_row(event) for event in events]


@pytest.mark.seeded("what was spooled is named by an event of other rows, or of another stream")
def test_rows_that_are_others_when_it_is_decided_are_written_anew(store: DurableStore) -> None:
    """A row that was too far ahead no longer is: what was spooled does not have it."""
    gate = Gate(now=0)
    gate.create(IN_TIME + " AHEAD 1 MINUTE")
    store.append(gate.events)
    times: list[float | None] = [*[1.0] * 3_000, 70.0, 10_000.0]
    push = Push("s", rows(t=times, x=list(range(3_002))))
    event, spooled = spooled_push(gate, store, push, later=30)
    assert len(event.batch) == 3_001 and event.batch.columns is not spooled.columns
    store.append([event])
    assert spooled.key in pieces(store.path) and event.sequence in pieces(store.path)
    store.close()
    assert kept(store.path) == [as_row(one) for one in (*gate.events, event)]
    assert list(pieces(store.path)) == [event.sequence]


def test_late_rows_are_left_out_of_what_is_spooled(store: DurableStore) -> None:
    gate = Gate(now=100)
    gate.create(IN_TIME)
    gate.push("s", t=[50.0], x=[7])
    store.append(gate.events)
    times: list[float | None] = [*[60.0] * 3_000, 1.0, 2.0]
    event, spooled = spooled_push(gate, store, Push("s", rows(t=times, x=list(range(3_002)))), later=5)
    assert len(event.batch) == 3_000 and len(event.refused.late) == 2
    assert event.batch.columns is spooled.columns, "the same rows: what was spooled is good"
    store.append([event])
    assert list(pieces(store.path)) == [spooled.key]
    store.close()
    assert kept(store.path) == [as_row(one) for one in (*gate.events, event)]


def test_in_system_time_the_tuples_have_the_time_of_the_decision(store: DurableStore) -> None:
    gate = new_gate()
    store.append(gate.events)
    event, _ = spooled_push(gate, store, numbers(), later=3)
    assert set(event.batch.times.tolist()) == {3 * SECOND}
    store.append([event])
    store.close()
    assert kept(store.path) == [as_row(one) for one in (*gate.events, event)]


def test_a_push_without_one_of_its_pieces_is_damaged_and_not_half_there(store: DurableStore) -> None:
    gate = new_gate()
    store.append(gate.events)
    event, _ = spooled_push(gate, store, numbers())
    store.append([event])
    store.close()
    connection = apsw.Connection(str(store.path / "psoup.db"))
    connection.execute("DELETE FROM slices WHERE number = 1")
    connection.close()
    assert [finding.place for finding in examine(store.path).findings] == ["psoup.db, event 2"]
    again = DurableStore(store.path)
    with pytest.raises(Internal, match="event 2 of the log is damaged"):
        list(again.read())
    again.close()


def test_a_flipped_key_is_found_before_its_pieces_go(store: DurableStore) -> None:
    """Else the start would take them for those of a push that never came."""
    gate = new_gate()
    store.append(gate.events)
    event, spooled = spooled_push(gate, store, numbers())
    store.append([event])
    store.close()
    connection = apsw.Connection(str(store.path / "psoup.db"))
    connection.execute("PRAGMA writable_schema = 1")
    [index] = connection.execute("SELECT * FROM sqlite_schema WHERE name = 'log_spools'")
    connection.execute("DELETE FROM sqlite_schema WHERE name = 'log_spools'")
    connection.close()
    connection = apsw.Connection(str(store.path / "psoup.db"))
    connection.execute("UPDATE log SET spool = -9 WHERE sequence = 2")  # as a flip would: the index has the other
    connection.execute("PRAGMA writable_schema = 1")
    connection.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", index)
    connection.close()
    with pytest.raises(Internal, match="is damaged"):
        DurableStore(store.path)
    assert list(pieces(store.path)) == [spooled.key]


def test_a_caller_that_leaves_ends_the_writing(store: DurableStore) -> None:
    gate, asked = new_gate(), []
    store.append(gate.events)

    def leaves() -> int:
        asked.append(1)
        return 0 if len(asked) > 3 else len(asked)

    assert store.spool(batch_of(gate, numbers()), leaves) is None
    assert pieces(store.path) == {-1: 6}
    event, _ = spooled_push(gate, store, numbers())
    store.append([event])
    settle(store)
    assert list(pieces(store.path)) == [-2]


def test_without_memory_one_push_is_refused(store: DurableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = new_gate()
    store.append(gate.events)

    def no_memory(_: Batch) -> memoryview:
        raise pa.ArrowMemoryError("malloc of size 8192 failed")

    with monkeypatch.context() as patch:
        patch.setattr(spool, "encode_tuples", no_memory)
        with pytest.raises(ResourceExhausted, match="there is no memory for 68,000 bytes of tuples") as refused:
            store.spool(batch_of(gate, numbers()), one)
    assert refused.value.reason == "NO_MEMORY"
    event, _ = spooled_push(gate, store, numbers())
    store.append([event])


@pytest.mark.long
@pytest.mark.parametrize("fault", swept([EIO, ENOSPC], fast=1), ids=["broken", "full"])
def test_a_disk_that_fails_at_any_write_keeps_all_or_nothing(tmp_path: Path, fault: Fault) -> None:
    refused = 0
    for at in itertools.count():
        gate, path = new_gate(), tmp_path / str(at)
        with failing(-1, fault, fault == EIO) as disk:
            store = DurableStore(path, vfs=disk.name)
            store.append(gate.events)
            disk.at, acknowledged, problem = disk.count + at, 1, None
            try:
                event, _ = spooled_push(gate, store, numbers())
                store.append([event])
                acknowledged = 2
            except (ResourceExhausted, Internal) as error:
                problem, refused = error, refused + 1
            whole = disk.count < disk.at
            store.close()
        found = kept(path)
        assert acknowledged <= len(found) <= 2, "what was acknowledged is there"
        assert found[0] == as_row(gate.events[0])
        assert len(found) == acknowledged or isinstance(problem, Internal), "a full disk keeps nothing"
        if len(found) == 2:
            assert found[1] == as_row(event)
        shutil.rmtree(path)
        if whole:
            break
    assert refused > 8, "each piece is a write"


def test_power_that_goes_at_any_moment_leaves_what_was_acknowledged_whole(tmp_path: Path) -> None:
    gate, acknowledged = new_gate(), [0]
    events = list(gate.events)
    with power(SEED, lambda: acknowledged[0]) as disk:
        store = DurableStore(tmp_path / "data", vfs=disk.name)
        store.append(gate.events)
        acknowledged[0] = 1
        for first in range(4):
            event, _ = spooled_push(gate, store, numbers(first=first))
            store.append([event])
            events.append(event)
            acknowledged[0] += 1
            if first == 1:
                store.spool(batch_of(gate, numbers()), one)  # and no event comes
        disk.cut()
        store.close()
    expected = [as_row(event) for event in events]
    assert len(disk.images) > 30, "each piece is a sync"
    for number, (files, count) in enumerate(disk.images):
        found = kept(restore(files, tmp_path / f"cut-{number}"))
        assert found == expected[: len(found)] and len(found) >= count
