"""Counts of Python's function calls: a cost that must not grow with the size of a structure."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any


def calls_of(act: Callable[[], object]) -> int:
    """Python and C functions called from Python by `act`; the garbage collector, which calls others' code, waits."""
    found = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    gc.collect()
    gc.disable()
    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(None)
        gc.enable()
    return found
