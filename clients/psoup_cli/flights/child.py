"""A service in a child process that cannot outlive its parent.

    parent: ChildService(port, data)  --stdin, held open-->  child: python -m psoup_cli.flights.child PORT DATA
                                      <--stdout: compiled kernels, its address--

The child prints its address once it serves. So the parent cannot mistake another service for it. It serves until the
parent stops it, or until its standard input ends because the parent has died. It has its own session, so Ctrl-C in the
terminal reaches only the parent.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence

from psoup_client import Unavailable

STOP_SECONDS = 15.0
HOST = "127.0.0.1"
_KERNEL = "kernel "
"""The beginning of a line about compiled kernels: the number done, and of all."""


class ChildService:
    """A service on loopback, in a child process, for a `with` statement. If it fails, the error shows its log.

    `port`: the wanted port; another one if it is in use. `data_dir`: the service's setting of that name. `address` is
    set after `wait_ready`.
    """

    def __init__(self, port: int, data_dir: str) -> None:
        self.address = ""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- closed by stop()
        # Start it before the first client, because a process with gRPC must not fork.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "psoup_cli.flights.child", str(port if is_free(port) else 0), data_dir],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )

    def __enter__(self) -> ChildService:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_ready(self, compiling: Callable[[int, int], None] = lambda done, total: None) -> str:
        """Wait until the service serves. Returns its address, or raises Unavailable with the end of its log.

        `compiling` is called after each kernel of a first start, with the number done, and of all.
        """
        assert self._process.stdout is not None
        while (line := self._process.stdout.readline().decode().strip()).startswith(_KERNEL):
            done, total = line.removeprefix(_KERNEL).split()
            compiling(int(done), int(total))
        self.address = line
        if not self.address:
            self._process.wait()
            raise Unavailable(f"the service did not start:\n{self.log_end()}")
        return self.address

    def wait(self) -> int:
        """Wait until the process ends by itself; returns its exit code."""
        return self._process.wait()

    def stop(self) -> None:
        """Ask the process to stop, and kill it if it does not. May be called twice."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for end in (self._process.stdin, self._process.stdout, self._log):
            if end is not None:
                end.close()

    def log_end(self) -> str:
        """The last lines of the service's log."""
        if self._log.closed:
            return ""
        self._log.seek(0)
        return "\n".join(self._log.read().decode(errors="replace").splitlines()[-15:])


def is_free(port: int) -> bool:
    """Whether no process listens on `port` of loopback; 0 is always free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _stop_with_parent() -> None:
    while os.read(0, 4_096):  # unbuffered: a thread in a buffered read blocks the interpreter's end
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def run(arguments: Sequence[str]) -> int:
    """Run the service in the child process. The arguments are the port and the data directory."""
    from psoup_cli.service import load_settings
    from psoup_service.main import serve

    port = int(arguments[0])
    loaded = load_settings({"host": HOST, "port": port, "data_dir": arguments[1]}, None)
    settings = loaded.settings
    if settings.web_port is None:
        settings = settings.model_copy(update={"web_port": port + 1 if port and is_free(port + 1) else 0})
    threading.Thread(target=_stop_with_parent, name="parent", daemon=True).start()
    return serve(
        settings,
        file=loaded.file,
        ready=lambda address: print(address, flush=True),
        compiling=lambda done, total: print(f"{_KERNEL}{done} {total}", flush=True),
    )


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
