"""The types that kernels are compiled for before they are called: the lines of `kernels/signatures.txt`.

    rows.count_rows(uint64[::1], int64)     a kernel, and types as Numba's own signatures write them

Numba compiles a kernel when it is first called with arguments of some types; whether an array may be written is one
of them. That takes a second or more, in which other threads get little done and other kernels wait, so a service has
all of these compiled, or loads what an earlier start kept, before a client comes. The tests fail when a call of the
engine leads to one that is not listed, and say which line to add.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from numba.core import types
from numba.core.dispatcher import Dispatcher
from numba.core.sigutils import normalize_signature

SIGNATURES = Path(__file__).with_name("kernels") / "signatures.txt"
_ROOM = "psoup.kernels."


def compile_listed(check: Callable[[], None] = lambda: None, *, backwards: bool = False) -> int:
    """Compile or load all that is listed, in the order of the list or against it; returns their number.

    A second for what was kept; else nearly two minutes for all. Does nothing where Numba is told to compile nothing.
    `check` is called before each, and may raise.
    """
    lines = SIGNATURES.read_text().splitlines()
    for line in reversed(lines) if backwards else lines:
        check()
        name, _, arguments = line.partition("(")
        module, _, kernel = name.partition(".")
        dispatcher = getattr(import_module(_ROOM + module), kernel)
        if isinstance(dispatcher, Dispatcher):
            dispatcher.compile(normalize_signature(f"({arguments}")[0])
    return len(lines)


def line_of(kernel: Any, arguments: tuple[types.Type, ...]) -> str | None:
    """The line of a kernel for these types; None: it is none of PSoup's."""
    module: str = kernel.py_func.__module__
    if not module.startswith(_ROOM):
        return None
    return f"{module.removeprefix(_ROOM)}.{kernel.py_func.__name__}({', '.join(map(_text_of, arguments))})"


def _text_of(kind: types.Type) -> str:
    """A type, as a signature writes it."""
    if isinstance(kind, types.Array):
        if kind.mutable and kind.layout == "C":
            return f"{_text_of(kind.dtype)}[{', '.join([':'] * (kind.ndim - 1) + ['::1'])}]"
        return f"Array({_text_of(kind.dtype)}, {kind.ndim}, '{kind.layout}', {not kind.mutable})"
    if isinstance(kind, types.UniTuple):
        return f"UniTuple({_text_of(kind.dtype)}, {kind.count})"
    return "boolean" if kind == types.boolean else str(kind)
