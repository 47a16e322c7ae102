"""Tokens of copies: the rows of an answer that a client holds, as signed bytes that only the service reads.

    format | key | incarnation | life | sequence | query | window | kind | what is held | signature
       1      1        4           8        8         8        4      1                       16 bytes

The held content has one of five forms. It is intervals of tuple IDs, or the box of a join (`held_boxes`). Of a table,
the next tuple ID comes before the intervals. Or it is the first rows of a recomputed answer: its NOW, their number, a
digest, and the interval of each source. Or it is the digest of an answer that shows NOW.

A token grants no rights; those come from the call. The signature reveals damaged and forged tokens. A client whose
token is outdated gets its copy from the start again (`Reset`), so that no repair is needed.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Sequence
from typing import NamedTuple

from psoup.answer.copies.answer_again import Earlier
from psoup.answer.copies.id_intervals import Interval, Intervals, check
from psoup.answer.copies.join_since import HeldBox
from psoup.answer.copies.rows_since import MOST_INTERVALS
from psoup.errors import Corrupt, InvalidInput
from psoup_proto.v1 import sync_pb2
from psoup_service.host.ids import Ids
from psoup_service.host.standby_host import behind
from psoup_service.sync.held_boxes import MOST_BOX_BYTES, from_bytes, to_bytes
from psoup_service.sync.keys import Keys, StoredKeys
from psoup_service.sync.lives import LIFE_BYTES, Lives
from psoup_storage.contract import Store

_FORMAT = 1
_HEAD = struct.Struct(f"<BB4s{LIFE_BYTES}sqq4sB")
_INTERVAL = struct.Struct("<qq")
_EARLIER = struct.Struct("<qq16s?")
_NEXT = struct.Struct("<q")
_RANGED, _WHOLE, _AGAIN, _JOINED, _VERSIONS = range(5)
_DIGEST = _SIGNATURE = 16
MOST_BYTES = _HEAD.size + max(_NEXT.size + MOST_INTERVALS * _INTERVAL.size, MOST_BOX_BYTES) + _SIGNATURE
_NO_TIME = -(2**63)
"""Stands for NOW in a token while a stream has seen no time."""


class ClientRows(NamedTuple):
    """The rows of a query's answer that a client holds.

    They are the rows of some `intervals`, or of a join (`box`), or the first rows of an `earlier` answer. Or only the
    `digest` of a whole answer is known. `window`: a digest of the requested window. `next_id`: of a table, the next
    tuple ID when the client got the rows of `intervals`.
    """

    query_id: int
    window: bytes
    intervals: Intervals = ()
    digest: bytes = b""
    box: HeldBox | None = None
    earlier: Earlier | None = None
    next_id: int | None = None


def query_in(token: bytes) -> int | None:
    """The query ID in a token whose signature is not verified yet; None if the token is too short."""
    return int(_HEAD.unpack_from(token)[5]) if len(token) >= _HEAD.size else None


def query_id_in(token: bytes) -> str:
    """The query's ID on the wire, from a token; "" if the token is too short. Its signature is not verified."""
    if len(token) < _HEAD.size:
        return ""
    fields = _HEAD.unpack_from(token)
    return Ids(fields[2].hex()).query(fields[5])


class Again(Exception):
    """The error for an outdated token: the client gets its copy from the start.

    `reset`: the reason. `query_id`: if known.
    """

    def __init__(self, reset: sync_pb2.Reset.ValueType, query_id: int | None = None) -> None:
        super().__init__(sync_pb2.Reset.Name(reset))
        self.reset = reset
        self.query_id = query_id


class Tokens:
    """Writes and reads the tokens for the data of one store. Any thread may call it."""

    def __init__(self, store: Store, incarnation: str) -> None:
        """Make the key, if there is none yet, and begin a life. Blocks for the disk."""
        self.incarnation = bytes.fromhex(incarnation)
        self.lives = Lives(store)
        self._keys = StoredKeys(store)

    def begin_life(self) -> None:
        """Begin a life after the last event, as a standby is promoted. Blocks for the disk."""
        self.lives.begin()
        self._keys.begin()

    @property
    def keys(self) -> Keys:
        """The keys whose tokens are valid, by their numbers."""
        return self._keys.all

    def write(self, content: ClientRows, tenant: str, sequence: int) -> bytes:
        """Write the token for a client of `tenant`, as of the event `sequence`."""
        kind = _WHOLE if content.digest else _RANGED if content.next_id is None else _VERSIONS
        if content.box is not None or content.earlier is not None:
            kind = _AGAIN if content.box is None else _JOINED
        number, key = next(iter(self.keys.items()))
        body = _HEAD.pack(
            _FORMAT,
            number,
            self.incarnation,
            self.lives.present,
            sequence,
            content.query_id,
            content.window,
            kind,
        )
        intervals: Sequence[Interval] = content.intervals
        if (earlier := content.earlier) is not None:
            now = _NO_TIME if earlier.now is None else earlier.now
            body, intervals = body + _EARLIER.pack(now, earlier.rows, earlier.digest, earlier.whole), earlier.ranges
        body += b"" if content.next_id is None else _NEXT.pack(content.next_id)
        body += content.digest + b"".join(_INTERVAL.pack(*interval) for interval in intervals)
        body += b"" if content.box is None else to_bytes(content.box)
        return body + _signature(key, tenant, body)

    def read(self, token: bytes, tenant: str, newest: int) -> ClientRows:
        """Read the content of a token. `newest`: the last event so far.

        Raises Again for an outdated token. Raises InvalidInput, reason TOKEN_INVALID, for a damaged or forged one. A
        standby raises Unavailable, reason STANDBY_BEHIND, for a later event.
        """
        if not token:
            raise Again(sync_pb2.RESET_FIRST)
        if token[0] != _FORMAT:
            raise Again(sync_pb2.RESET_FORMAT)
        if not _HEAD.size + _SIGNATURE <= len(token) <= MOST_BYTES:
            raise _damaged()
        body, signature = token[:-_SIGNATURE], token[-_SIGNATURE:]
        _, number, incarnation, life, sequence, query_id, window, kind = _HEAD.unpack_from(body)
        if incarnation != self.incarnation:
            raise Again(sync_pb2.RESET_INCARNATION)
        if self.lives.may_come(life, sequence, newest):
            raise behind(newest, sequence)
        if not self.lives.knows(life):  # the number of its key may belong to another key now
            raise Again(sync_pb2.RESET_ROLLED_BACK, query_id)
        key = self.keys.get(number)
        if key is None:
            raise Again(sync_pb2.RESET_KEY, query_id)
        if not hmac.compare_digest(signature, _signature(key, tenant, body)):
            raise _damaged()
        if not self.lives.has(life, sequence, newest):
            raise Again(sync_pb2.RESET_ROLLED_BACK, query_id)
        try:
            return _held(query_id, window, kind, body[_HEAD.size :])
        except (struct.error, ValueError, StopIteration, Corrupt):
            raise _damaged() from None


def _held(query_id: int, window: bytes, kind: int, rest: bytes) -> ClientRows:
    """The content of a token of a kind. Raises ValueError and the like for a token that no service has written."""
    if kind == _WHOLE:
        return ClientRows(query_id, window, digest=rest)
    if kind == _JOINED:
        return ClientRows(query_id, window, box=from_bytes(rest))
    if kind == _AGAIN:
        at, *of_rows = _EARLIER.unpack_from(rest)
        ranges = tuple(_INTERVAL.iter_unpack(rest[_EARLIER.size :]))
        return ClientRows(query_id, window, earlier=Earlier(ranges, None if at == _NO_TIME else at, *of_rows))
    next_id = None
    if kind == _VERSIONS:
        (next_id,), rest = _NEXT.unpack_from(rest), rest[_NEXT.size :]
    if kind not in (_RANGED, _VERSIONS) or len(rest) > MOST_INTERVALS * _INTERVAL.size:
        raise ValueError
    intervals = tuple(_INTERVAL.iter_unpack(rest))
    check(intervals)
    return ClientRows(query_id, window, intervals, next_id=next_id)


def digest(content: bytes) -> bytes:
    """A digest of an answer."""
    return hashlib.blake2b(content, digest_size=_DIGEST).digest()


def digest_of_window(window: str, accept_truncation: bool) -> bytes:
    """A digest of the requested window and truncation; all zeros without either."""
    if not window and not accept_truncation:
        return bytes(4)
    return hashlib.blake2b(f"{int(accept_truncation)}{window}".encode(), digest_size=4).digest()


def _signature(key: bytes, tenant: str, body: bytes) -> bytes:
    named = b"psoup sync token\0" + tenant.encode() + b"\0" + body
    return hmac.digest(key, named, "sha256")[:_SIGNATURE]


def _damaged() -> InvalidInput:
    return InvalidInput(
        "the token is not one that this service gave: it was damaged; leave it out to begin anew",
        reason="TOKEN_INVALID",
        field="token",
    )
