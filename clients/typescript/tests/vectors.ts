/** Changes of copies come to the rows that the Python client came to: both run on the vectors of
 * tests/clients/copies/test_web_vectors.py. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { type Change, SyncBodySchema } from "../src/contract/psoup_proto/v1/sync_pb.js";
import { ArrowRows } from "../src/sync/arrow.js";
import { type Changed, changed, count, type Held } from "../src/sync/change.js";
import { uniqueNames } from "../src/sync/column_names.js";
import { hidden, shownFields } from "../src/sync/form.js";
import { estimate, shown } from "../src/sync/shown.js";
import type { Value } from "../src/sync/values.js";
import arrow from "./arrow.json";
import vectors from "./vectors.json";

function changeOf(body: string): Change {
  const outcome = fromBinary(SyncBodySchema, base64Decode(body)).outcomes[0]!.outcome;
  assert.equal(outcome.case, "change");
  return outcome.value as Change;
}

/** A value in the forms of `Change.columns_json`. */
function told(value: Value): Value {
  if (typeof value === "bigint") return String(value);
  return typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
}

function columnsOf(held: Held, now: number | null): Value[][] {
  const order = shown(held, now);
  const first = hidden(held.form);
  return shownFields(held.form).map((_, at) => order.map((row) => told(held.columns[first + at]![row]!)));
}

for (const [number, history] of vectors.histories.entries()) {
  test(`copy ${number}, ${history.shape}: rows after each change, and those shown at a later NOW`, async () => {
    let held: Held | null = null;
    for (const step of history.steps) {
      const before: Value[][] = held?.columns ?? [];
      const after: Changed = await changed(held, changeOf(step.body));
      held = after.held;
      assert.deepEqual(
        held.columns.map((column) => column.slice(0, after.same)),
        held.columns.map((_, at) => (before[at] ?? []).slice(0, after.same)),
      );
      assert.equal(after.gone, step.gone);
      assert.equal(count(held), step.rows);
      for (const { now, columns } of step.shown) assert.deepEqual(columnsOf(held, now), columns);
    }
  });
}

for (const { way, bodies } of vectors.refused) {
  test(`refused: ${way}`, async () => {
    const { held } = await changed(null, changeOf(bodies[0]!));
    const before = structuredClone(held);
    await assert.rejects(changed(held, changeOf(bodies[1]!)));
    assert.deepEqual(held, before);
  });
}

test("what NOW is by the clock here", () => {
  for (const { service, wall, greatest, later, estimate: expected } of vectors.clocks)
    assert.equal(estimate({ service, wall, greatest }, later), expected);
});

test("each repetition of a name gets the next free ending", () => {
  assert.deepEqual(uniqueNames(["a", "A", "a"]), ["a", "A_1", "a_2"]);
  assert.deepEqual(uniqueNames(["a", "a", "A_1", "a_2", "a"]), ["a", "a_3", "A_1", "a_2", "a_4"]);
});

test("rows of Arrow are read as the service writes them", () => {
  const rows = new ArrowRows();
  rows.add(base64Decode(arrow.stream));
  assert.deepEqual([rows.rows, rows.ended], [4, true]);
  assert.deepEqual(
    rows.columns.map((column) => column.map(told)),
    arrow.columns,
  );
  assert.throws(() => new ArrowRows().add(new Uint8Array(8)), /not a message of Arrow/);
});
