"""Freed memory of a service's process is reused before new memory of the system."""

import subprocess
import sys

import pytest

_FAULTS = """
import resource, sys
import numpy as np
from psoup_service.process import allocators

if sys.argv[1] == "kept":
    allocators.keep_freed_memory()

def faults(make):
    for _ in range(2):
        make()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        make()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def columns():
    return [np.full(65_536, number) for number in range(16)]

def message():
    return bytes(8 << 20)

print(faults(columns), faults(message))
"""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the settings are those of glibc")


@pytest.mark.long
def test_what_is_freed_is_used_again() -> None:
    columns, message = _faults("kept")
    assert (columns < 500, message < 500) == (True, True)
    columns, _ = _faults("usual")
    assert columns > 10_000, "the test tells nothing: memory is used again anyway"


def test_the_environment_decides() -> None:
    columns, _ = _faults("kept", MALLOC_MMAP_THRESHOLD_="131072", MALLOC_TRIM_THRESHOLD_="131072")
    assert columns > 10_000


def _faults(how: str, **environ: str) -> list[int]:
    """How often the process had to get a page from the system: for columns, and for messages."""
    done = subprocess.run(
        [sys.executable, "-c", _FAULTS, how], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    return [int(count) for count in done.stdout.split()]
