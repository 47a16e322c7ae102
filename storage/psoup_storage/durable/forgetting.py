"""What the log may forget, in SQL: a replay of what is left leads to the same state.

    a push whose tuples are all stored     its tuples, at once; its row too, unless the row is still needed for
                                           the producer's last acknowledgements or the stream's watermark
    a heartbeat                            once a later row has the stream's watermark
    a stream that was dropped              its pushes, chunks and heartbeats at once, the rest at the next start
    a query that was unregistered          at the next start, unless its request ID must be remembered

To raise a watermark later than it was is harmless (tuples are released in stream order either way), and never is one
raised earlier. The last row always stays, and so do the newest stream and query: from them the next IDs are counted.
Refusals of forgotten rows are added up in the table `stored`.
"""

from __future__ import annotations

import apsw

from psoup_storage.durable.chunks import ChunkRow

KEPT_ACKNOWLEDGEMENTS = 1_024
"""Rows kept for each producer: as many as admission remembers acknowledgements."""
PRODUCER_IDLE = 7 * 86_400 * 1_000_000
"""Microseconds after which a producer's rows are forgotten, as admission forgets the producer."""

_CANDIDATES = """
CREATE TEMP TABLE gone AS
SELECT sequence, late, ahead FROM (
    SELECT sequence, kind, last_time, tuples IS NULL AS empty, body ->> 'producer' AS producer,
        ifnull(body ->> 'late', 0) AS late, ifnull(length(refused), 0) / 8 - ifnull(body ->> 'late', 0) AS ahead,
        row_number() OVER (PARTITION BY kind, body ->> 'producer' ORDER BY sequence DESC) AS age,
        max(body ->> 'time') OVER (PARTITION BY kind, body ->> 'producer') AS active,
        max(body ->> 'time') OVER () AS now
    FROM log WHERE stream = :stream AND kind IN ('push', 'watermark')
) WHERE empty
    AND (kind = 'watermark' OR producer = '' OR age > :kept OR active < now - :idle)
    AND sequence < (SELECT max(sequence) FROM log WHERE stream = :stream AND kind IN ('push', 'watermark'))
"""

_DEAD_QUERIES = """
DELETE FROM log WHERE kind IN ('query', 'unregister')
    AND body ->> 'query' < (SELECT max(body ->> 'query') FROM log WHERE kind = 'query')
    AND body ->> 'query' IN (SELECT body ->> 'query' FROM log WHERE kind = 'query' AND body ->> 'request' = '')
    AND body ->> 'query' IN (SELECT body ->> 'query' FROM log WHERE kind = 'unregister'
        AND sequence < (SELECT max(sequence) FROM log))
"""

_DEAD_STREAMS = """
DELETE FROM log WHERE kind IN ('stream', 'drop')
    AND stream IN (SELECT stream FROM log WHERE kind = 'drop' AND sequence < (SELECT max(sequence) FROM log))
    AND stream NOT IN (SELECT stream FROM log WHERE kind = 'query')
    AND stream NOT IN (SELECT value FROM log, json_each(body, '$.streams') WHERE kind = 'queries')
    AND stream < (SELECT max(stream) FROM log WHERE kind = 'stream')
"""


def forget_stored(connection: apsw.Connection, row: ChunkRow) -> None:
    """The stored part of a stream reaches to the end of the chunk `row`. O(rows of the stream in the log)."""
    connection.execute(
        "UPDATE log SET tuples = NULL WHERE stream = ? AND last_time < ? AND tuples IS NOT NULL",
        (row.stream, row.last_time),
    )
    facts = {"stream": row.stream, "kept": KEPT_ACKNOWLEDGEMENTS, "idle": PRODUCER_IDLE}
    connection.execute(_CANDIDATES, facts)
    connection.execute(
        "UPDATE stored SET late = late + (SELECT ifnull(sum(late), 0) FROM gone),"
        " ahead = ahead + (SELECT ifnull(sum(ahead), 0) FROM gone) WHERE stream = ?",
        (row.stream,),
    )
    connection.execute("DELETE FROM log WHERE sequence IN (SELECT sequence FROM gone)")
    connection.execute("DROP TABLE gone")


def forget_chunks(connection: apsw.Connection, stream: int, oldest: int) -> list[str]:
    """Chunks with a number below `oldest` have expired; returns their files."""
    wanted = "SELECT file, last_time FROM chunks WHERE stream = ? AND number < ? ORDER BY number"
    rows = list(connection.execute(wanted, (stream, oldest)))
    if not rows:
        return []
    connection.execute("DELETE FROM chunks WHERE stream = ? AND number < ?", (stream, oldest))
    connection.execute("UPDATE stored SET dropped_time = ? WHERE stream = ?", (rows[-1][1], stream))
    return [file for file, _ in rows]


def forget_stream(connection: apsw.Connection, stream: int) -> list[str]:
    """The stream was dropped; returns the files of its chunks."""
    files = [file for (file,) in connection.execute("SELECT file FROM chunks WHERE stream = ?", (stream,))]
    connection.execute("DELETE FROM log WHERE stream = ? AND kind IN ('push', 'watermark')", (stream,))
    connection.execute("DELETE FROM chunks WHERE stream = ?", (stream,))
    connection.execute("DELETE FROM stored WHERE stream = ?", (stream,))
    return files


def forget_the_dead(connection: apsw.Connection) -> None:
    """Streams and queries that are gone, as far as nothing refers to them any more. O(log)."""
    connection.execute(_DEAD_QUERIES)
    connection.execute(_DEAD_STREAMS)
