"""The content of a delivery: the rows that came and left since a position, as JSON, and the position after them.

    token ─> rows of the receiver ─> changed rows ─> body, at most 256 KiB ─> token

A body that would be larger has only the numbers of the rows.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import orjson
import pyarrow as pa

from psoup.answer.copies.changed_rows import ChangedRows, HeldRange, Holding, Rows, changed_rows
from psoup.answer.copies.id_intervals import Interval
from psoup.answer.copies.join_since import HeldBox
from psoup.answer.copies.versions_since import is_too_old
from psoup.answer.copies.watched_clauses import clause_of, slides_of
from psoup.answer.question import Question
from psoup.errors import InvalidInput
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget
from psoup_proto.v1 import sync_pb2, types_pb2
from psoup_service.host.ids import Ids
from psoup_service.sync.tokens import Again, ClientRows, Tokens, digest_of_window
from psoup_service.sync.version_tokens import remembered
from psoup_service.watching.pages import Target
from psoup_service.wire.completeness import completeness_message
from psoup_service.wire.json_answers import instant_text, rows_json
from psoup_service.wire.json_messages import plain_fields

MOST_BYTES = 256 * 1024
"""Bytes of a body at most."""
_BEHIND = 4_096
"""Tuples by which a position may be behind while no row comes or leaves. Beyond it, the position advances alone."""
_RENEWED = 0.5
"""The share of DELETED FOR after which a position in a table advances, although no row came or left."""
_WINDOW = digest_of_window("", accept_truncation=True)
_EVENTS_WINDOW = digest_of_window("", accept_truncation=False)
"""The window in tokens of subscriptions. Polls and streams of events use the same one."""


@dataclass(frozen=True, slots=True)
class Look:
    """The result of a look at an answer. `target`: the streams and conditions whose changes cause the next look.

    `sequence`: the event that the look reflects. `token`: the position after the look. `body`: None if no row came or
    left. `moved`: whether `token` differs from the position before. `message_id`: the ID of the delivery.
    """

    target: Target
    sequence: int
    token: bytes
    body: bytes | None
    moved: bool
    message_id: str = ""


class Body(Protocol):
    """The body of a delivery. `came`, `left`: the numbers of rows that came and left."""

    came: int
    left: int

    def __init__(self, change: ChangedRows) -> None: ...

    def digest(self) -> bytes:
        """A digest of all rows, for an answer that is sent whole each time."""

    def text(self, facts: BodyFacts) -> bytes:
        """The body as JSON."""


class EventBody(Body, Protocol):
    """The body of a delivery to the subscription of an assistant."""

    @staticmethod
    def gap(token: bytes, now: int) -> bytes:
        """A message that changes were missed. `token`: the position after them."""


class BodyFacts(NamedTuple):
    """The facts of a body beside the rows. `token`: the position after the delivery."""

    key: str
    query_id: str
    completeness: types_pb2.Completeness
    now: int
    token: bytes
    message_id: str


class Looking:
    """Looks at answers for webhooks. `tokens`, `ids`: of the service's data. Any thread may call it."""

    def __init__(self, tokens: Tokens, ids: Ids) -> None:
        self._tokens = tokens
        self._ids = ids

    def is_outdated(self, token: bytes, tenant: str, newest: int) -> bool:
        """Whether a position belongs to other data, such as the data before a restore.

        `newest`: the sequence of the last event.
        """
        try:
            self._tokens.read(token, tenant, newest)
        except (Again, InvalidInput):
            return True
        return False

    def look(
        self,
        snapshot: Snapshot,
        key: str,
        tenant: str,
        token: bytes,
        now: int,
        budget: ReadBudget,
        event_body: type[EventBody] | None = None,
    ) -> Look:
        """Find the changes of the answer of the query with a key since a position. Raises the errors of an invocation.

        `token`: the position. `now`: the time in microseconds since 1970. `event_body`: the class of the body for a
        subscription of an assistant; None for other webhooks.
        """
        window = _WINDOW if event_body is None else _EVENTS_WINDOW
        record = snapshot.query_with(key, tenant)
        rows = self._rows(snapshot, record, token, now, window)
        holding = None if rows is None else _holding(rows)
        question = Question(now, accept_truncation=True, budget=budget)
        change = changed_rows(snapshot, record, holding, question)
        body, digest = (event_body or _Rows)(change), b""
        if change.holding is None:
            digest = body.digest()
        after = ClientRows(record.query_id, window, **_described(change.holding), digest=digest)
        if change.holding is None:
            tells = moved = rows is None or digest != rows.digest
        else:
            tells = change.whole or bool(body.came or body.left)
            moved = tells or _is_behind(snapshot, record, holding, change.holding, now)
        written = self._tokens.write(after, tenant, snapshot.sequence) if moved else token
        target = _target(snapshot, record)
        if not tells:
            return Look(target, snapshot.sequence, written, None, moved)
        if event_body is not None and (rows is None or (change.whole and change.holding is not None)):
            # The changed rows are not known. An assistant gets a message `gap`, and not the whole answer.
            message_id, text = f"msg_gap_{secrets.token_hex(16)}", event_body.gap(written, now) if token else None
            return Look(target, snapshot.sequence, written, text, True, message_id)
        message_id = f"{'msg' if event_body is None else 'evt'}_{secrets.token_hex(16)}"
        completeness = completeness_message(change.completeness, record.query)
        facts = BodyFacts(key, self._ids.query(record.query_id), completeness, now, written, message_id)
        return Look(target, snapshot.sequence, written, body.text(facts), moved, message_id)

    def _rows(
        self, snapshot: Snapshot, record: QueryRecord, token: bytes, now: int, window: bytes
    ) -> ClientRows | None:
        """The rows that a receiver has. None if it must get the whole answer."""
        try:
            rows = self._tokens.read(token, record.tenant, snapshot.sequence)
        except (Again, InvalidInput):
            return None
        if rows.query_id != record.query_id or rows.window != window:
            return None
        rows, reset = remembered(snapshot, record, rows, sync_pb2.RESET_UNSPECIFIED, now)
        return None if reset else rows


def _holding(rows: ClientRows) -> Holding:
    if rows.box is not None:
        return rows.box
    return HeldRange(rows.intervals, rows.next_id) if rows.earlier is None else rows.earlier


def _described(holding: Holding | None) -> dict[str, Any]:
    """The fields of a token that describe rows."""
    if holding is None:
        return {}
    if isinstance(holding, HeldRange):
        return {"intervals": holding.intervals, "next_id": holding.next_id}
    return {"box": holding} if isinstance(holding, HeldBox) else {"earlier": holding}


def _ends(holding: Holding) -> Sequence[Interval]:
    """The interval of tuple IDs of each source. A range without rows has none."""
    if isinstance(holding, HeldRange):
        return [(holding.intervals[0][0], holding.intervals[-1][1])] if holding.intervals else []
    return holding.target if isinstance(holding, HeldBox) else holding.ranges


def _is_behind(snapshot: Snapshot, record: QueryRecord, before: Holding | None, after: Holding, now: int) -> bool:
    """Whether a position must advance although no row came or left.

    The further a position is behind, the longer the next look takes. Once retention drops its tuples, the next delivery
    is a reset.
    """
    if before is None or type(before) is not type(after) or len(_ends(before)) != len(_ends(after)):
        return True
    views = [snapshot.by_id[side.stream_id] for side in snapshot.sides_of(record)]
    for view, old, new in zip(views, _ends(before), _ends(after), strict=False):
        behind = abs(new[0] - old[0]) + abs(new[1] - old[1])
        if behind > _BEHIND or (new[0] > old[0] and 2 * old[0] < view.first_id + new[0]):
            return True
    next_id = before.next_id if isinstance(before, HeldRange) else None
    return next_id is not None and is_too_old(views[0], next_id, now, _RENEWED)


def _target(snapshot: Snapshot, record: QueryRecord) -> Target:
    streams, slides = tuple(snapshot.streams_of(record)), slides_of(snapshot, record, None)
    return Target(record.query_id, streams, clause_of(snapshot, record, None), slides, _WINDOW)


def read_rows(rows: Rows, digest: Any, take: Callable[[pa.RecordBatch], bool]) -> int:
    """Read rows batch by batch. Returns the number of all rows.

    `digest`: of hashlib, gets the bytes of all rows; None for no digest. `take`: gets batches until it returns False.
    Then reading stops, if the number is known and there is no digest.
    """
    count, wanted = 0, True
    for batch in rows.read:
        if wanted and batch.num_rows:
            wanted = take(batch)
        count += batch.num_rows
        if digest is not None:
            digest.update(batch.serialize())
        elif not wanted and rows.count is not None:
            return rows.count
    return count


class _Listed:
    """Some rows in JSON. `parts`: None if they do not fit into `room` bytes. `count`: their number.

    `hashed`: whether to compute a digest of all rows.
    """

    def __init__(self, rows: Rows, room: int, *, hashed: bool = False) -> None:
        self.parts: list[bytes] | None = []
        self.size = 0
        self.digest = hashlib.blake2b(digest_size=16)
        self._room = room
        self.count = read_rows(rows, self.digest if hashed else None, self._take)

    def _take(self, batch: pa.RecordBatch) -> bool:
        assert self.parts is not None, "no batch comes after the first one that does not fit"
        self.parts.append(rows_json(batch)[1:-1])
        self.size += len(self.parts[-1]) + 1
        if self.size > self._room:
            self.parts = None
        return self.parts is not None

    def json(self) -> orjson.Fragment:
        """The rows as an array."""
        return orjson.Fragment(b"[%b]" % b",".join(self.parts or ()))


class _Rows:
    """A body with all rows that came and left, if they fit."""

    def __init__(self, change: ChangedRows) -> None:
        self._whole = change.whole
        self._came = _Listed(change.came, MOST_BYTES, hashed=change.holding is None)
        self._left = _Listed(change.left, MOST_BYTES - self._came.size if self._came.parts is not None else 0)
        self.came, self.left = self._came.count, self._left.count

    def digest(self) -> bytes:
        """A digest of all rows, for an answer that is sent whole each time."""
        return self._came.digest.digest()

    def text(self, facts: BodyFacts) -> bytes:
        """The body as JSON."""
        data = {
            "key": facts.key,
            "query_id": facts.query_id,
            "sequence": facts.completeness.sequence,
            "reset": self._whole,
            "came_count": self.came,
            "left_count": self.left,
            "completeness": plain_fields(facts.completeness),
        }
        if self._came.parts is not None and self._left.parts is not None:
            body = _written(facts.now, {**data, "came": self._came.json(), "left": self._left.json()})
            if len(body) <= MOST_BYTES:
                return body
        return _written(facts.now, {**data, "counts_only": True})


def _written(now: int, data: Mapping[str, Any]) -> bytes:
    return orjson.dumps({"type": "answer.changed", "timestamp": instant_text(now), "data": data})
