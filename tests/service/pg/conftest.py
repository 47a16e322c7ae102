"""A service that clients of PostgreSQL reach, for each test file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from psoup_service.process.settings import Settings
from psoup_testing.services.threaded_service import Serving


@pytest.fixture(scope="module")
def running() -> Iterator[Serving]:
    """A service with a port for clients of PostgreSQL."""
    served = Serving(Settings(port=0, pg_port=0))
    try:
        yield served
    finally:
        served.stop()
