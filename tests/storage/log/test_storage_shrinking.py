"""The database gives back what the log has forgotten, at an orderly end and at a start."""

from __future__ import annotations

from pathlib import Path

import pytest

from psoup.admission import Admission
from psoup_storage import DurableStore
from psoup_storage.durable.sqlite import database
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.engines.admission_gate import Gate


def fill(path: Path) -> tuple[DurableStore, Gate]:
    """Some megabytes of batches, of a stream that is dropped again, around a few that stay."""
    gate = Gate()
    gate.create("CREATE STREAM kept (x BIGINT)")
    gate.create("CREATE STREAM gone (x BIGINT)")
    query = gate.register("SELECT x FROM kept").query_id
    for number in range(200):
        gate.push("gone", x=[number] * 8_000)
        if number % 50 == 0:
            gate.push("kept", x=[number])
    gate.drop("gone")
    assert query == 1
    store = DurableStore(path)
    store.append(gate.events[:-1])
    store.append(gate.events[-1:])
    return store, gate


def state(path: Path) -> tuple[object, int]:
    """What a start reads, and the size of the database then."""
    store, admission = DurableStore(path), Admission()
    for event in store.read():
        admission.replay(event)
    size = store.bytes
    store.close()
    return {**admission.state(), "reserved": 0}, size


def test_an_orderly_end_gives_the_room_back(tmp_path: Path) -> None:
    store, gate = fill(tmp_path / "data")
    before = store.bytes
    store.close()
    after = (tmp_path / "data" / "psoup.db").stat().st_size
    assert before > 12_000_000 and after < 1_000_000
    found, size = state(tmp_path / "data")
    assert size < 1_000_000
    assert found == {**gate.admission.state(), "reserved": 0}
    assert examine(tmp_path / "data").well


def test_a_start_after_a_crash_gives_it_back_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(database, "shrink", lambda *_: False)
        store, gate = fill(tmp_path / "data")
        store.close()
    assert (tmp_path / "data" / "psoup.db").stat().st_size > 10_000_000
    found, size = state(tmp_path / "data")
    assert size < 1_000_000 and found == {**gate.admission.state(), "reserved": 0}


def test_small_holes_are_left(tmp_path: Path) -> None:
    gate = Gate()
    gate.create("CREATE STREAM s (x BIGINT)")
    gate.push("s", x=[1] * 100_000)
    gate.drop("s")
    store = DurableStore(tmp_path / "data")
    store.append(gate.events[:2])
    store.append(gate.events[2:])
    size = store.bytes
    store.close()
    assert (tmp_path / "data" / "psoup.db").stat().st_size > min(size // 4, 500_000)
