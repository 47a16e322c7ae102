"""A service without a port for clients of PostgreSQL loads neither the code of the protocol nor its kernels."""

from __future__ import annotations

import subprocess
import sys

import pytest

_STARTED = """
import sys
import psoup_service.service
from psoup_service.process.warmup import warm_up
warm_up()
print([name for name in sys.modules if name.startswith(("psoup_service.pg", "psoup.kernels.postgres", "duckdb"))])
"""


@pytest.mark.long
def test_a_service_without_the_port_loads_nothing_of_it() -> None:
    done = subprocess.run([sys.executable, "-c", _STARTED], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
