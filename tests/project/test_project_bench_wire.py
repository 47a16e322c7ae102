"""Benchmarks over a socket, made small: they measure, they compare answers, and a start on a directory is exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import calls, durability


def test_recovery_is_measured_and_its_answers_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "BATCH", 4_096)
    first, covered, memory = durability.recovery(150_000, 64)
    assert [row.name for row in (first, covered, memory)] == ["recovery.first", "recovery.covered", "recovery.memory"]
    assert 0 < first.sample.median < covered.sample.median
    assert memory.peer_sample is not None
    tuples = 150_000 * 64 / 2**20
    assert tuples < memory.peer_sample.median < 2 * tuples  # and their results


def test_calls_of_many_clients_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "SECONDS", 0.1)
    (row,) = calls.push_rows(True, tmp_path)
    assert row.name == "push.durable.50x1"
    assert row.sample.median > 10
    assert row.ratio < 5
