"""Acknowledgements: answers to the caller of a command, and to the host about an event."""

from __future__ import annotations

from dataclasses import dataclass, field

from psoup.events.access import AccessToken
from psoup.events.events import Event
from psoup.events.tenants import Tenant


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The result of a command. `sequence`: of the event; `duplicate`: whether it had happened before."""

    sequence: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class StreamAcknowledgement(Acknowledgement):
    """The result of CreateStream, AlterStream and DropStream; `queries`: the number dropped with a stream."""

    stream_id: int = 0
    queries: int = 0


@dataclass(frozen=True, slots=True)
class PushAcknowledgement(Acknowledgement):
    """The result of Push: the number of tuples accepted, and refused as late or too far ahead.

    `first_row`: the place of the first of them among the event's tuples, as small pushes share an event.
    """

    accepted: int = 0
    late: int = 0
    ahead: int = 0
    watermark: int | None = None
    first_row: int = 0


@dataclass(frozen=True, slots=True)
class ProducerAcknowledgement(Acknowledgement):
    """The place where a producer stopped: its `epoch`, the `number` that comes next, and the `time` of its last batch.

    `sequence`: the event of that batch. `rows`: of all batches of the epoch, accepted or refused for their times. None
    if a version of PSoup that did not count logged some of them.
    """

    epoch: int = 0
    number: int = 0
    rows: int | None = None
    time: int = 0


@dataclass(frozen=True, slots=True)
class AttachAcknowledgement(Acknowledgement):
    """The result of Attach: the first time of the stream, at or before which more history must end; None without
    tuples.

    `batch`: the number of the job's last batch before it, None if there was none.
    """

    first_time: int | None = None
    watermark: int | None = None
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAcknowledgement(Acknowledgement):
    """The result of Heartbeat: the watermark after it."""

    watermark: int | None = None


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
    """The result of UnregisterMany: the number of removed queries."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class TokenAcknowledgement(Acknowledgement):
    """The result of IssueToken and RevokeToken: the token."""

    token: AccessToken | None = None


@dataclass(frozen=True, slots=True)
class TenantAcknowledgement(Acknowledgement):
    """The result of CreateTenant, AlterTenant and DropTenant: the tenant, as it is or was."""

    tenant: Tenant | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """The result of prepare: the acknowledgement to give after `event` is logged; None: nothing to log."""

    acknowledgement: Acknowledgement
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Effects:
    """The result of apply: the last applied sequence, and bytes of tuples returned to the memory budget."""

    sequence: int
    freed_bytes: int = 0
    released: dict[int, int] = field(default_factory=dict)
    """Tuples released, by stream ID."""
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds of work for each tenant's streams, by the engine's timer."""
    matches: dict[str, int] = field(default_factory=dict)
    """Matches of new tuples, for tenants that have a quota of them."""
