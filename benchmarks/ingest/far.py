"""Row `push.far`: one push of 16 MiB to a service that is 25 ms away, through a proxy that delays what it forwards.

    client ──> proxy: each piece leaves 25 ms after it came, both ways ──> service

The bytes that a client may send before the service reads them (`receive_window_kib`) decide how often it waits for a
round trip. The peer is the same push without the way.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.ingest.wire import as_ipc
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup_client import Client
from psoup_client.ingest.direct_pusher import DirectPusher
from psoup_client.payload import Payload

DELAY_S = 0.025
ROWS = 1_000_000
"""Of two columns of 8 bytes: near the largest message."""


def rows(run: Run) -> Iterator[Row]:
    """Seconds of the push."""
    samples, count = run.of(5, 3, 1), run.of(ROWS, ROWS, 10_000)
    payload = Payload(as_ipc(pa.table({"a": np.arange(count), "b": np.arange(count)})), count)
    with (
        processes.service() as address,
        Client(address) as near,
        delaying(address, DELAY_S) as far,
        Client(far) as away,
    ):
        near.create_stream("CREATE STREAM far (a BIGINT, b BIGINT) RETENTION 65536 ROWS")
        pushers = [DirectPusher(client, "far") for client in (away, near)]
        turns = [partial(pusher.push, [payload], None) for pusher in pushers]
        rounds = [[1e3 * seconds(turn) for turn in turns] for _ in range(samples + 1)]
    ours, theirs = (Sample.of(list(values)) for values in zip(*rounds[1:], strict=True))
    yield Row("push.far", ours, "ms", "no way", theirs, Target(), "16 MB in one call, 25 ms each way")


@contextmanager
def delaying(target: str, delay: float) -> Iterator[str]:
    """The address of a proxy that forwards to `target`, everything `delay` seconds later; not slower otherwise."""
    host, _, port = target.rpartition(":")
    listener = socket.create_server(("127.0.0.1", 0))
    ends: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection((host, int(port)))
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ends.extend((near, far))
            for source, sink in ((near, far), (far, near)):
                line: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                threading.Thread(target=_take, args=(source, line), daemon=True).start()
                threading.Thread(target=_give, args=(line, sink, delay), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def _take(source: socket.socket, line: queue.SimpleQueue[tuple[float, bytes]]) -> None:
    data = b"-"
    while data:
        try:
            data = source.recv(1 << 20)
        except OSError:
            data = b""
        line.put((time.monotonic(), data))


def _give(line: queue.SimpleQueue[tuple[float, bytes]], sink: socket.socket, delay: float) -> None:
    while True:
        came, data = line.get()
        time.sleep(max(0.0, came + delay - time.monotonic()))
        with suppress(OSError):
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(data)
