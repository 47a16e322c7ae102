"""Steps that tests of the page share, and what they run in it: to look into its store, break it, hold replies back."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from psoup_client import Client

MARKUP = '<img src=x onerror="document.title=1">'
BACKWARDS = "‮desrever"
STREAM = "CREATE STREAM sales (at TIMESTAMP NOT NULL, shop TEXT, amount DECIMAL(10, 2), pieces BIGINT) TIMESTAMP BY at"

ENTRY = """name => new Promise((resolve, reject) => {
  const opening = indexedDB.open("psoup");
  opening.onerror = () => reject(opening.error);
  opening.onsuccess = () => {
    const all = opening.result.transaction(["entries", "rows"]);
    all.objectStore("entries").getAll().onsuccess = event => {
      const entry = event.target.result.find(entry => entry.name === name);
      const parts = IDBKeyRange.bound([entry.number, 0], [entry.number, Infinity]);
      all.objectStore("rows").getAll(parts).onsuccess = told => {
        opening.result.close();
        const held = told.target.result.reduce((sum, part) => sum + part[0].length, 0);
        resolve({ ...entry, held, token: entry.token.length, clock: null, form: null });
      };
    };
  };
})"""
"""The entry of a query, by its name, and how many rows it has."""

CLEAR_ROWS = """new Promise((resolve, reject) => {
  const opening = indexedDB.open("psoup");
  opening.onsuccess = () => {
    const work = opening.result.transaction("rows", "readwrite");
    work.objectStore("rows").clear();
    work.oncomplete = () => { opening.result.close(); resolve(); };
    work.onerror = reject;
  };
})"""

BREAK_ROWS = """parts => {
  const put = IDBObjectStore.prototype.put;
  IDBObjectStore.prototype.put = function (...given) {
    if (this.name === "rows" && parts-- <= 0) throw new DOMException("no room", "QuotaExceededError");
    return put.apply(this, given);
  };
}"""
"""From now on no rows are stored, but for some parts."""

EARLIER = """name => new Promise((resolve, reject) => {
  const opening = indexedDB.open("psoup");
  opening.onerror = () => reject(opening.error);
  opening.onsuccess = () => {
    const db = opening.result;
    const all = db.transaction(["entries", "rows"]);
    const [told, rows] = [all.objectStore("entries").getAll(), all.objectStore("rows").getAll()];
    all.oncomplete = () => {
      db.close();
      const entry = told.result.find(entry => entry.name === name);
      const columns = entry.form.fields.map((_, at) => rows.result.flatMap(part => part[at]));
      indexedDB.deleteDatabase("psoup").onsuccess = () => {
        const making = indexedDB.open("psoup", 1);
        making.onupgradeneeded = () => {
          const entries = making.result.createObjectStore("entries", { keyPath: "number", autoIncrement: true });
          entries.createIndex("queryId", "queryId");
          entries.put(entry);
          making.result.createObjectStore("rows").put(columns, entry.number);
        };
        making.onsuccess = () => { making.result.close(); resolve(); };
        making.onerror = () => reject(making.error);
      };
    };
  };
})"""
"""Put the copy of a query into a store of the first form, which had one record of rows for each query."""

HOLD = """(() => {
  const fetching = window.fetch;
  window.fetch = async (...given) => {
    const reply = await fetching(...given);
    if (window.held && String(given[0]).endsWith("/Sync")) await new Promise(release => (window.release = release));
    return reply;
  };
})()"""


def keep(page: Page, key: str) -> None:
    """Keep a query by its key, from the console, until its answer is there."""
    begin_to_keep(page, key)
    page.get_by_text("updated just now").wait_for()


def begin_to_keep(page: Page, key: str) -> None:
    """Ask for a query to be kept."""
    page.get_by_role("link", name="Console").click()
    page.get_by_label("ID or key of a query").fill(key)
    page.get_by_role("button", name="Open").click()
    page.get_by_role("button", name="Keep on this device").click()


def installed(page: Page) -> None:
    """Wait until the shell of the page is kept by its worker, and the worker serves it."""
    page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
    page.reload()
    page.wait_for_function("() => navigator.serviceWorker.controller !== null")


def recharged(page: Page) -> str:
    """Recharge all that is kept; what is said of it."""
    mine(page)
    page.get_by_role("button", name="Update").click()
    expect(page.get_by_text("The update took")).to_be_visible()
    return page.get_by_role("status").inner_text()


def mine(page: Page) -> None:
    """Come to my queries anew."""
    page.get_by_role("link", name="Console").click()
    page.get_by_role("link", name="My queries").last.click()


def look(page: Page, name: str, violations: dict[str, list[str]]) -> None:
    """Note axe's findings on a page in light colours, its colour findings in dark, and whether the page is wider than
    the screen.
    """
    results = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    page.emulate_media(color_scheme="dark")
    results += page.evaluate("axe.run({ runOnly: ['color-contrast'], resultTypes: ['violations'] })")["violations"]
    page.emulate_media(color_scheme="light")
    violations[name] = [f"{result['id']}: {result['nodes'][0]['html'][:200]}" for result in results]
    if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
        violations[name].append("it is wider than the screen")


def sale(day: int) -> dict[str, object]:
    """A row of the sales, with a text that is dangerous somewhere in each week."""
    shop = {0: MARKUP, 1: BACKWARDS, 2: "=1+1"}.get(day % 7, f"shop {day}")
    return {"at": f"2024-03-{day + 1:02}T12:00:00Z", "shop": shop, "amount": f"{day}.50", "pieces": day - 3}


def push(soup: Client, *numbers: int) -> None:
    """Push some ticks, and return once answers have them: the page does not wait for pushes of others."""
    soup.wait_for(soup.push("ticks", [{"n": n, "note": f"late {n}"} for n in numbers]).sequence)
