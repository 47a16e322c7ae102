"""One service for all tests of a file that change nothing others see; and one with a browser, for those of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from psoup_service.process.settings import Settings
from psoup_testing.browser.browser import Opened, Site, browser, opened
from psoup_testing.browser.page_requests import Page
from psoup_testing.browser.page_steps import STREAM, sale
from psoup_testing.services.threaded_service import Serving, serving

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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service with sales, 10,000 ticks, and a query of each."""
    site = Site(tmp_path_factory.mktemp("site") / "data")
    with site.client() as soup:
        soup.create_stream(STREAM)
        soup.create_stream("CREATE STREAM ticks (n BIGINT, note TEXT)")
        soup.push("sales", [sale(day) for day in range(28)])
        soup.register("SELECT at, shop, amount, pieces FROM sales BEGIN (NOW - 7 DAYS)", key="week")
        soup.register("SELECT n, note FROM ticks BEGIN (START)", key="ticks")
        soup.push("ticks", [{"n": n, "note": f"note {n}"} for n in range(10_000)])
    yield site
    site.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser."""
    with browser() as chromium:
        yield chromium


@pytest.fixture
def tab(chromium: Browser, site: Site) -> Iterator[Opened]:
    """A page that nothing is stored in yet, and that complains of nothing."""
    site.start()
    with opened(chromium, site) as tab:
        yield tab
        assert tab.problems == []


@pytest.fixture
def phone(chromium: Browser, site: Site) -> Iterator[Opened]:
    """A tab whose page may be installed."""
    site.start()
    with opened(chromium, site, installs=True) as tab:
        yield tab
        assert tab.problems == []
