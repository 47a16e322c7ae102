"""The choice of closed chunks that are stored late, because a short retention may pass them before.

    retention 131,072 rows    [ 7 ] [ 8 ] [ 9 ] │ open        none is stored; 7 is passed when 10 is closed
                                                              (`psoup.data.chunk.Keep`), and was written once

Storing such a chunk takes more work than all other steps for its tuples: a file is encoded, written and synced, and
removed moments later. A start replays waiting chunks, so each stream has only a few of them, with few bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from psoup.config import EngineConfig
from psoup.model import Retention
from psoup.published.snapshot import ChunkEntry


def may_wait(config: EngineConfig, retention: Retention, unstored: Sequence[ChunkEntry]) -> bool:
    """Whether the oldest unstored chunk may wait for the retention to pass it; there must be one.

    A retention in time is short if the chunk itself covers a good part of it. O(unstored).
    """
    limit, oldest = config.unstored_chunks, unstored[0].data
    if len(unstored) > limit or retention.archive:
        return False
    soon = retention.rows is not None and retention.rows <= limit * config.chunk_rows
    soon |= retention.duration is not None and retention.duration <= limit * (oldest.last_time - oldest.first_time)
    return soon and sum(entry.data.nbytes for entry in unstored) <= config.unstored_bytes
