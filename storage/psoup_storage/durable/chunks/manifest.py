"""The statements that add chunks to the manifest: the tables `chunks` and `stored` of the database."""

from __future__ import annotations

import apsw

from psoup.events.events import Attached
from psoup_storage.durable.chunks.attachments import Adopted, placed
from psoup_storage.durable.chunks.folder import ChunkRow
from psoup_storage.durable.log.log import Query

_NEW_CHUNK = f"INSERT INTO chunks ({', '.join(ChunkRow._fields)}) VALUES ({', '.join('?' * len(ChunkRow._fields))})"
_FIRST = "INSERT OR IGNORE INTO stored (stream, first_time) VALUES (?, ?)"
_EARLIER = """
INSERT INTO stored (stream, first_time) VALUES (?, ?) ON CONFLICT DO UPDATE SET first_time = excluded.first_time
"""


def oldest_chunk(query: Query, stream: int) -> int | None:
    """The number of the oldest chunk of a stream; None if it has none. O(1)."""
    (number,) = next(iter(query("SELECT min(number) FROM chunks WHERE stream = ?", (stream,))))
    return None if number is None else int(number)


def add_row(connection: apsw.Connection, row: ChunkRow, first_time: int) -> None:
    """Add the row of a chunk of the log. `first_time`: the time of its first tuple."""
    connection.execute(_NEW_CHUNK, row)
    connection.execute(_FIRST, (row.stream, first_time))


def add_rows(connection: apsw.Connection, event: Attached, adopted: Adopted) -> None:
    """Add the rows of the chunks that a job's event attaches."""
    first_time = _EARLIER if event.batch is None else _FIRST
    connection.execute(first_time, (event.stream_id, event.extent.first_time))
    connection.executemany(_NEW_CHUNK, placed(event, adopted))
