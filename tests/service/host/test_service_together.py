"""Many small pushes at once, over gRPC and onto a disk: each is taken once, says what became of it, and stays."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from psoup.work.clock import VirtualClock
from psoup_proto.v1 import ingest_pb2 as ingest
from psoup_service.process.settings import Settings
from psoup_service.service import running_service
from psoup_storage import DurableStore
from psoup_testing.oracles.questions import again_awaited
from psoup_testing.services.wire import Wire
from psoup_testing.suite.sweeps import swept

SECOND = 1_000_000
NOW = 1_000 * SECOND
Row = tuple[int, int, str | None]
"""Time in seconds, a number of its own, a text."""


async def push(wire: Wire, rows: list[Row]) -> ingest.PushResponse:
    times = pa.array([time * SECOND for time, _, _ in rows], pa.timestamp("us"))
    texts = pa.array([text for _, _, text in rows], pa.string())
    table = pa.table({"at": times, "x": [x for _, x, _ in rows], "t": texts})
    return await wire.push("s", table, refused=ingest.REFUSED_COUNT)


async def stored(wire: Wire, query: str) -> Counter[tuple[int, str | None]]:
    sequence = wire.service.host.counters()["sequence"]
    answer = await again_awaited(wire.invoke, query, min_sequence=sequence)
    return Counter(zip(*(answer.column(name).to_pylist() for name in ("x", "t")), strict=True))


@pytest.mark.parametrize("lateness", swept([0, 1_000], fast=1))
def test_every_push_is_taken_once(tmp_path: Path, lateness: int) -> None:
    draw = random.Random(lateness)
    texts = ("", "a", "ü" * 9, None)
    pushes = [
        [(draw.randrange(900), 10 * n + k, draw.choice(texts)) for k in range(draw.randrange(1, 4))] for n in range(200)
    ]

    async def life(expected: Counter[tuple[int, str | None]] | None) -> Counter[tuple[int, str | None]]:
        store, clock = DurableStore(tmp_path), VirtualClock(NOW)
        async with (
            running_service(Settings(port=0), store=store, clock=clock) as service,
            grpc.aio.insecure_channel(service.address) as channel,
        ):
            wire = Wire(service, channel)
            if expected is not None:
                assert await stored(wire, query[0]) == expected
                return expected
            await wire.create(
                f"CREATE STREAM s (at TIMESTAMP, x BIGINT, t TEXT) TIMESTAMP BY at LATENESS {lateness} SECONDS"
            )
            query.append(await wire.register("SELECT x, t FROM s"))
            answers = await asyncio.gather(*(push(wire, rows) for rows in pushes))
            await wire.ingest.Heartbeat(ingest.HeartbeatRequest(stream="s", time={"seconds": 1_000}))
            found = await stored(wire, query[0])
            events = wire.service.host.counters()["events"]
        sent = Counter((x, text) for rows in pushes for _, x, text in rows)
        assert found <= sent
        assert sum(answer.accepted for answer in answers) == found.total()
        for rows, answer in zip(pushes, answers, strict=True):
            assert answer.accepted == sum(found[x, text] for _, x, text in rows)
            assert answer.accepted + answer.late == len(rows)
        if lateness:
            assert found == sent
            assert events < len(pushes), "none of them was joined with another"
        else:
            assert found.total() < sent.total()
        return found

    query: list[str] = []
    found = asyncio.run(life(None))
    assert asyncio.run(life(found)) == found
