"""Servers in processes of their own: PSoup's service, and the one that does nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from psoup_client import Client, Unavailable

START_SECONDS = 90
STOP_SECONDS = 20


class Served(NamedTuple):
    """A service that runs: its address, process, data directory (empty in memory), and log."""

    address: str
    pid: int
    folder: Path
    log: IO[str]

    def said(self) -> str:
        """The end of its log."""
        self.log.seek(0)
        return self.log.read()[-3_000:]


@contextmanager
def service(*, durable: bool = False) -> Iterator[str]:
    """The address of a fresh `psoup serve`, in memory or on a directory that goes with it; stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder, served(Path(folder), durable=durable) as started:
        yield started.address


@contextmanager
def served(
    folder: Path, *, durable: bool = True, settings: Mapping[str, str] | None = None, also: str = ""
) -> Iterator[Served]:
    """A `psoup serve` on a directory, or in memory; stopped at the end, what it wrote stays.

    `settings`: PSOUP_*; `also`: another place to listen on.
    """
    port = free_port()
    places = ["--listen", f"127.0.0.1:{port}", "--listen", also] if also else ["--port", str(port)]
    with tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-c", "from psoup_cli.main import main; main()", "serve"]
        command += [*places, *(["--data-dir", str(folder)] if durable else ["--memory"])]
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **(settings or {})})
        try:
            address = f"127.0.0.1:{port}"
            _wait_ready(address, process, log)
            yield Served(address, process.pid, folder, log)
        finally:
            stop(process)


def resident(pid: int) -> int:
    """Bytes of memory that a process has now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(pid: int) -> float:
    """Seconds of processor time that the threads of a process which run now have had."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def wake_ups(pid: int) -> int:
    """The number of times that the threads of a process which run now have waited and gone on."""
    count = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = (line.split(":") for line in (task / "status").read_text().splitlines())
        count += sum(int(value) for name, value in fields if name == "voluntary_ctxt_switches")
    return count


@contextmanager
def empty_service() -> Iterator[str]:
    """The address of a fresh service that does nothing."""
    command = [sys.executable, "-m", "benchmarks.tool.empty_service"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"127.0.0.1:{int(process.stdout.readline())}"
    finally:
        stop(process)


def _wait_ready(address: str, process: subprocess.Popen[bytes], log: IO[str]) -> None:
    with Client(address) as client:
        for _ in range(START_SECONDS):
            try:
                client.wait_ready(1)
                return
            except Unavailable:
                if process.poll() is not None:
                    break
    log.seek(0)
    raise RuntimeError(f"psoup serve did not start: {log.read()}")


def stop(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """End a process."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """A free port of loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
