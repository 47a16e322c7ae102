"""Pause the cyclic garbage collector while millions of acyclic objects are made: it would walk all of them.

A million queries are tens of millions of objects; walking them again and again took half the time of a registration.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Have no automatic collection inside, in any thread; it is on again afterwards if it was before."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
