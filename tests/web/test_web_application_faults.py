"""The web application in a headless browser: what goes wrong, what is rare, and whether anybody is kept out."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from psoup_testing.browser.browser import SKIPPED, Opened, Site, executable, opened
from psoup_testing.browser.page_steps import (
    BREAK_ROWS,
    CLEAR_ROWS,
    EARLIER,
    HOLD,
    begin_to_keep,
    installed,
    keep,
    look,
    mine,
    push,
    recharged,
)

pytestmark = [pytest.mark.long, pytest.mark.skipif(executable() is None, reason=SKIPPED)]


def test_a_query_that_is_unregistered_keeps_its_rows_and_can_be_registered_again(tab: Opened, site: Site) -> None:
    page = tab.page
    with site.client() as soup:
        soup.register("SELECT n FROM ticks WHERE n < 5 BEGIN (START)", key="few")
    keep(page, "few")
    rows = tab.query("few")["rows"]
    with site.client() as soup:
        soup.unregister(key="few")
    recharged(page)
    expect(page.locator(".card")).to_contain_text("does not know this query any more")
    assert tab.query("few")["rows"] == rows
    page.get_by_role("link", name="few").click()
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Register it again").click()
    expect(page.get_by_text("does not know")).to_have_count(0)
    expect(page.locator("table.rows tbody tr")).to_have_count(rows)
    with site.client() as soup:
        soup.unregister(key="few")


def test_rows_that_the_browser_threw_away_come_again(tab: Opened, site: Site) -> None:
    page = tab.page
    keep(page, "week")
    page.evaluate(CLEAR_ROWS)
    recharged(page)
    page.get_by_role("link", name="week").click()
    expect(page.locator("table.rows tbody tr")).to_have_count(8)
    address = page.url
    page.goto("about:blank")
    page.goto(f"{site.address}/icon.svg")
    page.evaluate("new Promise(done => (indexedDB.deleteDatabase('psoup').onsuccess = done)).then(() => 1)")
    page.goto(address)
    expect(page.locator("table.rows tbody tr")).to_have_count(8)
    page.get_by_role("button", name="Keep on this device").click()
    page.get_by_role("button", name="Update").wait_for()
    expect(page.locator("table.rows tbody tr")).to_have_count(8)


@pytest.mark.seeded("the token is stored in another transaction than the rows")
def test_a_store_that_fails_leaves_the_copy_as_it_was(tab: Opened, site: Site) -> None:
    """As on a full disk: rows and token change together, or not at all."""
    page = tab.page
    keep(page, "ticks")
    before = tab.query("ticks")["rows"]
    with site.client() as soup:
        push(soup, 10)
    page.evaluate(BREAK_ROWS, 0)
    recharged(page)
    expect(page.locator(".card")).to_contain_text("no room")
    assert tab.query("ticks")["rows"] == before
    page.reload()
    assert recharged(page).startswith("1 new row, 0 removed; ")
    assert tab.query("ticks")["rows"] == tab.query("ticks")["held"] == before + 1
    page.evaluate(CLEAR_ROWS)
    page.evaluate(BREAK_ROWS, 3)
    recharged(page)
    expect(page.locator(".card")).to_contain_text("no room")
    assert tab.query("ticks")["held"] == 0


def test_what_an_earlier_version_of_the_page_has_kept_is_there(tab: Opened, site: Site) -> None:
    page = tab.page
    keep(page, "ticks")
    before = tab.query("ticks")
    mine(page)
    address = page.url
    page.goto(f"{site.address}/icon.svg")
    page.evaluate(EARLIER, "ticks")
    page.goto(address)
    page.get_by_role("link", name="ticks").click()
    expect(page.locator("td", has_text="note 1").first).to_be_visible()
    assert tab.query("ticks")["held"] == before["held"]
    assert recharged(page).startswith("Nothing new; ")


@pytest.mark.seeded("a change is applied to a copy that has another token by now")
def test_a_reply_that_comes_late_changes_nothing(tab: Opened, site: Site) -> None:
    page = tab.page
    page.add_init_script(HOLD)
    page.reload()
    keep(page, "ticks")
    before = tab.query("ticks")["rows"]
    with site.client() as soup:
        push(soup, 11)
    page.evaluate("window.held = true")
    page.get_by_role("button", name="Update").click()
    page.wait_for_function("() => window.release !== undefined")
    with site.client() as soup:
        push(soup, 12)
    page.get_by_role("button", name="Live").click()
    expect(page.get_by_text(f"{before + 2:,} rows, 2 columns")).to_be_visible()
    page.evaluate("(window.held = false, window.release())")
    expect(page.get_by_role("status")).to_contain_text("sent and received")
    assert tab.query("ticks")["rows"] == tab.query("ticks")["held"] == before + 2


def test_a_recharge_that_is_asked_for_meanwhile_follows(tab: Opened) -> None:
    page = tab.page
    page.add_init_script(HOLD)
    page.reload()
    page.evaluate("window.held = true")
    begin_to_keep(page, "ticks")
    page.wait_for_function("() => window.release !== undefined")
    begin_to_keep(page, "week")
    expect(page.get_by_role("status")).to_contain_text("this one follows")
    page.evaluate("(window.held = false, window.release())")
    expect(page.locator("table.rows tbody tr")).to_have_count(8)


def test_a_new_version_is_offered_and_not_forced(phone: Opened, site: Site, tmp_path: Path) -> None:
    page = phone.page
    installed(page)
    with site.newer(tmp_path, "needs JavaScript", "needs JavaScript of tomorrow"):
        page.reload()
        offer = page.get_by_role("button", name="Use it")
        expect(offer).to_be_visible()
        assert "tomorrow" not in page.content()
        with page.expect_navigation():
            offer.click()
        page.get_by_role("heading", level=1).wait_for()
        assert "tomorrow" in page.content()
        expect(offer).to_have_count(0)


@pytest.mark.seeded("quiet text is too pale")
def test_nothing_keeps_people_out(chromium: Browser, site: Site) -> None:
    site.start()
    with opened(chromium, site, width=320) as tab:
        page, found = tab.page, dict[str, list[str]]()
        page.emulate_media(reduced_motion="reduce")  # what fades has no contrast meanwhile
        look(page, "empty", found)
        keep(page, "week")
        look(page, "answer", found)
        page.get_by_role("button", name="Chart").click()
        look(page, "chart", found)
        page.get_by_role("link", name="Plan").click()
        page.locator("[data-operator=source]").wait_for()
        look(page, "plan", found)
        mine(page)
        look(page, "mine", found)
        page.get_by_role("link", name="New query").first.click()
        page.get_by_label("Statement").fill("SELECT at, shp FROM sales")
        page.locator("#checked .note").wait_for()
        look(page, "new", found)
        for part in ("Queries", "Streams", "Service"):
            page.get_by_role("link", name="Console").click()
            page.get_by_role("button", name=part).click()
            page.locator("main .card, main table").first.wait_for()
            look(page, part, found)
        assert {name: told for name, told in found.items() if told} == {}
        assert tab.problems == []
