"""Changes of copies: what one client is told of one query, as a message.

    token ─ read ─> Held ─ since ─> rows, keep ─────> Change: keep, batches, a new token
                         └ the answer whole ─ digest ─> Change: all rows, if the digest is another one

A change that changes nothing has no token: the client keeps its own, and fifty of them take a few bytes each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa

from psoup.answer.completeness import Completeness
from psoup.answer.intervals import Intervals
from psoup.answer.invoke import Answer, invoke
from psoup.answer.message import Message, row_bytes
from psoup.answer.since import Most, Ranged, Since, ranged, since
from psoup.answer.window import WindowChoice
from psoup.errors import InvalidInput, ResourceExhausted
from psoup.published.records import NO_CLAUSE, QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.reading import ReadBudget
from psoup_proto.v1 import sync_pb2
from psoup_service.sync.tokens import Again, Held, Tokens, digest, digest_of_window
from psoup_service.wire import convert

MOST_TUPLES = 4 * 1024 * 1024
"""Tuples of a window that one change looks at: a copy of more comes in several calls."""
_BEHIND = 65_536
"""Tuples up to which a copy may be behind, if none of them is in the answer, before it is given a new token."""


@dataclass(slots=True)
class Copies:
    """The changes of one reply: of one snapshot, at one time of the clock. `streams`: those of the queries so far."""

    snapshot: Snapshot
    tokens: Tokens
    tenant: str
    now: int
    budget: ReadBudget
    streams: dict[int, sync_pb2.StreamTime] = field(default_factory=dict)

    def change(
        self, query_id: int | None, want: sync_pb2.Want, window: WindowChoice | None, room: int, most_bytes: int
    ) -> sync_pb2.Change | None:
        """The change for a want, in `room` bytes; None: there is no room for any of it, though `most_bytes` would be.

        `query_id`: the query that it names; None: that of its token. Raises what an invocation raises; InvalidInput for
        a token of another query, or one that was damaged; ResourceExhausted if an answer that is sent whole has more
        than `most_bytes`.
        """
        asked_for = digest_of_window(want.window, want.accept_truncation)
        reset, held = sync_pb2.RESET_UNSPECIFIED, Held(0, asked_for)
        try:
            held = self.tokens.read(want.token, self.tenant, self.snapshot.sequence)
        except Again as again:
            reset = again.reset
            query_id = again.query_id if query_id is None else query_id
        else:
            if query_id is not None and held.query_id != query_id:
                raise InvalidInput("the token is that of another query", reason="TOKEN_QUERY", field="token")
            query_id = held.query_id
            if held.window != asked_for:
                reset, held = sync_pb2.RESET_WINDOW, Held(query_id, asked_for)
        if query_id is None:
            raise InvalidInput("give a query_id, a key, or the token of a copy", field="query_id")
        record = self.snapshot.query(query_id, self.tenant)
        how = ranged(record.query.plan) if record.sqc_id != NO_CLAUSE else None
        if how is None:
            return self._whole(record, want, window, reset, held, room, most_bytes)
        return self._since(record, how, want, window, reset, held, room, most_bytes)

    def _since(
        self,
        record: QueryRecord,
        how: Ranged,
        want: sync_pb2.Want,
        window: WindowChoice | None,
        reset: sync_pb2.Reset.ValueType,
        held: Held,
        room: int,
        most_bytes: int,
    ) -> sync_pb2.Change | None:
        """The change of a copy whose rows are those of some intervals."""
        rows = max(room // row_bytes(how.plan.schema), 1)
        if want.max_rows:
            rows = min(rows, want.max_rows)
        while True:
            found = since(
                self.snapshot,
                record,
                how,
                held.intervals,
                Most(rows, MOST_TUPLES),
                now=self.now,
                window=window,
                accept_truncation=want.accept_truncation,
                oldest_first=want.oldest_first,
                budget=self.budget,
            )
            batches = _batches(found.answer)
            if sum(map(len, batches)) <= room or found.rows <= 1:
                break
            rows = found.rows // 2
        if batches and sum(map(len, batches)) > room and room < most_bytes:
            return None
        change = sync_pb2.Change(reset=reset, rows=found.rows, complete=found.complete, rows_left=found.left)
        self._tell(change, record, found.answer.completeness, found.answer)
        if reset:
            change.form.schema_ipc = found.answer.schema_message
            change.form.sort_keys.extend(
                sync_pb2.SortKey(descending=key.descending, nulls_first=key.nulls_first) for key in how.order
            )
        if reset or _moved(found, held.intervals):
            change.batches.extend(batches)
            change.keep.extend(_differences(found.keep))
            own = Held(record.query_id, held.window, found.have)
            change.token = self.tokens.write(own, self.tenant, self.snapshot.sequence)
        return change

    def _whole(
        self,
        record: QueryRecord,
        want: sync_pb2.Want,
        window: WindowChoice | None,
        reset: sync_pb2.Reset.ValueType,
        held: Held,
        room: int,
        most_bytes: int,
    ) -> sync_pb2.Change | None:
        """The change of a copy that is sent whole whenever it is another one."""
        answer = invoke(
            self.snapshot,
            record.query_id,
            tenant=self.tenant,
            now=self.now,
            window=window,
            accept_truncation=want.accept_truncation,
            budget=self.budget,
        )
        batches, size, rows = list[bytes](), 0, 0
        for part in answer.messages(max_bytes=most_bytes):
            rows += part.rows if isinstance(part, Message) else part.num_rows
            batches.append(_raw(part))
            size += len(batches[-1])
            if size > most_bytes:
                raise _too_large(size, most_bytes)
        if size > room and room < most_bytes:
            return None
        seen = digest(b"".join(batches))
        change = sync_pb2.Change(reset=reset, complete=True)
        self._tell(change, record, answer.completeness, answer)
        if reset or seen != held.digest:
            change.reset, change.rows = reset or sync_pb2.RESET_WHOLE, rows
            change.batches.extend(batches)
            change.form.schema_ipc, change.form.whole = answer.schema_message, True
            change.token = self.tokens.write(
                Held(record.query_id, held.window, digest=seen), self.tenant, self.snapshot.sequence
            )
        return change

    def _tell(self, change: sync_pb2.Change, record: QueryRecord, told: Completeness, answer: Answer) -> None:
        """Put in what a change says beside its rows."""
        change.final, change.select_errors = told.final, answer.select_errors
        sides = self.snapshot.sides_of(record) if record.sqc_id == NO_CLAUSE else [record]
        for stream_id in dict.fromkeys(side.stream_id for side in sides):
            change.streams.append(self._place(stream_id))

    def _place(self, stream_id: int) -> int:
        """The place of a stream in the reply."""
        if stream_id not in self.streams:
            view = self.snapshot.by_id[stream_id]
            self.streams[stream_id] = sync_pb2.StreamTime(
                stream=view.spec.name,
                now=convert.timestamp(view.now(self.now)),
                watermark=convert.timestamp(view.watermark if view.spec.event_time else view.last_time),
                late=view.late.count,
                ahead=view.ahead.count,
                pending=view.pending,
            )
        return list(self.streams).index(stream_id)


def _moved(found: Since, held: Intervals) -> bool:
    """Whether a client must be told more than that nothing has changed."""
    behind = sum(high - low for low, high in found.have) - sum(high - low for low, high in found.keep)
    return bool(found.rows) or found.leaving or not found.complete or behind > _BEHIND


def _differences(keep: Intervals) -> Iterator[int]:
    """The ends of intervals, each as the difference to the one before."""
    ends = [0, *[end for interval in keep for end in interval]]
    return (end - before for before, end in pairwise(ends))


def _batches(answer: Answer) -> list[bytes]:
    return [_raw(part) for part in answer.messages()]


def _raw(part: Message | pa.RecordBatch) -> bytes:
    return bytes(part.gathered()) if isinstance(part, Message) else part.serialize().to_pybytes()


def _too_large(size: int, most_bytes: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"this answer is sent whole and takes more than {size:,} bytes, and a reply may have {most_bytes:,}; allow more"
        " (max_bytes), select fewer columns or rows, or invoke the query instead",
        reason="ANSWER_TOO_LARGE",
        bytes=size,
        limit=most_bytes,
    )
