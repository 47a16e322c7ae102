"""The process's memory: freed memory is kept for a while, for later requests.

    NumPy, SQLite, gRPC ──> malloc, one arena ──> up to `KEPT_BYTES` at its end, and all gaps, stay with the process
    Arrow ────────────────> its own pool, as it comes
    columns of chunks ────> `psoup.values.columns.lasting_memory`: long-lived memory, outside of malloc's gaps

New memory from the system is cleared page by page when it is first touched. In a virtual machine the host may have to
find it as well. Filling half a MiB of new memory took 300 to 540 us, and 16 us of reused memory (Emerald Rapids,
virtual). Large pushes paid that in the decoder, the committer, the writer and maintenance. During pushes of 8 MiB, the
99th percentile of another tenant's invocations fell from 50 ms to 11 to 16 ms.

There is one arena. With an arena for each thread, the default, a thread cannot reuse memory that another one freed.
Arrow keeps its own pool: malloc would map texts of 200 MB again each time, page by page. Then pushes of other
tenants took twice as long.
"""

from __future__ import annotations

import ctypes
import os

KEPT_BYTES = 128 << 20
"""The most freed bytes at the end of malloc's memory that stay with the process."""

MAPPED_BYTES = 32 << 20
"""Blocks of at least this size are mapped one by one, and given back at once. It is the greatest value that malloc
allows.
"""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Numbers of the parameters of `mallopt`, from glibc's malloc.h."""

_VARIABLES = {
    "MALLOC_TRIM_THRESHOLD_": (_TRIM_THRESHOLD, KEPT_BYTES),
    "MALLOC_MMAP_THRESHOLD_": (_MMAP_THRESHOLD, MAPPED_BYTES),
    "MALLOC_ARENA_MAX": (_ARENA_MAX, 1),
}
"""Environment variables by which an operator sets these parameters, with the values that the service sets."""


def keep_freed_memory() -> None:
    """Tell malloc to keep freed memory for reuse. Settings in the environment take precedence.

    To be called once, before there are other threads. Has no effect unless the C library is glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # TypeError: on Windows a library must be named
        return
    for variable, (name, value) in _VARIABLES.items():
        if variable not in os.environ:
            mallopt(name, value)
