"""The process's memory from the system: freed memory is kept for a while, for later requests.

    NumPy, SQLite, gRPC ──> malloc, one arena ──> up to `KEPT_BYTES` at its end, and all gaps, stay with the process
    Arrow ────────────────> its own pool, as it comes
    columns of chunks ────> `psoup.columns.lasting_memory`: what stays takes no gap from what comes and goes

Memory that comes from the system is cleared page by page when it is first touched, and in a virtual machine the host
may have to find it as well: half a MiB took 300 to 540 us to fill, and 16 where it had been used before (Emerald
Rapids, virtual). Large pushes paid that in the decoder, the committer, the writer and maintenance: beside pushes of
8 MiB the 99th percentile of another tenant's invocations was 50 ms, and is 11 to 16. With an arena for each thread, as
usual, what one thread frees is of no use to the next. Arrow stays with its own pool: malloc maps texts of 200 MB
anew each time, page by page, and a neighbour's pushes beside that took twice as long.
"""

from __future__ import annotations

import ctypes
import os

KEPT_BYTES = 128 << 20
"""Freed bytes at the end of malloc's memory that stay with the process."""

MAPPED_BYTES = 32 << 20
"""Blocks of so many bytes or more are mapped one by one, and given back at once; malloc allows no greater number."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Names of `mallopt`, as glibc's malloc.h has them."""

_VARIABLES = {
    "MALLOC_TRIM_THRESHOLD_": (_TRIM_THRESHOLD, KEPT_BYTES),
    "MALLOC_MMAP_THRESHOLD_": (_MMAP_THRESHOLD, MAPPED_BYTES),
    "MALLOC_ARENA_MAX": (_ARENA_MAX, 1),
}
"""The variables by which an operator sets the same."""


def keep_freed_memory() -> None:
    """Let freed memory be used again, but for what the environment sets otherwise.

    Called once, before there are other threads. Does nothing where the C library is not glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # TypeError: on Windows a library must be named
        return
    for variable, (name, value) in _VARIABLES.items():
        if variable not in os.environ:
            mallopt(name, value)
