"""`python -m benchmarks.copies.watchers ADDRESS QUERIES`: clients that watch a query each, in a process of their own.

    query IDs in the file QUERIES ─> a call each, 100 on a connection ─> "ready" when each has its first message
    a line on standard input      ─> milliseconds from a tuple's `sent` to its message, since the line before, as JSON
    with --still                  ─> only the last of them reads, and only its first message

`sent` is the one column of the answers, in microseconds of the clock that all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import grpc
import pyarrow as pa

from psoup_proto.v1 import sync_pb2, sync_pb2_grpc

TOGETHER = 100
NARROW = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536)]
"""gRPC takes megabytes for a call that is not read, unless it is told not to."""


async def _watch(stub: sync_pb2_grpc.SyncServiceStub, query_id: str, ready: asyncio.Event, taken: list[float]) -> None:
    """Read what one client is told."""
    async for reply in stub.Watch(sync_pb2.WatchRequest(wants=[sync_pb2.Want(query_id=query_id)])):
        now = time.monotonic()
        raw = pa.decompress(reply.body, reply.size, "zstd", asbytes=True) if reply.compression else reply.body
        (outcome,) = sync_pb2.SyncBody.FromString(raw).outcomes
        if not ready.is_set():
            ready.set()
        elif outcome.change.rows:
            _, _, sent = json.loads(outcome.change.columns_json)
            taken += [1e3 * now - at / 1e3 for at in sent]


async def _main(address: str, query_ids: list[str], *, still: bool) -> None:
    options = [("grpc.use_local_subchannel_pool", 1), *(NARROW if still else [])]
    channels = [grpc.aio.insecure_channel(address, options) for _ in range(0, len(query_ids), TOGETHER)]
    stubs = [sync_pb2_grpc.SyncServiceStub(channel) for channel in channels]
    taken = list[float]()
    if still:
        wants = [[sync_pb2.Want(query_id=query_id)] for query_id in query_ids]
        calls = [stubs[n // TOGETHER].Watch(sync_pb2.WatchRequest(wants=want)) for n, want in enumerate(wants)]
        await calls[-1].read()
    else:
        ready = [asyncio.Event() for _ in query_ids]
        made = [_watch(stubs[n // TOGETHER], query_id, ready[n], taken) for n, query_id in enumerate(query_ids)]
        tasks = [asyncio.create_task(client) for client in made]
        for event in ready:
            await event.wait()
        assert not any(task.done() for task in tasks), "a client has ended"
    print("ready", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(taken), flush=True)
        taken.clear()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2]).read_text().split(), still="--still" in sys.argv))
