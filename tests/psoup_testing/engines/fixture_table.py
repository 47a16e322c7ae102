"""The table of the data directory of `format_fixture`: upserts and deletions of a feed with source positions.

Versions that ended before HISTORY have left its first chunk, and tuples have left a chunk of a stream. A directory of a
format before tables has no table. Its answers have nothing of it.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pyarrow as pa

from psoup.data.versions import versions_of
from psoup.errors import NotFound
from psoup.events.acknowledgements import Acknowledgement, ProducerAcknowledgement
from psoup.events.commands import Locate, Push
from psoup.local import LocalPSoup
from psoup.model import SECOND

CREATE = "CREATE TABLE prices (at TIMESTAMP NOT NULL, k TEXT, x BIGINT NOT NULL, PRIMARY KEY (k)) TIMESTAMP BY at"
HISTORY = 100
"""Seconds for which the table keeps versions that have ended."""
ROWS = "SELECT k, x, _id, _time FROM prices WHERE x % 2 = 0 OR x IS NULL"
BATCHES = 20


def fill_table(soup: LocalPSoup, start: int) -> None:
    """Create the table, and fill it step by step: keys that stay, change and go. `start`: the first time."""
    soup.execute(f"{CREATE} HISTORY {HISTORY} SECONDS")
    soup.register(ROWS, key="prices")
    for number in range(BATCHES):
        keys = [(number * 3 + row) % 17 for row in range(8)]
        rows = pa.table(
            {
                "at": pa.array([start + (10 * number + row) * SECOND for row in range(8)], pa.timestamp("us", "UTC")),
                "k": [f"é {key}" for key in keys],
                "x": [None if (number + key) % 5 == 0 else number + key for key in keys],
                "_deleted": [(number + key) % 5 == 0 for key in keys],
            }
        )
        soup.submit(Push("prices", rows, "feed", 1, number, source=b"position %d" % number))
    soup.heartbeat("prices", start + 10 * BATCHES * SECOND)


def shown_table(soup: LocalPSoup, start: int) -> list[Any]:
    """The rows now and earlier, and the position of the feed, as JSON. Empty if there is no table."""
    try:
        query = soup.query("prices")
    except NotFound:
        return []
    times = (None, start + 150 * SECOND, start + 110 * SECOND)
    answers = [str(soup.invoke(query, as_of).to_table().to_pylist()) for as_of in times]
    done: Acknowledgement = soup.admission.prepare(Locate("prices", "feed"), soup.clock.now()).acknowledgement
    assert isinstance(done, ProducerAcknowledgement)
    return [[*answers, done.number, done.source.decode()]]


def thin_chunks(soup: LocalPSoup, start: int) -> None:
    """Let ended versions leave the first chunk of the table, and every tuple but some a chunk of a stream."""
    edge = start + 10 * BATCHES * SECOND - HISTORY * SECOND
    table, stream = (soup.engine.snapshot().stream(name, soup.tenant) for name in ("prices", "kept"))
    versions = versions_of(table.chunks[0].data)
    stay = np.flatnonzero((versions.successors == 0) | (versions.ends >= edge))
    for view, rows in ((table, stay), (stream, np.arange(3, 64, 9))):
        task = soup.engine.thin(view.stream_id, 0, rows)
        assert task is not None and 0 < len(rows) < 16
        soup.engine.install(task.compute())
    del table, stream, view, task
    gc.collect()  # the files of the old chunks go when no reader has them
