/** The package against a service, as a program of Node uses it. PSOUP_URL: the address of the page's port; each test
 * has a stream of its own. Run by tests/clients/typescript. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { test } from "node:test";
import { createClient, memory, PSoupError } from "psoup-client";

const url = process.env.PSOUP_URL;
const client = createClient({ url, token: process.env.PSOUP_TOKEN });

async function made(stream, columns = "n BIGINT NOT NULL, t TEXT") {
  await client.execute(`CREATE STREAM ${stream} (${columns})`);
}

async function failing(call) {
  const problem = await call.then(
    () => assert.fail("the call has not failed"),
    (problem) => problem,
  );
  assert.ok(problem instanceof PSoupError, String(problem));
  return problem;
}

/** The first snapshot that fits. */
async function first(snapshots, fits) {
  for await (const snapshot of snapshots) if (fits(snapshot)) return snapshot;
  return assert.fail("the watch has ended");
}

/** A way to the service that can be cut. */
async function proxied(use) {
  const open = new Set();
  const target = new URL(url);
  const server = createServer((socket) => {
    const out = connect(Number(target.port), target.hostname);
    for (const one of [socket, out]) {
      open.add(one);
      one.on("error", () => undefined).on("close", () => open.delete(one));
    }
    socket.pipe(out).pipe(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = () => open.forEach((socket) => socket.destroy());
  try {
    await use(`http://127.0.0.1:${server.address().port}`, cut);
  } finally {
    server.close();
    cut();
  }
}

test("ask, register and invoke give typed rows without a loss", async () => {
  await made("typed", "b BOOLEAN, n BIGINT, x DOUBLE, d DECIMAL(18,2), t TEXT, at TIMESTAMP, day DATE");
  const at = new Date("2026-01-31T12:00:00.5Z");
  const row = { b: true, n: 2n ** 62n, x: NaN, d: "1234567890123456.90", t: "ü\u0000\u2028", at, day: "2026-01-31" };
  const { accepted, sequence } = await client.push("typed", [row, {}]);
  assert.equal(accepted, 2);
  const expected = { ...row, at: "2026-01-31T12:00:00.5Z" };
  const nothing = Object.fromEntries(Object.keys(row).map((name) => [name, null]));
  const answer = await client.ask("SELECT * FROM typed BEGIN (START)", { minSequence: sequence });
  assert.deepEqual(answer.rows, [expected, nothing]);
  assert.deepEqual(
    answer.fields.map(({ kind }) => kind),
    ["boolean", "bigint", "double", "decimal", "text", "timestamp", "date"],
  );
  assert.equal(answer.completeness.sequence, sequence);
  const one = await client.ask("SELECT n FROM typed WHERE n = ? AND at <= ? BEGIN (START)", {
    parameters: [2n ** 62n, at],
  });
  assert.deepEqual(one.rows, [{ n: 2n ** 62n }]);
  const sql = "SELECT n, d FROM typed WHERE d >= $least BEGIN (START)";
  const query = await client.register(sql, { key: "typed/1 ü", parameters: { least: "0.01" }, labels: { who: "ann" } });
  assert.deepEqual((await query.invoke()).rows, [{ n: expected.n, d: expected.d }]);
  assert.deepEqual((await client.invoke("typed/1 ü", { minSequence: sequence })).rows, [
    { n: expected.n, d: expected.d },
  ]);
  const { queries } = await client.call("QueryService/ListQueries", { labels: { who: "ann" } });
  assert.equal(queries.length, 1);
  assert.deepEqual([queries[0].amount, queries[0].eager, queries[0].active], ["AMOUNT_PARTIAL", undefined, true]);
  await client.unregister("typed/1 ü");
  assert.equal((await failing(client.invoke("typed/1 ü"))).code, "NOT_FOUND");
});

test("a query is kept otherwise, and its answer stays the same", async () => {
  await made("kept");
  const options = { key: "kept/1", amount: "none", active: false };
  const query = await client.register("SELECT n FROM kept WHERE n > 1 BEGIN (START)", options);
  await client.push("kept", [{ n: 1 }, { n: 2 }]);
  const { rows } = await query.invoke();
  assert.deepEqual(rows, [{ n: 2 }]);
  assert.deepEqual(await client.alter("kept/1", { active: true, amount: "complete" }), { count: 1, changed: 1 });
  assert.deepEqual(await client.alterQueries({ keyPrefix: "kept/" }, { amount: "complete" }), { count: 1, changed: 0 });
  assert.deepEqual((await query.invoke()).rows, rows);
  const wrong = await failing(client.alterQueries({ keyPrefix: "kept/" }, {}));
  assert.equal(wrong.reason, "NO_CHANGE");
});

test("errors have their place, their hint and the lines of bad rows", async () => {
  await made("wrong");
  const { code, line, column, hint, message } = await failing(client.ask("SELECT n,\n tt FROM wrong"));
  assert.deepEqual([code, line, column], ["INVALID_ARGUMENT", 2, 2]);
  assert.match(hint, /did you mean 't'/);
  assert.match(message, /tt/);
  assert.equal(PSoupError.name, "PSoupError", "also in the built package, whose names are short");
  const bad = await failing(client.push("wrong", [{ n: 1 }, { n: "x" }]));
  assert.deepEqual(
    bad.details.rows.map((row) => [row.line, row.column]),
    [[2, "n"]],
  );
  assert.equal((await failing(client.push("nowhere", [{ n: 1 }]))).gone, true);
});

test("a push with the same key is taken once", async () => {
  await made("once_only");
  const options = { idempotencyKey: "morning-1" };
  const [one, two] = [
    await client.push("once_only", [{ n: 1 }], options),
    await client.push("once_only", [{ n: 1 }], options),
  ];
  assert.deepEqual([one.duplicate, two.duplicate, one.sequence], [false, true, two.sequence]);
  assert.equal((await failing(client.push("once_only", [{ n: 2 }], options))).code, "ABORTED");
});

test("a watch goes on after cuts, and loses and doubles nothing", async () => {
  await made("watched");
  await client.register("SELECT n FROM watched BEGIN (START)", { key: "watched" });
  await proxied(async (way, cut) => {
    const snapshots = createClient({ url: way, token: process.env.PSOUP_TOKEN }).query("watched").watch();
    const expected = [];
    for (let round = 0; round < 5; round++) {
      const rows = Array.from({ length: 10 }, (_, n) => ({ n: round * 10 + n }));
      await client.push("watched", rows);
      expected.push(...rows);
      const snapshot = await first(snapshots2(snapshots), ({ rows }) => rows.length >= expected.length);
      assert.deepEqual(snapshot.rows, expected);
      cut();
    }
    await snapshots.return();
  });
});

test("a watch that is cut while rows arrive sees each of them once, in order", async () => {
  await made("stormy");
  await client.register("SELECT n FROM stormy BEGIN (START)", { key: "stormy" });
  await proxied(async (way, cut) => {
    const all = 400;
    const pushing = (async () => {
      for (let n = 0; n < all; n += 4) {
        await client.push("stormy", [{ n }, { n: n + 1 }, { n: n + 2 }, { n: n + 3 }]);
        if (n % 100 === 0) cut();
      }
    })();
    let before = 0;
    for await (const { rows } of createClient({ url: way, token: process.env.PSOUP_TOKEN }).query("stormy").watch()) {
      assert.ok(rows.length >= before);
      assert.ok(rows.every(({ n }, at) => n === at));
      before = rows.length;
      if (before === all) break;
    }
    await pushing;
  });
});

/** Snapshots, without ending the watch when a loop over them is left. */
async function* snapshots2(snapshots) {
  for (;;) {
    const { value, done } = await snapshots.next();
    if (done) return;
    yield value;
  }
}

test("a watch of a query that is unregistered ends with the error", async () => {
  await made("gone");
  const query = await client.register("SELECT n FROM gone BEGIN (START)", { key: "gone" });
  const snapshots = query.watch();
  await first(snapshots2(snapshots), ({ complete }) => complete);
  const end = failing(first(snapshots2(snapshots), () => false)); // it may tell that it connects anew
  await client.unregister("gone");
  assert.equal((await end).code, "NOT_FOUND");
  const never = await failing(first(client.query("no such key").watch(), () => true));
  assert.equal(never.code, "NOT_FOUND");
  await client.register("SELECT n FROM gone BEGIN (START)", { key: "gone" });
  await first(query.watch(), ({ complete }) => complete);
});

test("listeners of a query share one watch, and its signal ends a watch", async () => {
  await made("shared");
  const query = await client.register("SELECT n FROM shared BEGIN (START)", { key: "shared" });
  assert.equal(client.query("shared"), query);
  await client.push("shared", [{ n: 1 }]);
  let calls = 0;
  const counted = createClient({
    url,
    token: process.env.PSOUP_TOKEN,
    fetch: (...given) => (calls++, fetch(...given)),
  });
  const stop = new AbortController();
  const both = [1, 2].map(() =>
    first(counted.query("shared").watch({ signal: stop.signal }), ({ rows }) => rows.length === 1),
  );
  const [one, two] = await Promise.all(both);
  assert.equal(one.rows, two.rows);
  assert.equal(calls, 1);
  const third = counted.query("shared").watch({ signal: stop.signal });
  await third.next();
  const waiting = third.next();
  stop.abort();
  assert.deepEqual(await waiting, { value: undefined, done: true });
});

test("a copy comes in parts, and later only what has changed", async () => {
  await made("many");
  const rows = Array.from({ length: 60_000 }, (_, n) => ({ n, t: `${(n * 7919) % 60_000} of many` }));
  const { sequence } = await client.push("many", rows);
  await client.register("SELECT n, t FROM many BEGIN (START)", { key: "many" });
  await client.invoke("many", { minSequence: sequence });
  const store = memory();
  const copy = await client.copy("many", { store });
  assert.deepEqual([copy.rows, copy.complete, copy.now, copy.synced], [[], false, null, null]);
  let told = 0;
  const end = copy.subscribe(() => told++);
  const whole = await copy.recharge();
  assert.deepEqual([copy.complete, copy.error, whole.came, whole.failed], [true, null, rows.length, 0]);
  assert.deepEqual(copy.rows, rows);
  assert.ok(told > 0 && copy.now !== null && copy.synced !== null);
  const before = copy.rows;
  const same = await copy.recharge();
  assert.deepEqual([same.came, same.gone], [0, 0]);
  assert.equal(copy.rows, before, "the same array");
  await client.push("many", [{ n: -1, t: "new" }]);
  const more = await copy.recharge();
  assert.deepEqual([more.came, copy.rows.at(-1)], [1, { n: -1, t: "new" }]);
  assert.ok(more.received < whole.received / 100);
  end();
  const again = await client.copy("many", { store });
  assert.equal(again.rows.length, rows.length + 1, "of the store, without a call");
  await client.register("SELECT n FROM many WHERE n < 0 BEGIN (START)", { key: "many", replace: true });
  await copy.recharge();
  assert.deepEqual(copy.rows, [{ n: -1 }]);
  await client.unregister("many");
  assert.equal((await failing(copy.recharge())).code, "NOT_FOUND");
  assert.equal(copy.rows.length, 1, "the rows stay");
  await copy.forget();
  assert.match((await failing(copy.recharge())).message, /the copy was forgotten/);
});
