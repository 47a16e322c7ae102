"""The messages of pgoutput, PostgreSQL's plugin for logical replication, in version 1 of its protocol.

    bytes ──decode──> Begin, RelationMessage, Insert, Update, Delete, Truncate, Commit

PostgreSQL's manual has the layouts, under "Logical Replication Message Formats". Values are in text form. The
module knows no types of values and keeps no state.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import NamedTuple

from psoup_client.errors import ServerFault


class UnchangedValue(Enum):
    """The mark of a large value (TOAST) that an update leaves out, as it has not changed."""

    VALUE = "unchanged"


UNCHANGED = UnchangedValue.VALUE
_CELL = struct.Struct(">Bi").unpack_from
_PADDING = b"\0\0\0\0"
"""Bytes behind a message, so that the last value has room for a length that it lacks."""
Cell = bytes | None | UnchangedValue
"""A value in text form, NULL, or the mark of an unchanged value."""


class Begin(NamedTuple):
    """The begin of a transaction. `time`: of its commit, in microseconds since 2000."""

    lsn: int
    time: int


class Commit(NamedTuple):
    """The end of a transaction. `end`: the LSN behind it."""

    lsn: int
    end: int


class SourceColumn(NamedTuple):
    """A column of a table of PostgreSQL. `modifier`: for example the digits of a NUMERIC, -1 without one."""

    name: str
    type_id: int
    modifier: int


class RelationMessage(NamedTuple):
    """The description of a table, before its first change and after its definition has changed.

    `identity`: REPLICA IDENTITY as in pg_class: "d", "n", "f" or "i".
    """

    relation: int
    schema: str
    name: str
    identity: str
    columns: tuple[SourceColumn, ...]


class Insert(NamedTuple):
    """A new row."""

    relation: int
    row: list[Cell]


class Update(NamedTuple):
    """A changed row. `before`: the row before, or only its key; None if the key has not changed.

    `partial`: whether `row` has unchanged values. `whole`: whether `before` has all values.
    """

    relation: int
    before: list[Cell] | None
    whole: bool
    row: list[Cell]
    partial: bool


class Delete(NamedTuple):
    """A row that is gone: its key, or all of its values."""

    relation: int
    before: list[Cell]


class Truncate(NamedTuple):
    """Tables that lost all rows."""

    relations: tuple[int, ...]


CHANGES = frozenset(b"IUD")
"""The first bytes of messages about a row."""
Message = Begin | Commit | RelationMessage | Insert | Update | Delete | Truncate


def decode(payload: bytes) -> Message | None:
    """Decode a message. Returns None for a kind without changes. Raises ServerFault for an unknown one. O(bytes)."""
    match payload[:1]:
        case b"I":
            return Insert(_number(payload, 1), _row(payload, 6)[0])
        case b"U":
            return _update(payload)
        case b"D":
            return Delete(_number(payload, 1), _row(payload, 6)[0])
        case b"B":
            return Begin(_number(payload, 1, 8), _number(payload, 9, 8))
        case b"C":
            return Commit(_number(payload, 2, 8), _number(payload, 10, 8))
        case b"R":
            return _relation(payload)
        case b"T":
            count = _number(payload, 1)
            return Truncate(tuple(_number(payload, 6 + 4 * place) for place in range(count)))
        case b"O" | b"Y" | b"M":
            return None
    raise ServerFault(f"PostgreSQL sent a message of kind {payload[:1]!r}, which version 1 of pgoutput does not have")


def _number(payload: bytes, at: int, size: int = 4) -> int:
    return int.from_bytes(payload[at : at + size], "big")


def _row(payload: bytes, at: int) -> tuple[list[Cell], int, bool]:
    """Read the values of a row. Returns them, the place behind them, and whether some are unchanged. O(columns)."""
    count = payload[at] << 8 | payload[at + 1]
    at += 2
    row, partial, padded = list[Cell](), False, payload + _PADDING
    for _ in range(count):
        kind, size = _CELL(padded, at)
        if kind == 116:  # t, text
            at += 5
            row.append(payload[at : at + size])
            at += size
            continue
        at += 1
        if kind == 110:  # n, NULL
            row.append(None)
        else:  # u, unchanged
            row.append(UNCHANGED)
            partial = True
    return row, at, partial


def _update(payload: bytes) -> Update:
    before, at = None, 5
    mark = payload[at : at + 1]
    if mark in (b"K", b"O"):
        before, at, _ = _row(payload, at + 1)
    row, _, partial = _row(payload, at + 1)
    return Update(_number(payload, 1), before, mark == b"O", row, partial)


def _relation(payload: bytes) -> RelationMessage:
    schema, at = _text(payload, 5)
    name, at = _text(payload, at)
    identity, count = chr(payload[at]), _number(payload, at + 1, 2)
    at += 3
    columns = list[SourceColumn]()
    for _ in range(count):
        column, at = _text(payload, at + 1)
        columns.append(SourceColumn(column, _number(payload, at), _signed(payload, at + 4)))
        at += 8
    return RelationMessage(_number(payload, 1), schema, name, identity, tuple(columns))


def _signed(payload: bytes, at: int) -> int:
    return int.from_bytes(payload[at : at + 4], "big", signed=True)


def _text(payload: bytes, at: int) -> tuple[str, int]:
    """Read a text that ends with a zero byte. Returns it and the place behind it."""
    end = payload.index(b"\0", at)
    return payload[at:end].decode(), end + 1
