"""Row `webhook.arrive`: from the push of a row to the POST with it, beside the message that the SDK's watch gives.

The receiver is a thread of the pushing program. It replies as soon as it has the whole request. The service keeps its
data on disk, so each delivery is in its log before the first attempt.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Target, in_turns
from benchmarks.tool.run import Run
from psoup_client import Client

PATIENCE_S = 30.0


def rows(run: Run) -> Iterator[Row]:
    """The row."""
    yield from run.part(lambda: _arrivals(run), "webhook.arrive")


def _arrivals(run: Run) -> Iterator[Row]:
    arrived = SimpleQueue[bytes]()
    repeats = run.of(100, 50, 2)
    with TemporaryDirectory() as folder, closing(_Receiver(arrived)) as receiver:
        settings = {"PSOUP_WEBHOOK_HOSTS": receiver.origin}
        with processes.served(Path(folder, "data"), settings=settings) as service, Client(service.address) as client:
            for name in ("sent", "watched"):
                client.execute(f"CREATE STREAM {name} (n BIGINT)")
                client.register(f"SELECT n FROM {name} WHERE n > 0 BEGIN (NOW - 10 ROWS)", key=name)
            client.add_webhook("sent", receiver.origin)
            arrived.get(timeout=PATIENCE_S)
            copy = client.copy(client.query(key="watched"))
            with client.watch([copy]) as changes:
                next(changes)

                def pushed(stream: str, wait: Any) -> None:
                    for _ in range(repeats):
                        client.push(stream, [{"n": 1}])
                        wait()

                turns = [
                    lambda: pushed("sent", lambda: arrived.get(timeout=PATIENCE_S)),
                    lambda: pushed("watched", lambda: next(changes)),
                ]
                rates = in_turns(turns, [repeats, repeats], run.of(5, 3, 1))
    ours, theirs = (rate.wall.milliseconds_each() for rate in rates)
    note = "push included, data on disk"
    yield Row("webhook.arrive", ours, "ms", "watch by the SDK", theirs, Target(at_most=2), note)


class _Receiver:
    """A receiver that puts each body into a queue."""

    def __init__(self, arrived: SimpleQueue[bytes]) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                size = 0
                for line in iter(self.rfile.readline, b"\r\n"):
                    name, _, value = line.partition(b":")
                    size = int(value) if name.lower() == b"content-length" else size
                body = self.rfile.read(size)
                self.wfile.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                arrived.put(body)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the receiver."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
