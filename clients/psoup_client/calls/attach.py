"""Calls of the AttachService: a job asks where to write history or a batch, and makes it part of the stream.

    begin_attach("flights", "years") ──> AttachSite: folder, columns, bound ──> a directory ──> attach(site, name)

Jobs in `psoup_spark` write the directory.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psoup_client import html
from psoup_client.arguments import checking_arguments
from psoup_client.session import Session
from psoup_client.times import from_proto
from psoup_proto.v1 import attach_pb2

TIMEOUT = 3_600.0
"""The deadline of attaching, in seconds. The service reads every byte."""


@dataclass(frozen=True, slots=True)
class AttachSite(html.Facts):
    """Site of a job: its `folder` on the service's machine, for tuples with times up to `bound` (None: no bound).

    With a number `batch` the site is for the next batch of a standing job, with tuples from `watermark` on (None: no
    bound). `last` is the number of the job's last attached batch; None without one.
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
class AttachResult(html.Facts):
    """Outcome of attaching. `first_time`: the least time now; another job's history must end at or before it.
    `duplicate`: the job was attached before.
    """

    sequence: int
    duplicate: bool
    chunks: int
    rows: int
    first_time: datetime | None
    watermark: datetime | None


@checking_arguments
class AttachCalls(Session):
    """Calls of a job that adds chunks to a stream."""

    def begin_attach(self, stream: str, job: str, batch: int | None = None) -> AttachSite:
        """Ask where the job `job` writes history of `stream`, or its batch of that number.

        Raises NotFound; FailedPrecondition without a disk, or for a batch of a stream that has pushed tuples.
        """
        request = attach_pb2.BeginAttachRequest(stream=stream, job=job, batch=batch)
        reply = self.connection.call(self.connection.attach.BeginAttach, request)
        return AttachSite(
            stream,
            job,
            reply.folder,
            reply.stream_id,
            reply.statement,
            _time(reply, "bound"),
            reply.attached,
            batch,
            _time(reply, "watermark"),
            reply.last_batch if reply.HasField("last_batch") else None,
        )

    def attach(self, site: AttachSite, directory: str, *, timeout: float = TIMEOUT) -> AttachResult:
        """Make the directory of that name in the site's folder part of the stream. Repeating it is harmless.

        Raises InvalidRequest for a directory that is not a whole history, OutOfRange with the bound to use, NotFound.
        """
        request = attach_pb2.AttachRequest(
            stream=site.stream, job=site.job, directory=directory, stream_id=site.stream_id, batch=site.batch
        )
        reply = self.connection.call(self.connection.attach.Attach, request, timeout)
        self.note_sequence(reply.sequence)
        times = (_time(reply, "first_time"), _time(reply, "watermark"))
        return AttachResult(reply.sequence, reply.duplicate, reply.chunks, reply.rows, *times)


def _time(reply: Any, field: str) -> datetime | None:
    return from_proto(getattr(reply, field)) if reply.HasField(field) else None
