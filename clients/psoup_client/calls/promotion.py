"""The call that promotes a standby: from then on it is the service that writes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass

from psoup_client.arguments import checking_arguments
from psoup_client.errors import InvalidData
from psoup_client.html import Facts
from psoup_client.session import Session
from psoup_client.times import from_proto
from psoup_proto.v1 import admin_pb2

Applied = Callable[[int, int], None]
"""The function that receives the last event that the standby has applied, and the last one that the copy has."""


@dataclass(frozen=True, slots=True)
class Promotion(Facts):
    """A standby that writes now.

    `sequence`: the last event that it has of the older service. `time`: when the older service stored it. `number`: of
    the promotion, from 1. `lost`: the later events that may be lost, in words.
    """

    sequence: int
    time: dt.datetime
    number: int
    lost: str


@checking_arguments
class PromotionCalls(Session):
    """The call that promotes a standby."""

    def promote(self, *, progress: Applied | None = None, timeout: float = 86_400.0) -> Promotion:
        """Let the service, a standby, become the one that writes; returns once it writes: for its operator.

        The older service is fenced: it stops as soon as it can reach the copy. `progress` is called every second. If
        this call ends early, the promotion goes on, and another call joins it. Raises FailedPrecondition if the service
        is not a standby, or if another service took over meanwhile.
        """
        request, report = admin_pb2.PromoteRequest(), progress or (lambda applied, last: None)
        for message in self.connection.stream(self.connection.admin.Promote, request, timeout):
            if message.HasField("promotion"):
                done = message.promotion
                return Promotion(done.sequence, from_proto(done.event_time), done.number, done.lost)
            report(message.applied, message.sequence)
        raise InvalidData("the service ended the call, and did not say whether it was promoted; call it again")
