"""Pause Python's garbage collector while a caller creates millions of objects without cycles.

A million queries are tens of millions of objects. Without a pause, the collector visited them repeatedly, and took half
the time of a registration.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Disable automatic garbage collection in all threads during the `with` block.

    Afterwards the collector is enabled again, unless it was disabled before.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
