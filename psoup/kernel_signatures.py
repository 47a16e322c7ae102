"""The types for which kernels are compiled before their first call: the lines of `kernels/signatures.txt`.

    rows.count_rows(uint64[::1], int64)     a kernel, and types in the form of Numba's signatures

Numba compiles a kernel at the first call with arguments of some types. Read-only and writable arrays differ in type.
The compilation takes a second or more. Meanwhile other threads make little progress, and other kernels wait. So at its
start, a service compiles all listed kernels, or loads them from the cache of an earlier start. If the engine calls a
kernel with other types, the tests fail and show the line to add.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from numba.core import types
from numba.core.dispatcher import Dispatcher
from numba.core.sigutils import normalize_signature

SIGNATURES = Path(__file__).with_name("kernels") / "signatures.txt"
POSTGRES = SIGNATURES.parent / "postgres" / "signatures.txt"
"""The list of the kernels for clients of PostgreSQL. A service compiles them only if it opens the port for them."""
_ROOM = "psoup.kernels."


def compile_listed(
    check: Callable[[], None] = lambda: None,
    *,
    backwards: bool = False,
    listed: Path = SIGNATURES,
    done: Callable[[int, bool], None] = lambda number, compiled: None,
) -> int:
    """Compile all listed kernels, or load them from Numba's cache. Returns their number.

    `backwards`: begin with the last line of the list, so that two processes can share the work. `listed`: the file of
    the list, SIGNATURES or POSTGRES. `check` is called before each kernel, and may raise. `done` is called after each
    one. Its arguments are the number of kernels so far, and whether this one was compiled, not loaded. SIGNATURES takes
    a second if the cache has all kernels, else nearly two minutes. Does nothing if Numba's compiler is disabled.
    """
    lines = listed.read_text().splitlines()
    for number, line in enumerate(reversed(lines) if backwards else lines, 1):
        check()
        name, _, arguments = line.partition("(")
        module, _, kernel = name.rpartition(".")
        dispatcher = getattr(import_module(_ROOM + module), kernel)
        compiled = False
        if isinstance(dispatcher, Dispatcher):
            before = len(dispatcher.stats.cache_misses)
            dispatcher.compile(normalize_signature(f"({arguments}")[0])
            compiled = len(dispatcher.stats.cache_misses) > before
        done(number, compiled)
    return len(lines)


def line_of(kernel: Any, arguments: tuple[types.Type, ...]) -> str | None:
    """The line of `signatures.txt` for a kernel and its arguments' types. Returns None if the kernel is not one of
    PSoup's."""
    module: str = kernel.py_func.__module__
    if not module.startswith(_ROOM):
        return None
    return f"{module.removeprefix(_ROOM)}.{kernel.py_func.__name__}({', '.join(map(_text_of, arguments))})"


def _text_of(kind: types.Type) -> str:
    """A type in the form of Numba's signatures."""
    if isinstance(kind, types.Array):
        if kind.mutable and kind.layout == "C":
            return f"{_text_of(kind.dtype)}[{', '.join([':'] * (kind.ndim - 1) + ['::1'])}]"
        return f"Array({_text_of(kind.dtype)}, {kind.ndim}, '{kind.layout}', {not kind.mutable})"
    if isinstance(kind, types.Tuple):
        return f"Tuple(({', '.join(map(_text_of, kind.types))}))"
    if isinstance(kind, types.UniTuple):
        return f"UniTuple({_text_of(kind.dtype)}, {kind.count})"
    return "boolean" if kind == types.boolean else str(kind)
