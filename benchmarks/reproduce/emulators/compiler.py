"""The compiler of the emulators' loops: Numba without reference counts.

With them, a call that takes a tuple of arrays spends most of its time on counting. So a compiled function may not
allocate an array. What is compiled is kept by file: after a change, remove what is kept of the files that call it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function that allocates nothing. It is compiled again when its own file changes."""
    return njit(cache=True, _nrt=False)(function)  # type: ignore[call-overload]
