"""The choice of closed chunks that are not stored yet, because a short retention may soon end for them.

    retention 131,072 rows    [ 7 ] [ 8 ] [ 9 ] │ open        none is stored; 7 is passed when 10 is closed
                                                              (`psoup.data.chunk.Keep`): only the log had it

Storing such a chunk takes more work than all other steps for its tuples. The store encodes, writes and syncs a file,
and removes it moments later. A start replays unstored chunks, so each stream has only a few of them, with few bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from psoup.config import EngineConfig
from psoup.model import Retention
from psoup.published.snapshot import ChunkEntry


def may_wait(config: EngineConfig, retention: Retention, unstored: Sequence[ChunkEntry]) -> bool:
    """Whether the oldest unstored chunk may wait until it is past the retention. `unstored` must not be empty.

    A retention in time is short if `unstored_chunks` chunks with the time span of the oldest would fill it.
    O(unstored).
    """
    limit, oldest = config.unstored_chunks, unstored[0].data
    if len(unstored) > limit or retention.archive:
        return False
    soon = retention.rows is not None and retention.rows <= limit * config.chunk_rows
    soon |= retention.duration is not None and retention.duration <= limit * (oldest.last_time - oldest.first_time)
    return soon and sum(entry.data.nbytes for entry in unstored) <= config.unstored_bytes
