"""Changes of an answer for an assistant, by the calls of Sync.

    token ─> Sync ─> `Page`: rows that came as Arrow, positions of rows that left, the next token

A change without a reset has rows without their schema. The schema of a query never changes, so it is remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa

from psoup.errors import Internal, PSoupError, SqlError
from psoup_proto.v1 import queries_pb2, sync_pb2, types_pb2
from psoup_service.assistants.calls import McpCalls
from psoup_service.sync.tokens import query_id_in
from psoup_service.wire.status import CODES
from psoup_service.wire.written import Written

MOST_BYTES = 3 << 20
"""Bytes of rows in one reply of Sync at most."""
_FORMS = 256
"""Forms that are remembered."""
_FORM_BYTES = 16 * 1024
"""A form with more bytes is not remembered."""


class Page(NamedTuple):
    """A reply about one answer.

    `token`: for the client's next request. `form`: the schema of the rows; None without rows and without a reset.
    """

    change: sync_pb2.Change
    token: bytes
    form: sync_pb2.CopyForm | None
    body: sync_pb2.SyncBody

    def table(self) -> pa.Table:
        """The rows that came."""
        if self.form is None:
            return pa.table({})
        schema = pa.ipc.read_schema(pa.py_buffer(self.form.schema_ipc))
        batches = [pa.ipc.read_record_batch(pa.py_buffer(raw), schema) for raw in self.change.batches]
        return pa.Table.from_batches(batches, schema)

    def left(self) -> int | None:
        """The number of rows that left. None if only the client knows it, from the tuple IDs that stay."""
        if self.form is None or not self.form.whole:
            return None if self.change.keep else 0
        return sum(end - begin for begin, end in intervals_of(self.change.removed))

    def stays(self) -> dict[str, list[tuple[int, int]]]:
        """The intervals of the tuple IDs that stay, by the column of the IDs. A join has one interval for a column."""
        intervals, names = intervals_of(self.change.keep), self._id_columns()
        if len(names) == 1:
            return {names[0]: intervals}
        return {name: [interval] for name, interval in zip(names, intervals, strict=False)}

    def _id_columns(self) -> list[str]:
        assert self.form is not None, "rows with IDs have a form"
        names: list[str] = pa.ipc.read_schema(pa.py_buffer(self.form.schema_ipc)).names
        return names[: max(self.form.id_columns, 1)]

    def completeness(self) -> types_pb2.Completeness:
        """The completeness of the answer."""
        streams = [self.body.streams[place] for place in self.change.streams]
        contents = types_pb2.Completeness(
            sequence=self.body.sequence,
            final=self.change.final,
            late=sum(stream.late for stream in streams),
            ahead=sum(stream.ahead for stream in streams),
            pending=sum(stream.pending for stream in streams),
            select_errors=self.change.select_errors,
        )
        moments = [stream.now for stream in streams if stream.HasField("now")]
        if self.change.HasField("now"):
            contents.now.CopyFrom(self.change.now)
        elif moments:
            contents.now.CopyFrom(min(moments, key=lambda moment: moment.ToNanoseconds()))
        return contents


def intervals_of(differences: Iterable[int]) -> list[tuple[int, int]]:
    """The intervals whose ends are given as differences, each without its end."""
    ends = list(accumulate(differences))
    return list(zip(ends[::2], ends[1::2], strict=True))


class Forms:
    """The forms of copies that were used last, by the IDs of their queries. A form never changes."""

    def __init__(self) -> None:
        self._known = OrderedDict[str, sync_pb2.CopyForm]()

    async def page(self, calls: McpCalls, want: sync_pb2.Want, body: sync_pb2.SyncBody) -> Page:
        """The page in a reply about one answer. Raises a PSoupError, such as the error of the want."""
        outcome = body.outcomes[0]
        if outcome.HasField("failure"):
            raise _error(outcome.failure)
        change = outcome.change
        token = change.token or want.token
        form = None
        if change.reset:
            self._keep(query_id_in(token), change.form)
            form = change.form
        elif change.token:
            form = await self._form(calls, query_id_in(token))
        return Page(change, token, form, body)

    async def _form(self, calls: McpCalls, query_id: str) -> sync_pb2.CopyForm:
        if query_id not in self._known:
            body = await _synced(calls, sync_pb2.Want(query_id=query_id, max_rows=1))
            outcome = body.outcomes[0]
            if outcome.HasField("failure"):
                raise _error(outcome.failure)
            self._keep(query_id, outcome.change.form)
            form: sync_pb2.CopyForm = outcome.change.form
            return form
        self._known.move_to_end(query_id)
        return self._known[query_id]

    def _keep(self, query_id: str, form: sync_pb2.CopyForm) -> None:
        if form.ByteSize() > _FORM_BYTES:
            return
        self._known[query_id] = form
        self._known.move_to_end(query_id)
        while len(self._known) > _FORMS:
            self._known.popitem(last=False)


async def next_page(calls: McpCalls, want: sync_pb2.Want) -> Page:
    """The next changes of a copy. Raises a PSoupError."""
    return await calls.forms.page(calls, want, await _synced(calls, want))


async def _synced(calls: McpCalls, want: sync_pb2.Want) -> sync_pb2.SyncBody:
    request = sync_pb2.SyncRequest(wants=[want], max_bytes=MOST_BYTES, encoding=sync_pb2.ENCODING_ARROW)
    return body_of(await calls.one("SyncService/Sync", request))


def body_of(reply: Any) -> sync_pb2.SyncBody:
    """The body of a reply of Sync or Watch, which have the same fields."""
    message = sync_pb2.WatchResponse.FromString(reply.raw) if type(reply) is Written else reply
    return sync_pb2.SyncBody.FromString(message.body)


def _error(failure: queries_pb2.Failure) -> PSoupError:
    """The error of a want that has failed."""
    facts = {name: text for name, text in failure.facts.items() if name != "reason"}
    return _CLASSES.get(failure.code, Internal)(failure.message, reason=failure.reason, **facts)


_CLASSES: dict[int, type[PSoupError]] = {
    code.value[0]: kind for kind, code in reversed(CODES.items()) if not issubclass(kind, SqlError)
}
"""The most general class of errors for each code of gRPC."""
