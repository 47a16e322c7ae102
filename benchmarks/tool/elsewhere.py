"""The settings of a process that stands for a client on another machine. They keep its own work out of the measurement.

    another machine ── network ──> service        has its own processors; the network takes a little at a time
    the same one ── loopback ────> service        works on the service's processors, for the network too

`go_last` leaves the processors to all other processes. `send_little` bounds each of its kernel calls, during which no
other process can go first.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

NICE = 19
SEND_BYTES = 128 * 1024
"""The most that a socket takes at once. No niceness counts inside a kernel that is not preempted: who hands megabytes
to the loopback device in one call does the work of the whole network, for 3 to 4 ms, and whoever was woken on that
processor waits. It was the service's event loop, in most of the slowest invocations beside pushes of 8 MiB: their 99th
percentile was 1.9 to 2.1 times that of alone in three runs, and 1.2 to 2.1, 1.6 in the middle, in five with this bound,
at as many bytes a second (EPYC, znver4, two virtual cores, a kernel without preemption)."""


def go_last() -> None:
    """Let all others go first on the processors: on Linux at once, also while this process has a turn."""
    os.nice(NICE)
    if sys.platform == "linux":
        with suppress(PermissionError):  # as some containers have it
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def send_little(port: int) -> None:
    """Bound what the sockets of this process that lead to a port take at once, from soon after they are opened on.

    Never returns; takes a twentieth of a processor at most. Does nothing where the system does not tell its sockets.
    """
    folder, names = Path("/proc/self/fd"), set[str]()
    while folder.is_dir():
        began = time.monotonic()
        for descriptor in os.listdir(folder):
            with suppress(OSError):  # closed meanwhile, or not connected yet
                name = os.readlink(folder / descriptor)
                if name not in names and name.startswith("socket:"):
                    with socket.socket(fileno=os.dup(int(descriptor))) as opened:
                        if opened.family != socket.AF_UNIX and opened.getpeername()[1] == port:
                            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
                    names.add(name)
        time.sleep(max(0.02, 20 * (time.monotonic() - began)))
