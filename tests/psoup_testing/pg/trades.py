"""A stream, a table and a view that drivers of PostgreSQL read and write."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from psoup_client import Client
from psoup_testing.services.threaded_service import Serving

ROWS = 30
COLUMNS = "sym TEXT NOT NULL, price DOUBLE, n BIGINT, amount DECIMAL(10,2), up BOOLEAN, at TIMESTAMP, day DATE"
START = dt.datetime(2026, 11, 29, 8, tzinfo=dt.UTC)


def fill(running: Serving) -> None:
    """Create and fill the stream `trades` and the table `people`, and register the query `dear`."""
    with Client(running.address, timeout=60) as client:
        client.create_stream(f"CREATE STREAM trades ({COLUMNS})")
        client.create_stream("CREATE TABLE people (id BIGINT PRIMARY KEY, name TEXT)")
        client.register("SELECT sym, price FROM trades WHERE price > 10", key="dear")
        client.push("trades", [row(number) for number in range(ROWS)])
        people = client.upsert("people", [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}])
        client.wait_for(people.sequence)


def row(number: int) -> dict[str, Any]:
    """A tuple of the stream `trades`. Number 7 has no price."""
    return {
        "sym": "ABCDE"[number % 5],
        "price": None if number % 50 == 7 else number * 0.01,
        "n": number,
        "amount": Decimal(number) / 100,
        "up": number % 3 == 0,
        "at": START + dt.timedelta(seconds=4 * number),
        "day": dt.date(2026, 11, 1 + number % 29),
    }
