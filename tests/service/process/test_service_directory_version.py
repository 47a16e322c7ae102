"""A start of another version on a data directory is in the log."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from psoup_service.chores.directory_version import note_version
from psoup_storage import DurableStore, open_store
from psoup_storage.durable.tools.doctor import examine
from psoup_testing.engines.admission_gate import Gate
from psoup_testing.suite.log_records import own_records


def test_a_start_of_another_version_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    gate = Gate()
    gate.create("CREATE STREAM s (x BIGINT)")
    said = list[tuple[str, str]]()
    for version in ("1.0", "1.0", "1.1", "1.1"):
        store = DurableStore(tmp_path)
        note_version(store, version)
        if not store.sequence:
            store.append(gate.events)
        store.close()
        said += [(record.__dict__["earlier_version"], record.__dict__["version"]) for record in own_records(caplog)]
        caplog.clear()
    assert said == [("1.0", "1.1")], "a new directory has no earlier version"
    assert examine(tmp_path).findings == []
    (tmp_path / "note-version").unlink()  # as in a restored backup, and before there was such a note
    store = DurableStore(tmp_path)
    note_version(store, "1.1")
    assert own_records(caplog)[-1].__dict__["earlier_version"] == "unknown"
    assert "is used by this version for the first time" in caplog.text
    store.close()


def test_a_store_in_memory_has_no_version(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    note_version(open_store(":memory:", reserve_bytes=0), "1.0")
    assert own_records(caplog) == []
