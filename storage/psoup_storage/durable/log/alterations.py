"""Rows of the kind `altered` that the log forgets, because later rows hide them or because their queries are gone.

Each `LEAST` rows, the transaction of the newest one looks through all of them. A row with some outdated queries is
written again, under its own sequence.
"""

from __future__ import annotations

import json

import apsw
import numpy as np

from psoup.errors import PSoupError
from psoup.events.events import QueriesAltered
from psoup.values.columns import Array
from psoup_storage.alterations import LEAST, needed
from psoup_storage.durable.log.blocks import read_gone
from psoup_storage.durable.log.keepings import decode_alteration, encode_alteration
from psoup_storage.durable.log.log import write
from psoup_storage.durable.log.rows import LogRow, checksum_of

_COUNT = "SELECT count(*) FROM log WHERE kind = 'altered'"
_ROWS = "SELECT sequence, body, checksum FROM log WHERE kind = 'altered' ORDER BY sequence"
_CONTENT = "SELECT content FROM slices WHERE sequence = ? ORDER BY number"
_DELETE = "DELETE FROM log WHERE sequence = ?"
_SINGLE = "SELECT 1 FROM log WHERE kind IN ('query', 'unregister') AND body ->> 'query' = ? AND kind = 'query'"
_BLOCKS = """
SELECT sequence, body ->> 'first', body ->> 'count', (SELECT queries FROM gone WHERE gone.sequence = log.sequence)
FROM log WHERE kind = 'queries' ORDER BY body ->> 'first'
"""


def forget_alterations(connection: apsw.Connection) -> None:
    """Delete outdated rows, if there are enough rows. Keeps all of them if one is damaged. O(rows + their queries)."""
    ((count,),) = connection.execute(_COUNT)
    if count % LEAST:
        return
    try:
        changes = [_change(connection, *row) for row in list(connection.execute(_ROWS))]
        left = {event.sequence: event for event in needed(changes, lambda ids: _registered(connection, ids))}
    except (PSoupError, ValueError, KeyError):  # the next start names the damage
        return
    for event in changes[:-1]:  # the newest row may be the last of the log, which must stay
        stays = left.get(event.sequence)
        if stays is event:
            continue
        connection.execute(_DELETE, (event.sequence,))
        if stays is not None:
            write(connection, [encode_alteration(stays)])


def _change(connection: apsw.Connection, sequence: int, body: str, checksum: int) -> QueriesAltered:
    """The event of a row. Raises Internal or ValueError if it is damaged."""
    tuples = b"".join(content for (content,) in connection.execute(_CONTENT, (sequence,)))
    row = LogRow(sequence, "altered", 0, body, None, tuples, None, checksum)
    if checksum_of(row) != checksum:
        raise ValueError(f"the checksum of row {sequence} is wrong")
    return decode_alteration(row, json.loads(body))


def _registered(connection: apsw.Connection, query_ids: Array) -> Array:
    """Whether the log still registers each query: bool[k]. A step for each query that is in no block."""
    exists: Array = np.zeros(len(query_ids), np.bool_)
    alone: Array = np.ones(len(query_ids), np.bool_)
    for sequence, first, count, content in connection.execute(_BLOCKS):
        inside = np.flatnonzero((query_ids >= first) & (query_ids < first + count))
        gone: Array = np.zeros(count, np.bool_)
        if content is not None:
            gone[read_gone(sequence, count, content)] = True
        exists[inside] = ~gone[query_ids[inside] - first]
        alone[inside] = False
    for place in np.flatnonzero(alone).tolist():
        exists[place] = next(connection.execute(_SINGLE, (int(query_ids[place]),)), None) is not None
    return exists
