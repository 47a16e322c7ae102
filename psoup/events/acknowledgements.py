"""Acknowledgements: answers to the caller of a command, and to the host about an event."""

from __future__ import annotations

from dataclasses import dataclass, field

from psoup.events.access import AccessToken
from psoup.events.events import Event
from psoup.events.tenants import Tenant


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The outcome of a command. `sequence` is the event's; `duplicate` says that it had happened before."""

    sequence: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class StreamAcknowledgement(Acknowledgement):
    """The outcome of CreateStream, AlterStream and DropStream; `queries`: how many went with a stream."""

    stream_id: int = 0
    queries: int = 0


@dataclass(frozen=True, slots=True)
class PushAcknowledgement(Acknowledgement):
    """The outcome of Push: how many tuples were taken, and how many were refused as late or too far ahead.

    `first_row`: which of the event's tuples is the first of them, as small pushes share an event.
    """

    accepted: int = 0
    late: int = 0
    ahead: int = 0
    watermark: int | None = None
    first_row: int = 0


@dataclass(frozen=True, slots=True)
class ProducerAcknowledgement(Acknowledgement):
    """The place where a producer stopped: its `epoch`, the `number` that comes next, and the `time` of its last batch.

    `sequence`: the event of that batch. `rows`: those of all batches of the epoch, taken or refused for their times;
    None if a part of them was logged by a version that did not count.
    """

    epoch: int = 0
    number: int = 0
    rows: int | None = None
    time: int = 0


@dataclass(frozen=True, slots=True)
class AttachAcknowledgement(Acknowledgement):
    """The outcome of Attach: the least time there is, at or before which more history must end; None without a tuple.

    `batch`: the number of the job's last batch before it, None if there was none.
    """

    first_time: int | None = None
    watermark: int | None = None
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAcknowledgement(Acknowledgement):
    """The outcome of Heartbeat: the watermark after it."""

    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class QueryAcknowledgement(Acknowledgement):
    """The outcome of Register and Unregister."""

    query_id: int = 0


@dataclass(frozen=True, slots=True)
class QueriesAcknowledgement(Acknowledgement):
    """The outcome of RegisterMany: `count` queries with IDs from `first_id` on."""

    first_id: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class RemovalAcknowledgement(Acknowledgement):
    """The outcome of UnregisterMany: how many queries are gone by it."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class TokenAcknowledgement(Acknowledgement):
    """The outcome of IssueToken and RevokeToken: the token, as it stands or stood."""

    token: AccessToken | None = None


@dataclass(frozen=True, slots=True)
class TenantAcknowledgement(Acknowledgement):
    """The outcome of CreateTenant, AlterTenant and DropTenant: the tenant, as it stands or stood."""

    tenant: Tenant | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """The result of prepare: the acknowledgement to give once `event` is logged; no event, nothing to log."""

    acknowledgement: Acknowledgement
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Effects:
    """The result of apply: the last sequence applied, and bytes of tuples given back to the memory budget."""

    sequence: int
    freed_bytes: int = 0
    released: dict[int, int] = field(default_factory=dict)
    """Tuples released, by stream ID."""
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds that the work for each tenant's streams took, by the engine's timer."""
    matches: dict[str, int] = field(default_factory=dict)
    """Matches of new tuples, of the tenants that have a quota of them."""
