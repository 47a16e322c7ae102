"""A real service for the tests of clients, one for each file; streams get names of their own."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from psoup_client import Client
from psoup_testing.serving import Serving, serving

_numbers = itertools.count(1)


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
    """Create a stream from its columns and clauses: `make_stream("(a BIGINT)")`; returns its name."""

    def make(definition: str) -> str:
        return client.create_stream(f"CREATE STREAM s{next(_numbers)} {definition}").name

    return make
