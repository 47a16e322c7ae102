"""Which closed chunks wait in the log before they are stored: those that a short retention passes soon.

    retention 131,072 rows    [ 7 ] [ 8 ] [ 9 ] │ open        none is stored; 7 is passed when 10 is closed
                                                              (`psoup.data.chunk.Keep`), and was written once

Storing such a chunk takes more than all else that is done for its tuples: a file is encoded, written and synced, to be
removed moments later. A start replays what waits, so only few chunks and few bytes of each stream do.
"""

from __future__ import annotations

from collections.abc import Sequence

from psoup.config import EngineConfig
from psoup.model import Retention
from psoup.published.snapshot import ChunkEntry


def may_wait(config: EngineConfig, retention: Retention, unstored: Sequence[ChunkEntry]) -> bool:
    """Whether the oldest of the unstored chunks, of which there is one, may wait for the retention to pass it.

    A retention in time is short if the chunk itself covers a good part of it. O(unstored).
    """
    most, oldest = config.unstored_chunks, unstored[0].data
    if len(unstored) > most or retention.archive:
        return False
    soon = retention.rows is not None and retention.rows <= most * config.chunk_rows
    soon |= retention.duration is not None and retention.duration <= most * (oldest.last_time - oldest.first_time)
    return soon and sum(entry.data.nbytes for entry in unstored) <= config.unstored_bytes
