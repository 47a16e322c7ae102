"""Acknowledgements: the results that the caller of a command gets, and the results of an event for the host."""

from __future__ import annotations

from dataclasses import dataclass, field

from psoup.errors import PSoupError
from psoup.events.access import AccessToken
from psoup.events.events import Event, Pushed
from psoup.events.tenants import Tenant


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The result of a command. `sequence`: the sequence of its event. `duplicate`: whether an earlier call had the
    same effect."""

    sequence: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class StreamAcknowledgement(Acknowledgement):
    """The result of CreateStream, AlterStream and DropStream. `queries`: the number of queries that were dropped
    with a stream."""

    stream_id: int = 0
    queries: int = 0


LATE_LISTED = 65_536
"""The most late tuples of a batch that an acknowledgement lists."""


@dataclass(frozen=True, slots=True)
class PushAcknowledgement(Acknowledgement):
    """The result of Push: how many tuples were accepted, refused as late, and refused as too far ahead of the clock.

    `first_row`: the place of the first accepted tuple among the tuples of the event. Several small pushes may share an
    event. `replaced`: the accepted tuples of a table that a later one of the batch replaced, with its key and time. It
    is 0 for a duplicate. `late_rows`: of a table in event time with late tuples, their row numbers, at most
    `LATE_LISTED`; empty for a duplicate. None: the late tuples are those with the least times.
    """

    accepted: int = 0
    late: int = 0
    ahead: int = 0
    watermark: int | None = None
    first_row: int = 0
    replaced: int = 0
    late_rows: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class SharedAcknowledgement(Acknowledgement):
    """The result of a Push with several batches: the acknowledgements of the first ones, in their order.

    `refusal`: the error of the batch after them; None if all were accepted.
    """

    batches: tuple[PushAcknowledgement, ...] = ()
    refusal: PSoupError | None = None


@dataclass(frozen=True, slots=True)
class ProducerAcknowledgement(Acknowledgement):
    """The place where a producer stopped.

    `sequence`: the event of its last batch. `time`: the time of that batch. `epoch`, `number`: the epoch, and the
    number that the next batch must have. `rows`: the rows of all batches of the epoch, accepted or refused for their
    times. It is None if an old version of PSoup, which did not count rows, logged some of them. `source`: the recorded
    source position, b"" without one.
    """

    epoch: int = 0
    number: int = 0
    rows: int | None = None
    time: int = 0
    source: bytes = b""


@dataclass(frozen=True, slots=True)
class AttachAcknowledgement(Acknowledgement):
    """The result of Attach.

    `first_time`: the time of the stream's first tuple, None without tuples. More history must end at or before it.
    `batch`: the number of the job's last batch before this call, None if there was none.
    """

    first_time: int | None = None
    watermark: int | None = None
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAcknowledgement(Acknowledgement):
    """The result of Heartbeat. `watermark`: the stream's watermark after it."""

    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class ClosedAcknowledgement(Acknowledgement):
    """The result of CloseInstants. `at`: no later tuple of the streams gets this time or an earlier one.

    `sequence`: the last event before the promise. All tuples up to `at` come with it or before it.
    """

    at: int = 0


@dataclass(frozen=True, slots=True)
class QueryAcknowledgement(Acknowledgement):
    """The result of Register and Unregister."""

    query_id: int = 0


@dataclass(frozen=True, slots=True)
class QueriesAcknowledgement(Acknowledgement):
    """The result of RegisterMany: `count` queries with IDs from `first_id` on."""

    first_id: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class RemovalAcknowledgement(Acknowledgement):
    """The result of UnregisterMany. `count`: the number of removed queries."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class AlterationAcknowledgement(Acknowledgement):
    """The result of AlterQueries. `count`: the number of selected queries. `changed`: the number of queries that are
    kept in another way now."""

    count: int = 0
    changed: int = 0


@dataclass(frozen=True, slots=True)
class TokenAcknowledgement(Acknowledgement):
    """The result of IssueToken and RevokeToken: the token."""

    token: AccessToken | None = None


@dataclass(frozen=True, slots=True)
class TenantAcknowledgement(Acknowledgement):
    """The result of CreateTenant, AlterTenant and DropTenant. `tenant`: its record after the command, or before its
    drop."""

    tenant: Tenant | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """The result of prepare: the acknowledgement, which the caller gets after `event` is logged. None: there is
    nothing to log.

    `content`: the event of the first tuples of a new table, or of the first instant of a derived stream. It follows
    `event` in the same transaction. `first`: events before `event` in the same transaction: the drops of the streams
    that derive from a dropped one, or the earlier batches of a shared push.
    """

    acknowledgement: Acknowledgement
    event: Event | None = None
    content: Pushed | None = None
    first: tuple[Event, ...] = ()

    @property
    def events(self) -> tuple[Event, ...]:
        """The events to log, all or none."""
        return tuple(event for event in (*self.first, self.event, self.content) if event is not None)

    @property
    def refusal(self) -> PSoupError | None:
        """The error of a batch of a shared push, if batches before it were accepted. None for other commands."""
        return self.acknowledgement.refusal if isinstance(self.acknowledgement, SharedAcknowledgement) else None


@dataclass(frozen=True, slots=True)
class Effects:
    """The result of apply. `sequence`: the last applied event. `freed_bytes`: bytes that left the memory budget."""

    sequence: int
    freed_bytes: int = 0
    released: dict[int, int] = field(default_factory=dict)
    """The number of released tuples, by stream ID."""
    spent: dict[str, float] = field(default_factory=dict)
    """The writer's seconds for the streams of each tenant, by the engine's timer."""
    matches: dict[str, int] = field(default_factory=dict)
    """The number of matches of new tuples, for each tenant that has a quota of them."""
