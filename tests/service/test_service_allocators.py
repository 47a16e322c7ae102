"""What the process of a service has freed is used again, instead of new memory of the system."""

import subprocess
import sys

import pytest

_FAULTS = """
import resource, sys
import numpy as np, pyarrow as pa
from psoup_service import allocators

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

def messages():
    return pa.allocate_buffer(8 << 20), np.asarray(pa.array(np.arange(1 << 20)).cast(pa.int32()))

print(pa.default_memory_pool().backend_name, faults(columns), faults(messages))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the settings are those of glibc")
def test_what_is_freed_is_used_again() -> None:
    pool, columns, messages = _run("kept").split()
    assert (pool, int(columns) < 500, int(messages) < 500) == ("system", True, True)
    _, columns, _ = _run("usual").split()
    assert int(columns) > 10_000, "the test tells nothing: memory is used again anyway"


def test_the_environment_decides() -> None:
    assert _run("kept", ARROW_DEFAULT_MEMORY_POOL="jemalloc").startswith("jemalloc ")


def _run(how: str, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _FAULTS, how], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout
