"""Rows `web.page.*`: what the page takes of a browser, by traces of a headless Chromium (`make web-figures`).

    web.page.script     bytes of all script that the page and its worker load, with gzip
    web.page.paint      from the address to the first words on the screen
    web.page.rows       rows in the document while an answer of 10,000 is scrolled through
    web.page.frame      script, style and layout of a frame meanwhile, of a hundred the longest but one
    web.page.task       the longest task of the thread: while 10,000 rows come first, are scrolled, and get more
    web.page.recharge   bytes of a recharge of 50 queries that have nothing new, both ways and with their heads

Tasks and frames are measured in processor time of that thread, which other programs hardly change. The details have the
times by the clock. The browser is that of the tests: PSOUP_TEST_CHROMIUM, or a Chromium on the PATH.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from playwright.sync_api import Browser, Error, Page, sync_playwright

import psoup_service
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.run import Run
from psoup_client import Client

ROWS, IDLE, NEW = 10_000, 50, 20
_PATIENCE_MS = 15_000
_TRACED = ["-*", "toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]
_TRACED += ["devtools.timeline.frame", "disabled-by-default-devtools.timeline.frame", "__metadata"]
_WORK = ("FunctionCall", "EvaluateScript", "RunMicrotasks", "TimerFire", "FireAnimationFrame", "EventDispatch")
_LAYOUT = ("UpdateLayoutTree", "RecalculateStyles", "Layout", "PrePaint")
_NO_FRAME = "the browser has drawn no frame in 10 s"
_FRAME = f"""
  const frame = () => new Promise((drawn, failed) => {{
    setTimeout(() => failed(new Error("{_NO_FRAME}")), 10000);
    requestAnimationFrame(() => drawn(1));
  }});"""
_SCROLL = f"""async ([region, steps]) => {{{_FRAME}
  const node = document.querySelector(region);
  let most = 0;
  for (let step = 0; step < steps; step += 1) {{
    node.scrollTop = (node.scrollHeight * step) / steps;
    await frame();
    await frame();
    most = Math.max(most, document.querySelectorAll("table.rows tr").length);
  }}
  return most;
}}"""
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


class Trace(NamedTuple):
    """The work of the page's own thread, in milliseconds: its longest task, by processor time and by the clock, and
    script with layout of each frame.
    """

    task: float
    clock: float
    frames: list[float]


class Scroll(NamedTuple):
    """A visit to 10,000 rows: how many the document had at most, and the traces while they came first, while they were
    scrolled, and while they got some more."""

    shown: int
    traces: tuple[Trace, Trace, Trace]


class Visit(NamedTuple):
    """A fresh browser profile at a service, and the client that feeds it."""

    browser: Browser
    page: Page
    soup: Client

    def traced(self, work: Callable[[], object]) -> Trace:
        """The trace of `work`."""
        self.browser.start_tracing(page=self.page, categories=_TRACED)
        try:
            work()
        finally:
            trace = self.browser.stop_tracing()
        return read(json.loads(trace)["traceEvents"])

    def opened(self, key: str) -> None:
        """Come to the answer of a query that is not kept."""
        self.page.evaluate("id => void (location.hash = `#/answer/${id}`)", self.soup.query(key=key).id)
        self.page.get_by_role("button", name="Keep on this device").wait_for()

    def keep(self) -> None:
        """Keep it, until its rows are shown."""
        self.page.get_by_role("button", name="Keep on this device").click()
        self.page.get_by_text("updated just now").wait_for()


def rows(run: Run) -> Iterator[Row]:
    """Rows of the page; if there is no browser, rows that say so."""
    visits = run.of(5, 3, 1)
    yield from run.part(_script, "web.page.script")
    yield from run.part(partial(_painted, visits), "web.page.paint")
    names = ("web.page.rows", "web.page.frame", "web.page.task")
    yield from run.part(partial(_scrolled, visits, run.of(500, 500, 50)), *names)
    yield from run.part(partial(_recharged, run.of(IDLE, IDLE, 3)), "web.page.recharge")


def _script() -> Iterator[Row]:
    static = Path(psoup_service.__file__).parent / "web/static"
    script = b"".join(path.read_bytes() for path in sorted(static.rglob("*.js")))
    yield _row("web.page.script", [len(gzip.compress(script, 9))], "bytes", 100_000)


def _painted(visits: int) -> Iterator[Row]:
    taken = list[float]()
    for _ in range(visits):
        with _visit() as visit:
            taken.append(visit.page.evaluate(_PAINT))
    yield _row("web.page.paint", taken, "ms", 1_000)


def _scrolled(visits: int, steps: int) -> Iterator[Row]:
    measurements = [_scrolling(steps) for _ in range(visits)]
    first, scrolling, coming = zip(*(scroll.traces for scroll in measurements), strict=True)
    shown = max(scroll.shown for scroll in measurements)
    yield _row("web.page.rows", [shown], "rows", 200)
    frames = [float(np.percentile(trace.frames, 99)) for trace in scrolling]
    longest = max(max(trace.frames) for trace in scrolling)
    details = {"frames": sum(len(trace.frames) for trace in scrolling), "the longest": round(longest, 1)}
    yield _row("web.page.frame", frames, "ms", 8, details)
    tasks = [max(trace.task for trace in traces) for traces in zip(first, scrolling, coming, strict=True)]
    parts = {"first": first, "scrolled": scrolling, "some more": coming}
    yield _row("web.page.task", tasks, "ms", 50, {name: _longest(traces) for name, traces in parts.items()})


def _scrolling(steps: int, attempts: int = 3) -> Scroll:
    """Visit the page once. A browser that stops drawing, as sometimes without a screen, is started again."""
    try:
        with _visit() as visit:
            visit.opened("ticks")
            first = visit.traced(partial(_kept, visit))
            shown = visit.page.evaluate(_SCROLL, [".scroll", steps])
            return Scroll(
                shown, (first, visit.traced(partial(_wheeled, visit.page)), visit.traced(partial(_more, visit)))
            )
    except Error as error:
        if _NO_FRAME not in str(error) or attempts == 1:
            raise
    return _scrolling(steps, attempts - 1)


def _longest(traces: Iterable[Trace]) -> str:
    clock = max(trace.clock for trace in traces)
    return f"{max(trace.task for trace in traces):.1f}, by the clock {clock:.1f}"


def _kept(visit: Visit) -> None:
    visit.keep()
    visit.page.get_by_text(f"{ROWS:,} rows, 3 columns").wait_for()


def _wheeled(page: Page) -> None:
    page.locator(".scroll").evaluate("node => node.scrollTo(0, 0)")
    page.locator(".scroll").hover()
    for _ in range(120):
        page.mouse.wheel(0, 400)
        page.evaluate(f"async () => {{{_FRAME} return frame(); }}")


def _more(visit: Visit) -> None:
    before = visit.page.get_by_text(re.compile(r"[\d,]+ rows, 3 columns")).inner_text()
    visit.soup.wait_for(visit.soup.push("ticks", [_tick(ROWS + n) for n in range(NEW)]).sequence)
    visit.page.get_by_role("button", name="Update").click()
    rows = int(before.split(" ")[0].replace(",", "")) + NEW
    visit.page.get_by_text(f"{rows:,} rows, 3 columns").wait_for()


def _recharged(idle: int) -> Iterator[Row]:
    with _visit() as visit:
        page = visit.page
        for number in range(idle):
            visit.soup.register(f"SELECT n, note FROM ticks WHERE n < {number} BEGIN (START)", key=f"idle {number}")
            visit.opened(f"idle {number}")
            visit.keep()
        page.get_by_role("link", name="My queries").last.click()
        page.locator(".card").nth(idle - 1).wait_for()
        with page.expect_request_finished(lambda request: request.url.endswith("/Sync")) as asked:
            page.get_by_role("button", name="Update").click()
        page.get_by_text("The update took").wait_for()
        sizes = {name: int(str(size)) for name, size in asked.value.sizes().items()}
    total = sum(sizes.values())
    yield _row("web.page.recharge", [total], "bytes", 10_000, sizes)


def _row(name: str, values: list[float], unit: str, target: float, details: dict[str, Any] | None = None) -> Row:
    return Row(name, Sample.of(values), unit, "none", None, Target(value_at_most=target), details=details or {})


@contextmanager
def _visit() -> Iterator[Visit]:
    """A service with ticks and a query of all of them, and a browser that has come to its page."""
    with (
        processes.served(Path(), durable=False, settings={"PSOUP_WEB_PORT": "0"}) as service,
        Client(service.address) as soup,
        sync_playwright() as driver,
    ):
        soup.create_stream("CREATE STREAM ticks (n BIGINT, note TEXT)")
        soup.wait_for(soup.push("ticks", [_tick(n) for n in range(ROWS)]).sequence)
        soup.register("SELECT n, note, n * 0.5 AS half FROM ticks BEGIN (START)", key="ticks")
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=_executable(), args=flags)
        try:
            page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
            page.goto(soup.info().web_address)
            page.set_default_timeout(_PATIENCE_MS)
            page.wait_for_function(f"() => {_PAINT} !== null")
            yield Visit(browser, page, soup)
        finally:
            browser.close()


def _tick(n: int) -> dict[str, object]:
    return {"n": n, "note": f"note {n}"}


def _executable() -> str:
    named = os.environ.get("PSOUP_TEST_CHROMIUM")
    here = named or next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
    if here is None:
        raise RuntimeError("no browser: make browser gets one, or name one in PSOUP_TEST_CHROMIUM")
    return here


def read(events: list[dict[str, Any]]) -> Trace:
    """The trace of the thread that has run most of a page's frames.

    A frame has the thread's work from its beginning to the next frame. Of nested work only the outer counts.
    """
    threads = [(event["pid"], event["tid"]) for event in events if event["name"] == "BeginMainThreadFrame"]
    assert threads, "the page has drawn nothing"
    main = max(set(threads), key=threads.count)
    main_events = [event for event in events if (event["pid"], event["tid"]) == main]
    edges = np.sort([float(event["ts"]) for event in main_events if event["name"] == "BeginMainThreadFrame"])
    timed = sorted((event for event in main_events if "tdur" in event), key=lambda event: float(event["ts"]))
    tasks = [event for event in timed if event["name"] == "RunTask"]
    frames, free = np.zeros(len(edges) + 1), 0.0
    for event in timed:
        if event["name"] in (*_WORK, *_LAYOUT) and event["ts"] >= free:
            free = event["ts"] + event["dur"]
            frames[np.searchsorted(edges, event["ts"], side="right")] += event["tdur"] / 1e3
    longest, clock = (max(event[field] for event in tasks) / 1e3 for field in ("tdur", "dur"))
    return Trace(longest, clock, frames[1:].tolist())
