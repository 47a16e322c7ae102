"""Kernels that the product calls with types that it does not list: a client would wait until they are compiled."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.dispatcher import Dispatcher

from psoup.kernel_signatures import POSTGRES, SIGNATURES, line_of

_TESTS = Path(__file__).resolve().parents[2]


def refuse_unlisted() -> None:
    """From now on such a call fails in this process.

    Tests themselves call kernels with what they like: with types that are not listed a copy of the kernel, so that a
    call of the product with the same types is seen in whatever order they come.
    """
    listed = frozenset(SIGNATURES.read_text().splitlines() + POSTGRES.read_text().splitlines())
    compile_for = Dispatcher._compile_for_args

    def checked(kernel: Any, *arguments: Any) -> Any:
        caller, kinds = Path(sys._getframe(1).f_code.co_filename), tuple(map(kernel.typeof_pyval, arguments))
        line = line_of(kernel, kinds)
        if line is None or line in listed:
            return compile_for(kernel, *arguments)
        if _TESTS in caller.parents:
            kernel._types_active_call.clear()
            return _copy(kernel).compile(kinds)
        place = POSTGRES if line.startswith("postgres.") else SIGNATURES
        raise AssertionError(f"{caller.name} calls a kernel that is not compiled by then; {place}:\n{line}")

    Dispatcher._compile_for_args = checked


@cache
def _copy(kernel: Any) -> Any:
    """A kernel of the same code, kept in the same place."""
    return njit(cache=True, nogil=True)(kernel.py_func)
