"""The rows that the log may forget, in SQL: a replay of the rest leads to the same state.

    a push whose tuples are all stored     its tuples, at once; its row too, unless the row is still needed for
                                           the producer's last acknowledgements or the stream's watermark, or is the
                                           last row to say up to where producers were forgotten
    a heartbeat                            once a later row has the stream's watermark
    a batch that was attached              once a later one of its job is
    a stream that was dropped              its pushes, chunks, heartbeats and groups at once, other rows in slices
    a query that was unregistered          in slices, while the service runs: see `departures`

A watermark may rise later in a replay, which is harmless (tuples are released in stream order either way), and never
earlier. The last row always stays, and so do the newest stream and registration: the next IDs are counted from
them. Refusals of forgotten rows are added up in the table `stored`.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import apsw

from psoup.events.events import Attached
from psoup.model import Retention
from psoup.retry_memory import KEY_FORM, Remembered
from psoup_storage.durable.log.groups import forget_groups
from psoup_storage.durable.log.spool import forget_spooled

SLICE_BYTES = 2 * 1024 * 1024
"""The approximate limit on the bytes of tuples in a slice, because acknowledgements wait for it. Spooled tuples do not
count, because their row only loses the key of their spool.
"""
SLICE_ROWS = 1_024
"""The most rows that one slice forgets."""

_REFUSALS = "ifnull(body ->> 'late', 0) AS late, ifnull(length(refused), 0) / 8 - ifnull(body ->> 'late', 0) AS ahead"
_NEWEST = "(SELECT max(sequence) FROM log WHERE stream = :stream AND kind IN ('push', 'watermark'))"

_SLICE = f"""
SELECT sequence, last_time, body ->> 'producer' = '' AND sequence < {_NEWEST}, {_REFUSALS}, spool,
    length(tuples) + (SELECT ifnull(sum(length(content)), 0) FROM slices WHERE slices.sequence = log.sequence) FROM log
WHERE stream = :stream AND last_time >= :start AND last_time < :time AND length(tuples) IS NOT NULL
ORDER BY last_time
"""

_AGED = f"""
WITH facts AS MATERIALIZED (
    SELECT sequence, kind, body ->> 'producer' AS producer, length(tuples) IS NULL AS stored, {_REFUSALS},
        body ->> 'time' AS time, ifnull(body ->> 'forgotten', 0) AS forgotten
    FROM log WHERE stream = :stream AND kind IN ('push', 'watermark')
)
SELECT sequence, late, ahead FROM (
    SELECT *, row_number() OVER (PARTITION BY kind, producer ORDER BY sequence DESC) AS age,
        max(time) OVER (PARTITION BY kind, producer) AS active,
        max(time) OVER () AS now,
        max(sequence) OVER (PARTITION BY kind, producer) AS latest,
        max(forgotten) OVER () AS horizon
    FROM facts
) WHERE stored AND sequence < {_NEWEST} AND (kind = 'watermark' OR producer = ''
    OR CASE WHEN producer GLOB :key THEN active < now - :key_idle ELSE active < now - :idle
        OR (age > :kept OR latest <= horizon) AND (forgotten < horizon OR NOT horizon) END)
"""
"""Selects aged rows, from facts without tuples: a window function over rows of the log would sort their tuples, too.

With eight pushes of 8 MiB that took 0.37 s, and acknowledgements waited. The test `tuples IS NULL` would read the
tuples; the test of their length does not.
"""

_DEAD_QUERIES = """
DELETE FROM log WHERE kind IN ('query', 'unregister')
    AND body ->> 'query' IN (SELECT body ->> 'query' FROM log WHERE kind = 'query'
        AND sequence < (SELECT max(sequence) FROM log WHERE kind IN ('query', 'queries'))
        AND body ->> 'replaced' IS NULL)
    AND body ->> 'query' IN (SELECT body ->> 'query' FROM log WHERE kind = 'unregister'
        AND sequence < (SELECT max(sequence) FROM log))
"""


def forget_stored(
    connection: apsw.Connection, stream: int, stored_until: int, start: int = -(2**63)
) -> tuple[int | None, int, list[int]]:
    """Forget a slice of the tuples from time `start` to before `stored_until`, the last time of the stored chunks.

    Returns the start of the next slice (None if that was all), the number of rows, and the keys of unnamed spools.
    """
    rows, following = _slice_of(connection, {"stream": stream, "time": stored_until, "start": start})
    spools = [key for row in rows if row[5] is not None for key in forget_spooled(connection, "sequence = ?", row[0])]
    gone = [row for row in rows if row[2]]
    connection.executemany("DELETE FROM log WHERE sequence = ?", [row[:1] for row in gone])
    connection.executemany("UPDATE log SET tuples = NULL WHERE sequence = ?", [row[:1] for row in rows if not row[2]])
    _add_refusals(connection, stream, sum(row[3] for row in gone), sum(row[4] for row in gone))
    return following, len(rows), spools


def _slice_of(connection: apsw.Connection, facts: dict[str, int]) -> tuple[list[tuple[Any, ...]], int | None]:
    """The rows of one slice, and the time of the next row; None if there is no next row. A slice is empty only if no
    row is left.
    """
    rows, size = list[tuple[Any, ...]](), 0
    with closing(connection.cursor()) as cursor:
        for row in cursor.execute(_SLICE, facts):
            size += row[-1]
            if rows and (size > SLICE_BYTES or len(rows) == SLICE_ROWS):
                return rows, int(row[1])
            rows.append(row)
    return rows, None


def forget_aged(connection: apsw.Connection, stream: int, remembered: Remembered) -> None:
    """Forget rows without tuples that neither a remembered producer nor the watermark needs.

    O(rows of the stream), because each is read. So it is not called after every chunk.
    """
    facts: dict[str, int | str] = {"stream": stream, "kept": remembered.acknowledgements, "idle": remembered.idle}
    facts |= {"key": KEY_FORM, "key_idle": remembered.key_idle}
    gone = list(connection.execute(_AGED, facts))
    connection.executemany("DELETE FROM log WHERE sequence = ?", [row[:1] for row in gone])
    _add_refusals(connection, stream, sum(row[1] for row in gone), sum(row[2] for row in gone))


def _add_refusals(connection: apsw.Connection, stream: int, late: int, ahead: int) -> None:
    values = (late, ahead, stream)
    connection.execute("UPDATE stored SET late = late + ?, ahead = ahead + ? WHERE stream = ?", values)


def forget_chunks(connection: apsw.Connection, stream: int, oldest: int) -> list[str]:
    """Forget the expired chunks, whose numbers are below `oldest`; returns the files that they have."""
    wanted = "SELECT file, last_time FROM chunks WHERE stream = ? AND number < ? ORDER BY number"
    rows = list(connection.execute(wanted, (stream, oldest)))
    if not rows:
        return []
    connection.execute("DELETE FROM chunks WHERE stream = ? AND number < ?", (stream, oldest))
    connection.execute("UPDATE stored SET dropped_time = ? WHERE stream = ?", (rows[-1][1], stream))
    return [file for file, _ in rows if file]


_OUTLIVED = """
WITH newer AS (
    SELECT number, last_time, ifnull(sum(rows) OVER (
        ORDER BY number DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS rows
    FROM chunks WHERE stream = :stream
)
SELECT min(number) FROM newer
WHERE number >= :first OR last_time >= :time AND rows < :rows OR last_time >= :pin
"""
_EARLIER = """
DELETE FROM log WHERE stream = :stream AND last_time IS NULL AND kind = 'attach' AND sequence < :sequence
    AND body ->> 'job' = :job AND body ->> 'batch' IS NOT NULL
"""


def forget_outlived(connection: apsw.Connection, event: Attached, retention: Retention) -> list[str]:
    """Forget the chunks that an attached batch makes older than the retention, and the events of batches before it.

    The chunks of the batch stay, because later IDs follow theirs. So do chunks that derived streams need. Returns the
    files of the forgotten chunks.
    """
    last = event.chunks[-1]
    facts = {"stream": event.stream_id, "first": event.chunks[0].number, "job": event.job, "sequence": event.sequence}
    facts["time"] = -(2**63) if retention.duration is None else last.last_time - retention.duration
    facts["pin"] = 2**63 - 1 if event.pin is None else event.pin
    facts["rows"] = 2**62 if retention.rows is None else retention.rows
    connection.execute(_EARLIER, facts)
    return forget_chunks(connection, event.stream_id, connection.execute(_OUTLIVED, facts).get)


def forget_stream(connection: apsw.Connection, stream: int) -> tuple[list[str], list[int]]:
    """Forget the pushes, chunks, heartbeats and groups of a dropped stream. Returns the files of its chunks, and the
    keys of spools that no row names any more.
    """
    wanted = "SELECT file FROM chunks WHERE stream = ? AND file <> ''"
    files = [file for (file,) in connection.execute(wanted, (stream,))]
    spools = forget_spooled(connection, "stream = ?", stream)
    connection.execute("DELETE FROM log WHERE stream = ? AND kind IN ('push', 'watermark')", (stream,))
    forget_groups(connection, stream)
    connection.execute("DELETE FROM chunks WHERE stream = ?", (stream,))
    connection.execute("DELETE FROM stored WHERE stream = ?", (stream,))
    return files, spools


def forget_the_dead(connection: apsw.Connection) -> None:
    """Forget all gone queries that have a row of their own, because an older version may have left many. O(log)."""
    connection.execute(_DEAD_QUERIES)
