"""Attaching: where a job writes history or a batch, and making it part of the stream. What writes is `psoup_spark`.

begin(client, "flights", "years") ──> Site: folder, columns, bound ──> a directory ──> attach(client, site, name)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from psoup_client.times import from_proto
from psoup_proto.v1 import attach_pb2

if TYPE_CHECKING:
    from psoup_client.client import Client

TIMEOUT = 3_600.0
"""Seconds that attaching may take: every byte is read by the service."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a job writes (`folder`, on the service's machine), and what: tuples up to `bound`, None if any.

    With a number `batch` it is the next batch of a standing job: tuples from `watermark` on, None if any; `last` is the
    number of the job's last batch there, None without one.
    """

    stream: str
    job: str
    folder: str
    stream_id: str
    statement: str
    bound: datetime | None
    attached: bool
    batch: int | None = None
    watermark: datetime | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class AttachResult:
    """What was attached. `first_time`: where history of another job must end; `duplicate`: the job was there before."""

    sequence: int
    duplicate: bool
    chunks: int
    rows: int
    first_time: datetime | None
    watermark: datetime | None


def begin(client: Client, stream: str, job: str, batch: int | None = None) -> Site:
    """Where the job `job` writes history of `stream`, or its batch of that number.

    Raises NotFound; FailedPrecondition without a disk, or for a batch of a stream that has pushed tuples.
    """
    request = attach_pb2.BeginAttachRequest(stream=stream, job=job, batch=batch)
    reply = client.connection.call(client.connection.attach.BeginAttach, request)
    bound = from_proto(reply.bound) if reply.HasField("bound") else None
    watermark = from_proto(reply.watermark) if reply.HasField("watermark") else None
    last = reply.last_batch if reply.HasField("last_batch") else None
    found = (reply.folder, reply.stream_id, reply.statement, bound, reply.attached)
    return Site(stream, job, *found, batch, watermark, last)


def attach(client: Client, site: Site, directory: str, timeout: float = TIMEOUT) -> AttachResult:
    """Make the directory of that name in the site's folder part of the stream. Repeating it is harmless.

    Raises InvalidRequest for what is no whole history, OutOfRange with the bound to use, NotFound.
    """
    request = attach_pb2.AttachRequest(
        stream=site.stream, job=site.job, directory=directory, stream_id=site.stream_id, batch=site.batch
    )
    reply = client.connection.call(client.connection.attach.Attach, request, timeout)
    client.note_sequence(reply.sequence)
    first = from_proto(reply.first_time) if reply.HasField("first_time") else None
    watermark = from_proto(reply.watermark) if reply.HasField("watermark") else None
    return AttachResult(reply.sequence, reply.duplicate, reply.chunks, reply.rows, first, watermark)
