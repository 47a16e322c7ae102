"""The web application in a headless browser: each path that a person goes, over a real service."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, expect

from psoup_storage.durable.tools.backup import restore
from psoup_testing.browser.browser import SKIPPED, Opened, Site, executable, opened
from psoup_testing.browser.page_steps import (
    BACKWARDS,
    MARKUP,
    installed,
    keep,
    mine,
    push,
    recharged,
    sale,
)

pytestmark = [pytest.mark.long, pytest.mark.skipif(executable() is None, reason=SKIPPED)]


@pytest.mark.seeded("a text is shown as markup")
def test_an_answer_as_table_chart_files_and_plan(tab: Opened) -> None:
    page = tab.page
    keep(page, "week")
    expect(page.locator("table.rows tbody tr")).to_have_count(8)
    assert page.title() == "week · PSoup"  # no markup of the data has run
    cells = page.locator("table.rows td.text")
    assert {MARKUP, BACKWARDS, "=1+1"} <= set(cells.all_inner_texts())
    assert cells.first.evaluate("cell => getComputedStyle(cell).unicodeBidi") == "isolate"
    assert page.locator("table.rows img").count() == 0
    page.get_by_text("More", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines[0] == "at,shop,amount,pieces"
    assert any('"\'=1+1"' in line for line in lines)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as JSON").click()
    assert json.loads(Path(download.value.path()).read_text())[0] == {
        "at": "2024-03-21T12:00Z",
        "shop": "shop 20",
        "amount": "20.50",
        "pieces": 17,
    }
    page.get_by_role("button", name="Chart").click()
    expect(page.locator("figcaption")).to_contain_text("8 points by at")
    expect(page.locator("canvas")).to_have_count(1)
    page.get_by_role("link", name="Plan").click()
    expect(page.locator("[data-operator=source] [data-figure=matches_in_window]")).to_have_text("8")


def test_a_window_is_moved_by_keys_and_stays_in_the_address(tab: Opened, site: Site) -> None:
    page = tab.page
    keep(page, "week")
    page.get_by_role("button", name="Details").click()
    now = page.get_by_role("slider", name="NOW")
    now.press("PageDown")
    expect(page.get_by_text("BEGIN (NOW").first).to_be_visible()
    zoom = page.get_by_role("group", name="Zoom of the bar")
    expect(zoom).to_contain_text("All 27 days")
    now.press("+")
    expect(zoom).to_contain_text("14 days of 27 days")
    now.hover()
    page.mouse.wheel(0, -100)
    expect(zoom).to_contain_text("11 days of 27 days")
    page.get_by_label("Compare with").select_option("7")
    expect(page.locator("section.answer")).to_have_count(2)
    expect(page.locator("section.answer h2").last).to_contain_text("7 days before")
    address = page.url
    other = tab.another()
    other.goto(address)
    expect(other.locator("section.answer")).to_have_count(2)
    for seen in (page, other):
        expect(seen.locator("section.answer h2").first).to_have_text("NOW 2024-03-27 12:00")
        expect(seen.get_by_role("group", name="Zoom of the bar")).to_contain_text("11 days of 27 days")
    zoom.get_by_role("button", name="All").click()
    expect(zoom.get_by_role("button", name="Zoom out")).to_be_disabled()
    page.get_by_role("button", name="Window of the query").click()
    expect(page.locator("section.answer").first.locator("tbody tr")).to_have_count(8)


def test_the_plan_moves_while_tuples_come(tab: Opened, site: Site) -> None:
    page = tab.page
    keep(page, "ticks")
    page.get_by_role("link", name="Plan").click()
    figure = page.locator("[data-figure=matches_in_window]")
    expect(figure).to_have_text(re.compile(r"\d"))
    before = int(figure.inner_text().replace(",", ""))
    with site.client() as soup:
        push(soup, 1, 2, 3)
    expect(figure).to_have_text(f"{before + 3:,}")


def test_conditions_stand_by_their_selectivity_which_follows_the_stream(tab: Opened, site: Site) -> None:
    page = tab.page
    with site.client() as soup:
        query = soup.register("SELECT n FROM ticks WHERE n >= 0 AND n % 2 = 0 BEGIN (START)", key="even")
        page.goto(f"{site.address}#/plan/{query.id}")
        amount = page.locator("[data-operator=amount]")
        expect(amount).to_have_text("amount partial")
        query.alter(active=False)
        expect(amount.locator("h2")).to_have_text("amount partial, inactive")
        expect(amount.locator("[data-fact=amount_reason]")).to_contain_text("inactive: evaluated at each invocation")
        query.alter(parked=True)
        expect(amount.locator("h2")).to_have_text("amount partial, parked")
        query.alter(active=True, amount="complete")
        expect(amount.locator("[data-fact=kept_why]")).to_contain_text("an invocation keeps it")
        rows = len(query.invoke().rows())
        expect(amount.locator("[data-figure=kept_rows]")).to_have_text(f"{rows:,}")
        expect(amount.locator("[data-figure=kept_answer_bytes]")).to_have_text(re.compile(r"\d"))
        expect(amount.locator("[data-fact=kept_form]")).to_contain_text("new rows are added to the kept answer")
        query.alter(amount="partial")
        conditions = page.locator(".factors li")
        expect(conditions).to_have_count(2)
        expect(conditions.first).to_contain_text('"n" % 2')
        for figure, text in (
            ("shared_by", "1"),
            ("chunks_on_disk", "0"),
            ("chunks_in_memory", "1"),
            ("sample", "1,024"),
        ):
            expect(page.locator(f"[data-figure={figure}]")).to_have_text(text)
        passes = page.locator("[data-figure=factor_1_passes]")
        before = passes.inner_text()
        push(soup, *range(1, 129, 2))
        expect(passes).not_to_have_text(before)
        assert float(passes.inner_text().removesuffix(" %")) < float(before.removesuffix(" %")) < 60
        query.unregister()


def test_the_plan_shows_the_bound_of_the_state_of_each_step(tab: Opened, site: Site) -> None:
    page = tab.page
    with site.client() as soup:
        hour = soup.register("SELECT DISTINCT n FROM ticks BEGIN (NOW - 1 HOUR)", key="bound by a window")
        ever = soup.register("SELECT DISTINCT n FROM ticks BEGIN (START)", key="without a bound")
        for query, text in (
            (hour, "the tuples of ticks of 1 HOUR"),
            (ever, "unbounded, as tuples of 'ticks' never leave it"),
        ):
            page.goto(f"{site.address}#/plan/{query.id}")
            expect(page.locator("[data-operator=distinct] [data-fact=state_bound]")).to_have_text(text)
        expect(page.locator("[data-operator=project] [data-fact=state_bound]")).to_have_count(0)
        for query in (hour, ever):
            query.unregister()


def test_the_console_turns_pages_of_many_queries_and_finds_them_by_label(tab: Opened, site: Site) -> None:
    page = tab.page
    with site.client() as soup:
        rows = pa.table({"n": range(120), "kind": ["many"] * 119 + ["last"]})
        soup.register_many("SELECT n FROM ticks WHERE n = $n", rows, labels=["kind"])
        page.get_by_role("link", name="Console").click()
        page.get_by_role("button", name="Order and filter").click()
        lines, pages = page.locator("table.list tbody tr"), page.get_by_role("navigation", name="Pages of queries")
        for order in ("processor time", "time of registration"):
            page.get_by_label("By").select_option(label=order)
            expect(lines).to_have_count(50)
            expect(lines.first.locator("td").first).to_have_text("partial")
            first = lines.first.inner_text()
            page.get_by_role("button", name="Next").click()
            expect(pages).to_contain_text("51 to 100")
            expect(lines.first).not_to_have_text(first)
            page.get_by_role("button", name="Next").click()
            expect(page.get_by_role("button", name="Next")).to_be_disabled()
            page.get_by_role("button", name="Previous").click()
            page.get_by_role("button", name="Previous").click()
            expect(lines.first).to_contain_text(first.splitlines()[0])
            page.get_by_label("Labels, as name=value").fill("kind=last")
            page.get_by_role("button", name="Filter", exact=True).click()
            expect(lines).to_have_count(1)
            page.get_by_label("Labels, as name=value").fill("kind=many")
            page.get_by_role("button", name="Filter", exact=True).click()
            expect(lines).to_have_count(50)
            page.get_by_label("Labels, as name=value").fill("")
            page.get_by_role("button", name="Filter", exact=True).click()
        page.get_by_label("Labels, as name=value").fill("kind")
        page.get_by_role("button", name="Filter", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("name=value")
        soup.unregister_many(labels={"kind": "many"})
        soup.unregister_many(labels={"kind": "last"})


def test_a_large_answer_has_few_rows_in_the_document_and_lives(tab: Opened, site: Site) -> None:
    page = tab.page
    keep(page, "ticks")
    region = page.get_by_role("region", name=re.compile("Answer of ticks"))
    region.evaluate("node => node.scrollTo(0, 200_000)")
    expect(page.locator("td", has_text="note 6250").first).to_be_attached()
    assert page.locator("table.rows tr").count() <= 200
    page.get_by_role("button", name="Live").click()
    expect(page.get_by_role("button", name="● Live")).to_be_visible()
    with site.client() as soup:
        push(soup, 77_777)
    region.evaluate("node => node.scrollTo(0, node.scrollHeight)")
    expect(page.locator("td", has_text="late 77777")).to_be_attached()


def test_a_recharge_brings_what_is_new_and_says_its_bytes(tab: Opened, site: Site) -> None:
    page = tab.page
    keep(page, "ticks")
    keep(page, "week")
    with site.client() as soup:
        push(soup, 5, 6)
    said = recharged(page)
    assert said.startswith("2 new rows, 0 removed; ")
    assert " sent and received. The whole answer takes about " in said
    assert recharged(page).startswith("Nothing new; ")
    entry = tab.query("ticks")
    assert entry["last"]["sent"] + entry["last"]["received"] < 2_000 < entry["last"]["full"]


def test_two_tabs_agree(tab: Opened, site: Site) -> None:
    page = tab.page
    keep(page, "ticks")
    other = tab.another()
    other.goto(f"{site.address}/#/")
    expect(other.locator(".count")).to_have_count(1)
    with site.client() as soup:
        push(soup, 8)
    before = tab.query("ticks")["rows"]
    for seen in (page, other):
        seen.bring_to_front()  # a tab behind another is drawn once in a second
        recharged(seen)
    for seen in (page, other):
        expect(seen.locator(".count")).to_have_text(f"{before + 1:,} rows")


def test_all_of_it_by_keyboard(tab: Opened) -> None:
    page = tab.page
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the page")).to_be_focused()
    for _ in range(3):
        page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="New query").first).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_label("Statement").focus()
    page.keyboard.type("SELECT n FROM ticks BEGIN (NOW - 5 ROWS)")
    page.keyboard.press("Tab")
    page.keyboard.type("by keys")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("by keys")
    expect(page.locator("table.rows tbody tr")).to_have_count(5)
    page.get_by_role("button", name="Table").press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Chart")).to_have_attribute("aria-pressed", "true")


@pytest.mark.seeded("the service worker caches calls")
def test_it_opens_without_the_service_and_comes_back_by_a_delta(phone: Opened, site: Site) -> None:
    page = phone.page
    keep(page, "ticks")
    installed(page)
    rows = phone.query("ticks")["rows"]
    site.stop()
    mine(page)
    page.reload()
    expect(page.locator(".count")).to_have_text(f"{rows:,} rows")
    page.get_by_role("button", name="Update").click()
    expect(page.get_by_role("status")).to_contain_text("cannot be reached")
    expect(page.get_by_text("Offline")).to_be_visible()
    page.get_by_role("link", name="ticks").click()
    expect(page.locator("td", has_text="note 1").first).to_be_visible()
    site.start()
    with site.client() as soup:
        push(soup, 9)
    assert recharged(page).startswith("1 new row, 0 removed; ")
    assert phone.query("ticks")["last"]["received"] < 1_500
    cached = "caches.keys().then(names => Promise.all(names.map(name => caches.open(name).then(of => of.keys()))))"
    kept = page.evaluate(f"{cached}.then(all => all.flat().map(request => new URL(request.url).pathname))")
    assert "/index.html" in kept and not any(path.startswith("/api") for path in kept)


@pytest.mark.seeded("rows are deleted by the clock here")
def test_rows_that_leave_while_one_is_away_are_hidden_and_not_deleted(phone: Opened, site: Site) -> None:
    page = phone.page
    with site.client() as soup:
        soup.register("SELECT n FROM ticks WHERE n < 0 BEGIN (NOW - 1 HOUR)", key="hour")
        push(soup, -1, -2)
    page.clock.install()
    page.reload()
    keep(page, "hour")
    installed(page)
    expect(page.locator("table.rows tbody tr")).to_have_count(2)
    site.stop()
    page.clock.fast_forward("02:00:00")
    expect(page.get_by_text("No rows")).to_be_visible()
    page.clock.set_system_time("2020-01-01T00:00:00Z")  # a clock that is put back shows nothing again
    page.clock.run_for(10_000)
    expect(page.get_by_text("No rows")).to_be_visible()
    assert phone.query("hour")["rows"] == 2
    site.start()
    mine(page)
    page.get_by_role("button", name="Update").click()
    expect(page.get_by_text("The update took")).to_be_visible()
    page.get_by_role("link", name="hour").click()
    expect(page.locator("table.rows tbody tr")).to_have_count(2)
    with site.client() as soup:
        soup.unregister(key="hour")


def test_a_service_that_was_put_back_or_restored_is_told_in_plain_words(tab: Opened, site: Site) -> None:
    page, there = tab.page, site.folder.parent
    keep(page, "week")
    site.stop()
    shutil.copytree(site.folder, there / "before")
    site.start()
    with site.client() as soup:
        soup.wait_for(soup.push("sales", [sale(28)]).sequence)
    assert recharged(page).startswith("1 new row, 1 removed; ")
    site.move(there / "before")
    recharged(page)
    expect(page.locator(".card")).to_contain_text("put back to an earlier state")
    site.stop()
    restore(site.folder, there / "restored")
    site.move(there / "restored")
    recharged(page)
    expect(page.locator(".card")).to_contain_text("holds other data than before")
    page.get_by_role("link", name="week").click()
    expect(page.locator("table.rows tbody tr")).to_have_count(8)


def test_who_has_a_token_signs_in_and_out(chromium: Browser, tmp_path: Path) -> None:
    site = Site(tmp_path / "guarded")
    try:
        with site.client() as soup:
            secret = soup.issue_token("ann", ["owner", "operator", "registrar", "reader"], first=True).secret
        with opened(chromium, site) as tab:
            page = tab.page
            page.get_by_role("link", name="Console").click()
            page.get_by_label("Access token").fill("wrong")
            page.get_by_role("button", name="Sign in").click()
            page.get_by_label("Access token").fill(secret)
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_text("No queries are registered.")).to_be_visible()
            page.reload()
            expect(page.get_by_text("No queries are registered.")).to_be_visible()
            page.get_by_role("button", name="Sign out").click()
            expect(page.get_by_label("Access token")).to_be_visible()
            assert tab.problems == []
    finally:
        site.stop()


def test_the_console_shows_how_a_stream_is_derived(tab: Opened, site: Site) -> None:
    page = tab.page
    with site.client() as soup:
        soup.execute("CREATE STREAM even AS (SELECT n FROM ticks WHERE n % 2 = 0) LAG AT MOST 2 HOURS")
        assert len(soup.ask("SELECT n FROM even", wait_for=soup.push("ticks", [{"n": 2, "note": ""}]).sequence))
        page.get_by_role("link", name="Console").click()
        page.get_by_role("button", name="Streams").click()
        card = page.locator("li.card", has=page.get_by_role("heading", name="even"))
        expect(card.locator(".badge.good")).to_have_text("Derived")
        expect(card).to_contain_text("ISTREAM of SELECT n FROM ticks WHERE n % 2 = 0")
        expect(card).to_contain_text("ticks: its rows from")
        expect(card).to_contain_text("2 hours")
        soup.execute("ALTER STREAM even SUSPEND")
        expect(card.locator(".badge.warn")).to_have_text("Derived, suspended")
        soup.execute("DROP STREAM even CASCADE")
    assert tab.problems == []
