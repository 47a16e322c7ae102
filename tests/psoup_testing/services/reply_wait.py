"""Waiting for the reply of a service in another process, which a test cannot watch from within."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 30.0
T = TypeVar("T")


def asked_until(read: Callable[[], T], wanted: Callable[[T], bool]) -> T:
    """The first reply that is as wanted. Calls `read` again and again; raises AssertionError after `PATIENCE_S`."""
    end = time.monotonic() + PATIENCE_S
    while not wanted(reply := read()):
        assert time.monotonic() < end, f"not as wanted after {PATIENCE_S:g} s: {reply}"
    return reply
