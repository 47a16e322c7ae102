"""One Spark session for the process that runs these tests, and one service for each file."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from psoup_client import Client
from psoup_testing.serving import Serving, serving
from psoup_testing.spark import small_session

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    session = small_session()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def running() -> Iterator[Serving]:
    with serving() as service:
        yield service


@pytest.fixture
def client(running: Serving) -> Iterator[Client]:
    with Client(running.address, timeout=20) as connected:
        yield connected


@pytest.fixture
def make_stream(client: Client) -> Callable[[str], str]:
    """Create a stream from its columns and clauses; returns its name."""

    def make(definition: str) -> str:
        return client.create_stream(f"CREATE STREAM f{next(_numbers)} {definition}").name

    return make
