"""A service in a child process that cannot outlive its parent.

    parent: ChildService(port)  --stdin (held open)-->  child: python -m psoup_cli.flights.child --port N

The child serves until it is told to stop, or until its standard input ends: then the parent is gone, however it
ended. The child has a session of its own, so that Ctrl-C in the terminal reaches the parent only, which stops it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence

from psoup_client import Client, PSoupError, Unavailable

STOP_SECONDS = 15.0
HOST = "127.0.0.1"


class ChildService:
    """Starts a service on loopback; use it in a `with` statement. Its log is kept and shown if it fails."""

    def __init__(self, port: int) -> None:
        self.port = free_port(port)
        self.address = f"{HOST}:{self.port}"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- closed by stop()
        # Not a fork of this process once gRPC runs in it: start before the first client.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "psoup_cli.flights.child", str(self.port)],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def __enter__(self) -> ChildService:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_ready(self, timeout: float) -> None:
        """Wait until it serves; raises Unavailable with the end of its log if it does not."""
        deadline = time.monotonic() + timeout
        with Client(self.address) as client:
            while True:
                try:
                    client.wait_ready(1.0)
                    return
                except PSoupError as problem:
                    if self._ended_within(0.1) or time.monotonic() > deadline:
                        raise Unavailable(f"the service did not start: {problem.message}\n{self.log_end()}") from None

    def _ended_within(self, seconds: float) -> bool:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait(self) -> int:
        """Wait until the process ends by itself; returns its exit code."""
        return self._process.wait()

    def stop(self) -> None:
        """Tell it to stop, wait, and make sure. May be called twice."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._log.close()

    def log_end(self) -> str:
        """The last lines of its output."""
        if self._log.closed:
            return ""
        self._log.seek(0)
        return "\n".join(self._log.read().decode(errors="replace").splitlines()[-15:])


def free_port(wanted: int) -> int:
    """`wanted` if nobody listens on it, else a port that is free at this moment; 0 takes any."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError(f"there is no free port on {HOST}")


def _stop_with_parent() -> None:
    while os.read(0, 4_096):  # the descriptor itself: a thread inside a buffered file blocks the interpreter's end
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def run(arguments: Sequence[str]) -> int:
    """The child: serve on the port that is the only argument."""
    from psoup_cli.service import load_settings
    from psoup_service.main import serve

    loaded = load_settings({"host": HOST, "port": int(arguments[0])}, None)
    threading.Thread(target=_stop_with_parent, name="parent", daemon=True).start()
    return serve(loaded.settings)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
