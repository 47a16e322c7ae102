/** The application's own tests: what a table, a file and a window are made of. Run by Node. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { plain } from "../src/api/plain";
import { bytes, digitsOf, instant, instantUtc, microsOf, shownValue, span } from "../src/format";
import { amountFacts } from "../src/parts/amounts";
import { lackWords, lagCause } from "../src/parts/derived";
import { csv, json } from "../src/parts/export";
import { split } from "../src/parts/editor";
import { boundFacts } from "../src/parts/patterns";
import { telling } from "../src/parts/telling";
import { movedTo, windowAt } from "../src/parts/window_bar";
import { partsOf, textOf, windowOf } from "../src/sync/window";
import { centred, following, viewOf, zoomed, zoomOf } from "../src/sync/zoom";
import { showUtc } from "../src/zone";

test("a file that a spreadsheet opens carries out nothing", () => {
  const text = (name: string) => ({ name, kind: "text" as const, scale: 0 });
  const columns = [["=1+1", "-2", "@x", " =2", "+3", "a,b", 'say "x"', null, "\t=4", "fine"]];
  const order = columns[0]!.map((_, row) => row);
  const lines = csv({ fields: [text("=name")], columns, order })
    .trimEnd()
    .split("\r\n");
  assert.deepEqual(lines, [
    `"'=name"`,
    `"'=1+1"`,
    `"'-2"`,
    `"'@x"`,
    `"' =2"`,
    `"'+3"`,
    `"a,b"`,
    `"say ""x"""`,
    "",
    `"'\t=4"`,
    "fine",
  ]);
  const numbers = csv({ fields: [{ name: "n", kind: "bigint", scale: 0 }], columns: [[-5, 2n ** 60n]], order: [0, 1] });
  assert.equal(numbers, "n\r\n-5\r\n1152921504606846976\r\n");
});

test("a plan says what is kept of the answer, or why it was given up", () => {
  const kept = { form: "rows are added", rows: 2, bytes: 576, given_up: "", why: "", invocations: 0 };
  const said = { amount: "COMPLETE", active: true, amount_reason: "", kept_answer: kept };
  assert.deepEqual(amountFacts({ details: said }), {
    words: "complete",
    figures: [
      ["kept_rows", 2],
      ["kept_answer_bytes", 576],
    ],
    facts: [["kept_form", "rows are added"]],
  });
  const lost = { ...kept, rows: 0, bytes: 0, given_up: "2026-03-01 10:00:00Z", why: "9 rows came", invocations: 3 };
  const givenUp = amountFacts({ details: { ...said, kept_answer: lost } });
  assert.deepEqual(givenUp?.figures, [["invocations_since", 3]]);
  assert.deepEqual(
    givenUp?.facts.map(([, value]) => value),
    ["rows are added", "2026-03-01 10:00:00Z", "9 rows came"],
  );
  assert.deepEqual(amountFacts({ details: { amount: "NONE", active: false, amount_reason: "inactive" } }), {
    words: "none, inactive",
    figures: [],
    facts: [["amount_reason", "inactive"]],
  });
  const parked = amountFacts({ details: { amount: "PARTIAL", active: false, parked: true } });
  assert.equal(parked?.words, "partial, parked");
  const eager = { ...kept, eager: true, updates: 12, updated: "2026-03-01 10:00:00Z", why_not: "it was not asked" };
  const updated = amountFacts({ details: { ...said, eager: true, kept_answer: eager } });
  assert.deepEqual(updated?.figures.at(-1), ["eager_updates", 12]);
  assert.deepEqual(updated?.facts.slice(1), [
    ["eager_updated", "2026-03-01 10:00:00Z"],
    ["eager_why_not", "it was not asked"],
  ]);
  const choice = {
    amount: "NONE",
    since: "2026-03-01 10:00:00Z",
    core_us: { NONE: 2.26, PARTIAL: 90 },
    invocations: 4,
  };
  assert.deepEqual(amountFacts({ details: { amount: "AUTO", active: true, choice } }), {
    words: "auto (none)",
    figures: [
      ["invoked_in_a_second", 4],
      ["core_us_none", 2.3],
      ["core_us_partial", 90],
    ],
    facts: [["chosen_since", "2026-03-01 10:00:00Z"]],
  });
  const paired = { amount: "PARTIAL", pairs_kept: true, since: "2026", core_us: { "PARTIAL with pairs": 7 } };
  const withPairs = amountFacts({ details: { amount: "AUTO", active: true, choice: paired } });
  assert.equal(withPairs?.words, "auto (partial with pairs)");
  assert.deepEqual(withPairs?.figures.at(-1), ["core_us_partial_with_pairs", 7]);
  assert.equal(amountFacts({}), null);
});

test("a lag says why a derived stream is behind", () => {
  const running = { state: "running", lag: "35.500s" };
  assert.equal(lagCause(running), ", catching up");
  assert.equal(lagCause({ ...running, heldBy: "arrivals" }), ", held back by arrivals");
  assert.equal(lagCause({ ...running, every: "60s" }), "", "the next tick is not closed yet");
  assert.equal(lagCause({ ...running, lag: "0s" }), "");
  assert.equal(lagCause({ ...running, state: "suspended" }), "");
});

test("a step has the bound of its state, unless it takes none", () => {
  const text = "unbounded, as ticks has no RETENTION";
  assert.deepEqual(boundFacts({ text, unbounded: "ticks has no RETENTION" }), [["state_bound", text]]);
  assert.deepEqual(boundFacts({ rows: "5", text: "at most 5 rows" }), [["state_bound", "at most 5 rows"]]);
  assert.deepEqual(boundFacts({ rows: "0", bytes: "0", text: "no state" }), []);
  assert.deepEqual(boundFacts(undefined), []);
});

test("an answer says which derived stream gets no rows, and why", () => {
  const delay = { stream: "calls", since: "2026-03-01T10:00:00Z", why: "it is full" };
  showUtc(true);
  const waits = ". The derived stream calls waits for room in memory since 2026-03-01 10:00: it is full";
  assert.equal(lackWords({ halt: "waiting", delay }), waits);
  const suspended = lackWords({ halt: "suspended", delay: { ...delay, why: "" }, gaps: [{}] });
  const words = ". The derived stream calls is suspended since 2026-03-01 10:00. It lacks rows from the beginning on";
  assert.equal(suspended, words);
  assert.equal(lackWords({}), "");
});

test("JSON names each column once, and loses no digit", () => {
  const fields = [
    { name: "a", kind: "bigint" as const, scale: 0 },
    { name: "a", kind: "double" as const, scale: 0 },
    { name: "t", kind: "timestamp" as const, scale: 0 },
  ];
  const rows = json({ fields, columns: [[2n ** 60n], [NaN], [1_500_000]], order: [0] });
  assert.deepEqual(JSON.parse(rows), [{ a: "1152921504606846976", a_1: "NaN", t: "1970-01-01T00:00:01.5Z" }]);
});

test("instants and sizes", () => {
  assert.equal(instantUtc(0), "1970-01-01 00:00");
  assert.equal(instantUtc(-1), "1969-12-31 23:59:59.999999");
  assert.equal(instantUtc(2n ** 62n), "+148108-07-06 14:00:27.387904");
  assert.equal(instantUtc(2n ** 63n - 1n), `${2n ** 63n - 1n} µs`);
  showUtc(true);
  const [noon, later] = [1_700_049_600_000_000, 1_700_049_600_123_456];
  assert.deepEqual([instant(noon), instant(later + 1e6)], ["2023-11-15 12:00", "2023-11-15 12:00:01"]);
  assert.deepEqual(
    [
      [noon, null],
      [noon, later + 1e6],
      [noon, later],
      [later, later + 1],
    ].map(digitsOf),
    ["minutes", 0, 3, 6],
  );
  const stamp = { name: "t", kind: "timestamp" as const, scale: 0 };
  assert.deepEqual(
    (["minutes", 0, 3, 6] as const).map((digits) => shownValue(later, stamp, digits)),
    ["2023-11-15 12:00", "2023-11-15 12:00:00", "2023-11-15 12:00:00.123", "2023-11-15 12:00:00.123456"],
  );
  assert.equal(microsOf("2014-01-01T06:00:00.123456Z"), 1_388_556_000_123_456);
  const double = { name: "x", kind: "double" as const, scale: 0 };
  assert.deepEqual(
    [1e-9, -1.23456789e-5, 1 / 3, 0, 1e300, NaN].map((value) => shownValue(value, double)),
    ["1e-9", "-0.0000123457", "0.333333", "0", "1e+300", "NaN"],
  );
  assert.deepEqual([59, 7_200, 700 * 86_400, 45_291 * 86_400].map(span), [
    "59 seconds",
    "2 hours",
    "700 days",
    "124 years",
  ]);
  assert.deepEqual([12, 1234, 54_321, 2_000_000].map(bytes), ["12 B", "1.2 kB", "54 kB", "2.0 MB"]);
});

test("a window in the address is the window that was dragged", () => {
  const reach = { oldest: 0, archivedTo: 0, now: 1_000e6 };
  const at = { begin: 400e6, end: 900e6, now: 1_000e6 };
  const back = movedTo(at, "now", 800e6, reach);
  assert.deepEqual(back, { begin: 200e6, end: 700e6, now: 800e6 });
  const window = windowAt(back, reach);
  assert.equal(textOf(window), "BEGIN (NOW - 600 SECONDS) END (NOW - 100 SECONDS)");
  assert.deepEqual(windowOf(new URLSearchParams(partsOf(window))), window);
  assert.equal(textOf(windowAt(movedTo(at, "begin", -5, reach), reach)), "BEGIN (START) END (NOW - 100 SECONDS)");
  assert.deepEqual(movedTo(at, "begin", 999e6, reach).begin, 900e6);
  assert.deepEqual(movedTo(at, "end", 5, reach).end, 400e6);
});

test("a bar is zoomed within its limits, and the address keeps its place", () => {
  const all = { oldest: 0, now: 6_400e6 };
  const whole = { from: 0, to: 6_400e6 };
  const half = zoomed(whole, 1_600e6, 0.5, all);
  assert.deepEqual(half, { from: 800e6, to: 4_000e6 });
  assert.deepEqual(viewOf(new URLSearchParams({ zoom: zoomOf(half, all) }), all), half);
  assert.deepEqual(
    [zoomOf(whole, all), zoomed(half, 0, Infinity, all), zoomed(half, 800e6, 9, all)],
    ["", whole, whole],
  );
  const near = zoomed(whole, 6_400e6, 1e-9, all);
  assert.deepEqual([near, zoomed(near, 6_400e6, 0.5, all)], [{ from: 6_340e6, to: 6_400e6 }, near]);
  assert.deepEqual(centred(whole, 3_000e6, 0.25, all), { from: 2_200e6, to: 3_800e6 });
  assert.deepEqual(centred(whole, 6_300e6, 0.25, all), { from: 4_800e6, to: 6_400e6 });
  assert.deepEqual(following(half, 500e6, all), { from: 500e6, to: 3_700e6 });
  assert.deepEqual(following(half, 9_999e6, all), { from: 3_200e6, to: 6_400e6 });
  for (const zoom of ["", "x", "5~9", "900~100", "9000~9999", "-900~-100"])
    assert.deepEqual(viewOf(new URLSearchParams({ zoom }), all), whole);
  assert.deepEqual(viewOf(new URLSearchParams({ zoom: "-100~100" }), all), { from: 0, to: 200e6 });
});

test("the word that is wrong is marked, by characters", () => {
  assert.deepEqual(split("SELECT a\nFRM 🐎 x", { line: 2, column: 7 }), ["SELECT a\nFRM 🐎 ", "x", ""]);
  assert.deepEqual(split("SELECT", { line: 1, column: 7 }), ["SELECT", "", ""]);
});

test("a message on the page has no word of programs and terminals", () => {
  const said: [string, string][] = [
    [
      "this service needs an access token: set PSOUP_TOKEN_FILE or PSOUP_TOKEN; an operator issues tokens (psoup token issue)",
      "this service needs an access token",
    ],
    [
      "key 'k' is that of another query (q-1), registered otherwise: its text is SELECT n FROM s. To put the new query in its place, say replace (--replace, replace=True); or take another key, or unregister that query first",
      "key 'k' is that of another query (q-1), registered otherwise: its text is SELECT n FROM s. or take another key, or unregister that query first",
    ],
    ["rows come in by a push: psoup push STREAM FILE, push(stream, rows)", "rows come in by a push"],
    ["see psoup stream list, psoup queries; streams(), describe(name), queries()", ""],
    [
      "the hint: line 1, column 8 is fine; date_trunc('day', at)",
      "the hint: line 1, column 8 is fine; date_trunc('day', at)",
    ],
    [
      "line 1, column 1: no\nSELECT push(a) FROM s\n^\nhint: psoup push STREAM",
      "line 1, column 1: no\nSELECT push(a) FROM s\n^",
    ],
  ];
  for (const [before, after] of said) assert.equal(plain(before), after);
});

test("a statement is shown from its own WHERE on", () => {
  assert.equal(telling("SELECT a,\n b FROM s\nWHERE  a < 1 BEGIN (START)"), "WHERE a < 1 BEGIN (START)");
  assert.equal(telling("SELECT 'where' AS \"WHERE\" FROM s BEGIN (START)"), "FROM s BEGIN (START)");
  assert.equal(
    telling("SELECT a FROM s JOIN (SELECT b FROM t WHERE b > 0) ON a = b where a = 'it''s'"),
    "where a = 'it''s'",
  );
  assert.equal(telling("SELECT somewhere FROM s"), "FROM s");
});
