"""The tables `log` and `slices`. Slices have the large parts of events, so that each row and statement is short.

    log     4711  push     … tuples: 1 MiB, then NULL once they are stored
    slices  4711  0        the next 1 MiB
            4711  1        the rest
    log     4712  queries  … tuples: NULL
    slices  4712  0        the block
    gone    4712           which of its queries are gone, once some are (`departures`)
    log     4713  push     … tuples: nothing here; spool: -8
    slices    -8  0        1 MiB, written before the event had a sequence (`spool`)

SQLite takes values of at most a billion bytes, and copies each several times. A row is written in one transaction, and
its body has one checksum over all slices: a missing slice means a damaged event. When a row of the log is deleted, a
trigger deletes its slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apsw

from psoup.events.events import Event
from psoup_storage.durable.log.rows import LogRow

SLICE_BYTES = 1024 * 1024
"""The most bytes of an event's tuples in one row. SQLite's copies of such a piece stay in the processor's cache: 8 MiB
in eight slices take two thirds of the time of one piece.
"""

FIELDS = LogRow._fields[:-1]
"""The columns of the table `log`."""
_INSERT = f"INSERT INTO log ({', '.join(FIELDS)}) VALUES ({', '.join('?' * len(FIELDS))})"
NEW_SLICE = "INSERT INTO slices (sequence, number, content) VALUES (?, ?, ?)"
_ROWS = "SELECT {fields}, {beside} FROM log ORDER BY sequence"
_BESIDE = """
(SELECT queries FROM gone WHERE gone.sequence = log.sequence),
(SELECT count(*) FROM slices WHERE slices.sequence = {key})
"""
_CONTENT = "SELECT content FROM slices WHERE sequence = ? ORDER BY number"

Query = Callable[[str, Sequence[Any]], Iterable[tuple[Any, ...]]]
"""Runs a SELECT with values."""


def disorder(events: Iterable[Event], last: int) -> str:
    """Check that the sequences of events ascend from the event `last` on. Returns the fault, or ""."""
    for event in events:
        if event.sequence <= last:
            return f"event {event.sequence} came after event {last}"
        last = event.sequence
    return ""


def write(connection: apsw.Connection, rows: Iterable[LogRow]) -> None:
    """Insert rows, inside a transaction. O(bytes)."""
    for row in rows:
        tuples = row.tuples
        if tuples is None or (row.kind == "push" and len(tuples) <= SLICE_BYTES):
            connection.execute(_INSERT, row[:-1])
            continue
        content = memoryview(tuples)
        first = SLICE_BYTES if row.kind == "push" else 0
        connection.execute(_INSERT, row._replace(tuples=content[:first] if first else None)[:-1])
        places = range(first, len(content), SLICE_BYTES)
        slices = ((row.sequence, n, content[at : at + SLICE_BYTES]) for n, at in enumerate(places))
        connection.executemany(NEW_SLICE, slices)


def read(
    query: Query,
    *,
    sliced: bool = True,
    spooled: bool = True,
    unneeded: Callable[[LogRow], bool] = lambda row: False,
) -> Iterator[LogRow]:
    """All rows in order, each with its slices, unless its content is `unneeded`.

    `sliced`, `spooled`: whether the directory's format has slices, and whether it has spools.
    """
    fields = [name if spooled or name != "spool" else "NULL" for name in FIELDS]
    beside = _BESIDE.format(key="ifnull(spool, log.sequence)" if spooled else "log.sequence") if sliced else "NULL, 0"
    for *values, count in query(_ROWS.format(fields=", ".join(fields), beside=beside), ()):
        row = LogRow(*values)
        if count and not unneeded(row):
            parts = [content for (content,) in query(_CONTENT, (row.spool or row.sequence,))]
            row = row._replace(tuples=b"".join([row.tuples, *parts] if row.tuples is not None else parts))
        yield row
