"""Two processes compile the kernels, each of them once."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

from psoup.kernel_signatures import compile_listed
from psoup_service.process import kernel_compiler


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[tuple[str, bool]]]:
    """What is compiled from now on: the types, and whether another process could compile the kernel by then."""
    seen: list[tuple[str, bool]] = []

    def compile_one(self: Any, sig: str) -> int:
        held = [path for path in tmp_path.iterdir() if not free(path)]
        seen.append((sig, not held))
        if sig == "raises":
            raise ValueError(sig)
        return self.then(sig) if sig == "nested" else 0

    monkeypatch.setattr(Dispatcher, "compile", compile_one)
    with kernel_compiler.locked(tmp_path):
        yield seen
    assert Dispatcher.compile is compile_one


def free(path: Path) -> bool:
    """Whether somebody else could take this lock now."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


class Kernel:
    """Stands for one that Numba is to compile; the first types lead to it once more, as recursion does."""

    def __init__(self, module: str) -> None:
        self.py_func = type("function", (), {"__module__": module, "__qualname__": "f"})

    def then(self, sig: str) -> Any:
        return Dispatcher.compile(self, "recursive")


@pytest.mark.parametrize(
    ("module", "open_to_others"), [("psoup.kernels.rows.bit_blocks", False), ("numba.np.arrayobj", True)]
)
def test_a_kernel_is_compiled_by_one_process_at_a_time(
    compiled: list[tuple[str, bool]], tmp_path: Path, module: str, open_to_others: bool
) -> None:
    kernel = Kernel(module)
    assert Dispatcher.compile(kernel, "nested") == 0
    with pytest.raises(ValueError, match="raises"):
        Dispatcher.compile(kernel, "raises")
    assert compiled == [("nested", open_to_others), ("recursive", open_to_others), ("raises", open_to_others)]
    assert all(map(free, tmp_path.iterdir()))


@pytest.mark.long
@pytest.mark.seeded("the second process that compiles says something, or outlives the first")
def test_two_processes_have_them_all_and_end_in_silence() -> None:
    """They are kept by then, as the tests begin with this."""
    done = subprocess.run([sys.executable, "-m", kernel_compiler.__name__], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_start_that_is_given_up_compiles_no_more(compiled: list[tuple[str, bool]]) -> None:
    """Ctrl-C in the first minute was answered at its end."""

    class GivenUpError(Exception):
        """Raised once there are three."""

    def check() -> None:
        if len(compiled) == 3:
            raise GivenUpError

    with pytest.raises(GivenUpError):
        compile_listed(check)
    assert len(compiled) == 3
