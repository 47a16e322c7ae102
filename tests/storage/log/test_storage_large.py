"""Events that are large: in slices in the log, whole or not at all, and none of them stops the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pyarrow as pa
import pytest

from psoup.admission import Admission
from psoup.config import EngineConfig
from psoup.errors import Internal, InvalidBatch, InvalidInput, PSoupError
from psoup.events.commands import CreateStream, Push, RegisterMany
from psoup.events.events import Event, RegisteredMany, Unregistered
from psoup.retry_memory import REMEMBERED
from psoup.sql.templates.block import BoundBlock
from psoup.work.clock import VirtualClock
from psoup_storage import DurableStore
from psoup_storage.durable.log import log, truncation
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.engines.admission_gate import Gate
from psoup_testing.engines.restarts import RestartingPSoup

SLICE = 64 * 1024
LENGTH = 4 * SLICE
"""What SQLite takes in one value here, instead of a billion bytes."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SLICE_BYTES", SLICE)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DurableStore]:
    opened = DurableStore(tmp_path / "data")
    limit(opened)
    yield opened
    opened.close()


def limit(store: DurableStore) -> None:
    """As if all sizes were larger."""
    store._database._connection.limit(apsw.SQLITE_LIMIT_LENGTH, LENGTH)


def large_events() -> Gate:
    """A push, and blocks of each form, each of several slices; what is small comes between."""
    gate = Gate()
    gate.create("CREATE STREAM s (x BIGINT, b TEXT)")
    texts = [("\x01" * 900) + str(number) for number in range(700)]
    gate.push("s", x=list(range(700)), b=texts)
    gate.register("SELECT b FROM s WHERE b = 'small'")
    gate.send(RegisterMany(["SELECT b FROM s WHERE b = ?"], pa.table({"b": texts})))
    gate.send(RegisterMany(["SELECT b FROM s WHERE b = ? AND x > ?"], [[text, 7] for text in texts[:200]]))
    gate.send(RegisterMany(["SELECT b FROM s WHERE b = ? OR x = ?"], [[text, None] for text in texts[:200]]))
    gate.send(RegisterMany(["SELECT x FROM s WHERE b = ?"], [["it"], [7 * "\x02"], [None]]))
    gate.send(RegisterMany([f"SELECT b FROM s WHERE b = '{text}' AND x <> {len(text)}" for text in texts[:200]]))
    gate.unregister(5)
    gate.push("s", x=[1], b=["end"])
    return gate


def slices(store: DurableStore) -> dict[int, int]:
    """How many each event has."""
    return dict(store._database.query("SELECT sequence, count(*) FROM slices GROUP BY sequence"))


@pytest.mark.seeded("F2: a block of queries that is larger in the log than a row may be")
def test_large_events_are_logged_in_slices_and_come_back_whole(store: DurableStore) -> None:
    gate = large_events()
    for event in gate.events:
        store.make_ready(event)
        store.append([event])
    found = slices(store)
    assert {sequence for sequence, count in found.items() if count > 1} >= {2, 4, 5, 6, 8}
    sizes = store._database.query("SELECT max(length(content)), max((SELECT max(length(body)) FROM log)) FROM slices")
    assert next(sizes) <= (SLICE, 1_000)
    store.close()
    assert examine(store.path).well
    again, admission = DurableStore(store.path), Admission()
    events = [event for event in gate.events if not isinstance(event, Unregistered)]
    for before, after in zip(events, again.read(), strict=True):
        admission.replay(after)
        if isinstance(before, RegisteredMany):
            assert isinstance(after, RegisteredMany)
            assert type(after.queries) is type(before.queries)
            assert list(after.queries) == list(before.queries)
            assert [list(row) for row in after.rows] == [list(row) for row in before.rows]
    assert admission.state() == gate.admission.state()
    again.close()


@pytest.mark.long
def test_a_block_without_one_of_its_slices_is_damaged_and_not_half_there(store: DurableStore) -> None:
    store.append(large_events().events)
    store.close()
    connection = apsw.Connection(str(store.path / "psoup.db"))
    for sequence in (2, 4):
        connection.execute("DELETE FROM slices WHERE sequence = ? AND number = 1", (sequence,))
    connection.close()
    findings = examine(store.path).findings
    assert [finding.place for finding in findings] == ["psoup.db, event 2", "psoup.db, event 4"]
    assert all("the checksum of its tuples is wrong" in finding.what for finding in findings)
    again = DurableStore(store.path)
    with pytest.raises(Internal, match="event 2 of the log is damaged"):
        list(again.read())
    again.close()


@pytest.mark.long
def test_slices_go_with_what_they_belong_to(store: DurableStore) -> None:
    gate = large_events()
    for query in range(1, 1_305):
        if query != 5:
            gate.unregister(query)
    gate.drop("s")
    store.append(gate.events)
    assert 2 not in slices(store), "a push goes with its stream"


def test_tuples_that_are_stored_leave_no_slice(tmp_path: Path) -> None:
    config = EngineConfig(chunk_rows=64, piece_rows=64)
    soup = RestartingPSoup(config, VirtualClock(0), tmp_path)
    soup.execute("CREATE STREAM s (b TEXT)")
    query = soup.register("SELECT b FROM s BEGIN (START)")
    texts = [("y" * 2_000) + str(number) for number in range(150)]
    soup.push("s", pa.table({"b": texts}))
    assert slices(soup.store) == {3: 4}
    soup.restart()
    assert soup.invoke(query).to_table().column("b").to_pylist() == texts
    soup.maintain()
    soup.clock.advance(seconds=1)  # type: ignore[attr-defined]
    soup.push("s", pa.table({"b": ["z"] * 60}))
    soup.maintain()
    assert slices(soup.store) == {}
    soup.restart()
    assert soup.invoke(query).to_table().column("b").to_pylist() == [*texts, *["z"] * 60]
    soup.store.close()


def test_the_log_forgets_without_reading_the_tuples_of_what_it_looks_at(store: DurableStore) -> None:
    """Acknowledgements wait for it: with eight pushes of 8 MiB each it took a third of a second."""
    gate = Gate()
    gate.create("CREATE STREAM s (b TEXT)")
    for _ in range(3):
        gate.push("s", b=["y" * SLICE])
    store.append(gate.events)
    with store._database.transaction() as connection:
        connection.execute("UPDATE log SET tuples = NULL WHERE sequence = 2")
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, SLICE // 2)
        truncation.forget_aged(connection, 1, REMEMBERED)
    assert list(store._database.query("SELECT sequence FROM log")) == [(1,), (3,), (4,)]


def test_what_a_log_cannot_hold_is_refused_before_anything_has_happened(store: DurableStore) -> None:
    """An event that cannot be encoded costs one command: the state is as before, and the store goes on."""
    admission = Admission()

    def submit(command: Any) -> Event:
        prepared = admission.prepare(command, 0, store.make_ready)
        assert prepared.event is not None
        store.append([prepared.event])
        return prepared.event

    submit(CreateStream("CREATE STREAM s (x BIGINT)"))
    before = admission.state()
    block = RegisterMany(["SELECT x FROM s WHERE x = ?"], [[1], [Odd(2)], ["3"]])
    with pytest.raises(PSoupError):
        submit(block)
    assert admission.state() == before
    submit(Push("s", pa.table({"x": [1]})))
    assert [event.sequence for event in store.read()] == [1, 2]


class Odd(int):
    """A number that the binder takes and JSON does not."""

    def __repr__(self) -> str:
        raise MemoryError


def test_an_error_that_is_not_of_the_disk_undoes_one_transaction(store: DurableStore) -> None:
    for problem in (apsw.TooBigError("too big"), apsw.ConstraintError("twice"), MemoryError(), ValueError("odd")):
        with pytest.raises(Internal, match=type(problem).__name__) as refused:
            half_done(store, problem)
        assert refused.value.reason == "NOT_WRITTEN"
    assert list(store._database.query("SELECT * FROM meta WHERE name = 'half'")) == []
    store.append(large_events().events)
    with pytest.raises(Internal):
        half_done(store, apsw.IOError("the disk"))
    with pytest.raises(Internal, match="takes no events"):
        store.append([])


def half_done(store: DurableStore, problem: Exception) -> None:
    with store._database.transaction() as connection:
        connection.execute("INSERT INTO meta (name, value) VALUES ('half', 'done')")
        raise problem


def test_blocks_and_batches_have_a_greatest_size() -> None:
    gate = Gate(EngineConfig(block_bytes=10_000, batch_bytes=100_000))
    columns = ", ".join(f"c{number} BIGINT" for number in range(200))
    gate.create(f"CREATE STREAM s (x BIGINT, {columns})")
    gate.create("CREATE STREAM t (b TEXT)")
    with pytest.raises(InvalidInput, match="10,000 is the most, send it in parts") as refused:
        gate.send(RegisterMany(["SELECT b FROM t WHERE b = ?"], pa.table({"b": ["y" * 500] * 30})))
    assert refused.value.reason == "BLOCK_TOO_LARGE"
    with pytest.raises(InvalidInput, match="10,000 is the most"):
        gate.send(RegisterMany([f"SELECT b FROM t WHERE b = '{'y' * 400}{n}'" for n in range(30)]))
    gate.push("s", x=[1] * 60)
    with pytest.raises(InvalidBatch, match="201 columns of stream 's'; 100,000 is the most"):
        gate.push("s", x=[1] * 100)


def test_values_in_the_log_take_what_they_take_in_memory(store: DurableStore) -> None:
    """A text of control characters was six times as long as JSON."""
    gate = Gate()
    gate.create("CREATE STREAM s (b TEXT)")
    texts = pa.array(["\x01" * 1_000 + str(number) for number in range(300)])
    gate.send(RegisterMany(["SELECT b FROM s WHERE b = ?"], pa.table({"b": texts})))
    block = gate.events[-1]
    assert isinstance(block, RegisteredMany) and isinstance(block.queries, BoundBlock)
    store.append(gate.events)
    stored = "SELECT sum(length(content)) + (SELECT sum(length(body)) FROM log) FROM slices"
    assert next(store._database.query(stored))[0] < 1.01 * texts.nbytes + 2_000
    assert json.loads(next(store._database.query("SELECT body FROM log WHERE sequence = 2"))[0])["form"] == "values"
