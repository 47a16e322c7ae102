"""Object storage of S3 in a process of its own: moto, with the bucket `bucket`. A write takes 5 ms at least.

It prints its port. It ends once its standard input is closed. It serves one request at a time, because moto does not
honour conditional writes otherwise.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.tool.processes import stop

WRITE_S = 0.005
"""The least seconds of a write."""


@contextmanager
def object_storage() -> Iterator[dict[str, str]]:
    """The environment that leads a service to a fresh storage, which goes with it."""
    command = [sys.executable, "-m", "benchmarks.tool.object_storage"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        settings = {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "REGION": "us-east-1", "ALLOW_HTTP": "true"}
        settings["ENDPOINT_URL"] = f"http://127.0.0.1:{int(process.stdout.readline())}"
        yield {f"AWS_{name}": value for name, value in settings.items()}
    finally:
        stop(process)


def _serve() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    WSGIRequestHandler.disable_nagle_algorithm = True
    moto = DomainDispatcherApplication(create_backend_app)

    def slow(environ: dict[str, Any], respond: Callable[..., Any]) -> Any:
        began = time.monotonic()
        reply = moto(environ, respond)
        if environ["REQUEST_METHOD"] == "PUT":
            time.sleep(max(0.0, began + WRITE_S - time.monotonic()))
        return reply

    server = make_server("127.0.0.1", 0, slow, request_handler=MotoRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{server.port}/bucket", method="PUT")):
        pass
    print(server.port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve()
