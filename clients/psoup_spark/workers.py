"""Spark's daemon of Python workers, with the engine imported and its kernels loaded once: each worker is a fork of it.

Without it every worker does that for itself, which takes seconds. It may fork, as nothing that is loaded has a thread
that a fork would lose: gRPC comes with the package, and has no channel yet. `spark.python.daemon.module` names it.
"""

from __future__ import annotations

import numpy as np
from pyspark import daemon

from psoup.columns import Batch, Column
from psoup.data.chunk import ChunkView
from psoup.matching.outside import Beforehand
from psoup.model import BIGINT
from psoup.sql import create_stream
from psoup_storage.formats.chunk_file import encode_chunk


def load() -> None:
    """Evaluate some queries over a small chunk, and encode it: what that needs is in memory then."""
    spec = create_stream("CREATE STREAM s (x BIGINT)")
    texts = [f"SELECT x FROM s WHERE x > {n} AND x < {2 * n}" for n in range(16)]
    numbers = np.arange(256, dtype=np.int64)
    batch = Batch((Column(BIGINT, numbers),), numbers)
    chunk = ChunkView(0, 0, batch.times, batch.columns, batch.nbytes)
    Beforehand(spec, list(enumerate(texts, 1))).find(chunk)
    encode_chunk(spec, chunk, archived=True)


if __name__ == "__main__":
    load()
    daemon.manager()
