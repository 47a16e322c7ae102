"""One service for all tests of a file that change nothing others see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from psoup_service.settings import Settings
from psoup_testing.pages import Page
from psoup_testing.serving import Serving, serving

HOST = "psoup.example"


@pytest.fixture(scope="package")
def served() -> Iterator[Serving]:
    """A service with a gateway, a stream and a query."""
    with serving(Settings(port=0, web_port=0, web_hosts=(HOST,))) as service:
        page = Page(service.service)
        page.call("StatementService/Execute", {"statement": "CREATE STREAM s (n BIGINT, t TEXT)"})
        yield service


@pytest.fixture(scope="package")
def page(served: Serving) -> Page:
    """A page of that service."""
    return Page(served.service)


@pytest.fixture(scope="package")
def query(page: Page) -> str:
    """The ID of a query."""
    reply = page.call("QueryService/Register", {"statement": "SELECT n, t FROM s WHERE n > 0"})
    return str(reply["query"]["queryId"])
