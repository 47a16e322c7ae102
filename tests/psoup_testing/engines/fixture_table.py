"""The table of the data directory of `format_fixture`: upserts and deletions of a feed with source positions.

A directory of a format before tables has none. Its answers have nothing of it.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from psoup.errors import NotFound
from psoup.events.acknowledgements import Acknowledgement, ProducerAcknowledgement
from psoup.events.commands import Locate, Push
from psoup.local import LocalPSoup
from psoup.model import SECOND

CREATE = "CREATE TABLE prices (at TIMESTAMP NOT NULL, k TEXT, x BIGINT NOT NULL, PRIMARY KEY (k)) TIMESTAMP BY at"
ROWS = "SELECT k, x, _id, _time FROM prices WHERE x % 2 = 0 OR x IS NULL"
BATCHES = 20


def fill_table(soup: LocalPSoup, start: int) -> None:
    """Create the table, and fill it step by step: keys that stay, change and go. `start`: the first time."""
    soup.execute(CREATE)
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
    times = (None, start + 65 * SECOND, start - SECOND)
    answers = [str(soup.invoke(query, as_of).to_table().to_pylist()) for as_of in times]
    done: Acknowledgement = soup.admission.prepare(Locate("prices", "feed"), soup.clock.now()).acknowledgement
    assert isinstance(done, ProducerAcknowledgement)
    return [[*answers, done.number, done.source.decode()]]
