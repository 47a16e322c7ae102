"""Charges for objects without tuples: long lists of a WHERE, and streams; and the limit of streams."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from psoup.admission.budget import (
    FREE_INTERVALS,
    INTERVAL_BYTES,
    ROW_BYTES,
    ROW_INTERVAL_BYTES,
    TEXT_BYTES,
    stream_charge,
)
from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.events.commands import AlterStream, Register, RegisterMany
from psoup_testing.engines.admission_gate import Gate


def taken(send: Callable[[int], object]) -> tuple[int, str]:
    """How many are taken until one is refused, and why."""
    for count in range(100):
        try:
            send(count)
        except ResourceExhausted as problem:
            return count, problem.reason
    raise AssertionError("none is refused")


@pytest.mark.seeded("F14: lists and streams are free of charge")
def test_a_list_is_charged_by_its_intervals() -> None:
    gate = Gate()
    gate.create("CREATE STREAM s (a BIGINT, b TEXT)")

    def charge(count: int) -> int:
        text = f"SELECT a FROM s WHERE a IN ({', '.join(str(3 * n) for n in range(count))})"
        before = gate.admission._budget.queries
        done = gate.register(text)
        charged = gate.admission._budget.queries - before
        gate.unregister(done.query_id)
        assert gate.admission._budget.queries == before, "given back as it was taken"
        return charged - TEXT_BYTES - len(text)

    assert [charge(count) for count in (1, FREE_INTERVALS, 5_000)] == [0, 0, INTERVAL_BYTES * (5_000 - FREE_INTERVALS)]


@pytest.mark.long
def test_lists_fill_the_budget() -> None:
    gate = Gate(EngineConfig(memory_bytes=4_000_000))
    gate.create("CREATE STREAM s (a BIGINT)")
    texts = [f"SELECT a FROM s WHERE a IN ({', '.join(str(7 * n + k) for n in range(5_000))})" for k in range(4)]
    assert taken(lambda k: gate.send(Register(texts[k]))) == (3, "MEMORY_BUDGET")


@pytest.mark.seeded("F14: lists and streams are free of charge")
def test_a_tenant_has_so_many_streams() -> None:
    gate = Gate(EngineConfig(streams=3))
    for number in range(3):
        gate.create(f"CREATE STREAM s{number} (a BIGINT)")
    with pytest.raises(ResourceExhausted, match="there are 3 streams, the most there may be") as caught:
        gate.create("CREATE STREAM another (a BIGINT)")
    assert caught.value.reason == "TOO_MANY_STREAMS"
    gate.drop("s1")
    gate.create("CREATE STREAM another (a BIGINT)")


@pytest.mark.long
def test_wide_streams_fill_their_share_of_the_budget() -> None:
    gate = Gate(EngineConfig(memory_bytes=320_000_000))
    wide = ", ".join(f"c{number} BIGINT" for number in range(1_000))
    assert taken(lambda k: gate.create(f"CREATE STREAM s{k} ({wide})")) == (7, "STREAMS_BUDGET")
    gate.drop("s0")
    gate.create("CREATE STREAM narrow (a BIGINT)")
    before = gate.admission._budget.streams.used
    gate.send(AlterStream("ALTER STREAM narrow ADD COLUMN b BIGINT, ADD COLUMN c TEXT"))
    spec = gate.admission._streams[max(gate.admission._streams)].spec
    assert gate.admission._budget.streams.used - before == 20_000
    assert stream_charge(spec) == 62_000


def test_rows_of_a_block_are_charged_by_their_values_and_lists() -> None:
    gate = Gate()
    gate.create("CREATE STREAM s (a BIGINT, b TEXT)")
    budget = gate.admission._budget

    def charges(statement: str, values: list[object]) -> list[int]:
        before = budget.queries
        done = gate.send(RegisterMany([statement], pa.table({"v": values}))).acknowledgement
        left = [budget.queries - before]
        for query_id in range(done.first_id, done.first_id + 300):
            gate.unregister(query_id)
            left.append(budget.queries - before)
        assert not budget._blocks
        return left

    short = charges("SELECT a FROM s WHERE a = ?", list(range(300)))
    assert short == [ROW_BYTES * n for n in range(300, -1, -1)]
    long = charges("SELECT a FROM s WHERE b = ?", [f"{n:010}" * 100 for n in range(300)])
    assert 300 * (2 * 900 + ROW_BYTES) < long[0] < 300 * (2 * 1_100 + ROW_BYTES)
    assert long[-1] == 0
    numbers = ", ".join(str(3 * n) for n in range(1_000))
    lists = charges(f"SELECT a FROM s WHERE a IN ({numbers}) AND b = ?", [f"{n}" for n in range(300)])
    assert lists[0] == 300 * (ROW_BYTES + ROW_INTERVAL_BYTES * (1_001 - FREE_INTERVALS))
    assert lists[-1] == 0
