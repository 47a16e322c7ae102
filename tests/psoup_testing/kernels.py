"""Kernels that the product calls with types that it does not list: a client would wait until they are compiled."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from numba.core.dispatcher import Dispatcher

from psoup.compiled import SIGNATURES, line_of

_TESTS = Path(__file__).resolve().parent.parent


def refuse_unlisted() -> None:
    """From now on such a call fails in this process. Tests themselves may call kernels with what they like."""
    listed = frozenset(SIGNATURES.read_text().splitlines())
    compile_for = Dispatcher._compile_for_args

    def checked(kernel: Any, *arguments: Any) -> Any:
        caller = Path(sys._getframe(1).f_code.co_filename)
        line = None if _TESTS in caller.parents else line_of(kernel, tuple(map(kernel.typeof_pyval, arguments)))
        if line is not None and line not in listed:
            raise AssertionError(f"{caller.name} calls a kernel that is not compiled by then; {SIGNATURES}:\n{line}")
        return compile_for(kernel, *arguments)

    Dispatcher._compile_for_args = checked
