"""The layout and the words of the pages, in a headless browser of the size of a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from psoup_testing.browser.browser import SKIPPED, Opened, Site, executable, opened
from psoup_testing.browser.page_steps import keep, push

pytestmark = [pytest.mark.long, pytest.mark.skipif(executable() is None, reason=SKIPPED)]

WIDE = "SELECT at, shop, amount, pieces, amount * 2 AS twice, amount * 3 AS thrice, shop AS again FROM sales"
COMMANDS = re.compile(r"PSOUP_|psoup [a-z]|=True|--[a-z]|\bclient\.")
"""Words of Python and of the command line."""


@pytest.fixture
def small(chromium: Browser, site: Site) -> Iterator[Opened]:
    """A phone in New York."""
    site.start()
    with opened(chromium, site, width=360, height=740, zone="America/New_York") as tab:
        yield tab
        assert tab.problems == []


@dataclass(frozen=True)
class Box:
    """The edges of an element in the window, in pixels."""

    left: float
    top: float
    right: float
    bottom: float


def box(locator: Locator) -> Box:
    """The box of an element."""
    edges = locator.bounding_box()
    assert edges is not None
    return Box(edges["x"], edges["y"], edges["x"] + edges["width"], edges["y"] + edges["height"])


def test_the_answer_on_a_phone_begins_with_its_rows(small: Opened) -> None:
    page = small.page
    keep(page, "week")
    rows = page.locator("table.rows tbody tr")
    assert box(rows.first).bottom < 400
    expect(page.get_by_role("slider")).to_have_count(0)
    page.get_by_role("button", name="Update").click()
    toast = page.get_by_role("status")
    expect(toast).to_contain_text("sent and received")
    assert box(toast).top > box(rows.nth(4)).bottom
    page.get_by_text("More", exact=True).click()
    assert box(page.locator(".menu")).bottom < 740
    page.keyboard.press("Escape")
    expect(page.locator(".menu")).to_be_hidden()
    page.get_by_role("button", name="Details").click()
    expect(page.locator("#window .sql")).to_contain_text("BEGIN (NOW - 7 DAYS)")
    card, names = box(page.locator(".window")), page.locator(".legend li")
    places = [box(names.nth(at)) for at in range(names.count())]
    assert all(card.left < place.left and place.right < card.right for place in places)
    for before, after in pairwise(places):
        assert before.right <= after.left or before.bottom <= after.top, "two names lie on each other"


def test_a_wide_table_shows_that_it_scrolls_and_keeps_its_first_column(small: Opened, site: Site) -> None:
    page = small.page
    with site.client() as soup:
        soup.register(WIDE, key="wide")
    keep(page, "wide")
    edge, region = page.locator(".edge"), page.get_by_role("region", name=re.compile("Answer of wide"))
    expect(edge).to_have_class("edge more-right")
    first, second = page.locator("tbody td").first, page.locator("tbody td").nth(1)
    before, moved = box(first).left, box(second).left
    region.evaluate("node => node.scrollTo(200, 0)")
    expect(page.locator("thead th").first).to_be_in_viewport()
    assert box(first).left == before and box(second).left < moved
    region.evaluate("node => node.scrollTo(9_999, 0)")
    expect(edge).to_have_class("edge")
    with site.client() as soup:
        soup.unregister(key="wide")


def test_times_are_in_the_zone_of_the_reader_or_in_utc(small: Opened, site: Site) -> None:
    page = small.page
    keep(page, "week")
    cell = page.locator("td.timestamp").first
    expect(cell).to_have_text("2024-03-21 08:00")
    expect(cell).to_have_attribute("title", "2024-03-21 12:00 UTC")
    cell.click()
    expect(page.locator(".whole")).to_contain_text("2024-03-21 12:00 UTC")
    page.locator(".whole").get_by_role("button", name="Close").click()
    expect(page.locator(".whole")).to_have_count(0)
    expect(page.get_by_text("Times are in America/New_York.")).to_be_visible()
    page.get_by_role("button", name="Show UTC").click()
    expect(cell).to_have_text("2024-03-21 12:00")
    page.reload()
    expect(cell).to_have_text("2024-03-21 12:00")
    page.get_by_role("button", name="Show America/New_York").click()
    page.get_by_text("More", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    assert "2024-03-21T12:00Z" in Path(download.value.path()).read_text()


def test_a_statement_shows_its_rows_before_it_is_registered(small: Opened, site: Site) -> None:
    page = small.page
    with site.client() as soup:
        before = len(list(soup.queries()))
        page.get_by_role("link", name="New query").first.click()
        statement = page.get_by_label("Statement")
        statement.fill("SELECT at, shop, amount, at > TIMESTAMP '2024-03-27' AS late FROM sales WHERE pieces > 21")
        preview = page.get_by_role("region", name="Rows now").first
        expect(preview.locator("tbody tr")).to_have_count(3)
        assert preview.locator("tbody tr").first.locator("td").all_inner_texts() == [
            "2024-03-26 08:00",
            "shop 25",
            "25.50",
            "false",
        ]
        requests = list[str]()
        page.on("request", lambda request: requests.append(request.url) if "AskStream" in request.url else None)
        statement.fill("SELECT n FROM ticks WHERE n < 20")
        page.keyboard.press("Backspace")
        expect(preview.locator("tbody tr")).to_have_count(2)
        assert len(requests) == 1
        push(soup, 1)
        page.get_by_role("button", name="Ask once").click()
        expect(preview.locator("tbody tr")).to_have_count(3)
        assert len(list(soup.queries())) == before
        statement.fill("SELECT n, note FROM ticks")
        expect(preview).to_contain_text("The first ")


def test_a_name_that_is_taken_is_told_in_plain_words_and_can_be_replaced(small: Opened, site: Site) -> None:
    page = small.page
    with site.client() as soup:
        former = soup.register("SELECT n FROM ticks WHERE n < 7", key="mine")
        page.get_by_role("link", name="New query").first.click()
        page.get_by_label("Statement").fill("SELECT n FROM ticks WHERE n < 8")
        page.get_by_label("Name").fill("mine")
        page.get_by_role("button", name="Register", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("Another query has the name mine")
        assert not COMMANDS.search(page.locator("body").inner_text())
        page.get_by_label("Statement").fill("SHOW TABLES")
        expect(page.locator("#checked .bad")).to_contain_text("SHOW is not supported")
        assert not COMMANDS.search(page.locator("body").inner_text())
        page.get_by_label("Statement").fill("SELECT n FROM ticks WHERE n < 8")
        page.get_by_role("button", name="Register", exact=True).click()
        page.get_by_role("button", name="Replace the other query").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("mine")
        assert soup.query(key="mine").id != former.id
        soup.unregister(key="mine")


def test_an_empty_service_says_how_to_make_a_stream_and_makes_it(chromium: Browser, tmp_path: Path) -> None:
    site = Site(tmp_path / "empty")
    try:
        with opened(chromium, site, width=360) as tab:
            page = tab.page
            page.get_by_role("link", name="New query").first.click()
            statement = page.get_by_label("Statement that creates a stream")
            statement.fill("CREATE STREAM readings (sensor TEXTS)")
            page.get_by_role("button", name="Create stream").click()
            expect(page.get_by_role("alert")).to_contain_text("TEXTS")
            statement.fill("CREATE STREAM readings (sensor TEXT)")
            page.get_by_role("button", name="Create stream").click()
            page.get_by_role("button", name="Begin with this stream").click()
            expect(page.get_by_role("region", name="Rows now")).to_contain_text("0 rows now")
            with site.client() as soup:
                assert [stream.name for stream in soup.streams()] == ["readings"]
    finally:
        site.stop()


def test_the_state_of_the_service_and_of_the_copies_is_true_on_each_page(small: Opened, site: Site) -> None:
    page = small.page
    with site.client() as soup:
        soup.register("SELECT n FROM ticks WHERE n < 3 BEGIN (NOW - 1 HOUR)", key="gone")
    keep(page, "gone")
    expect(page.locator(".badge.good")).to_have_count(1)
    keep(page, "week")
    for name in ("Console", "New query", "My queries"):
        page.get_by_role("link", name=name, exact=True).first.click()
        expect(page.get_by_text("Online")).to_be_visible()
    with site.client() as soup:
        soup.unregister(key="gone")
    page.get_by_role("button", name="Update").click()
    card = page.locator(".card", has_text="gone")
    expect(card.locator(".badge.warn")).to_have_text("Not updated any more")
    expect(card.locator(".badge.good")).to_have_count(0)
    site.stop()
    page.get_by_role("button", name="Update").click()
    expect(page.get_by_text("The service cannot be reached.")).to_be_visible()
    expect(page.locator(".card", has_text="week")).to_contain_text("not updated since")
    expect(page.get_by_text("updated just now")).to_have_count(0)
    for name in ("Console", "New query", "My queries"):
        page.get_by_role("link", name=name, exact=True).first.click()
        expect(page.get_by_text("Offline")).to_be_visible()
    site.start()


def test_the_bar_moves_with_the_rows_of_live(small: Opened, site: Site) -> None:
    page = small.page
    keep(page, "ticks")
    page.get_by_role("button", name="Details").click()
    now = page.get_by_role("slider", name="NOW")
    before = int(now.get_attribute("aria-valuemax") or 0)
    page.get_by_role("button", name="Live").click()
    expect(page.get_by_role("button", name="● Live")).to_be_visible()
    with site.client() as soup:
        page.wait_for_function("before => Date.now() / 1000 > before + 1", arg=before)
        push(soup, 4)
    page.wait_for_function("before => Number(document.querySelector('.handle.now').ariaValueMax) > before", arg=before)
    assert now.get_attribute("aria-valuenow") == now.get_attribute("aria-valuemax")


def test_words_of_the_service_are_plain_or_explained_on_touch(small: Opened, site: Site) -> None:
    page = small.page
    with site.client() as soup:
        soup.register("SELECT n, note FROM ticks WHERE n > 9 AND note = 'where'", key="long")
        page.get_by_role("link", name="Console").click()
        page.get_by_label("ID or key of a query").wait_for()
        line = page.locator("tbody tr", has_text="long")
        expect(line.locator(".sql")).to_have_text("WHERE n > 9 AND note = 'where'")
        line.locator(".sql").click()
        expect(line.locator("code")).to_have_text("SELECT n, note FROM ticks WHERE n > 9 AND note = 'where'")
        page.locator("th summary", has_text="Rows tested").click()
        expect(page.get_by_text("compared with the conditions of the query")).to_be_visible()
        page.get_by_role("button", name="Streams").click()
        expect(page.locator(".card", has_text="ticks")).to_contain_text(" kB in 1 block")
        soup.unregister(key="long")


def test_signing_in_comes_first(chromium: Browser, tmp_path: Path) -> None:
    site = Site(tmp_path / "guarded")
    try:
        with site.client() as soup:
            soup.issue_token("ann", ["owner", "operator", "registrar", "reader"], first=True)
        with opened(chromium, site, width=360) as tab:
            page = tab.page
            for name in ("My queries", "New query", "Console"):
                page.get_by_role("link", name=name, exact=True).first.click()
                expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
                expect(page.get_by_role("alert")).to_have_count(0)
                assert not COMMANDS.search(page.locator("body").inner_text())
            page.get_by_label("Access token").fill("wrong")
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("alert")).to_contain_text("does not accept this token")
    finally:
        site.stop()
