"""A service whose stream is many times its memory: pushes go on, and clients see all of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup_client import Client
from psoup_service.process.settings import Settings
from psoup_service.service import running_service
from psoup_storage import open_store

MIB = 1024 * 1024
ROWS = 1_000_000
BATCH = 10_000


def settings(memory_mib: int) -> Settings:
    return Settings(port=0, memory_mib=memory_mib, archive_cache_mib=1)


async def served(path: Path, work: Any) -> Any:
    """One life of a service of six megabytes; `work(client)` runs on a thread."""
    known = settings(6)
    store = open_store(str(path), reserve_bytes=0, cache_bytes=MIB, hot_bytes=known.memory_mib * MIB // 2)
    async with running_service(known, store=store) as service:

        def run() -> Any:
            with Client(service.address) as client:
                return work(client)

        return await asyncio.to_thread(run)


def check(client: Any, query: str) -> None:
    info = client.describe("s")
    assert info.tuples == ROWS
    assert info.archived_tuples > ROWS // 2
    assert info.archived_chunks > 7
    assert info.archived_bytes > 0
    assert info.bytes < 6 * MIB < 17 * ROWS
    assert info.archive_rows == 5_000_000
    edges = f"SELECT _time FROM s WHERE x IN (0, {info.archived_tuples}) BEGIN (START)"
    assert client.execute(edges).to_arrow().column("_time").to_pylist() == [info.first_time, info.first_time_in_memory]
    found = client.query(query).invoke().to_arrow()
    assert found.column("x").to_pylist() == list(range(777, ROWS, 100_000))


@pytest.mark.long
def test_a_stream_of_three_times_the_memory(tmp_path: Path) -> None:
    def first(client: Any) -> str:
        client.create_stream("CREATE STREAM s (x BIGINT, y BIGINT) RETENTION 2000000 ROWS ARCHIVE 5000000 ROWS")
        query = client.register("SELECT x FROM s WHERE y = 777 BEGIN (START)")
        with client.producer("s") as producer:
            for n in range(0, ROWS, BATCH):
                ids = np.arange(n, n + BATCH)
                producer.push(pa.table({"x": ids, "y": ids % 100_000}))
        check(client, query.id)
        return str(query.id)

    query = asyncio.run(served(tmp_path / "data", first))
    asyncio.run(served(tmp_path / "data", lambda client: check(client, query)))
