"""Rows `idle.*`: connections that say nothing more than that they speak HTTP/2.

10,000 sockets ──> PREFACE, SETTINGS ──> held       idle.memory   what the service's memory has grown by
                                                    idle.call     99th percentile of a new client's calls meanwhile
"""

from __future__ import annotations

import resource
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks.attacks.frames import PREFACE, settings
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.processes import resident
from benchmarks.tool.run import Run
from psoup_client import Client

CONNECTIONS = 10_000
SPARE = 200
"""Files that a process has open beside the connections."""

CALLS = 200


def rows(run: Run) -> Iterator[Row]:
    """Both rows of one service."""
    yield from run.part(lambda: _held(run), "idle.memory", "idle.call")


def _held(run: Run) -> Iterator[Row]:
    count = min(run.of(CONNECTIONS, CONNECTIONS, 50), _most_files())
    with tempfile.TemporaryDirectory(prefix="psoup-bench-") as folder, ExitStack() as stack:
        service = stack.enter_context(processes.served(Path(folder), durable=False))
        host, _, port = service.address.rpartition(":")
        alone = _calls(service.address, run.of(CALLS, CALLS, 2))
        before = resident(service.pid)
        for _ in range(count):
            line = stack.enter_context(socket.create_connection((host, int(port)), 30))
            line.sendall(PREFACE + settings())
            line.recv(9)
        grown = (resident(service.pid) - before) / 1e6
        beside = _calls(service.address, run.of(CALLS, CALLS, 2))
    note = f"idle.memory: {count:,} connections"
    target = Target(value_at_most=250 * count / CONNECTIONS) if count == CONNECTIONS else None
    yield Row("idle.memory", Sample.of([grown]), "MB", "none", None, target, note)
    yield Row("idle.call", _p99(beside), "ms", "without them", _p99(alone), Target(value_at_most=50))


def _calls(address: str, count: int) -> list[float]:
    """Milliseconds of each call of a new client, the first of them, which connects, among them."""
    with Client(address) as client:
        return [1e3 * seconds(client.info) for _ in range(count)]


def _p99(values: list[float]) -> Sample:
    return Sample(float(np.percentile(values, 99)), float(np.median(values)), max(values), len(values))


def _most_files() -> int:
    """The most connections of this process, and of those that it starts."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = CONNECTIONS + SPARE if hard == resource.RLIM_INFINITY else min(hard, CONNECTIONS + SPARE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit - SPARE
