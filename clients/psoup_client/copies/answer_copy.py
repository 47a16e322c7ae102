"""A copy of an answer that is kept up to date: the rows, and the token that identifies them.

    rows      _id 3 4 9 12 …     token     sync ──> keep [4, 13)   new rows 13 14      token'
                                            └ 3 leaves, 13 and 14 come; one step changes rows and token

The service keeps no state of copies. Any program with the bytes of a copy (`to_bytes`) can update it, at any time, in
any process.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Literal

import pyarrow as pa
from google.protobuf.message import DecodeError

from psoup_client import html
from psoup_client.copies.copy_rows import CopyRows
from psoup_client.copies.held_rows import hidden_columns, in_order, order_of, staying
from psoup_client.copies.moments import Moment, elapsed, moment
from psoup_client.copies.places import placed
from psoup_client.copies.replies import body_of, new_rows, suspicious
from psoup_client.errors import InvalidData, NotFound, PSoupError, ServerFault, from_failure
from psoup_client.session import Session, shown
from psoup_client.times import Instant, from_micros, from_proto, to_micros
from psoup_proto.v1 import sync_pb2

_WANTS = 1_000
_REPLY_BYTES = 3 * 1024 * 1024
_MARK = b"psoup copy 1"
LONG_BODY = 128 * 1024
"""Bytes of changes that may take more than a few milliseconds to apply."""

REASONS = {
    sync_pb2.RESET_UNSPECIFIED: "",
    sync_pb2.RESET_FIRST: "first",
    sync_pb2.RESET_INCARNATION: "other data",
    sync_pb2.RESET_ROLLED_BACK: "data put back",
    sync_pb2.RESET_KEY: "other key",
    sync_pb2.RESET_FORMAT: "other version",
    sync_pb2.RESET_WINDOW: "other window",
    sync_pb2.RESET_WHOLE: "whole",
    sync_pb2.RESET_TOO_OLD: "too old",
}


@dataclass(frozen=True, slots=True)
class Synced(html.Facts):
    """Changes of a copy by one call: rows that came and rows that left.

    `complete`: the copy is the whole answer; else call again, because at least `left` rows had no room. `reset`: the
    reason if the old rows were dropped: `first`, `whole` (the old answer cannot be computed again), `other data`, `data
    put back`, `other query` (which has the copy's key now), `other window`, `other key`, `other version`, `too old` (a
    table's DELETED FOR has passed); else "".
    `error`: the error of the query; the copy is unchanged then.
    """

    came: int = 0
    left: int = 0
    gone: int = 0
    complete: bool = False
    reset: str = ""
    error: PSoupError | None = None


@dataclass(frozen=True, slots=True)
class _State:
    """The rows of a copy and all facts about them. A change replaces the whole state."""

    table: pa.Table | None = None
    token: bytes = b""
    schema: pa.Schema | None = None
    form: sync_pb2.CopyForm | None = None
    complete: bool = False
    final: bool = False
    now: dt.datetime | None = None
    sequence: int = 0
    clock: int = 0
    moment: Moment = field(default_factory=moment)


class AnyCopy(CopyRows):
    """A copy of a query's answer, of `Client` or of `AsyncClient`: its rows, and how complete they are."""

    def __init__(
        self, session: Session, query_id: str, *, key: str = "", window: str = "", accept_truncation: bool = False
    ) -> None:
        self._session = session
        self._query_id = query_id
        self.key = key
        self._window = window
        self._accept_truncation = accept_truncation
        self._state = _State()
        self._greatest = 0
        self._named: Literal["id", "key", "key alone"] = "id"
        """The name of the query in the next request. `key`: its key with the token; `key alone`: without it."""

    @property
    def query_id(self) -> str:
        """The ID of the query; "" before the first sync of a copy that was asked for by a key."""
        return self._query_id

    @property
    def complete(self) -> bool:
        """Whether it is all of the answer, as of the last sync."""
        return self._state.complete

    @property
    def final(self) -> bool:
        """Whether no tuple can get into the window any more."""
        return self._state.final

    @property
    def now(self) -> dt.datetime | None:
        """NOW at the last sync; None before it, or while the stream has seen nothing."""
        return self._state.now

    @property
    def estimated_now(self) -> dt.datetime | None:
        """NOW by the local clocks: NOW of the last sync, plus the time since then. It never goes back.

        NOW stands still for streams in event time, and for answers whose rows do not show when they leave: LIMIT,
        windows of rows, and answers that are sent whole. It is None when `now` is None.
        """
        state = self._state
        if state.now is None or state.form is None or not (state.form.ages and state.form.by_clock):
            return state.now
        estimate = state.clock + elapsed(state.moment, moment())
        self._greatest = max(self._greatest, to_micros(state.now), estimate)
        return from_micros(self._greatest)

    @property
    def certainty(self) -> Literal["exact now", "as of", "partial"]:
        """The meaning of `rows(now=estimated_now)`: the answer now by all known tuples, the answer as of `now`, or a
        part of it.
        """
        form = self._state.form
        if not self.complete:
            return "partial"
        return "exact now" if form is not None and form.ages and form.by_clock else "as of"

    @property
    def sequence(self) -> int:
        """The last event that the copy reflects."""
        return self._state.sequence

    def __len__(self) -> int:
        return 0 if self._state.table is None else int(self._state.table.num_rows)

    def _is_empty(self) -> bool:
        return self._state.table is None

    def _sentence(self) -> str:
        name = f"Copy of {self._query_id or self.key}"
        if self._is_empty():
            return f"{name}: nothing yet, call sync() first"
        now = self.now and self.now.isoformat(sep=" ").replace("+00:00", "Z")
        return f"{name}: {'complete' if self.complete else 'a part'}{f', as of {now}' if now else ''}"

    def to_arrow(self, *, now: Instant | None = None) -> pa.Table:
        """Return the rows as an Arrow table, in the order of the answer. Raises InvalidData before the first sync.

        `now`: leave out rows that have left the window by then. If rows do not show when they leave, the rows are as of
        the last sync.
        """
        table, form = self._state.table, self._state.form
        if table is None or form is None:
            raise InvalidData("the copy holds nothing yet: sync it first")
        if form.whole:
            return table
        if now is not None and form.ages and form.HasField("width"):
            times = table.column(hidden_columns(form) - 1).cast(pa.int64()).to_numpy()
            table = table.filter(pa.array(times >= to_micros(now) - form.width))
        keys = len(form.sort_keys)
        order = order_of(table.columns[table.num_columns - keys :], form.sort_keys) if keys else None
        shown = table.select(range(hidden_columns(form), table.num_columns - keys))
        return shown if order is None else shown.take(order)

    def to_bytes(self) -> bytes:
        """Return the copy as bytes, rows and token together: to be stored, and made a copy again by `from_bytes`."""
        state = self._state
        change = sync_pb2.Change(
            form=state.form, token=state.token, complete=state.complete, final=state.final, query_id=self._query_id
        )
        want = sync_pb2.Want(key=self.key, window=self._window, accept_truncation=self._accept_truncation)
        now = "" if state.now is None else state.now.isoformat()
        facts = {
            _MARK: change.SerializeToString(),
            b"want": want.SerializeToString(),
            b"now": now.encode(),
            b"sequence": b"%d" % state.sequence,
            b"clocks": json.dumps([self._greatest, state.clock, *astuple(state.moment)]).encode(),
        }
        table = pa.table({}) if state.table is None else state.table
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, table.schema.with_metadata(facts), options=options) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()


class AnswerCopy(AnyCopy):
    """A copy of a query's answer, made by `Client.copy`. `Client.sync` brings it up to date by changes.

    `complete`: the copy is the whole answer as of its last sync, `now`; else a part of it. `len()` is the number of
    rows; iterating gives a dict for each, as for an `Answer`. Without a connection, `rows(now=copy.estimated_now)`
    hides the rows that have left a sliding window since, by the local clock; none is deleted.
    """

    def sync(
        self, *, max_bytes: int | None = None, wait_for: int | None = None, timeout: float | None = None
    ) -> Synced:
        """Bring the copy up to date; only changes are transferred. Raises the errors of `Query.invoke`.

        `max_bytes`: stop after this many bytes; the copy is not `complete` then, and the next sync goes on. The copy
        reflects this client's own acknowledged pushes, or the event `wait_for`. `timeout` is for each call.
        """
        (synced,) = sync_copies(self._session, [self], max_bytes, wait_for, timeout)
        if synced.error is not None:
            raise synced.error
        return synced


def copy_of_bytes(session: Session, data: bytes) -> AnswerCopy:
    """Restore a copy from the bytes of its `to_bytes`. Raises InvalidData for any other bytes."""
    try:
        table = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
        facts = table.schema.metadata or {}
        change, want = sync_pb2.Change.FromString(facts[_MARK]), sync_pb2.Want.FromString(facts[b"want"])
        now = dt.datetime.fromisoformat(facts[b"now"].decode()) if facts[b"now"] else None
        sequence = int(facts[b"sequence"])
        greatest, clock, *boot = json.loads(facts[b"clocks"])
        then = Moment(*boot)
    except (pa.ArrowInvalid, KeyError, ValueError, TypeError, OSError, DecodeError) as problem:
        raise InvalidData(f"these bytes are not a valid copy of an answer: {problem}") from None
    copy = AnswerCopy(
        session, change.query_id, key=want.key, window=want.window, accept_truncation=want.accept_truncation
    )
    if change.token:
        table = table.replace_schema_metadata(None)
        state = _State(table, change.token, table.schema, change.form, change.complete, change.final, now)
        copy._state = replace(state, sequence=sequence, clock=clock, moment=then)
        copy._greatest = int(greatest)
    return copy


def want_of(copy: AnyCopy) -> sync_pb2.Want:
    """Build the want of a copy, as on the wire."""
    by_id = copy._named == "id" and copy._query_id
    return sync_pb2.Want(
        query_id=copy._query_id if by_id or not copy.key else "",
        key="" if by_id else copy.key,
        token=b"" if copy._named == "key alone" else copy._state.token,
        window=copy._window,
        accept_truncation=copy._accept_truncation,
    )


def token_of(copy: AnyCopy) -> bytes:
    """Return the token that identifies a copy's rows. Each change brings a new one."""
    return copy._state.token


def falls_back(copy: AnyCopy, want: sync_pb2.Want, error: PSoupError) -> bool:
    """Whether to request a copy again by its key, because its query ID is gone, for example after a restore.

    `want`: the request that ended with the error.
    """
    if want.query_id and copy.key and isinstance(error, NotFound):
        copy._named = "key"
    elif want.key and want.token and error.reason == "TOKEN_QUERY":  # the key now names another query
        copy._named = "key alone"
    else:
        copy._named = "id"
    return copy._named != "id"


def applied(copy: AnyCopy, change: sync_pb2.Change, body: sync_pb2.SyncBody) -> Synced:
    """Apply a change to a copy, all or nothing. Raises ServerFault for a change that does not fit this copy."""
    before = len(copy)
    with suspicious():
        now = now_of(change, body.streams)
        new_state = replace(copy._state, complete=change.complete, final=change.final, now=now, sequence=body.sequence)
        state = replace(new_state, clock=body.clock, moment=moment())
        if change.token:
            state = _changed(state, change)
    reset = "other query" if copy._named == "key alone" else REASONS.get(change.reset, "other")
    copy._state, copy._greatest, copy._named = state, 0, "id"
    copy._query_id = change.query_id or copy._query_id
    return Synced(
        came=change.rows,
        left=change.rows_left,
        gone=before + change.rows - len(copy),
        complete=change.complete,
        reset=reset,
    )


def sync_copies(
    session: Session, copies: Sequence[AnyCopy], max_bytes: int | None, wait_for: int | None, timeout: float | None
) -> list[Synced]:
    """Bring copies up to date, in as many calls as needed, or until `max_bytes` have arrived."""
    done = [Synced() for _ in copies]
    open_, received = list(range(len(copies))), 0
    while open_ and (max_bytes is None or received < max_bytes):
        some = open_[:_WANTS]
        room = _REPLY_BYTES if max_bytes is None else max_bytes - received
        wants, tokens = [want_of(copies[place]) for place in some], [token_of(copies[place]) for place in some]
        body, size = changes(session, wants, room, wait_for, timeout)
        received += size
        again = list[int]()
        for place, (want, token), outcome in zip(some, zip(wants, tokens, strict=True), body.outcomes, strict=False):
            if token_of(copies[place]) != token:  # the copy was given twice, or another thread changed it
                again.append(place)
                continue
            if outcome.WhichOneof("outcome") == "failure":
                error = from_failure(outcome.failure)
                done[place] = replace(done[place], error=error)
                if falls_back(copies[place], want, error):  # a later change clears the error
                    again.append(place)
                continue
            try:
                change = session.connection.apart(size > LONG_BODY, applied, copies[place], outcome.change, body)
                done[place] = _after(done[place], change)
            except ServerFault as problem:
                done[place] = replace(done[place], error=problem)
                continue
            if not done[place].complete:
                again.append(place)
        open_ = [*again, *open_[len(body.outcomes) :]]
    return done


def changes(
    session: Session,
    wants: Sequence[sync_pb2.Want],
    max_bytes: int,
    wait_for: int | None = None,
    timeout: float | None = None,
) -> tuple[sync_pb2.SyncBody, int]:
    """Request changes of copies in one call. Returns the outcomes of the first copies, and the received bytes."""
    request = sync_pb2.SyncRequest(
        wants=wants, max_bytes=min(max_bytes, _REPLY_BYTES), compression=sync_pb2.COMPRESSION_ZSTD
    )

    def attempt(sequence: int) -> sync_pb2.SyncResponse:
        request.min_sequence = sequence
        return session.connection.call(session.connection.sync.Sync, request, timeout)

    reply = session.reflecting(wait_for, attempt)
    body = session.connection.apart(len(reply.body) > LONG_BODY, body_of, reply)
    shown(session, body.sequence)
    with suspicious():
        if not body.outcomes or any(
            outcome.HasField("change") and not (outcome.change.complete or outcome.change.token)
            for outcome in body.outcomes
        ):
            raise ValueError("it brings nothing, and the client would ask for it for ever")
    return body, len(reply.body)


def _after(first: Synced, later: Synced) -> Synced:
    """Add up the changes of two successive calls."""
    came = later.came if later.reset else first.came + later.came
    return replace(later, came=came, gone=first.gone + later.gone, reset=first.reset or later.reset)


def _changed(state: _State, change: sync_pb2.Change) -> _State:
    """Build the state after a change: the rows that stay, the new rows in their order, and the token."""
    schema, form, rows = state.schema, state.form, state.table
    if change.reset:
        form = change.form
        schema, rows = pa.ipc.read_schema(pa.py_buffer(form.schema_ipc)), None
    if schema is None or form is None:
        raise ValueError("rows for a copy that holds nothing")
    new = new_rows(change, form, schema)
    if rows is not None and form.whole:
        new = placed(rows, new, change)
    elif rows is not None:
        rows = rows.filter(pa.array(staying(rows, form, change.keep)))
        new = pa.concat_tables([rows, new]).combine_chunks()
    if not form.whole:
        new = in_order(new, max(form.id_columns, 1))
    return replace(state, table=new, token=change.token, schema=schema, form=form)


def now_of(change: sync_pb2.Change, streams: Sequence[sync_pb2.StreamTime]) -> dt.datetime | None:
    """Return the change's NOW, or else the least NOW of its streams. None if a stream has no tuple yet."""
    if change.HasField("now"):
        return from_proto(change.now)
    sources = [streams[at] for at in change.streams]
    return (
        min([from_proto(stream.now) for stream in sources])
        if all(stream.HasField("now") for stream in sources)
        else None
    )
