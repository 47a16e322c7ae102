"""One Spark session for the process that runs these tests, and one service for each file."""

from collections.abc import Iterator
from typing import Any

import pytest

from psoup_testing.services import fixtures
from psoup_testing.spark.session import small_session

running, client, make_stream = fixtures.running, fixtures.client, fixtures.make_stream


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    session = small_session()
    yield session
    session.stop()
