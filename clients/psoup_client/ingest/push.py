"""The outcome of pushes, as the SDK shows it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from psoup_client import html
from psoup_client.ingest.refused_rows import NONE_REFUSED, RefusedRows, instants, refused_rows
from psoup_client.payload import Payload, read
from psoup_client.times import from_proto
from psoup_proto.v1 import ingest_pb2


@dataclass(frozen=True, slots=True)
class PushedRows:
    """The rows that one event took. The service finds their tuple IDs by these numbers."""

    sequence: int
    first_row: int
    rows: int


@dataclass(frozen=True, slots=True)
class PushResult(html.Facts):
    """The outcome of a push: the number of rows taken, and of rows refused as too late or too far ahead.

    `replaced`: the taken rows of a table that a later row of their batch replaced. It had the same key and time. A
    batch that had been taken before counts 0.

    `sequence`: place of the last event in the service's order (0 if nothing was sent). `watermark`: the stream's
    watermark then. `duplicates`: batches that had been taken before and were not taken again. `refused`: the numbers of
    the refused rows among all pushed rows, at most the first 65,536 of each kind; unknown for a `Stage`. `stream` and
    `sent` are for `Client.tuple_ids`, which takes the result of `Client.push` or of a committed `Stage`.
    """

    sequence: int = 0
    accepted: int = 0
    late: int = 0
    ahead: int = 0
    watermark: dt.datetime | None = None
    batches: int = 0
    duplicates: int = 0
    refused: RefusedRows = field(default=NONE_REFUSED, compare=False, repr=False)
    stream: str = field(default="", compare=False, repr=False)
    sent: tuple[PushedRows, ...] = field(default=(), compare=False, repr=False)
    replaced: int = 0

    def of(self, stream: str, replies: Sequence[Any]) -> PushResult:
        """Add the stream's name and the sent rows of all replies (PushResponse)."""
        sent = [PushedRows(reply.sequence, reply.first_row, reply.accepted) for reply in replies if reply.accepted]
        return replace(self, stream=stream, sent=tuple(sent))

    def plus(self, replies: Sequence[Any], refused: RefusedRows = NONE_REFUSED) -> PushResult:
        """Add further replies (PushResponse or PushStreamResponse) and their refused rows."""
        stated = next((reply for reply in reversed(replies) if reply.HasField("watermark")), None)
        return replace(
            self,
            sequence=max(self.sequence, *(reply.sequence for reply in replies)),
            accepted=self.accepted + sum(reply.accepted for reply in replies),
            late=self.late + sum(reply.late for reply in replies),
            ahead=self.ahead + sum(reply.ahead for reply in replies),
            watermark=self.watermark if stated is None else from_proto(stated.watermark),
            batches=self.batches + len(replies),
            duplicates=self.duplicates + sum(reply.duplicate for reply in replies),
            refused=self.refused if refused is NONE_REFUSED else self.refused.plus(refused),
            replaced=self.replaced + sum(reply.replaced for reply in replies),
        )

    def joined(self, later: PushResult) -> PushResult:
        """Add the outcome of later rows, whose numbers follow these."""
        return PushResult(
            max(self.sequence, later.sequence),
            self.accepted + later.accepted,
            self.late + later.late,
            self.ahead + later.ahead,
            later.watermark or self.watermark,
            self.batches + later.batches,
            self.duplicates + later.duplicates,
            replaced=self.replaced + later.replaced,
        )


def refused_of(payload: Payload, reply: Any, before: int) -> RefusedRows:
    """Find the rows of a batch that its reply reports as refused. `before`: the number of rows pushed before it."""
    if payload.times is None or not reply.late + reply.ahead:
        return NONE_REFUSED
    late_rows = reply.late_rows if reply.late_by_key else None
    return refused_rows(instants(payload.times), reply.late, reply.ahead, before, late_rows)


@dataclass(frozen=True, slots=True)
class Position(html.Facts):
    """The position at which a producer stopped, by the service's disk: batches before `number` of `epoch` are taken.

    `rows`: the number of rows in these batches, including refused ones; None if a version that did not count took some
    of them. `sequence`: the event of the last batch. `time`: the time at which it was taken. `source`: the source
    position that the producer sent last, in any epoch; None if it sent none.
    """

    epoch: int
    number: int
    rows: int | None
    sequence: int
    time: dt.datetime
    source: bytes | None = None

    @staticmethod
    def of(message: ingest_pb2.GetProducerResponse) -> Position:
        """Convert the message on the wire."""
        rows = message.rows if message.HasField("rows") else None
        source = message.position or None
        return Position(message.epoch, message.number, rows, message.sequence, from_proto(message.time), source)


def ids_of(reply: Any) -> range | list[int | None]:
    """Read the tuple IDs of a TupleIdsResponse."""
    if reply.HasField("first_id"):
        return range(reply.first_id, reply.first_id + reply.rows)
    return list[int | None](read(reply.arrow_ipc)["tuple_id"].to_pylist())


def together(parts: Sequence[range | list[int | None]]) -> range | list[int | None]:
    """Concatenate IDs. The result is a range if they are consecutive.

    >>> together([range(3, 5), range(5, 9)]), together([range(3, 5), [7, None]])
    (range(3, 9), [3, 4, 7, None])
    """
    ranges = [part for part in parts if isinstance(part, range)]
    if len(ranges) == len(parts) and all(before.stop == after.start for before, after in pairwise(ranges)):
        return range(ranges[0].start, ranges[-1].stop) if ranges else range(0)
    return [tuple_id for part in parts for tuple_id in part]
