"""Two processes compile the kernels, each of them once."""

from __future__ import annotations

import fcntl
import io
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher
from rich.console import Console

from psoup.kernel_signatures import SIGNATURES, compile_listed
from psoup_cli.flights.child import ChildService
from psoup_cli.flights.kernel_meter import KernelMeter
from psoup_service.process import kernel_compiler, kernel_progress
from psoup_testing.suite.log_records import own_records


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


TOTAL = len(SIGNATURES.read_text().splitlines())


@pytest.mark.long
@pytest.mark.seeded("the second process that compiles says something, or outlives the first")
def test_the_second_process_counts_its_kernels_and_ends_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    """They are kept by then, as the tests begin with this."""
    with kernel_compiler._Second() as second:
        process = second._process
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), True)
        while second.done() < TOTAL:
            assert process.poll() is None
    assert process.returncode in (0, 1), "it was done, or was ended by this process"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("has_folder", [True, False])
def test_a_second_process_helps_from_the_second_missing_kernel(
    monkeypatch: pytest.MonkeyPatch, has_folder: bool
) -> None:
    reports = list[tuple[int, int]]()
    lives = list[str]()

    class Second:
        def __enter__(self) -> Any:
            lives.append("begun")
            return self

        def __exit__(self, *_: object) -> None:
            lives.append("ended")

        def done(self) -> int:
            return 4

    def listed(check: Any, *, done: Any) -> int:
        for number, missing in enumerate([False, True, False, True, False], 1):
            done(number, missing)
        for number in (TOTAL - 4, TOTAL - 1, TOTAL):
            done(number, False)
        return TOTAL

    monkeypatch.setattr(kernel_compiler, "_Second", Second)
    monkeypatch.setattr(kernel_compiler, "has_folder", lambda: has_folder)
    monkeypatch.setattr(kernel_compiler, "compile_listed", listed)
    kernel_compiler.compile_together(tell=lambda *numbers: reports.append(numbers))
    numbers = [8, 9, TOTAL] if has_folder else [4, 5, TOTAL - 4, TOTAL - 1, TOTAL]
    assert reports == [(number, TOTAL) for number in numbers]
    assert lives == (["begun", "ended"] if has_folder else [])


@pytest.mark.long
def test_a_kernel_that_is_loaded_is_not_compiled() -> None:
    seen = list[tuple[int, bool]]()
    compile_listed(done=lambda *facts: seen.append(facts))
    assert [number for number, _ in seen] == list(range(1, TOTAL + 1))
    assert not any(compiled for _, compiled in seen)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_a_line_of_a_terminal_or_entries_of_the_log(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(logging, "raiseExceptions", False)  # a handler of another test may have a closed file
    now = iter([10.0, 11.0, 16.0, 17.0])
    monkeypatch.setattr(kernel_progress.time, "monotonic", lambda: next(now))
    with caplog.at_level(logging.INFO):
        progress = kernel_progress.KernelProgress()
        for done in (2, 20, 57, 210):
            progress(done, 210)
    numbers = [(record.done, record.total, record.seconds) for record in own_records(caplog)]  # type: ignore[attr-defined]
    if terminal:
        assert numbers == []
        said = "compiling kernels, once for this install: "
        assert out.getvalue().split("\r") == [
            f"{said}2 of 210, 0 s",
            f"{said}20 of 210, 1 s",
            f"{said}57 of 210, 6 s",
            f"{said}210 of 210, 7 s\n",
        ]
    else:
        assert (numbers, out.getvalue()) == ([(2, 210, 0), (57, 210, 6), (210, 210, 7)], "")


def test_the_demo_shows_the_kernels_of_its_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file or pipe gets a line every ten seconds."""
    child = ChildService.__new__(ChildService)
    lines = b"kernel 2 210\nkernel 3 210\nkernel 210 210\n127.0.0.1:7433\n"
    monkeypatch.setattr(child, "_process", SimpleNamespace(stdout=io.BytesIO(lines)), raising=False)
    out = io.StringIO()
    with KernelMeter(Console(file=out, width=100)) as meter:
        assert child.wait_ready(meter) == child.address == "127.0.0.1:7433"
    said = "Compiling kernels, once for this install: "
    assert out.getvalue().splitlines() == [f"{said}2 of 210, 0 s", f"{said}210 of 210, 0 s"]


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
