"""A service that assistants reach, for each test file, with a stream of trades."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp.client.client import Client as McpClient

from psoup_client import Client
from psoup_service.process.settings import Settings
from psoup_testing.services.threaded_service import Serving


@pytest.fixture(scope="module")
def running() -> Iterator[Serving]:
    """A service with the endpoint of assistants."""
    served = Serving(Settings(port=0, web_port=0, mcp=True))
    try:
        with Client(served.address, timeout=60) as client:
            client.create_stream("CREATE STREAM trades (sym TEXT, price DOUBLE, n INT)")
            rows = [{"sym": "A", "price": 1.5, "n": 3}, {"sym": "B", "price": 2.5, "n": None}]
            client.push("trades", rows)
        yield served
    finally:
        served.stop()


@pytest.fixture(scope="module")
def url(running: Serving) -> str:
    """The address of the endpoint."""
    assert running.service.gateway is not None
    return f"{running.service.gateway.address}/mcp"


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    """A thread with an event loop, for clients."""
    with start_blocking_portal() as started:
        yield started


@pytest.fixture(scope="module")
def call(url: str, portal: BlockingPortal) -> Iterator[Callable[..., Any]]:
    """A function that calls a tool by the official SDK's client. It checks the result by the schema of the tool."""
    with portal.wrap_async_context_manager(McpClient(url)) as client:

        def called(name: str, **arguments: Any) -> Any:
            return portal.call(client.call_tool, name, arguments)

        yield called
