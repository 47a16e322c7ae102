"""Changes of copies: the message to one client about one query.

    token ─ read ─> Held ─ since, joined_since ─> rows, keep ──> Change: keep, batches, a new token
                         ├ again ─> rows, positions ───────────> Change: removed, places, batches, a new token
                         └ an answer that shows NOW ─ digest ──> Change: all rows, if the digest is another one

An empty change has no token: the client keeps its own, and fifty such changes take a few bytes each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import pyarrow as pa

from psoup.answer.completeness import Completeness
from psoup.answer.copies.answer_again import NOTHING, Compared, Unchanged, again
from psoup.answer.copies.expiry import ageing
from psoup.answer.copies.id_boxes import has_rows
from psoup.answer.copies.id_intervals import Interval
from psoup.answer.copies.join_since import boxed, joined_since, paired
from psoup.answer.copies.range_plans import Ranged, ranged
from psoup.answer.copies.rows_since import Most, Since, Travel, since, travel_of
from psoup.answer.invoke import Answer, invoke
from psoup.answer.question import Question
from psoup.budgets import REPLY_BYTES
from psoup.errors import InvalidInput, NotFound, ResourceExhausted
from psoup.execution.rows.record_batch import Message, read, row_bytes
from psoup.execution.select.window import WindowChoice, windows_of
from psoup.plan.nodes import OrderKey
from psoup.published.records import NO_CLAUSE, QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import NO_LIMIT, ReadBudget
from psoup_proto.v1 import sync_pb2
from psoup_service.host.ids import Ids
from psoup_service.sync.join_page import page_of
from psoup_service.sync.json_columns import FEW, stored_to_json, to_json
from psoup_service.sync.recomputed_page import ComparedPage, compared_page
from psoup_service.sync.reply_parts import Part, WrittenRows, bytes_in, first_parts, raw_of, rows_in
from psoup_service.sync.tokens import Again, ClientRows, Tokens, digest, digest_of_window
from psoup_service.sync.version_tokens import is_renewed, remembered, rows_after
from psoup_service.sync.want import Want
from psoup_service.wire import convert

MOST_TUPLES = 4 * 1024 * 1024
"""The most tuples of a window that one change evaluates. A copy of more tuples comes in several calls."""
_NUMBERS = 2
"""Columns of a copy that grow from row to row: `_id` and `_time`."""
_ROOMS = 8
"""The most bytes of rows in Arrow, in multiples of the room. As JSON, or compressed, rows may take less than that."""
_LARGER = 2
"""The most attempts to send more rows than the first guess."""

_ATTEMPTS = 20
"""The most attempts to find the number of rows that fit."""
_BEHIND = 65_536
"""The most tuples by which a copy may lag without a new token. None of them may be in the answer."""
_BEHIND_JOINED = 4_096
"""The most tuples by which a copy of a join may lag. To find its leaving rows, the tuples that left are joined."""

_CODECS = {
    sync_pb2.COMPRESSION_ZSTD: pa.Codec("zstd"),
    sync_pb2.COMPRESSION_GZIP: pa.Codec("gzip", compression_level=6),
}
_WORTH = 512
"""The bytes of a body above which compression is tried."""


@dataclass(slots=True)
class Copies:
    """Makes the changes of one reply, from one snapshot and one time of the clock.

    `streams`: the streams of the reply's queries so far, by ID.
    """

    snapshot: Snapshot
    tokens: Tokens
    ids: Ids
    tenant: str
    now: int
    budget: ReadBudget
    encoding: sync_pb2.Encoding.ValueType
    streams: dict[int, sync_pb2.StreamTime] = field(default_factory=dict)

    def change(
        self, query_id: int | None, want: sync_pb2.Want, window: WindowChoice | None, room: int, most_bytes: int
    ) -> sync_pb2.Change | None:
        """The change for a want, in at most `room` bytes. None if `room` is too small but `most_bytes` would be enough.

        Rows take at most the want's `max_bytes`, but at least one comes: see Want in sync.proto.

        `query_id`: the named query; None for the token's query. Raises the errors of an invocation. Raises InvalidInput
        for a damaged token, or a token of another query. Raises ResourceExhausted if a whole answer has more than
        `most_bytes`.
        """
        content, reset = self._held(query_id, want)
        try:
            record = self.snapshot.query(content.query_id, self.tenant)
        except NotFound as problem:
            raise self.ids.named(problem, self.ids.query(content.query_id)) from None
        self.snapshot.automatic.note_copied(record.query_id)
        content, reset = remembered(self.snapshot, record, content, reset, self.now)
        question = Want(record, want, window, content, reset, min(room, want.max_bytes or room), room, most_bytes)
        plan = record.query.plan
        if record.sqc_id == NO_CLAUSE:
            if paired(plan) is not None and boxed(self.snapshot, record, self._question(question)):
                return self._joined(question)
        elif (how := ranged(plan)) is not None:
            return self._since(question, how)
        return self._whole(question) if travel_of(plan) is Travel.ALWAYS else self._again(question)

    def _held(self, query_id: int | None, want: sync_pb2.Want) -> tuple[ClientRows, sync_pb2.Reset.ValueType]:
        """The rows that the client holds by its token, and the reason for a reset, if any.

        After a reset the client holds nothing. Raises InvalidInput for another query's token, or if no query is named.
        """
        asked_for = digest_of_window(want.window, want.accept_truncation)
        try:
            content = self.tokens.read(want.token, self.tenant, self.snapshot.sequence)
        except Again as anew:
            named = anew.query_id if query_id is None else query_id
            if named is None:
                raise InvalidInput("give a query_id, a key, or the token of a copy", field="query_id") from None
            return ClientRows(named, asked_for), anew.reset
        if query_id is not None and content.query_id != query_id:
            raise InvalidInput("the token is that of another query", reason="TOKEN_QUERY", field="token")
        if content.window != asked_for:
            return ClientRows(content.query_id, asked_for), sync_pb2.RESET_WINDOW
        return content, sync_pb2.RESET_UNSPECIFIED

    def _since(self, question: Want, how: Ranged) -> sync_pb2.Change | None:
        """The change of a copy that holds the rows of some intervals of tuple IDs."""
        want, content = question.want, question.held
        limit = want.max_rows or NO_LIMIT
        rows = min(max(question.room // row_bytes(how.plan.schema), 1), limit)
        for attempt in range(_ATTEMPTS):
            changes, written = self._fitting(question, how, rows)
            fits = changes.rows <= 1 or written.size <= question.room
            if fits and (not changes.left or rows == limit or 2 * written.size > question.room or attempt >= _LARGER):
                break
            rows = min(max(changes.rows * question.room * 9 // (10 * max(written.size, 1)), 1), limit)
        if changes.rows and question.too_large(written.size):
            return None
        change = sync_pb2.Change(
            reset=question.reset, rows=changes.rows, complete=changes.complete, rows_left=changes.left
        )
        self._tell(change, question.record, changes.answer.completeness, changes.answer.select_errors)
        if question.reset:
            _describe(change.form, changes.answer.schema_message, 1, how.order)
            self._tell_ageing(change.form, question, how)
        if question.reset or _moved(changes) or is_renewed(content, changes, self.now):
            written.put(change)
            change.keep.extend(_differences(changes.keep))
            change.token = self._token(rows_after(content, changes))
        return change

    def _found(self, question: Want, how: Ranged, rows: int) -> Since:
        return since(
            self.snapshot,
            question.record,
            how,
            question.held.intervals,
            Most(rows, MOST_TUPLES),
            self._question(question),
            oldest_first=question.want.oldest_first,
            next_id=question.held.next_id,
        )

    def _question(self, copy: Want) -> Question:
        return Question(self.now, None, copy.window, copy.want.accept_truncation, self.budget)

    def _fitting(self, question: Want, how: Ranged, rows: int) -> tuple[Since, WrittenRows]:
        """The change of at most `rows` rows, and its written rows.

        Takes fewer rows if their bytes in Arrow are many times the room.
        """
        limit = _ROOMS * question.room
        while True:
            changes = self._found(question, how, rows)
            if not changes.rows:
                return changes, WrittenRows()
            attributes, few = (
                changes.ranged.attributes,
                changes.rows <= FEW and self.encoding != sync_pb2.ENCODING_ARROW,
            )
            if attributes is not None and few and (parts := changes.stored()) is not None:
                return changes, WrittenRows(columns=stored_to_json(parts, attributes, _NUMBERS))
            fit = first_parts(changes.answer.messages(max_bytes=max(limit, 1)), limit)
            if fit.all or changes.rows <= 1:
                return changes, self._written(fit.parts, changes.answer, _NUMBERS)
            rows = max(min(fit.rows, changes.rows - 1), 1)

    def _joined(self, question: Want) -> sync_pb2.Change | None:
        """The change of a copy that holds the joined rows of a box: an interval for each source."""
        want, content, reset = question.want, question.held, question.reset
        if content.box is None and not reset:
            reset = sync_pb2.RESET_FORMAT  # the token is from a version that sent such joins whole
        changes = joined_since(self.snapshot, question.record, content.box, self._question(question))
        page = page_of(
            changes, question.room, want.max_rows or NO_LIMIT, partial(self._encoded, differences=changes.hidden)
        )
        if page.rows and question.too_large(page.written.size):
            return None
        change = sync_pb2.Change(reset=reset, rows=page.rows, complete=not page.left, rows_left=page.left)
        self._tell(change, question.record, changes.completeness, changes.select_errors)
        if reset:
            _describe(change.form, changes.schema.serialize().to_pybytes(), changes.how.sources, changes.how.order)
            if changes.ages is not None:
                change.form.ages, change.form.by_clock = True, changes.ages.by_clock
                if changes.hidden > changes.how.sources:
                    change.form.width = 0
        was_partial = content.box is not None and content.box.place is not None
        if reset or page.rows or was_partial or changes.came > _BEHIND_JOINED or changes.any_leaves():
            page.written.put(change)
            change.keep.extend(_differences(changes.keep if has_rows(changes.keep) else ()))
            change.token = self._token(ClientRows(content.query_id, content.window, box=page.held))
        return change

    def _again(self, question: Want) -> sync_pb2.Change | None:
        """The change of a copy whose earlier answer is computed again, to compare the new answer with it."""
        content, reset = question.held, question.reset
        if content.earlier is None and not reset:
            reset = sync_pb2.RESET_FORMAT  # the token is from a version that sent such answers whole
        comparison = again(self.snapshot, question.record, content.earlier or NOTHING, self._question(question))
        change = sync_pb2.Change(complete=True)
        if isinstance(comparison, Unchanged):
            self._tell(change, question.record, comparison.completeness, 0)
            if comparison.behind:
                change.token = self._token(ClientRows(content.query_id, content.window, earlier=comparison.held))
            return change
        if comparison.anew:
            reset = reset or sync_pb2.RESET_WHOLE
        page = self._compared(comparison, question)
        if question.too_large(question.reply_room + 1 if page.dropped else page.written.size):
            return None
        change.reset = reset
        self._tell(change, question.record, comparison.answer.completeness, comparison.answer.select_errors)
        page.written.put(change)
        change.rows, change.rows_left, change.complete = page.rows, page.left, not page.left
        if reset:
            change.form.schema_ipc, change.form.whole = comparison.answer.schema_message, True
        else:
            change.removed.extend(_differences(page.removed))
            change.places.extend(_differences(page.places))
            change.moved.extend(
                to - before for pair in pairwise([(0, 0), *page.moved]) for before, to in zip(*pair, strict=True)
            )
        change.token = self._token(ClientRows(content.query_id, content.window, earlier=page.held))
        return change

    def _compared(self, comparison: Compared, question: Want) -> ComparedPage:
        """A page in the wanted room.

        If that would drop rows that the client holds, a page in the whole room of the reply.
        """
        limit, encode = question.want.max_rows or NO_LIMIT, partial(self._encoded, differences=0)
        page = compared_page(comparison, question.room, limit, encode)
        return compared_page(comparison, question.reply_room, limit, encode) if page.dropped else page

    def _whole(self, question: Want) -> sync_pb2.Change | None:
        """The change of a copy that shows NOW: the whole answer, if it differs."""
        answer = invoke(
            self.snapshot,
            question.record.query_id,
            tenant=self.tenant,
            now=self.now,
            window=question.window,
            accept_truncation=question.want.accept_truncation,
            budget=self.budget,
        )
        parts, size = list[Part](), 0
        for part in answer.messages():
            parts.append(part)
            size += bytes_in(part)
            if size > question.most_bytes:
                raise _too_large(size, question.most_bytes)
        seen = digest(b"".join(map(raw_of, parts)))
        change = sync_pb2.Change(reset=question.reset, complete=True)
        self._tell(change, question.record, answer.completeness, answer.select_errors)
        if question.reset or seen != question.held.digest:
            written = self._written(parts, answer, 0)
            if written.size > question.most_bytes:
                raise _too_large(written.size, question.most_bytes)
            if written.size > question.reply_room:
                return None
            written.put(change)
            change.reset = question.reset or sync_pb2.RESET_WHOLE
            change.rows = sum(map(rows_in, parts))
            change.form.schema_ipc, change.form.whole = answer.schema_message, True
            change.token = self._token(ClientRows(question.held.query_id, question.held.window, digest=seen))
        return change

    def _token(self, content: ClientRows) -> bytes:
        return self.tokens.write(content, self.tenant, self.snapshot.sequence)

    def _written(self, parts: Sequence[Part], answer: Answer, differences: int) -> WrittenRows:
        """Rows in the encoding of the reply.

        `differences`: the number of first columns that are written as differences.
        """
        if self.encoding == sync_pb2.ENCODING_ARROW:
            return WrittenRows(batches=[*map(raw_of, parts)])
        rows = [read(part.gathered(), answer.schema) if isinstance(part, Message) else part for part in parts]
        return self._encoded(rows, differences)

    def _encoded(self, rows: Sequence[pa.RecordBatch], differences: int) -> WrittenRows:
        if self.encoding == sync_pb2.ENCODING_ARROW:
            return WrittenRows(batches=[*map(raw_of, rows)])
        return WrittenRows(columns=to_json(rows, differences) if rows else b"")

    def _tell(
        self, change: sync_pb2.Change, record: QueryRecord, completeness: Completeness, select_errors: int
    ) -> None:
        """Fill in the fields of a change other than its rows: whether it is final, errors, stream times and NOW."""
        change.final, change.select_errors = completeness.final, select_errors
        sides = self.snapshot.sides_of(record) if record.sqc_id == NO_CLAUSE else [record]
        for stream_id in dict.fromkeys(side.stream_id for side in sides):
            change.streams.append(self._place(stream_id))
        if len(change.streams) > 1 and completeness.now is not None:
            times = [self.snapshot.by_id[side.stream_id].now(self.now) for side in sides]
            given = [time for time in times if time is not None]
            if len(given) < len(times) or completeness.now != min(given):
                change.MergeFrom(sync_pb2.Change(now=convert.timestamp(completeness.now)))

    def _tell_ageing(self, form: sync_pb2.CopyForm, question: Want, how: Ranged) -> None:
        """Fill in how rows leave the answer as NOW advances."""
        record = question.record
        ages = ageing(self.snapshot.by_id[record.stream_id].spec, windows_of(record.query, question.window)[0], how)
        if ages is not None:
            form.ages, form.by_clock = True, ages.by_clock
            if ages.width is not None:
                form.width = ages.width

    def _place(self, stream_id: int) -> int:
        """The place of a stream in the list of the reply. Adds the stream if the list lacks it."""
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


def packed(
    copies: Copies,
    outcomes: Sequence[sync_pb2.SyncOutcome],
    compression: sync_pb2.Compression.ValueType,
    places: Sequence[int] = (),
) -> sync_pb2.SyncResponse:
    """The reply with some outcomes. It is compressed if the client accepts that, and if it becomes shorter."""
    streams, sequence = copies.streams.values(), copies.snapshot.sequence
    body = sync_pb2.SyncBody(outcomes=outcomes, sequence=sequence, streams=streams, places=places, clock=copies.now)
    raw = body.SerializeToString()
    if compression in _CODECS and len(raw) > _WORTH:
        small = _CODECS[compression].compress(raw, asbytes=True)
        if len(small) < len(raw):
            return sync_pb2.SyncResponse(body=small, compression=compression, size=len(raw))
    return sync_pb2.SyncResponse(body=raw, size=len(raw))


def _describe(form: sync_pb2.CopyForm, schema: bytes, id_columns: int, order: Sequence[OrderKey]) -> None:
    """Fill in how a client reads and orders the rows: their schema, ID columns and sort keys."""
    form.schema_ipc, form.id_columns = schema, id_columns
    form.sort_keys.extend(sync_pb2.SortKey(descending=key.descending, nulls_first=key.nulls_first) for key in order)


def _moved(changes: Since) -> bool:
    """Whether a change must carry more than the fact that nothing has changed."""
    if changes.rows or not changes.complete:
        return True
    behind = sum(high - low for low, high in changes.have) - sum(high - low for low, high in changes.keep)
    return behind > _BEHIND or changes.any_leaves()


def _differences(keep: Sequence[Interval]) -> Iterator[int]:
    """The ends of intervals, each as the difference to the end before it."""
    ends = [0, *[end for interval in keep for end in interval]]
    return (end - before for before, end in pairwise(ends))


def _too_large(size: int, most_bytes: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"this answer is sent whole and takes more than {size:,} bytes, and a reply may have {most_bytes:,}; allow more"
        " (max_bytes), select fewer columns or rows, or invoke the query instead",
        reason="ANSWER_TOO_LARGE",
        bytes=size,
        **REPLY_BYTES.over(f"{size} or more", most_bytes),
    )
