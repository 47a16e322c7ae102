"""The store on disk: the directory, what is read back after a restart, damage, a full disk, a foreign format."""

from __future__ import annotations

import datetime as dt
import errno
import itertools
import os
import re
import stat
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import note

from psoup.admission import Admission
from psoup.errors import Internal, InvalidInput, ResourceExhausted
from psoup.events.commands import AlterStream, RegisterMany, SharedBatch
from psoup.events.events import Event, Pushed, RegisteredMany
from psoup.events.groups import GroupChanged
from psoup_storage import DurableStore, open_store
from psoup_storage.durable import disk_room
from psoup_storage.durable.directory import DataDirectory
from psoup_storage.durable.log.codec import encode
from psoup_storage.durable.log.rows import LogRow
from psoup_storage.durable.read_only_store import LookingStore
from psoup_storage.durable.sqlite.schema import FORMAT, UPGRADES
from psoup_storage.durable.sqlite.seals import register
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.engines.admission_gate import Gate, rows
from psoup_testing.engines.recorded import Player, answers, replayed
from psoup_testing.histories.histories import draw_history
from psoup_testing.suite.budget import Budget, run_cases
from psoup_testing.suite.log_records import own_records
from psoup_testing.suite.sweeps import swept

OF_LATER_FORMATS = (
    "DROP TRIGGER log_deleted",
    "DROP TRIGGER log_stored",
    "DROP TRIGGER meta_inserted",
    "DROP TRIGGER meta_updated",
    "ALTER TABLE meta DROP COLUMN checksum",
    "DROP TABLE chunks",
    "DROP TABLE stored",
    "DROP TABLE slices",
    "DROP TABLE gone",
    "DROP INDEX log_by_stream",
    "DROP INDEX log_queries",
    "DROP INDEX log_blocks",
    "DROP INDEX log_tokens",
    "DROP INDEX log_tenants",
    "DROP INDEX log_spools",
    "ALTER TABLE log DROP COLUMN spool",
)
"""What the first format did not have."""


def gate_with_everything() -> Gate:
    """Every kind of event, every type, NULLs, late rows, a producer, awkward texts."""
    gate = Gate(now=100)
    gate.create(
        "CREATE STREAM s (t TIMESTAMP, b BOOLEAN, i BIGINT, d DOUBLE, m DECIMAL(9,2), x TEXT, y DATE) TIMESTAMP BY t"
    )
    gate.create("CREATE STREAM gone (x BIGINT)")
    gate.create("CREATE STREAM other (x BIGINT)")
    gate.push(
        "s",
        t=[3, 4, 5],
        b=[True, None, False],
        i=[2**63 - 1, None, -(2**63)],
        d=[float("inf"), None, -0.0],
        m=[1, None, -7],
        x=["", None, "Grüße 🌍\x01"],
        y=[None, None, None],
    )
    gate.heartbeat("s", 5)
    gate.register("SELECT x FROM s WHERE x LIKE 'é%' BEGIN (NOW - 5)", "r1")
    gate.register("select i+1 from s where i > 3   -- as it was sent", "r2")
    gate.unregister(2)
    gate.drop("gone")
    gate.push("s", t=[1, 6, 10**9], i=[1, 2, 3], x=["late", "c", "ahead"])
    gate.push("other", x=[7, 8])
    for number in range(3):
        gate.produce(number, rows(t=[7 + number], i=[number]), producer="pump \ud800", epoch=3)
    shared = SharedBatch(b"3", 2), SharedBatch(b"4", 1)
    three = rows(t=[10, 11, 12], i=[3, 4, 5])
    gate.produce(3, three, producer="pump \ud800", epoch=3, digest=b"3", shared=shared, whole=True)
    gate.push("s", t=[0], x=["late alone"])
    gate.send(RegisterMany(["SELECT i FROM s WHERE i > 1", "SELECT x FROM other"], None, "two"))
    blocks: list[tuple[str, list[Any]]] = [
        ("i = ? AND x <> ?", [[1, "a"], [-2, "it's ?"], [None, "ü"]]),
        ("m > ? AND d < ?", [[Decimal("1.50"), 2.5], [Decimal("-3"), float("inf")]]),
        ("t >= ? AND y < ? AND b = ?", [[dt.datetime(2020, 1, 2, 3, 4, 5, 6), dt.date(2021, 1, 1), True]]),
    ]
    for where, values in blocks:
        gate.send(RegisterMany([f"SELECT * FROM s WHERE {where} BEGIN (NOW - 9)"], values))
    gate.unregister(4)
    return gate


def test_a_restart_reads_the_same_events_and_leads_to_the_same_state(tmp_path: Path) -> None:
    gate = gate_with_everything()
    store = DurableStore(tmp_path)
    store.append(gate.events[:5])
    store.append(gate.events[5:])
    incarnation = store.incarnation
    store.close()
    again = DurableStore(tmp_path)
    assert (again.incarnation, again.sequence) == (incarnation, len(gate.events))
    admission, back = Admission(), list(again.read())
    for event in back:
        admission.replay(event)
    assert admission.state() == gate.admission.state()
    assert [event.queries for event in back if isinstance(event, RegisteredMany)] == [
        event.queries for event in gate.events if isinstance(event, RegisteredMany)
    ]
    gone = [event for event in gate.events if getattr(event, "query_id", 0) == 2]
    expected = [event for event in gate.events if getattr(event, "stream_id", 0) != 2 and event not in gone]
    assert list(map(encode, back)) == list(map(encode, expected))
    for before, after in zip(expected, back, strict=True):
        if isinstance(before, Pushed):
            assert isinstance(after, Pushed)
            assert after.batch.times.tolist() == before.batch.times.tolist()
            for one, other in zip(before.batch.columns, after.batch.columns, strict=True):
                assert one.to_list() == other.to_list() and one.nbytes == other.nbytes
    again.close()


def test_options_that_were_altered_come_back_from_disk(tmp_path: Path) -> None:
    gate = Gate(now=1_000)
    gate.create("CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t AHEAD 1 HOUR")
    for change in ("LATENESS 1 MINUTE", "AHEAD DEFAULT", "WATERMARK BY CLOCK", "ADD COLUMN y TEXT", "AHEAD 2 HOURS"):
        gate.send(AlterStream(f"ALTER STREAM s {change}"))
    store = DurableStore(tmp_path)
    store.append(gate.events)
    store.close()
    again = DurableStore(tmp_path)
    back, admission = list(again.read()), Admission()
    for event in back:
        admission.replay(event)
    again.close()
    assert [event.spec for event in back] == [event.spec for event in gate.events]  # type: ignore[union-attr]
    assert admission.state() == gate.admission.state()


def rows_of(events: Sequence[Event]) -> list[LogRow]:
    """The rows of events without groups. The log keeps only the newest row of a group."""
    return [encode(event) for event in events if not isinstance(event, GroupChanged)]


@pytest.mark.parametrize("cases", swept([12, 30], fast=1))
def test_random_histories_come_back_from_disk(cases: int, tmp_path: Path) -> None:
    budget, numbers = Budget("disk", cases=cases), itertools.count()

    def case(draw: Any) -> int:
        history = draw_history(draw, events=12)
        note(repr(history))
        played = Player(history)
        store = DurableStore(tmp_path / str(next(numbers)))
        store.append(played.psoup.events)
        back = list(store.read())
        store.close()
        assert rows_of(back) == rows_of(played.psoup.events)
        engine, admission = replayed(back, history.config, 5)
        engine.check()
        assert admission.state() == played.psoup.admission.state()
        assert engine.snapshot().groups == played.psoup.engine.snapshot().groups
        assert answers(engine, played) == answers(played.psoup.engine, played)
        return 1

    run_cases(budget, case)


# The directory


def test_the_directory_is_private_and_made_if_needed(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    before = os.umask(0)
    try:
        store = DurableStore(path)
        store.append(gate_with_everything().events)
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        for file in path.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == (0o700 if file.is_dir() else 0o600), file
        assert store.bytes >= sum(file.stat().st_size for file in path.glob("psoup.db*"))
    finally:
        os.umask(before)
    store.close()
    assert sorted(file.name for file in path.iterdir()) == ["chunks", "lock", "psoup.db"]


def test_a_second_service_is_refused_and_told_why(tmp_path: Path) -> None:
    store = DurableStore(tmp_path)
    with pytest.raises(InvalidInput, match=f"{tmp_path} is in use .* .process {os.getpid()}") as refused:
        DurableStore(tmp_path)
    assert refused.value.reason == "DATA_DIR_IN_USE"
    store.append(gate_with_everything().events)  # and the first is not disturbed
    store.close()
    DurableStore(tmp_path).close()


@pytest.mark.long
def test_the_lock_ends_with_the_process(tmp_path: Path) -> None:
    code = f"import os; from psoup_storage import DurableStore; DurableStore({str(tmp_path)!r}); os._exit(9)"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60, env=environ).returncode == 9
    DurableStore(tmp_path).close()


def test_a_place_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for place in (file, file / "below"):
        with pytest.raises(InvalidInput, match="cannot be used") as refused:
            DurableStore(place)
        assert str(place) in str(refused.value)


@pytest.mark.parametrize(("step", "refusal"), [("pwrite", InvalidInput), ("mkdir", Internal)])
def test_a_disk_without_room_for_a_new_directory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, refusal: type[Exception]
) -> None:
    """For the process ID, and for the folder of chunks; nothing stays open."""
    (tmp_path / "data").mkdir()

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path if step == "mkdir" else os, step, full)
        with pytest.raises(refusal, match=r"data cannot be .*no space left on device"):
            DurableStore(tmp_path / "data")
    DurableStore(tmp_path / "data").close()


def test_a_directory_of_other_things_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    tmp_path.chmod(0o755)
    with pytest.raises(InvalidInput, match=r"has other files, for instance 'notes\.txt'") as refused:
        DurableStore(tmp_path)
    assert refused.value.reason == "DATA_DIR"
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_a_first_start_that_was_cut_off_is_no_obstacle(tmp_path: Path) -> None:
    for name in ("lost+found", "chunks"):
        (tmp_path / name).mkdir()
    (tmp_path / "lock").write_text("7\n")
    DurableStore(tmp_path).close()


def test_open_store_knows_memory(tmp_path: Path) -> None:
    assert open_store(":memory:", reserve_bytes=0).name == "memory"
    store = open_store(str(tmp_path / "x"), reserve_bytes=0)
    assert (store.name, store.durable) == ("disk", True)
    store.close()


# A full disk, and what cannot be read


def test_a_disk_that_is_nearly_full_refuses_before_anything_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [1_000_000]
    monkeypatch.setattr(DataDirectory, "free_bytes", lambda _: free[0])
    monkeypatch.setattr(disk_room, "_LOOK_SECONDS", 3_600.0)
    store = DurableStore(tmp_path, reserve_bytes=400_000)
    store.check_room(100_000)
    store.check_room(90_000)  # counted together, without looking again
    said = (
        "1,000,000 bytes are free, and 400,000 are kept in reserve; a command of 100,000 bytes takes up to 300,000 on"
        " the disk, besides 570,000 of the commands before it;"
    )
    with pytest.raises(ResourceExhausted, match=said) as refused:
        store.check_room(100_000)
    assert refused.value.reason == "DISK_FULL"
    free[0] = 2_000_000
    store.check_room(100_000)
    store.close()


def test_a_full_disk_is_told_with_the_size_and_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A small command is accepted where a large one is refused. The log has the first refusal and the end."""
    free = [1_000_000]
    monkeypatch.setattr(DataDirectory, "free_bytes", lambda _: free[0])
    store = DurableStore(tmp_path, reserve_bytes=400_000)
    said = "are kept in reserve; a command of 300,000 bytes takes up to 900,000 on the disk; free some space"
    for _ in range(3):
        with pytest.raises(ResourceExhausted, match=said):
            store.check_room(300_000)
    assert [record.levelname for record in own_records(caplog)] == ["ERROR"]
    assert "no room on the disk: the disk of" in caplog.text
    store.check_room(1_000)
    assert own_records(caplog)[-1].getMessage() == "the disk has room again"
    assert own_records(caplog)[-1].__dict__["refused"] == 3
    assert store.shortage() == ""
    free[0] = 399_999
    store.room.look_again()
    assert "is full: 399,999 bytes are free, and 400,000 are kept in reserve; free some" in store.shortage()
    with pytest.raises(ResourceExhausted, match="399,999 bytes are free, and 400,000 are kept in reserve; free some"):
        store.check_room(0)
    assert own_records(caplog)[-1].levelname == "ERROR"
    store.close()


def test_a_directory_of_the_first_format_is_refused_by_name(tmp_path: Path) -> None:
    """It has no checksum beside its number, and no table of chunks."""
    DurableStore(tmp_path).close()
    database = apsw.Connection(str(tmp_path / "psoup.db"))
    for statement in OF_LATER_FORMATS:
        database.execute(statement)
    database.execute("UPDATE meta SET value = '1' WHERE name = 'format'")
    database.close()
    said = (
        f"{re.escape(str(tmp_path))} has format 1, and this version of PSoup reads the formats {FORMAT - 1} and"
        f" {FORMAT}, and no older one; use"
    )
    for use in (DurableStore, examine, LookingStore):
        with pytest.raises(InvalidInput, match=said) as refused:
            use(tmp_path)
        assert refused.value.reason == "UNKNOWN_FORMAT"


@pytest.mark.parametrize("known", ["0", *(str(n) for n in range(1, FORMAT) if n not in UPGRADES), str(FORMAT + 1), "x"])
def test_another_format_is_refused(tmp_path: Path, known: str) -> None:
    DurableStore(tmp_path).close()
    database = apsw.Connection(str(tmp_path / "psoup.db"))
    register(database)
    database.execute("UPDATE meta SET value = ? WHERE name = 'format'", (known,))
    database.close()
    for _ in range(2):  # and the directory is not left locked
        with pytest.raises(InvalidInput, match=f"has format {known}, .* reads the formats .*{FORMAT}[,:]") as refused:
            DurableStore(tmp_path)
        assert refused.value.reason == "UNKNOWN_FORMAT"


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "psoup.db").write_bytes(b"something else" * 1_000)
    with pytest.raises(Internal, match="is damaged") as refused:
        DurableStore(tmp_path)
    assert refused.value.reason == "DATA_DAMAGED"
    other = apsw.Connection(str(tmp_path / "other.db"))
    other.execute("CREATE TABLE t (x)")
    other.close()
    (tmp_path / "other.db").rename(tmp_path / "psoup.db")
    with pytest.raises(Internal, match="not a PSoup database"):
        DurableStore(tmp_path)


@pytest.mark.parametrize(
    "damage",
    swept(
        [
            "UPDATE log SET tuples = zeroblob(length(tuples)) WHERE sequence = 4",
            "UPDATE log SET tuples = NULL WHERE sequence = 4",
            "UPDATE log SET body = replace(body, '\"rows\":3', '\"rows\":2') WHERE sequence = 4",
            "UPDATE log SET refused = zeroblob(16) WHERE sequence = 10",
            "UPDATE log SET last_time = 0 WHERE sequence = 11",
            "UPDATE log SET stream = 3 WHERE sequence = 4",
            "UPDATE log SET kind = 'drop' WHERE sequence = 4",
        ],
        fast=3,
    ),
)
def test_a_damaged_row_is_found_and_named(tmp_path: Path, damage: str) -> None:
    store = DurableStore(tmp_path)
    store.append(gate_with_everything().events)
    store.close()
    database = apsw.Connection(str(tmp_path / "psoup.db"))
    database.execute(damage)
    assert database.changes() == 1
    database.close()
    store = DurableStore(tmp_path)
    with pytest.raises(Internal, match="of the log is damaged") as refused:
        list(store.read())
    assert refused.value.reason == "DATA_DAMAGED"
    assert refused.value.facts["sequence"] in ("4", "10", "11")
    store.close()
