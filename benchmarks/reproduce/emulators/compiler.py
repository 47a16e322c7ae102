"""The compiler of the emulators' loops: Numba without reference counts.

With them, a call that takes a tuple of arrays spends most of its time on counting. So a compiled function may not
allocate an array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function that allocates nothing; it is compiled again when its file changes."""
    return njit(cache=True, _nrt=False)(function)  # type: ignore[call-overload]
