"""The web application in a headless browser: it loads, a query is registered, and its rows are shown.

`test_web_application.py` goes every other path; `make test-long` runs it.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from psoup_testing.browser.browser import SKIPPED, Opened, Site, executable

pytestmark = pytest.mark.skipif(executable() is None, reason=SKIPPED)


@pytest.mark.long
def test_a_wrong_query_is_mended_and_registered(tab: Opened, site: Site) -> None:
    page = tab.page
    page.get_by_role("link", name="New query").first.click()
    editor = page.get_by_label("Statement")
    editor.fill("SELECT at, shp\nFROM sales")
    expect(page.locator("#checked .caret")).to_have_text("SELECT at, shp\n           ^")
    expect(page.locator("#checked")).to_contain_text("did you mean 'shop'")
    expect(page.get_by_role("button", name="Register")).to_be_disabled()
    editor.fill("SELECT at, shop\nFROM sales BEGIN (NOW - 2 DAYS)")
    expect(page.locator("#checked")).to_contain_text("BEGIN (NOW - 2 DAYS)")
    expect(page.locator("#checked")).to_contain_text("3 rows in this window now")
    page.get_by_label(re.compile("^Name")).fill("two days")
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("two days")
    expect(page.locator("table.rows tbody tr")).to_have_count(3)
    with site.client() as soup:
        assert len(soup.query(key="two days").invoke()) == 3
        soup.unregister(key="two days")
