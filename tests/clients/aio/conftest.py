"""An `AsyncClient` with the interface of `Client`, in place of the client of the other tests."""

from collections.abc import Iterator

import pytest

from psoup_testing.services.async_shim import ShimClient
from psoup_testing.services.threaded_service import Serving


@pytest.fixture
def client(running: Serving) -> Iterator[ShimClient]:
    with ShimClient(running.address, timeout=60) as connected:
        yield connected
