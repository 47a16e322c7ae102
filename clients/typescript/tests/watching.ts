/** A watch whose connection ends again and again, against a server of this test that sends the vectors. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import { base64Decode, base64Encode } from "@bufbuild/protobuf/wire";
import { PSoupError } from "../src/api/errors.js";
import { Transport } from "../src/api/transport.js";
import type { Snapshot } from "../src/copy.js";
import { Query } from "../src/query.js";
import { type Change, SyncBodySchema } from "../src/contract/psoup_proto/v1/sync_pb.js";
import { MemoryStore } from "../src/store/memory.js";
import { watch, type WatchState } from "../src/store/watching.js";
import { count } from "../src/sync/change.js";
import vectors from "./vectors.json";

type Want = { key?: string; token?: string };

async function wantOf(request: IncomingMessage): Promise<Want> {
  let text = "";
  for await (const part of request) text += String(part);
  return (JSON.parse(text) as { wants: Want[] }).wants[0]!;
}

function failure(code: string): string {
  return `event: error\ndata: ${JSON.stringify({ code, message: "the end", retryAfterMs: 1 })}\n\n`;
}

/** How a connection ends after a change. */
const ENDS: ((response: ServerResponse) => void)[] = [
  (response) => void response.destroy(),
  (response) => void response.end(),
  (response) => void response.end(failure("UNAVAILABLE")),
  (response) => void response.end(failure("UNAUTHENTICATED")),
  (response) => void response.end('data: {"bo'),
];

for (const [place, history] of vectors.histories.entries()) {
  test(`a watch of ${history.shape}, ${place}, goes on from its token whatever ends a connection`, async (t) => {
    t.mock.method(Math, "random", () => 0);
    const { steps } = history;
    const wants: Want[] = [];
    const bearers = new Set<string | undefined>();
    const server = createServer((request, response) => {
      void wantOf(request).then((want) => {
        const at = wants.length;
        bearers.add(request.headers.authorization);
        wants.push(want);
        response.writeHead(200, { "Content-Type": "text/event-stream" });
        if (at >= steps.length) return void response.end(failure("PERMISSION_DENIED"));
        response.write(`data: ${JSON.stringify({ body: steps[at]!.body })}\n\n`, () =>
          // What was sent has arrived before the connection ends.
          setImmediate(() => ENDS[(at + place) % ENDS.length]!(response)),
        );
      });
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      let tokens = 0;
      const link = { transport: new Transport({ url, token: () => `t${tokens++}` }), store: new MemoryStore() };
      const number = await link.store.keep("k", { queryId: "", key: "k", statement: "" });
      const states = new Set<WatchState>();
      const ended = watch(link, number, new AbortController().signal, (state) => void states.add(state));
      await assert.rejects(ended, (problem) => problem instanceof PSoupError && problem.code === "PERMISSION_DENIED");
      assert.equal(count(await link.store.rowsOf(number)), steps.at(-1)!.rows);
      assert.deepEqual(wants, [{ key: "k" }, ...tokensOf(steps).map((token) => ({ token }))]);
      assert.deepEqual(states, new Set(["connecting", "live", "waiting"]));
      assert.ok(bearers.size >= 1 + Math.floor(steps.length / ENDS.length));
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
}

test("a watch says that it waits for a stopped service, and goes on when it is back", async (t) => {
  t.mock.method(Math, "random", () => 0);
  const { steps } = vectors.histories.find(({ shape }) => shape === "whole")!; // its rows do not leave by the clock
  const server = createServer((_, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write(`data: ${JSON.stringify({ body: steps[0]!.body })}\n\n`);
  });
  const listen = async (port: number): Promise<number> => {
    await once(server.listen(port, "127.0.0.1"), "listening");
    return (server.address() as AddressInfo).port;
  };
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    await once(server.close(), "close");
  };
  const port = await listen(0);
  await close();
  const query = new Query(new Transport({ url: `http://127.0.0.1:${port}` }), "k");
  const told: Snapshot<unknown>[] = [];
  const end = query.subscribe((snapshot) => void told.push(snapshot));
  const stop = new AbortController();
  const watched = query.watch({ signal: stop.signal });
  const next = async (): Promise<Snapshot<unknown>> => (await watched.next()).value!;
  try {
    const waiting = await next();
    assert.deepEqual([waiting.state, waiting.loading, waiting.error, waiting.rows], ["waiting", true, null, []]);
    assert.ok(told.includes(waiting));
    await listen(port);
    const live = await next();
    assert.deepEqual([live.state, live.loading, live.error], ["live", false, null]);
    assert.equal(live.rows.length, steps[0]!.rows);
    await close();
    const again = await next();
    assert.deepEqual([again.state, again.loading, again.error], ["waiting", false, null]);
    assert.equal(again.rows, live.rows);
    assert.ok(told.includes(again));
  } finally {
    stop.abort();
    await watched.return();
    end();
    server.closeAllConnections();
    server.close();
  }
});

/** The token that a copy has after each step. */
function tokensOf(steps: readonly { body: string }[]): string[] {
  let token = "";
  return steps.map(({ body }) => {
    const change = fromBinary(SyncBodySchema, base64Decode(body)).outcomes[0]!.outcome.value as Change;
    return (token = change.token.length > 0 ? base64Encode(change.token) : token);
  });
}
