"""All kernels compiled by two processes at once, into the folder of kernels: half the time, given two processors.

    python -m psoup_service.compiling
        this process   selections, then joins and all else, which is there by then
        a second one   joins and all else

A kernel is compiled by one of them while the other waits for it, and then loads it: the index that Numba keeps of a
kernel's types would lose one of two that are written at once.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from numba.core.dispatcher import Dispatcher

_OURS = "psoup."
"""Kernels of these modules are kept; those of Numba itself are parts of them."""


def compile_under_locks(folder: Path) -> None:
    """From now on no two processes with the same folder of locks compile a kernel at the same time."""
    unlocked, under_way = Dispatcher.compile, set[str]()

    def compile_one(self: Any, sig: Any) -> Any:
        name = f"{self.py_func.__module__}.{self.py_func.__qualname__}"
        if not name.startswith(_OURS) or name in under_way:
            return unlocked(self, sig)
        with (folder / name).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            under_way.add(name)
            try:
                return unlocked(self, sig)
            finally:
                under_way.discard(name)

    Dispatcher.compile = compile_one  # type: ignore[method-assign]


def main() -> None:
    """Compile them all; the second process, which is given the folder of the locks, must end well too."""
    from psoup_service.warmup import warm_up, warm_up_last

    if len(sys.argv) > 1:
        compile_under_locks(Path(sys.argv[1]))
        warm_up_last()
        return
    with tempfile.TemporaryDirectory(prefix="psoup-compiling-") as folder:
        compile_under_locks(Path(folder))
        second = subprocess.Popen([sys.executable, "-m", __spec__.name, folder])
        try:
            warm_up()
        finally:
            ended = second.wait()
    sys.exit(ended)


if __name__ == "__main__":
    main()
