"""Pieces of large pushes that the log forgets, or that no event came for: they go, some at a time, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from psoup.events.commands import Push
from psoup.model import SECOND
from psoup_storage import DurableStore
from psoup_storage.durable.log import log, ready, spool, truncation
from psoup_storage.durable.log.truncation import forget_stored
from psoup_storage.durable.tools.doctor import examine
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


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SLICE_BYTES", SLICE)
    monkeypatch.setattr(ready, "SMALL_PUSH", SLICE)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DurableStore]:
    opened = DurableStore(tmp_path / "data")
    yield opened
    opened.close()


@pytest.mark.seeded("a spool that no event names stays: after a refusal, or at a start")
@pytest.mark.parametrize("again", ["spool", "start"])
def test_what_no_event_names_goes(store: DurableStore, again: str) -> None:
    gate = new_gate()
    store.append(gate.events)
    assert store.spool(batch_of(gate, numbers()), one) is not None
    assert list(pieces(store.path)) == [-1]
    assert store.spool(batch_of(gate, numbers(50)), one) is None, "few bytes need no spool"
    if again == "spool":
        event, _ = spooled_push(gate, store, numbers())
        settle(store)
        assert list(pieces(store.path)) == [-2], "not those of an event that may come"
        store.append([event])
        settle(store)
        assert list(pieces(store.path)) == [-2]
        return
    store.close()
    assert examine(store.path).well, "it is not damage: a crash leaves it"
    opened = DurableStore(store.path)
    assert pieces(store.path) == {}
    event, _ = spooled_push(gate, opened, numbers())
    opened.append([event])
    opened.close()
    assert kept(store.path) == [as_row(one) for one in (*gate.events, event)]


@pytest.mark.seeded("a start, or the upkeep, removes the pieces of an event")
def test_what_an_event_names_stays_until_it_is_in_the_log(store: DurableStore) -> None:
    """The next one is written while it waits for its commit."""
    gate = new_gate()
    store.append(gate.events)
    event, spooled = spooled_push(gate, store, numbers())
    other, _ = spooled_push(gate, store, numbers(first=7))
    assert settle(store) == 0
    assert sorted(pieces(store.path)) == [-2, spooled.key]
    store.append([event, other])
    store.close()
    assert kept(store.path) == [as_row(one) for one in (*gate.events, event, other)]


@pytest.mark.seeded("pieces of a stream that was dropped stay, or go in one transaction")
def test_pieces_go_after_their_push_some_at_a_time(store: DurableStore) -> None:
    """Nobody waits for a batch of hundreds of MiB that is forgotten."""
    gate = new_gate()
    gate.create("CREATE STREAM t (x BIGINT)")
    store.append(gate.events)
    events = [spooled_push(gate, store, push)[0] for push in (numbers(), Push("t", numbers().table))]
    store.append(events)
    held = sum(pieces(store.path).values())
    gate.drop("s")
    store.append(gate.events[-1:])
    assert sum(pieces(store.path).values()) == held, "a transaction of many is not made longer"
    assert settle(store) == held // 2 // spool.CLEARED + 1
    assert list(pieces(store.path)) == [-2]
    store.close()
    left = [event for event in (*gate.events, events[1]) if event.sequence in (2, 4, 5)]
    assert [row for row in kept(store.path) if row.kind != "stream" or row.stream == 2] == [
        as_row(event) for event in sorted(left, key=lambda event: event.sequence)
    ]


@pytest.mark.seeded("a start, or the upkeep, removes the pieces of an event")
def test_tuples_that_are_stored_leave_no_piece(tmp_path: Path) -> None:
    """Chunks take them over, and the log forgets them by the bytes that they take."""
    gate = new_gate()
    store = DurableStore(tmp_path)
    store.append(gate.events)
    events = [spooled_push(gate, store, numbers(first=first), later=1)[0] for first in range(5)]
    for event in events:
        store.append([event])
    gate.push("s", x=list(range(100)))
    store.append(gate.events[-1:])
    with store._database.transaction() as connection:
        assert forget_stored(connection, 1, 4 * SECOND) == (None, 3, [-1, -2, -3])
        assert connection.execute("SELECT count(*) FROM log WHERE spool IS NOT NULL").get == 2
    store._ready.spools.unnamed([-1, -2, -3, -4])
    settle(store)
    assert sorted(pieces(store.path)) == [-5, -4]
    store.close()


@pytest.mark.seeded("large pushes that were not spooled are forgotten sixteen at once")
def test_the_log_forgets_large_pushes_by_their_bytes(store: DurableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pushes that were not spooled: their pieces go with them, so they go one by one."""
    monkeypatch.setattr(truncation, "SLICE_BYTES", 3 * SLICE)
    gate = new_gate()
    for step in range(4):
        gate.now = step + 1
        gate.push("s", x=list(range(4_000 if step < 2 else 10)))
    store.append(gate.events)
    steps, start = [], -(2**63)
    while start is not None:
        with store._database.transaction() as connection:
            start, count, spools = forget_stored(connection, 1, 5 * SECOND, start)
            steps.append(count)
            assert spools == []
    assert steps == [1, 1, 2] and pieces(store.path) == {}
