"""Fixtures of the folders whose tests talk to a real service; a conftest imports those that it wants."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from psoup_client import Client
from psoup_testing.services.ports import KeptPort
from psoup_testing.services.threaded_service import Serving, serving

numbers = itertools.count(1)
"""For names of streams, unique in a process."""


@pytest.fixture(scope="module")
def running() -> Iterator[Serving]:
    """A service for each test file."""
    with serving() as service:
        yield service


@pytest.fixture
def kept_port() -> Iterator[KeptPort]:
    """A port for a service that stops and starts again."""
    with KeptPort() as port:
        yield port


@pytest.fixture
def client(running: Serving) -> Iterator[Client]:
    """A connection to it."""
    with Client(running.address, timeout=60) as connected:
        yield connected


@pytest.fixture
def make_stream(client: Client) -> Callable[[str], str]:
    """Create a stream from its columns and clauses: `make_stream("(a BIGINT)")`; returns its name."""

    def make(definition: str) -> str:
        return client.create_stream(f"CREATE STREAM s{next(numbers)} {definition}").name

    return make
