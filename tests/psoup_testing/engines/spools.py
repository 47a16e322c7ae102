"""Pushes whose tuples are in a store before their events, and what is left of them on the disk.

event, spooled = spooled_push(gate, store, numbers())       foreseen, spooled, decided; not appended
pieces(store.path)                                          {-1: 8}: eight pieces under the key -1
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pyarrow as pa

from psoup.events.commands import Push
from psoup.events.events import Event, Pushed
from psoup.model import SECOND
from psoup.values.columns import Batch
from psoup_storage import DurableStore
from psoup_storage.contract import Spooled
from psoup_storage.durable.log.codec import encode
from psoup_testing.engines import starts
from psoup_testing.engines.admission_gate import Gate

SLICE = 4_096
"""Bytes of a piece here."""


def one() -> int:
    """A piece at a time."""
    return 1


def new_gate(sql: str = "CREATE STREAM s (x BIGINT)") -> Gate:
    """An admission with the stream s."""
    gate = Gate()
    gate.create(sql)
    return gate


def numbers(count: int = 4_000, first: int = 0) -> Push:
    """A push of eight pieces."""
    return Push("s", pa.table({"x": range(first, first + count)}))


def batch_of(gate: Gate, push: Push) -> Batch:
    """The tuples of the event that a push would have."""
    foreseen = gate.admission.foresee(push, round(gate.now * SECOND))
    assert foreseen is not None
    return foreseen.event.batch


def spooled_push(gate: Gate, store: DurableStore, push: Push, later: float = 0) -> tuple[Pushed, Spooled]:
    """The event of a push that was foreseen and spooled, and is decided `later` seconds later."""
    foreseen = gate.admission.foresee(push, round(gate.now * SECOND))
    assert foreseen is not None
    spooled = store.spool(foreseen.event.batch, one)
    assert spooled is not None
    gate.now += later
    make_ready = partial(store.make_ready, spooled=spooled)
    event = gate.admission.prepare(push, round(gate.now * SECOND), make_ready, foreseen).event
    assert isinstance(event, Pushed)
    gate.shadow.replay(event)
    assert gate.shadow.state() == gate.admission.state()
    return event, spooled


def pieces(path: Path) -> dict[int, int]:
    """The number of slices under each key."""
    connection = apsw.Connection(str(path / "psoup.db"))
    try:
        return dict(connection.execute("SELECT sequence, count(*) FROM slices GROUP BY sequence"))
    finally:
        connection.close()


def settle(store: DurableStore) -> int:
    """Do what is due; returns in how many steps."""
    steps = 0
    while store.due:
        store.settle()
        steps += 1
    return steps


def kept(path: Path) -> list[Any]:
    """The events that a start finds, as rows of the log without its numbers of spools."""
    return starts.kept(path, as_row)


def as_row(event: Event) -> Any:
    """An event as a row, whichever way it was written."""
    row = encode(event)
    return row._replace(tuples=None if row.tuples is None else bytes(row.tuples))
