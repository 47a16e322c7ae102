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
    """Disable automatic collection in all threads for the block. Afterwards it is enabled again if it was enabled
    before."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
