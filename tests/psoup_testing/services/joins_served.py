"""Two streams that are joined in tests of the service and its clients: departures, and the weather at each airport."""

from __future__ import annotations

import pyarrow as pa

from psoup.model import SECOND
from psoup_client import Client

_ORIGINS = ("EWR", "JFK", "LGA")
_INSTANT = pa.timestamp("us", "UTC")


def _times(count: int, seconds: int) -> pa.Array:
    return pa.array([n * seconds * SECOND for n in range(count)], _INSTANT)


DEPARTURES = pa.table(
    {
        "at": _times(60, 60),
        "id": range(60),
        "origin": [_ORIGINS[n % 3] for n in range(60)],
        "delay": [n * 37 % 120 - 10 for n in range(60)],
    }
)
WEATHER = pa.table(
    {"at": _times(12, 300), "origin": [_ORIGINS[n % 3] for n in range(12)], "wind": [n * 7 % 40 for n in range(12)]}
)


def joined_streams(client: Client, suffix: str = "", *, empty: bool = False, options: str = "") -> tuple[str, str]:
    """Make the streams, `departures` and `weather` with a suffix; with all tuples, unless they are to be empty."""
    names = f"departures{suffix}", f"weather{suffix}"
    columns = "id BIGINT, origin TEXT, delay BIGINT", "origin TEXT, wind BIGINT"
    for name, others, rows in zip(names, columns, (DEPARTURES, WEATHER), strict=True):
        client.create_stream(f"CREATE STREAM {name} (at TIMESTAMP NOT NULL, {others}) TIMESTAMP BY at{options}")
        if not empty:
            client.push(name, rows)
    return names
