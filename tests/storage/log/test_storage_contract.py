"""The contract of a store, checked for each kind; then the memory store's own properties.

Another store joins by one line in `STORES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from psoup.admission import Admission
from psoup.errors import Internal
from psoup.events.commands import RegisterMany
from psoup.events.events import Event
from psoup_storage import DurableStore, MemoryStore, Store
from psoup_testing.engines.admission_gate import Gate

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(keep_pushes=True),
    "durable": lambda path: DurableStore(path / "data"),
}


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = STORES[request.param](tmp_path)
    yield store
    store.close()


def history() -> list[Event]:
    """Every kind of event."""
    gate = Gate()
    gate.create("CREATE STREAM s (t TIMESTAMP, x BIGINT, name TEXT) TIMESTAMP BY t")  # 1
    gate.create("CREATE STREAM gone (x BIGINT)")  # 2
    gate.push("s", t=[3, 4], x=[1, None], name=["a", None])  # 3
    gate.heartbeat("s", 5)  # 4
    gate.register("SELECT x FROM s", "r1")  # 5
    gate.register("SELECT x FROM gone")  # 6
    gate.unregister(2)  # 7
    gate.drop("gone")  # 8
    gate.push("s", t=[1, 6], x=[2, 3], name=["late", "c"])  # 9
    gate.heartbeat("s", 7)  # 10
    return gate.events


def test_what_is_appended_is_read_in_order(store: Store) -> None:
    events = history()
    store.append(events[:4])
    store.append([])
    store.append(events[4:])
    assert store.sequence == 10
    assert [event.sequence for event in store.read()] == list(range(1, 11))
    assert [type(event) for event in store.read()] == [type(event) for event in events]
    assert [event.sequence for event in store.read(after=8)] == [9, 10]
    assert list(store.read(after=10)) == []


def test_what_is_read_leads_admission_to_the_same_state(store: Store) -> None:
    events = history()
    store.append(events)
    first, second = Admission(), Admission()
    for event in events:
        first.replay(event)
    for event in store.read():
        second.replay(event)
    assert first.state() == second.state()


def test_tuples_come_back_as_they_were(store: Store) -> None:
    events = history()
    store.append(events)
    back = next(event for event in store.read() if event.sequence == 9)
    batch = back.batch  # type: ignore[union-attr]
    assert [column.to_arrow().to_pylist()[0] for column in batch.columns[1:]] == [3, "c"]
    assert back.refused.late.tolist() == [1_000_000]  # type: ignore[union-attr]


def test_an_event_out_of_order_breaks_the_store(store: Store) -> None:
    events = history()
    store.append(events[:3])
    with pytest.raises(Internal):
        store.append([events[4], events[3]])
    with pytest.raises(Internal):
        store.append(events[5:])
    assert [event.sequence for event in store.read()] == [1, 2, 3]


def test_a_closed_store_takes_nothing(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(Internal, match="closed"):
        store.append(history())


def test_a_store_says_what_it_is(store: Store) -> None:
    assert store.name
    assert re.fullmatch("[0-9a-f]{8}", store.incarnation)
    assert store.sequence == 0
    store.check_room(1_000)
    assert isinstance(store.durable, bool)
    before = store.bytes
    store.append(history())
    assert store.bytes > before


# The memory store


def test_without_pushes_it_keeps_what_stands() -> None:
    store = MemoryStore()
    store.append(history())
    assert [event.sequence for event in store.read()] == [1, 5, 10]
    store.check()


def test_without_pushes_a_block_of_queries_stays_without_those_that_went() -> None:
    gate, store = Gate(), MemoryStore()
    gate.create("CREATE STREAM s (x BIGINT)")
    gate.send(RegisterMany(["SELECT x FROM s WHERE x > ?"], [[1], [2], [3]]))
    gate.unregister(2)
    store.append(gate.events)
    admission = Admission()
    for event in store.read():
        admission.replay(event)
    assert {**admission.state(), "sequence": 3} == gate.admission.state()
    store.check()


def test_without_pushes_it_grows_with_what_stands_and_not_with_what_happened() -> None:
    gate, store = Gate(), MemoryStore()
    gate.create("CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t")
    store.append(gate.events)
    before = store.bytes
    for round_ in range(1, 20):
        gate.push("s", t=[round_])
        gate.heartbeat("s", round_ + 1)
        query = gate.register("SELECT * FROM s").query_id
        gate.unregister(query)
        store.append(gate.events[-4:])
    assert store.bytes == before + 500
    store.check()
    gate.drop("s")
    store.append(gate.events[-1:])
    assert store.bytes == 0
    assert list(store.read()) == []
    assert not store.durable
