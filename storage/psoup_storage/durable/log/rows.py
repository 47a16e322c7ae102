"""A row of the table `log`: its columns, its checksum, and the error for a damaged row.

`codec` describes the content of each kind of event.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from psoup.errors import Internal

INT64 = np.dtype("<i8")
"""Integers of the column `refused`."""
StreamKind = Literal["stream", "alter", "drop", "push", "attach", "watermark", "watermarks", "group", "ungroup"]
QueryKind = Literal["query", "queries", "replaced", "unregister", "departure", "altered"]
ListKind = Literal["token", "revoke", "tenant", "vacate", "webhook", "unhook"]
Kind = StreamKind | QueryKind | ListKind
"""The kinds of events in the log: `encode` knows each event, `Decoder` each kind, or the type checker fails."""
OF_ALL_STREAMS = -1
"""The stream ID in rows of the kind `watermarks`. The index by stream finds them by it."""

KINDS: frozenset[str] = frozenset(name for part in get_args(Kind) for name in get_args(part))


class LogRow(NamedTuple):
    """A row of the table `log`; see `codec`. `stream` is 0 for an event that names a query only, or has several.

    `spool`: the key of its slices if they were written before it; otherwise the sequence is their key. `gone`: the
    bitmap of the block's gone queries, from the table `gone`; None if it was not read (`blocks.write_gone`).
    """

    sequence: int
    kind: Kind
    stream: int
    body: str
    refused: bytes | None
    tuples: bytes | memoryview | None
    last_time: int | None
    checksum: int
    spool: int | None = None
    gone: bytes | None = None


def new_row(
    sequence: int,
    kind: Kind,
    stream: int,
    refused: bytes | None = None,
    tuples: bytes | memoryview | None = None,
    last_time: int | None = None,
    /,
    **facts: Any,
) -> LogRow:
    """The row of an event; `facts` are its body. O(bytes)."""
    body = json.dumps(facts, separators=(",", ":"))
    row = LogRow(sequence, kind, stream, body, refused, tuples, last_time, 0)
    return row._replace(checksum=checksum_of(row))


def checksum_of(row: LogRow) -> int:
    """The checksum of all of a row but its tuples."""
    head = f"{row.sequence} {row.kind} {row.stream} {row.last_time} {row.body}".encode()
    return zlib.crc32(row.refused or b"", zlib.crc32(head))


def checked_tuples(row: LogRow, facts: dict[str, Any]) -> bytes | memoryview:
    """The tuples of a row; raises Internal if they are missing or damaged."""
    if row.tuples is None:
        raise damaged(row.sequence, "its tuples are missing")
    if zlib.crc32(row.tuples) != facts["crc"]:
        raise damaged(row.sequence, "the checksum of its tuples is wrong")
    return row.tuples


def damaged(sequence: int, why: str) -> Internal:
    """The error for a damaged event of the log."""
    return Internal(
        f"event {sequence} of the log is damaged: {why}; nothing was changed."
        " psoup doctor says what is lost, psoup restore brings a backup back,"
        " psoup doctor --set-aside goes on without it",
        reason="DATA_DAMAGED",
        sequence=sequence,
    )
