"""A gRPC service that does nothing, on the stack that PSoup's service uses: the cost of the wire itself.

    Empty    unary: bytes in, no bytes out
    Swallow  stream: as many messages in as come, a short reply to each
    Export   of OTLP: a collector that drops the spans

It runs in a process of its own, prints its port, and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc

SERVICE = "benchmarks.Empty"
EMPTY = f"/{SERVICE}/Empty"
SWALLOW = f"/{SERVICE}/Swallow"
COLLECTOR = "opentelemetry.proto.collector.trace.v1.TraceService"
MESSAGE_LIMIT = 16 * 1024 * 1024
REPLY = bytes(24)
"""A reply as long as the service's reply to a batch."""


async def _empty(request: bytes, context: Any) -> bytes:
    return b""


async def _swallow(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    async for _ in requests:
        yield REPLY


async def _serve() -> None:
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", MESSAGE_LIMIT)])
    handlers = {
        "Empty": grpc.unary_unary_rpc_method_handler(_empty),
        "Swallow": grpc.stream_stream_rpc_method_handler(_swallow),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    collects = {"Export": grpc.unary_unary_rpc_method_handler(_empty)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(COLLECTOR, collects),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(None)


if __name__ == "__main__":
    asyncio.run(_serve())
