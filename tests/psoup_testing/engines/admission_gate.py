"""An admission under test with its two promises checked at every command, and tables written as text.

    gate = Gate()
    gate.create("CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t LATENESS 5 SECONDS")
    gate.push("s", t=[10, 12], x=[1, 2])        times in seconds

A refused command leaves the state as it was. A shadow that only replays the events has the same state after each.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from psoup.admission import Admission
from psoup.config import EngineConfig
from psoup.errors import PSoupError
from psoup.events.acknowledgements import Prepared
from psoup.events.commands import Command, CreateStream, DropStream, Heartbeat, Push, Register, Unregister
from psoup.events.events import Event, Pushed
from psoup.model import SECOND


def seconds(values: list[float | None]) -> pa.Array:
    """Timestamps from seconds since 1970."""
    return pa.array([None if v is None else round(v * SECOND) for v in values], pa.timestamp("us"))


def rows(*, t: list[float | None] | None = None, **columns: list[Any] | pa.Array) -> pa.Table:
    """A table; `t` is in seconds since 1970."""
    data: dict[str, Any] = dict(columns)
    return pa.table(data if t is None else {"t": seconds(t), **data})


class Gate:
    """An admission, its shadow, and a clock in seconds."""

    def __init__(self, config: EngineConfig = EngineConfig(), now: float = 0, archive: bool = False) -> None:
        self.admission = Admission(config, archive=archive)
        self.shadow = Admission(config, archive=archive)
        self.now = now
        self.events: list[Event] = []

    def send(self, command: Command) -> Prepared:
        """Prepare `command` and check the promises; refusals are raised."""
        before = self.admission.state()
        try:
            prepared = self.admission.prepare(command, round(self.now * SECOND))
        except PSoupError:
            assert self.admission.state() == before, "a refusal left a trace"
            raise
        if prepared.event is None:
            assert self.admission.state() == before, "no event, and yet a change"
        else:
            assert prepared.event.sequence == self.admission.sequence == before["sequence"] + 1  # type: ignore[operator]
            self.events.append(prepared.event)
            self.shadow.replay(prepared.event)
        self.admission.check()
        assert self.shadow.state() == self.admission.state(), "replay leads elsewhere"
        return prepared

    def create(self, sql: str, **more: Any) -> Any:
        """The acknowledgement of CREATE STREAM."""
        return self.send(CreateStream(sql, **more)).acknowledgement

    def drop(self, name: str, **more: Any) -> Any:
        """The acknowledgement of DROP STREAM."""
        return self.send(DropStream(name, **more)).acknowledgement

    def register(self, sql: str, request_id: str = "", **more: Any) -> Any:
        """The acknowledgement of a registration."""
        return self.send(Register(sql, request_id, **more)).acknowledgement

    def unregister(self, query_id: int, **more: Any) -> Any:
        """The acknowledgement of an unregistration."""
        return self.send(Unregister(query_id, **more)).acknowledgement

    def heartbeat(self, stream: str, time: float) -> Any:
        """The acknowledgement of a heartbeat at `time` seconds."""
        return self.send(Heartbeat(stream, round(time * SECOND))).acknowledgement

    def push(self, stream: str, table: pa.Table | None = None, **columns: Any) -> Any:
        """The acknowledgement of a push of `table`, or of columns given by name."""
        return self.send(Push(stream, rows(**columns) if table is None else table)).acknowledgement

    def produce(self, number: int, table: pa.Table, *, epoch: int = 0, producer: str = "p", **more: Any) -> Any:
        """The acknowledgement of a numbered push to stream s."""
        return self.send(Push("s", table, producer, epoch, number, **more)).acknowledgement

    @property
    def pushed(self) -> Pushed:
        """The last event, which is a push."""
        event = self.events[-1]
        assert isinstance(event, Pushed)
        return event
