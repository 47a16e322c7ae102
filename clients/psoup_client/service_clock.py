"""The clock of a service, compared with the wall clock of its machine."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from psoup_client.html import Facts
from psoup_client.times import from_proto
from psoup_proto.v1 import server_pb2


@dataclass(frozen=True, slots=True)
class ServiceClock(Facts):
    """The time of a service, and the wall clock of its machine. The service follows the wall clock unless that was set
    forward.

    `pending_since`: the service's time when the wall clock was set forward by more than a minute; None while the wall
    clock is followed. `followed_in`: how long the wall clock must still be steady. `steps`: such steps since the start.
    `last_time`: the greatest time of the service so far, at least that of the last event before the start.
    """

    wall: dt.datetime
    time: dt.datetime
    pending_since: dt.datetime | None
    followed_in: dt.timedelta
    steps: int
    last_time: dt.datetime

    @property
    def ahead(self) -> dt.timedelta:
        """The lead of the wall clock over the service's time: zero while the service follows it."""
        return self.wall - self.time if self.pending_since is not None else dt.timedelta(0)

    @property
    def behind(self) -> dt.timedelta:
        """The lag of the service's time behind `last_time`: zero unless the clock is, or was, wrong."""
        return max(self.last_time - self.time, dt.timedelta(0))

    @classmethod
    def of(cls, message: server_pb2.ClockState) -> ServiceClock:
        """Convert the message on the wire."""
        pending = from_proto(message.pending_since) if message.HasField("pending_since") else None
        followed_in = message.followed_in.ToTimedelta()
        wall, time, last = map(from_proto, (message.wall_time, message.service_time, message.last_time))
        return cls(wall, time, pending, followed_in, message.steps, last)
