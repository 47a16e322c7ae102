"""Disks that fail and power that goes: nothing acknowledged is lost, nothing is acknowledged after an error.

T2 and T3 of the list of tests, for the log; `tests/crash/test_crash_script.py` has them with chunks and producers.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pyarrow as pa
import pytest

from psoup.errors import Internal, ResourceExhausted
from psoup.events.events import Attached, Event
from psoup.model import SECOND
from psoup.sql import create_stream
from psoup_storage import DurableStore
from psoup_storage.contract import at_once
from psoup_storage.durable.log.codec import encode
from psoup_storage.durable.sqlite import database
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.crash.faults import EIO, ENOSPC, failing, power, restore
from psoup_testing.engines.admission_gate import Gate
from psoup_testing.engines.attachments import write
from psoup_testing.engines.starts import kept
from psoup_testing.suite.budget import SEED, places
from psoup_testing.suite.sweeps import swept


def groups_of_events(count: int, seed: int) -> list[list[Event]]:
    """A history of pushes with some queries, cut into groups as group commit does."""
    chance, gate = random.Random(seed), Gate()
    gate.create("CREATE STREAM s (x BIGINT, name TEXT)")
    for number in range(count):
        if chance.random() < 0.1:
            gate.register(f"SELECT x FROM s WHERE x > {number}")
        else:
            n = chance.choice([1, 3, 200])
            gate.push("s", x=[number] * n, name=["a" * chance.randrange(40)] * n)
    groups, events = [], gate.events
    while events:
        size = chance.randrange(1, 4)
        groups.append(events[:size])
        events = events[size:]
    return groups


def test_history_whose_transaction_failed_keeps_its_files_until_the_next_start(tmp_path: Path) -> None:
    """What failed to sync may be on the disk all the same, and names them."""
    gate, times = Gate(), [n * SECOND for n in range(10)]
    gate.create("CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t")
    spec = create_stream("CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t")
    table = pa.table({"t": pa.array(times, pa.timestamp("us", "UTC")), "x": range(10)})
    write(tmp_path / "job", spec, table, times, [5])
    found = set()
    for at in itertools.count():
        path = tmp_path / str(at)
        with failing(-1, EIO, True) as disk:
            store = DurableStore(path, vfs=disk.name)
            store.append(gate.events)
            adopted = store.adopt(tmp_path / "job", "job", 1, spec)
            disk.at = disk.count + at
            event = Attached(2, "default", 1, "job", adopted.extent, times[-1], 0, adopted.chunks, 0)
            try:
                store.append([event])
                break
            except Internal:
                store.disown(1, "job")
            finally:
                store.close()
        del adopted, event  # a file goes when nobody can read it any more
        found.add(len(kept(path)))
        assert examine(path).well, at
    assert found == {1, 2}


FAULTS = {"EIO": (EIO, False), "EIO, once": (EIO, True), "ENOSPC": (ENOSPC, False)}


@pytest.mark.parametrize("settles", [False, True])
@pytest.mark.parametrize("kind", swept(FAULTS, fast=1))
def test_an_error_of_the_disk_stops_the_store_and_loses_nothing(
    tmp_path: Path, kind: str, settles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T3: at the n-th write or sync, for n over the whole script; also if the disk is well again right after it.

    `settles`: the log is moved to its place when it suits who appends.
    """
    monkeypatch.setattr(database, "CHECKPOINT_BYTES", 64 * 1024)  # checkpoints fail too
    groups = groups_of_events(40, SEED)
    rows = [encode(event) for group in groups for event in group]
    with failing(-1, *FAULTS[kind]) as disk:
        store = DurableStore(tmp_path / "whole", vfs=disk.name)
        opening, moved = disk.count, 0
        if settles:
            store.share(at_once)
        for group in groups:
            store.append(group)
            moved += settle(store)
        assert bool(moved) is settles
        total = disk.count
        store.close()
    for at in places(total, bounded=10):
        path, acknowledged = tmp_path / str(at), 0
        with failing(at, *FAULTS[kind]) as disk:
            if at < opening:
                with pytest.raises((Internal, ResourceExhausted), match=r"cannot be|is full"):
                    DurableStore(path, vfs=disk.name)
            else:
                acknowledged = append_until_it_fails(path, disk.name, groups, settles)
        found = kept(path)
        assert found == rows[: len(found)], at
        assert len(found) >= acknowledged, f"n = {at}: {acknowledged} events acknowledged, {len(found)} kept"


def test_a_disk_that_was_full_takes_events_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """T4: every write that may find no room does, once; what had none is appended again, in the same order."""
    monkeypatch.setattr(database, "CHECKPOINT_BYTES", 64 * 1024)
    groups, refused = groups_of_events(60, SEED), 0
    with failing(-1, ENOSPC) as disk:
        disk.syncing = lambda path: None  # type: ignore[method-assign]
        store = DurableStore(tmp_path / "data", vfs=disk.name)
        chance = random.Random(SEED)
        for group in groups:
            disk.at = disk.count + chance.randrange(12) if chance.random() < 0.5 else -1
            try:
                store.append(group)
            except ResourceExhausted as full:
                assert full.reason == "DISK_FULL"
                refused, disk.at = refused + 1, -1
                store.append(group)
        store.close()
    rows = [encode(event) for group in groups for event in group]
    assert kept(tmp_path / "data") == rows
    assert refused > 2


def settle(store: DurableStore) -> bool:
    """Move the log to its place if that is due; whether it was."""
    due = store.due
    if due:
        store.settle()
    return due


def append_until_it_fails(path: Path, vfs: str, groups: list[list[Event]], settles: bool) -> int:
    """How many events were acknowledged; after the error nothing is, whatever is tried."""
    store, acknowledged = DurableStore(path, vfs=vfs), 0
    if settles:
        store.share(at_once)
    for number, group in enumerate(groups):
        try:
            store.append(group)
            acknowledged += len(group)
            settle(store)
        except (Internal, ResourceExhausted) as problem:
            assert problem.reason in ("STORAGE_FAILED", "DISK_FULL")
            for later in groups[number:]:
                with pytest.raises((Internal, ResourceExhausted), match=r"takes no events|is full|cannot be"):
                    store.append(later)
            break
    else:
        raise AssertionError("the injected error was swallowed")
    store.close()
    return acknowledged


def cuts(path: Path, groups: list[list[Event]], seed: int) -> list[tuple[dict[str, bytes], int]]:
    """What a power cut at each sync leaves, and how many events were acknowledged by then."""
    acknowledged = [0]
    with power(seed, lambda: acknowledged[0]) as disk:
        store = DurableStore(path, vfs=disk.name)
        for group in groups:
            store.append(group)
            acknowledged[0] += len(group)
        disk.cut()
        store.close()
        return disk.images


def lost(tmp_path: Path, images: list[tuple[dict[str, bytes], int]], rows: list[object]) -> list[str]:
    """The checker: it knows the acknowledgements, and reads what a start finds."""
    problems = []
    for number, (files, acknowledged) in enumerate(images):
        try:
            found = kept(restore(files, tmp_path / f"cut-{number}"))
        except Internal as refusal:
            problems.append(f"cut {number}: {refusal.message}")
            continue
        if found != rows[: len(found)]:
            problems.append(f"cut {number}: not a prefix of the history")
        elif len(found) < acknowledged:
            problems.append(f"cut {number}: {acknowledged} acknowledged, {len(found)} kept")
    return problems


@pytest.mark.parametrize("bounded", swept([6, 24], fast=1))
def test_a_power_cut_loses_nothing_that_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounded: int
) -> None:
    """T2: unsynced writes are lost, kept or torn at random."""
    monkeypatch.setattr(database, "CHECKPOINT_BYTES", 96 * 1024)
    groups = groups_of_events(200, SEED)
    images = cuts(tmp_path / "data", groups, SEED)
    rows: list[object] = [encode(event) for group in groups for event in group]
    assert len(images) > len(groups)
    chosen = [images[3:][at] for at in places(len(images) - 3, bounded=bounded)]
    assert lost(tmp_path, chosen, rows) == []


def test_the_checker_sees_a_store_that_does_not_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """T34: with the syncs left out, acknowledged events are lost, and the checker says so."""
    prepare = database.Database._prepare

    def careless(self: database.Database) -> None:
        prepare(self)
        self._connection.pragma("synchronous", "OFF")

    monkeypatch.setattr(database.Database, "_prepare", careless)
    acknowledged, groups = [0], groups_of_events(20, SEED)
    with power(SEED, lambda: acknowledged[0]) as disk:
        store = DurableStore(tmp_path / "data", vfs=disk.name)
        for group in groups:
            store.append(group)
            acknowledged[0] += len(group)
            disk.cut()
        store.close()
    rows: list[object] = [encode(event) for group in groups for event in group]
    assert lost(tmp_path, disk.images[-12:], rows)
