"""`python -m benchmarks.copies.pages ADDRESS QUERIES`: pages that watch a query each through the gateway at ADDRESS.

As `benchmarks.copies.watchers`, which it takes the place of: a connection for each page, a POST, and a stream of
events.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
import zlib
from pathlib import Path

from psoup_proto.v1 import sync_pb2

_LONGEST = 1024 * 1024


async def _page(place: str, query_id: str, ready: asyncio.Event, taken: list[float]) -> None:
    """Read what one page is told."""
    host, _, port = place.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=_LONGEST)
    body = json.dumps({"wants": [{"queryId": query_id}], "compression": "COMPRESSION_GZIP"})
    head = f"POST /api/psoup.v1.SyncService/Watch HTTP/1.1\r\nHost: {place}\r\nX-Psoup: 1\r\n"
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    while line := await reader.readline():
        if not line.startswith(b"data:"):
            continue
        now, reply = time.monotonic(), json.loads(line[5:])
        raw = base64.b64decode(reply["body"])
        raw = zlib.decompress(raw, 31) if "compression" in reply else raw
        (outcome,) = sync_pb2.SyncBody.FromString(raw).outcomes
        if not ready.is_set():
            ready.set()
        elif outcome.change.rows:
            _, _, sent = json.loads(outcome.change.columns_json)
            taken += [1e3 * now - at / 1e3 for at in sent]


async def _main(address: str, query_ids: list[str]) -> None:
    taken, ready = list[float](), [asyncio.Event() for _ in query_ids]
    place = address.partition("//")[2]
    made = [_page(place, query_id, token, taken) for query_id, token in zip(query_ids, ready, strict=True)]
    tasks = [asyncio.create_task(page) for page in made]
    for event in ready:
        await event.wait()
    assert not any(task.done() for task in tasks), "a page has ended"
    print("ready", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(taken), flush=True)
        taken.clear()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2]).read_text().split()))
