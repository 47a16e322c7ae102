/** Rows as objects, and the store in memory. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { fromBinary } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { SyncBodySchema } from "../src/contract/psoup_proto/v1/sync_pb.js";
import { MemoryStore } from "../src/store/memory.js";
import { bodyOf } from "../src/sync/body.js";
import { count } from "../src/sync/change.js";
import type { Field, Kind } from "../src/sync/form.js";
import { instantText, objects } from "../src/sync/objects.js";
import vectors from "./vectors.json";

function field(name: string, kind: Kind): Field {
  return { name, kind, scale: 2 };
}

test("a row loses no digit of its values", () => {
  const fields = [field("n", "bigint"), field("d", "decimal"), field("at", "timestamp"), field("day", "date")];
  const columns = [
    [1, 2n ** 60n, null],
    ["0.10", "12345678901234567890.12", null],
    [1_500_000, 2n ** 60n, null],
    [0, -1, null],
  ];
  assert.deepEqual(objects(fields, columns, [0, 1, 2]), [
    { n: 1, d: "0.10", at: "1970-01-01T00:00:01.5Z", day: "1970-01-01" },
    { n: 2n ** 60n, d: "12345678901234567890.12", at: "+038504-08-17T21:30:06.846976Z", day: "1969-12-31" },
    { n: null, d: null, at: null, day: null },
  ]);
  assert.equal(instantText(-1), "1969-12-31T23:59:59.999999Z");
  assert.equal(instantText(2n ** 63n - 1n), "9223372036854775807 µs");
});

test("a reply is read in browsers whose streams cannot be iterated, and is as large as it says", async () => {
  const iterator = Object.getOwnPropertyDescriptor(ReadableStream.prototype, Symbol.asyncIterator)!;
  delete (ReadableStream.prototype as { [Symbol.asyncIterator]?: unknown })[Symbol.asyncIterator];
  try {
    const raw = base64Decode(vectors.histories[0]!.steps[0]!.body);
    const reply = (size: number) => ({
      body: gzipSync(raw).toString("base64"),
      compression: "COMPRESSION_GZIP" as const,
      size: String(size),
    });
    assert.deepEqual(await bodyOf(reply(raw.length)), fromBinary(SyncBodySchema, raw));
    await assert.rejects(bodyOf(reply(raw.length - 1)), /more bytes/);
    await assert.rejects(bodyOf(reply(raw.length + 1)), /fewer bytes/);
  } finally {
    Object.defineProperty(ReadableStream.prototype, Symbol.asyncIterator, iterator);
  }
});

test("names of columns are names of values alone", () => {
  const fields = ["__proto__", "a", "A", "constructor"].map((name) => field(name, "text"));
  const [row] = objects<Record<string, unknown>>(fields, [["p"], ["x"], ["y"], ["c"]], [0]);
  assert.deepEqual(Object.entries(row!), [
    ["__proto__", "p"],
    ["a", "x"],
    ["A_1", "y"],
    ["constructor", "c"],
  ]);
  assert.equal(Object.getPrototypeOf(row), Object.prototype);
});

test("a change of a copy is made once, whoever brings it", async () => {
  const store = new MemoryStore();
  const number = await store.keep("week", { queryId: "", key: "week", statement: "" });
  assert.equal(await store.keep("again", { queryId: "", key: "week", statement: "" }), number);
  let token = new Uint8Array();
  for (const step of vectors.histories[0]!.steps) {
    const body = fromBinary(SyncBodySchema, base64Decode(step.body));
    const outcome = body.outcomes[0]!.outcome;
    assert.equal(outcome.case, "change");
    const change = outcome.value as Parameters<typeof store.apply>[2];
    const twice = await Promise.all([1, 2].map(() => store.apply(number, token, change, body)));
    const entry = (await store.entry(number))!;
    if (change.token.length > 0) assert.equal(twice.filter((told) => told !== null).length, 1);
    assert.equal(count(await store.rowsOf(number)), step.rows);
    token = entry.token as Uint8Array<ArrayBuffer>;
  }
  await store.forget(number);
  assert.deepEqual(await store.entries(), []);
});
