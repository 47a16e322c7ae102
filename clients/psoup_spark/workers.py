"""The daemon of Spark's Python workers, which imports the engine and loads its kernels once. Each worker is its fork.

Without this daemon every worker would do that, which takes seconds. Forking is safe, because no loaded module has a
thread that a fork would lose: gRPC is imported, but has no channel yet. `spark.python.daemon.module` names the daemon.
"""

from __future__ import annotations

import numpy as np
from pyspark import daemon

from psoup.data.chunk import ChunkView
from psoup.data.places import Places
from psoup.execution.ahead.folds_outside import FoldsOutside
from psoup.matching.outside import Beforehand
from psoup.model import BIGINT
from psoup.sql import create_stream
from psoup.values.columns import Batch, Column
from psoup_storage.formats.chunk_file import encode_chunk


def load() -> None:
    """Evaluate, fold and encode a small chunk, so that all needed code is in memory."""
    spec = create_stream("CREATE STREAM s (x BIGINT)")
    texts = [f"SELECT x FROM s WHERE x > {n} AND x < {2 * n}" for n in range(16)]
    numbers = np.arange(256, dtype=np.int64)
    batch = Batch((Column(BIGINT, numbers),), numbers)
    chunk = ChunkView(0, Places(0, len(batch)), batch.times, batch.columns, batch.nbytes)
    matches = Beforehand(spec, list(enumerate(texts, 1))).find(chunk)
    FoldsOutside(spec, [(0, "SELECT x % 2, count(*), sum(x), max(x) FROM s GROUP BY x % 2")]).find(chunk, matches)
    encode_chunk(spec, chunk, archived=True)


if __name__ == "__main__":
    load()
    daemon.manager()
