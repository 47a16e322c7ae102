"""A headless browser, and a site for it: a service on a data directory, whose port is really closed when it is stopped.

    site = Site(folder)          site.stop()   nobody listens        site.start()   the same address again
    with browser() as chromium:  page = opened(chromium, site)       page.problems == []

A browser's own switch to offline does not reach service workers, so that is not used.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

import psoup_service.web
from psoup_client import Client
from psoup_service.process.settings import Settings
from psoup_service.web.pages import Site as SitePages
from psoup_storage import DurableStore
from psoup_testing.browser.page_steps import ENTRY
from psoup_testing.services.ports import KeptPort
from psoup_testing.services.threaded_service import Serving

SKIPPED = "no browser: make browser gets one, or name one in PSOUP_TEST_CHROMIUM"
WAIT_MS = 15_000
UNPACKED = Path(__file__).parents[3] / "build" / "chromium" / "chromium"
"""The headless Chromium of the npm package `@sparticuz/chromium`."""


def executable() -> str | None:
    """The browser that tests drive, if there is one: named, on the PATH, or got by tests/web/chromium/get.sh."""
    candidates = map(shutil.which, ("chromium", "google-chrome", "chromium-browser", str(UNPACKED)))
    return os.environ.get("PSOUP_TEST_CHROMIUM") or next(filter(None, candidates), None)


class Site:
    """A service with the page, on a data directory; its address stays while it is stopped and started.

    `web_origins`: the setting.
    """

    def __init__(self, folder: Path, web_origins: tuple[str, ...] = ()) -> None:
        self.folder, self._port, self._origins = folder, KeptPort(), web_origins
        self._serving: Serving | None = None
        self.start()

    def start(self) -> None:
        """Serve what is in the folder, at the address of before; nothing happens if it does already."""
        if self._serving is not None:
            return
        store = DurableStore(self.folder)
        self._serving = Serving(Settings(port=0, web_port=self._port.number, web_origins=self._origins), store=store)
        gateway = self._serving.service.gateway
        assert gateway is not None
        self.address = gateway.address

    def stop(self) -> None:
        """Stop the service: the port is closed."""
        if self._serving is not None:
            self._serving.stop()
        self._serving = None

    def move(self, folder: Path) -> None:
        """Serve what is in another folder, at the same address."""
        self.stop()
        self.folder = folder
        self.start()

    @contextmanager
    def newer(self, folder: Path, old: str, new: str) -> Iterator[None]:
        """Serve another version of the page, in which a text is another one, while the block runs."""
        assert self._serving is not None and self._serving.service.gateway is not None
        built = folder / "static"
        shutil.copytree(Path(psoup_service.web.__file__).parent / "static", built)
        index, worker = built / "index.html", built / "sw.js"
        index.write_text(index.read_text().replace(old, new))
        worker.write_text(worker.read_text().replace("/index.html`,revision:`", "/index.html`,revision:`newer"))
        gateway = self._serving.service.gateway
        before, gateway._site = gateway._site, SitePages(built)
        try:
            yield
        finally:
            gateway._site = before

    @property
    def grpc_address(self) -> str:
        """The address for gRPC, another one after each start."""
        assert self._serving is not None, "it is stopped"
        return self._serving.address

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client in Python."""
        with Client(self.grpc_address) as soup:
            yield soup


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the browser; it ends with the block."""
    with sync_playwright() as driver:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        # In a POSIX locale some builds say that their language is en-US@posix, which is none: script ends.
        words: dict[str, str | float | bool] = {**os.environ, "LANG": "en_US.UTF-8", "LC_ALL": "en_US.UTF-8"}
        chromium = driver.chromium.launch(executable_path=executable(), args=flags, env=words)
        try:
            yield chromium
        finally:
            chromium.close()


@dataclass
class Opened:
    """A page of a browser that has nothing stored yet, and what it has complained of: errors, and refusals by CSP."""

    context: BrowserContext
    page: Page
    problems: list[str] = field(default_factory=list)

    def another(self) -> Page:
        """Another tab."""
        page = self.context.new_page()
        watch(page, self.problems)
        return page

    def query(self, name: str) -> Any:
        """The entry of a query in the store of the page, and how many rows are really there, `held`."""
        return self.page.evaluate(ENTRY, name)


def watch(page: Page, problems: list[str]) -> None:
    """Note what a page complains of, but for calls that reach nobody."""
    page.set_default_timeout(WAIT_MS)
    page.on("pageerror", lambda error: problems.append(str(error)))
    quiet = (
        "ERR_CONNECTION_REFUSED",
        "ERR_INCOMPLETE_CHUNKED",
        "status of 4",
        "status of 501",
        "ERR_EMPTY",
        "ERR_CONNECTION_RESET",
    )
    page.on(
        "console",
        lambda said: (
            problems.append(said.text)
            if said.type in ("error", "warning") and not any(word in said.text for word in quiet)
            else None
        ),
    )


@contextmanager
def opened(
    chromium: Browser, site: Site, *, installs: bool = False, width: int = 390, height: int = 780, zone: str = "UTC"
) -> Iterator[Opened]:
    """A page of the site, with a store of its own. `installs`: with its service worker. `zone`: the reader's zone."""
    context = chromium.new_context(viewport={"width": width, "height": height}, timezone_id=zone)
    if not installs:
        context.add_init_script("delete Navigator.prototype.serviceWorker")
    try:
        page = context.new_page()
        page_state = Opened(context, page)
        watch(page, page_state.problems)
        page.goto(site.address)
        page.get_by_role("heading", level=1).wait_for()
        yield page_state
    finally:
        context.close()
