"""Clients that watch and do not read (T18), and clients that read one message and leave (T20)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import grpc
import pyarrow as pa
import pytest

from psoup_proto.v1 import sync_pb2 as sync
from psoup_proto.v1 import sync_pb2_grpc
from psoup_service.process.settings import Settings
from psoup_service.watching.pages import WatchPage
from psoup_service.watching.rounds import Rounds
from psoup_service.watching.watcher import Watcher
from psoup_testing.services.wire import Wire, refused, run
from psoup_testing.suite.budget import places

NEVER = 300
"""Seconds of progress in tests that must not need it."""

PAGE = 64 * 1024
"""Bytes of rows in a message, and of the window of a call."""


def watch(wire: Wire, query: str, channel: Any = None) -> Any:
    request = sync.WatchRequest(wants=[sync.Want(query_id=query)], progress_seconds=NEVER)
    return sync_pb2_grpc.SyncServiceStub(channel or wire.channel).Watch(request)


async def rows_of(call: Any) -> int:
    reply = await asyncio.wait_for(call.read(), 30)
    (outcome,) = sync.SyncBody.FromString(reply.body).outcomes
    return int(outcome.change.rows)


@pytest.mark.long
def test_watchers_that_stall_hold_a_page_and_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """T18: fifty that do not read are given a few pages each, however much comes; who reads gets everything."""
    stalled, given, apply = len(places(1_000, 50)), Counter[Watcher](), Rounds.apply

    def counted(self: Rounds, watcher: Watcher, taken: Any, page: WatchPage) -> None:
        given[watcher] += 0 if page.reply is None else page.reply.ByteSize()
        apply(self, watcher, taken, page)

    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (n BIGINT, t TEXT)")
        query = await wire.register("SELECT n, t FROM s BEGIN (NOW - 1 HOUR)")
        # What is not read fills the window of its connection, too: fifty first messages fit.
        options = [[("grpc.http2.bdp_probe", 0), ("n", number)] for number in range(0, stalled, 50)]
        channels = [grpc.aio.insecure_channel(wire.service.address, option) for option in options]
        calls = [watch(wire, query, channels[number // 50]) for number in range(stalled)]
        for call in calls:
            assert await rows_of(call) == 0
        healthy, came = watch(wire, query), 0
        assert await rows_of(healthy) == 0
        monkeypatch.setattr(Rounds, "apply", counted)
        for number in range(20):
            await wire.push("s", pa.table({"n": [number] * 100, "t": [f"{number} {'t' * 400}"] * 100}))
            while came < 100 * (number + 1):
                came += await rows_of(healthy)
        *of_stalled, most = sorted(given.values())
        assert most > 800_000, "who reads was given all"
        assert len(of_stalled) == stalled and of_stalled[-1] < 4 * PAGE, "what nobody reads is queued"
        async with asyncio.timeout(30):
            while wire.service._calls.under_way.watching > 1:
                await asyncio.sleep(0)
        for call in calls:
            assert (await refused(_to_the_end(call), grpc.StatusCode.UNAVAILABLE)).reason == "STREAM_IDLE"
        await wire.push("s", pa.table({"n": [1], "t": ["x"]}))
        assert await rows_of(healthy) == 1, "who waits for news is not cut"
        healthy.cancel()
        for channel in channels:
            await channel.close()

    run(script, Settings(port=0, stream_idle_s=1.0))


@pytest.mark.long
def test_open_read_one_cancel_leaves_no_watcher() -> None:
    """T20: nothing is left of clients that open a watch, read a message and leave."""
    turns = len(places(100_000, 300))

    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (n BIGINT)")
        queries = [await wire.register(f"SELECT n FROM s WHERE n > {k}") for k in range(3)]
        rounds = wire.service._servicers.sync._rounds
        tasks = len(asyncio.all_tasks())
        for number in range(turns):
            call = watch(wire, queries[number % 3])
            if number % 5:
                await rows_of(call)
            call.cancel()
        async with asyncio.timeout(30):
            while wire.service._calls.under_way.watching or rounds._watchers or rounds._tasks:
                await asyncio.sleep(0)
        topics = rounds.topics
        assert not len(topics) and not topics._by_clause and not topics._streams and not topics._of_place
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) <= tasks + 2

    run(script)


async def _to_the_end(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass
