"""Benchmarks for tests: every row once, tiny, with services in this process, which start in tenths of a second."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import benchmarks.__main__ as command
from benchmarks.tool import processes
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.services.threaded_service import serving


def run_bench(patch: pytest.MonkeyPatch, file: Path, *flags: str) -> tuple[int, list[dict[str, Any]]]:
    """Run `python -m benchmarks` in this process; returns the exit code, and the rows that it wrote to `file`."""
    patch.setattr(processes, "served", _served)
    patch.setattr(command.signal, "signal", lambda *_: None)
    patch.setattr(sys, "argv", ["benchmarks", *flags, "--json", str(file)])
    code = command.main()
    return code, json.loads(file.read_text())


def failures(rows: list[dict[str, Any]]) -> dict[str, str]:
    """The rows that failed, and their tracebacks."""
    return {row["name"]: row["details"]["traceback"] for row in rows if row["failure"]}


def names(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    """The names of rows, in their order."""
    return tuple(dict.fromkeys(row["name"] for row in rows))


_in_a_process = processes.served


@contextmanager
def _served(
    folder: Path, *, durable: bool = True, settings: Mapping[str, str] | None = None, also: str = ""
) -> Iterator[processes.Served]:
    if also or not {"PSOUP_REPLICATE", "PSOUP_STANDBY"}.isdisjoint(settings or {}):  # also for a listener with TLS
        with _in_a_process(folder, durable=durable, settings=settings, also=also) as there:
            yield there
        return
    store = DurableStore(folder) if durable else None
    given: dict[str, Any] = {
        name.removeprefix("PSOUP_").lower(): int(value) if value.lstrip("-").isdecimal() else value
        for name, value in (settings or {}).items()
    }
    with serving(Settings(port=0, **given), store=store) as service:
        yield processes.Served(service.address, os.getpid(), folder, io.StringIO())
