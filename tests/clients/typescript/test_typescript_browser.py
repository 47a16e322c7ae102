"""psoup-client in a browser, from a page on another host: calls with a token, the hook, copies, and restarts."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from psoup_client import Client, ClientOptions
from psoup_testing.browser.browser import SKIPPED, WAIT_MS, Site, browser, executable
from psoup_testing.services.npm_package import built_package

pytestmark = [pytest.mark.long, pytest.mark.skipif(executable() is None, reason=SKIPPED)]

KEY = "all sales"
LIBRARIES = ("react", "preact")
HTML = '<!doctype html><title>x</title><div id="page"></div>'
COPY = """async ([url, token, key]) => {
  const { createClient, indexedDB } = await import("/bundle.js");
  window.copy = await createClient({ url, token }).copy(key, { store: indexedDB("copies") });
  window.changes = 0;
  copy.subscribe(() => changes++);
  return copy.rows.map(row => row.n);
}"""
"""Opens the copy of a query, and returns the rows that are there."""
FAILS = """async ([url, token]) => {
  const { createClient } = await import("/bundle.js");
  const problem = await createClient({ url, token }).ask("SELECT n FROM sales").then(() => null, problem => problem);
  return problem && [problem.name, problem.code, problem.reason];
}"""
"""Asks, and returns the error; null if there is none."""


class Files(http.server.SimpleHTTPRequestHandler):
    """Gives the files of a folder, without a word."""

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The origin of a page on another port, which is another host for a browser."""
    package, folder = built_package(), tmp_path_factory.mktemp("page")
    shutil.copy(package / "dist" / "bundle.js", folder)
    (folder / "plain.html").write_text(HTML)
    for library in LIBRARIES:
        shutil.copy(package / "out" / "page" / f"{library}.js", folder)
        (folder / f"{library}.html").write_text(f'{HTML}<script type="module" src="/{library}.js"></script>')
    handler = functools.partial(Files, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser."""
    with browser() as chromium:
        yield chromium


@pytest.fixture
def tab(chromium: Browser) -> Iterator[BrowserContext]:
    """A browser without anything stored."""
    context = chromium.new_context()
    context.set_default_timeout(WAIT_MS)
    try:
        yield context
    finally:
        context.close()


class Shop:
    """A service with a stream of sales, and the token of a reader."""

    def __init__(self, folder: Path, origin: str) -> None:
        self.site = Site(folder, web_origins=(origin,))
        with self.site.client() as soup:
            self._owner = soup.issue_token("ann", ["owner", "operator"], first=True).secret
        with self.client() as soup:
            self.token = soup.issue_token("page", ["reader"]).secret
            soup.create_stream("CREATE STREAM sales (n BIGINT, shop TEXT)")
            soup.register("SELECT n, shop FROM sales BEGIN (START)", key=KEY)

    def client(self) -> Client:
        """A client of the owner."""
        return Client(self.site.grpc_address, options=ClientOptions(token=self._owner))

    def sell(self, *numbers: int) -> None:
        """Push sales."""
        with self.client() as soup:
            soup.push("sales", [{"n": number, "shop": "Ghent"} for number in numbers])


@pytest.fixture
def shop(tmp_path: Path, elsewhere: str) -> Iterator[Shop]:
    """A service that lists the page."""
    shop = Shop(tmp_path / "data", elsewhere)
    yield shop
    shop.site.stop()


def opened(tab: BrowserContext, address: str) -> Page:
    page = tab.new_page()
    page.goto(address)
    return page


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_hook_shows_an_answer_and_its_changes_also_after_restarts(
    tab: BrowserContext, shop: Shop, elsewhere: str, library: str
) -> None:
    shop.sell(1, 2)
    page = opened(tab, f"{elsewhere}/{library}.html?service={shop.site.address}&token={shop.token}&key={KEY}")
    upper, lower = page.locator("#one"), page.locator("#two")
    expect(upper).to_have_text("all 1 Ghent, 2 Ghent")
    expect(lower).to_have_text("all 1 Ghent, 2 Ghent")
    expect(page.locator("#asked")).to_have_text("all 2 Ghent")
    expect(page.locator("#wrong")).to_contain_text("INVALID_ARGUMENT: line 1, column 8")
    shop.sell(3)
    expect(upper).to_have_text("all 1 Ghent, 2 Ghent, 3 Ghent")
    for number in (4, 5):
        shop.site.stop()
        expect(upper).to_have_attribute("data-state", "waiting")
        expect(upper).to_have_text("all " + ", ".join(f"{n} Ghent" for n in range(1, number)))
        shop.site.start()
        shop.sell(number)
        page.evaluate("dispatchEvent(new Event('online'))")
        expect(lower).to_have_text("all " + ", ".join(f"{n} Ghent" for n in range(1, number + 1)), timeout=30_000)
        expect(upper).to_have_attribute("data-state", "live")
    page.get_by_role("button").click()
    expect(upper).to_have_count(0)
    shop.sell(6)
    expect(lower).to_contain_text("6 Ghent")
    page.get_by_role("button").click()
    expect(upper).to_contain_text("6 Ghent")


def test_a_copy_stays_without_a_network_and_tabs_share_it(tab: BrowserContext, shop: Shop, elsewhere: str) -> None:
    shop.sell(1, 2)
    given = [shop.site.address, shop.token, KEY]
    first, second = (opened(tab, f"{elsewhere}/plain.html") for _ in range(2))
    assert [page.evaluate(COPY, given) for page in (first, second)] == [[], []]
    recharged = first.evaluate("copy.recharge()")
    assert (recharged["came"], recharged["gone"]) == (2, 0)
    second.wait_for_function("copy.complete && copy.rows.length === 2 && changes > 0")
    shop.sell(3)
    both = [page.evaluate_handle("copy.recharge().then(told => told.came)") for page in (first, second)]
    assert sum(handle.json_value() for handle in both) == 1, "one of them brings the row"
    for page in (first, second):
        page.wait_for_function("JSON.stringify(copy.rows.map(row => row.n)) === '[1,2,3]'")
    shop.site.stop()
    first.reload()
    assert first.evaluate(COPY, given) == [1, 2, 3]
    failed = first.evaluate("copy.recharge().then(() => null, problem => [problem.code, problem.unreachable])")
    assert failed == ["UNAVAILABLE", True]
    assert first.evaluate("[copy.complete, copy.rows.length]") == [True, 3]
    shop.site.start()
    shop.sell(4)
    second.evaluate("copy.watch()")
    second.wait_for_function("copy.snapshot.state === 'live'")
    first.evaluate("copy.watch()")
    assert first.evaluate("copy.snapshot.state") == "shared"
    for page in (first, second):
        page.wait_for_function("JSON.stringify(copy.rows.map(row => row.n)) === '[1,2,3,4]'")
    second.close()
    first.wait_for_function("copy.snapshot.state === 'live'")
    shop.sell(5)
    first.wait_for_function("copy.rows.length === 5")
    third = opened(tab, f"{elsewhere}/plain.html")
    assert third.evaluate(COPY, given) == [1, 2, 3, 4, 5]
    first.evaluate("copy.forget()")
    third.wait_for_function("copy.rows.length === 0")


def test_a_page_that_is_not_listed_reads_nothing(tab: BrowserContext, shop: Shop, elsewhere: str) -> None:
    """The same files from another name of this machine are of another origin."""
    listed = opened(tab, f"{elsewhere}/plain.html")
    assert listed.evaluate(FAILS, [shop.site.address, shop.token]) is None
    assert listed.evaluate(FAILS, [shop.site.address, ""]) == ["PSoupError", "UNAUTHENTICATED", "NO_CREDENTIAL"]
    other = opened(tab, f"{elsewhere.replace('127.0.0.1', 'localhost')}/plain.html")
    assert other.evaluate(FAILS, [shop.site.address, shop.token]) == ["PSoupError", "UNAVAILABLE", "UNREACHABLE"]
