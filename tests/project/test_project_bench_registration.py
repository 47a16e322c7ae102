"""The benchmark of registration: it measures the queries it says, and a row carries their memory."""

from __future__ import annotations

import pytest

from benchmarks.arrival import one_query as one
from benchmarks.arrival import registration
from benchmarks.tool.run import Run


@pytest.mark.long
def test_a_measurement_is_of_the_queries_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "ONE_BY_ONE", 20)
    found = registration.measure(500, 300)
    assert found["bill"]["queries"] == 520  # type: ignore[index]
    assert found["seconds"] > 0  # type: ignore[operator]


def test_a_row_says_what_a_query_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"seconds": 2.0, "cpu": 1.0, "each": 0.5, "bytes": 100.0, "bill": {}}
    monkeypatch.setattr(registration, "_measured", lambda queries, tuples: one)
    first, filled, million, prepared, parsed = registration.rows(Run())
    assert [row.name for row in (prepared, parsed)] == ["register.q1m"] * 2
    assert prepared.peer_sample is not None
    assert parsed.peer_sample is not None
    assert min(prepared.peer_sample.median, parsed.peer_sample.median) > 10
    assert [row.name for row in (first, filled, million)] == ["register.100k", "register.100k.chunk", "register.q1m"]
    assert million.sample.median == 500_000
    assert million.ratio == 500
    assert "100 bytes a query beyond its text, 250 wanted" in million.note
    assert million.met
    assert filled.met is None


@pytest.mark.long
def test_one_query_over_old_tuples_is_compared_with_every_peer() -> None:
    rows = list(one.measured("register.one", 3 * one.BATCH))
    assert {row.peer for row in rows} == {"DuckDB", "Polars", "NumPy"}
    assert all(row.sample.count == one.QUERIES for row in rows)
