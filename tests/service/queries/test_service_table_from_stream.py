"""CREATE TABLE … FROM STREAM at a service: small and large streams, repeated calls, and a start after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from psoup_client import AlreadyExists, Client, FailedPrecondition
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.services.threaded_service import Serving, serving


def states(count: int) -> pa.Table:
    """Rows with 20,000 different keys, about 60 bytes each."""
    keys = [number % 20_000 for number in range(count)]
    return pa.table({"device": keys, "state": [f"state {number} {'x' * 40}" for number in range(count)]})


@contextmanager
def service_on(path: Path) -> Iterator[tuple[Serving, Client]]:
    store = DurableStore(path, reserve_bytes=0)
    with serving(Settings(port=0), None, store) as running, Client(running.address) as client:
        yield running, client


def test_a_stream_becomes_a_table_that_survives_a_start(tmp_path: Path) -> None:
    create = "CREATE TABLE devices FROM STREAM states PRIMARY KEY (device)"
    with service_on(tmp_path / "data") as (running, soup):
        soup.create_stream("CREATE STREAM states (device BIGINT, state TEXT)")
        soup.push("states", states(30_000))
        pushes = running.service.host.counters()["spooled_pushes"]
        table = soup.create_table(create)
        assert running.service.host.counters()["spooled_pushes"] == pushes + 1  # other pushes come between
        assert (table.kind, table.primary_key, table.tuples) == ("table", ("device",), 20_000)
        with pytest.raises(AlreadyExists, match="table 'devices' exists"):
            soup.create_table(create)
        assert soup.create_table(create, if_not_exists=True).stream_id == table.stream_id
        soup.execute("CREATE TABLE small FROM STREAM states PRIMARY KEY (state)")
        soup.upsert("devices", [{"device": 5, "state": "off"}])
        soup.create_stream("CREATE STREAM late (k BIGINT, at TIMESTAMP) TIMESTAMP BY at LATENESS 1 HOUR")
        soup.push("late", [{"k": 1, "at": "2026-01-01"}])
        with pytest.raises(FailedPrecondition, match="1 tuple of stream 'late' waits"):
            soup.create_table("CREATE TABLE l FROM STREAM late PRIMARY KEY (k)")
    with service_on(tmp_path / "data") as (_, soup):
        rows = soup.ask("SELECT device, state FROM devices WHERE device < 10 ORDER BY device").rows()
        assert [state.split()[:2] for _, state in rows[:4]] == [["state", f"{20_000 + n}"] for n in range(4)]
        assert rows[5] == (5, "off")
        assert soup.ask("SELECT count(*) FROM devices").rows() == [(20_000,)]
        assert soup.ask("SELECT count(*) FROM small").rows() == [(30_000,)]
        assert soup.describe("states").tuples == 30_000
