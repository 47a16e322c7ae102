"""Tests of `Client`, unchanged, over `AsyncClient`: some files here, and all of them in `make test-long`."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from psoup_testing.services.async_shim import ShimClient

CLIENTS = Path(__file__).resolve().parents[1]
HERE = (
    "push/test_client_patches.py",
    "push/test_client_position.py",
    "push/test_client_refused.py",
    "push/test_client_stage.py",
)
"""Files whose tests are quick."""
FOLDERS = ("connection", "copies", "follow", "push", "queries")
OTHER = {
    "connection/test_client_options.py": "its interceptors and channels are made for threads",
    "connection/test_client_restart.py": "it replaces the sleep of threads",
}
"""Files that are not run, and why."""
NOT_SAME = (
    "test_the_command_says_it",  # replaces a method of `Client` for a command
    "test_every_call_of_a_client_refuses_such_text",  # looks at the class `Client`
    "test_what_may_not_be_repeated_is_sent_once",  # an interceptor of threads
)
"""Tests that are not run."""


@pytest.fixture
def _made() -> None:
    """A fixture, for its type."""


_FIXTURE = type(_made)


def _tests_of(path: str) -> Iterator[tuple[str, Any]]:
    """Yield the tests and fixtures of a file whose `Client` is a `ShimClient`."""
    spec = importlib.util.spec_from_file_location(f"over_{Path(path).stem}", CLIENTS / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    vars(module)["Client"] = ShimClient
    for name, value in vars(module).items():
        if name.startswith("test_") and name not in NOT_SAME:
            yield f"{name}_of_{Path(path).stem}", value
        elif isinstance(value, _FIXTURE):
            yield name, value


globals().update(pair for path in HERE for pair in _tests_of(path))

FILES = sorted(
    str(path.relative_to(CLIENTS))
    for folder in FOLDERS
    for path in (CLIENTS / folder).glob("test_client_*.py")
    if str(path.relative_to(CLIENTS)) not in OTHER
)


@pytest.mark.long
@pytest.mark.parametrize("path", FILES)
def test_the_tests_of_client_pass_over_async_client(path: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not long and not slow"]
    command += ["-p", "psoup_testing.services.async_shim", "-k", " and ".join(f"not {name}" for name in NOT_SAME)]
    done = subprocess.run(
        [*command, str(CLIENTS / path)],
        cwd=CLIENTS.parents[1],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )
    assert done.returncode in (0, 5), done.stdout[-5_000:]  # 5: all tests of the file are long
