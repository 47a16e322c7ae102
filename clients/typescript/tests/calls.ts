/** Calls, against a server of this test that answers as it is told. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { encode } from "../src/api/encode.js";
import { PSoupError } from "../src/api/errors.js";
import { events } from "../src/api/events.js";
import { Transport, type TransportOptions } from "../src/api/transport.js";
import { createClient } from "../src/client.js";
import { pushed } from "../src/push.js";
import { Listeners } from "../src/store/entry.js";

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

async function served(handler: Handler, use: (url: string) => Promise<void>): Promise<void> {
  const server = createServer(handler);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

function json(response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(body));
}

async function failing(call: Promise<unknown>): Promise<PSoupError> {
  const problem = await call.then(
    () => assert.fail("the call has not failed"),
    (problem: unknown) => problem,
  );
  assert.ok(problem instanceof PSoupError, String(problem));
  return problem;
}

test("a token is asked for once, and again when the service refuses it", async () => {
  const seen: (string | undefined)[] = [];
  let valid = "Bearer one";
  const handler: Handler = (request, response) => {
    seen.push(request.headers.authorization);
    if (request.headers.authorization === valid) json(response, 200, {});
    else json(response, 401, { code: "UNAUTHENTICATED", message: "expired", reason: "TOKEN_EXPIRED" });
  };
  await served(handler, async (url) => {
    const tokens = ["one", "two", "two"];
    let refusals = 0;
    const token = async (): Promise<string> => tokens.shift()!;
    const transport = new Transport({ url, token, onUnauthenticated: () => void refusals++ });
    await Promise.all([transport.ask("S/M", {}), transport.ask("S/M", {})]);
    valid = "Bearer two";
    await transport.ask("S/M", {});
    assert.deepEqual(seen, ["Bearer one", "Bearer one", "Bearer one", "Bearer two"]);
    valid = "Bearer three";
    const refused = await failing(transport.ask("S/M", {}));
    assert.deepEqual([refused.code, refused.reason, refusals], ["UNAUTHENTICATED", "TOKEN_EXPIRED", 1]);
    assert.equal(seen.length, 5, "the same token is not sent twice");
  });
});

test("a function that gets no token fails the call, and is asked again by the next", async () => {
  await served(
    (_, response) => json(response, 200, {}),
    async (url) => {
      let calls = 0;
      const token = (): Promise<string> =>
        calls++ === 0 ? Promise.reject(new Error("no network")) : Promise.resolve("x");
      const transport = new Transport({ url, token });
      await assert.rejects(transport.ask("S/M", {}), /no network/);
      await transport.ask("S/M", {});
    },
  );
});

test("an error has the facts of the service, and no cookies are sent", async () => {
  const told = {
    code: "INVALID_ARGUMENT",
    message: "no",
    reason: "R",
    line: 3,
    column: 8,
    hint: "yes",
    rows: [{ line: 1 }],
  };
  const handler: Handler = (request, response) => {
    assert.equal(request.headers["x-psoup"], "1");
    json(response, 400, told);
  };
  await served(handler, async (url) => {
    const error = await failing(new Transport({ url: `${url}/` }).ask("S/M", {}));
    const { code, message, reason, line, column, hint, details, unreachable, retryAfterMs } = error;
    assert.deepEqual({ code, message, reason, line, column, hint, rows: details["rows"] }, told);
    assert.deepEqual([unreachable, retryAfterMs, error.name], [false, undefined, "PSoupError"]);
  });
});

test("a proxy without its service, and no server at all, are told as one thing", async () => {
  let reached: boolean[] = [];
  const options: TransportOptions = { onReached: (value) => void reached.push(value) };
  let gone = "";
  await served(
    (_, response) => void response.writeHead(502, { "Retry-After": "7" }).end("<html>Bad gateway"),
    async (url) => {
      gone = url;
      const error = await failing(new Transport({ ...options, url }).ask("S/M", {}));
      assert.deepEqual([error.unreachable, error.passing, error.retryAfterMs], [true, true, 7000]);
    },
  );
  assert.ok((await failing(new Transport({ ...options, url: gone }).ask("S/M", {}))).unreachable);
  assert.deepEqual(reached, [false, false]);
});

test("a reply that is cut, and a call that takes too long, are errors of the connection", async () => {
  await served(
    (_, response) => {
      response.writeHead(200, { "Content-Length": "100" });
      response.write("{", () => response.destroy());
    },
    async (url) => assert.ok((await failing(new Transport({ url }).ask("S/M", {}))).unreachable),
  );
  await served(
    () => undefined,
    async (url) => assert.ok((await failing(new Transport({ url, timeoutMs: 20 }).ask("S/M", {}))).unreachable),
  );
});

test("a call that is aborted ends with the reason of its signal, also if that is a time", async () => {
  const handlers: Handler[] = [
    () => undefined,
    (_, response) => void response.writeHead(200).write("{"),
    (_, response) => void response.writeHead(400).write("{"),
  ];
  for (const handler of handlers)
    await served(handler, async (url) => {
      const stop = new AbortController();
      const call = new Transport({ url }).ask("S/M", {}, stop.signal);
      setTimeout(() => stop.abort(new Error("enough")), 10);
      await assert.rejects(call, /enough/);
      const [late] = await Promise.allSettled([new Transport({ url }).ask("S/M", {}, AbortSignal.timeout(10))]);
      assert.equal((late as PromiseRejectedResult).reason.name, "TimeoutError");
    });
});

test("an error without an answer has its cause, and a wrong token is not told as one", async () => {
  const cause = new Error("no route");
  const fails = (): Promise<Response> => Promise.reject(cause);
  const lost = await failing(new Transport({ url: "http://a", fetch: fails }).ask("S/M", {}));
  assert.deepEqual([lost.unreachable, lost.cause], [true, cause]);
  assert.equal(lost.message, "The service at http://a cannot be reached.");
  const wrong = await failing(new Transport({ url: "http://a", token: "psoup_…", fetch: fails }).ask("S/M", {}));
  assert.deepEqual([wrong.code, wrong.unreachable], ["INVALID_ARGUMENT", false]);
  assert.match(wrong.message, /token/);
});

test("a function that gives no token in time ends its call, and with its signal", async () => {
  const token = (): Promise<string> => new Promise(() => undefined);
  const transport = new Transport({ url: "http://a", token, timeoutMs: 20 });
  const keeps = setInterval(() => undefined, 1000);
  try {
    assert.ok((await failing(transport.ask("S/M", {}))).unreachable);
    const stop = new AbortController();
    const call = transport.openCall("S/M", "{}", stop.signal);
    stop.abort(new Error("enough"));
    await assert.rejects(call, /enough/);
  } finally {
    clearInterval(keeps);
  }
});

test("a question that has failed is asked again when it is shown again", async () => {
  const codes = ["ABORTED", "UNKNOWN"];
  const handler: Handler = (_, response) => json(response, 409, { code: codes.shift()!, message: "no" });
  await served(handler, async (url) => {
    const source = createClient({ url }).asked({ sql: "SELECT n FROM s" });
    for (const code of ["ABORTED", "UNKNOWN"]) {
      const error = await new Promise<Error | null>((resolve) => {
        const end = source.subscribe((snapshot) => (end(), resolve(snapshot.error)));
      });
      assert.equal((error as PSoupError).code, code);
    }
  });
});

test("queries are registered and altered with the amounts of the contract", async () => {
  const bodies: unknown[] = [];
  const handler: Handler = (request, response) => {
    let text = "";
    request
      .on("data", (part: Buffer) => (text += part.toString()))
      .on("end", () => {
        bodies.push(JSON.parse(text));
        json(response, 200, request.url!.endsWith("/AlterQueries") ? { count: "3", changed: "2" } : {});
      });
  };
  await served(handler, async (url) => {
    const client = createClient({ url });
    await client.register("SELECT n FROM s", { key: "k", amount: "complete", eager: true });
    await client.register("SELECT n FROM s", { key: "k" });
    const altered = await client.alterQueries({ keyPrefix: "k" }, { amount: "none", active: false }, { dryRun: true });
    assert.deepEqual(altered, { count: 3, changed: 2 });
    const statement = "SELECT n FROM s";
    assert.deepEqual(bodies, [
      { statement, key: "k", eager: true, amount: "AMOUNT_COMPLETE" },
      { statement, key: "k" },
      { keyPrefix: "k", amount: "AMOUNT_NONE", active: false, dryRun: true },
    ]);
    const wrong = client.alterQueries({ keyPrefix: "k" }, { amount: "toString" as "none" });
    await assert.rejects(wrong, /amount is "toString"; take one of none, partial, complete/);
    assert.equal(bodies.length, 3);
  });
});

test("calls that are refused together ask for one new token", async () => {
  const handler: Handler = (request, response) => {
    if (request.headers.authorization === "Bearer new") json(response, 200, {});
    else json(response, 401, { code: "UNAUTHENTICATED", message: "expired", reason: "TOKEN_EXPIRED" });
  };
  await served(handler, async (url) => {
    let asked = 0;
    const transport = new Transport({ url, token: () => (asked++ === 0 ? "old" : "new") });
    await Promise.all(Array.from({ length: 5 }, () => transport.ask("S/M", {})));
    assert.equal(asked, 2);
  });
});

test("a push waits as long as the service says, and longer", async (t) => {
  t.mock.method(Math, "random", () => 0);
  const times: number[] = [];
  const handler: Handler = (_, response) => {
    times.push(performance.now());
    json(response, 503, { code: "UNAVAILABLE", message: "busy", retryAfterMs: 40 });
  };
  await served(handler, async (url) => {
    await failing(pushed(new Transport({ url }), "s", [{}], { attempts: 2 }));
    assert.ok(times[1]! - times[0]! >= 39, String(times));
  });
});

test("a listener that fails keeps no other from being told, and its error is not lost", async () => {
  const listeners = new Listeners();
  const told: number[] = [];
  listeners.add(() => {
    throw new Error("of the listener");
  });
  listeners.add(() => void told.push(1));
  const uncaught = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  const seen = once(process, "uncaughtException");
  try {
    listeners.tell();
    assert.match(String((await seen)[0]), /of the listener/);
  } finally {
    for (const listener of uncaught) process.on("uncaughtException", listener);
  }
  assert.deepEqual(told, [1]);
});

test("events come in any pieces, and an error ends them", async () => {
  const handler: Handler = (_, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const piece of [
      'data: {"a":',
      "1}\n",
      '\n: quiet\n\ndata: {"a":2}\n\nevent: er',
      'ror\ndata: {"code":"ABORTED"}\n\n',
    ])
      response.write(piece);
    response.end();
  };
  await served(handler, async (url) => {
    const seen: unknown[] = [];
    const read = async (): Promise<void> => {
      for await (const event of events(new Transport({ url }), "S/M", {})) seen.push(event);
    };
    assert.equal((await failing(read())).code, "ABORTED");
    assert.deepEqual(seen, [{ a: 1 }, { a: 2 }]);
  });
});

test("a push is sent again with its key while the service is busy, and no longer than it is told to", async () => {
  const keys: unknown[] = [];
  const handler: Handler = (request, response) => {
    keys.push(request.headers["idempotency-key"]);
    if (keys.length % 3 !== 0) json(response, 503, { code: "UNAVAILABLE", message: "busy", retryAfterMs: 1 });
    else json(response, 200, { accepted: "2", duplicate: false, late: "0", ahead: "0", sequence: "9007199254740993" });
  };
  await served(handler, async (url) => {
    const transport = new Transport({ url });
    const told = await pushed(transport, "a/b", [{ n: 1 }, { n: 2n ** 60n }], {});
    assert.deepEqual(told, { accepted: 2, duplicate: false, late: 0, ahead: 0, sequence: "9007199254740993" });
    assert.equal(new Set(keys).size, 1);
    assert.match(String(keys[0]), /^[0-9a-f]{32}$/);
    assert.equal(
      (await failing(pushed(transport, "s", [], { attempts: 2, idempotencyKey: "mine" }))).code,
      "UNAVAILABLE",
    );
    assert.deepEqual(keys.slice(3), ["mine", "mine"]);
  });
});

test("a push that is too large is sent once, and one that has no room now again", async () => {
  for (const [told, status, calls] of [
    [{ reason: "BODY_TOO_LARGE" }, 413, 1],
    [{ reason: "STREAMS_BUDGET" }, 429, 1],
    [{ reason: "RECEIVE_DEADLINE" }, 408, 2],
    [{ reason: "RECEIVE_FULL", retryAfterMs: 1 }, 429, 2],
  ] as const) {
    let asked = 0;
    const handler: Handler = (_, response) => {
      asked++;
      json(response, status, { code: "RESOURCE_EXHAUSTED", message: "no", ...told });
    };
    await served(handler, async (url) => {
      const error = await failing(pushed(new Transport({ url }), "s", [{}], { attempts: 2 }));
      assert.deepEqual([error.reason, asked, error.passing], [told.reason, calls, calls > 1]);
    });
  }
});

test("values that JSON does not have are written for the service", () => {
  const values = { big: 2n ** 63n - 1n, at: new Date(0), nan: NaN, inf: -Infinity, no: undefined, nothing: null };
  assert.equal(
    encode(values),
    '{"big":"9223372036854775807","at":"1970-01-01T00:00:00.000Z","nan":"NaN","inf":"-Infinity","nothing":null}',
  );
  assert.throws(() => encode({ at: new Date(NaN) }), /at is an invalid Date/);
  assert.throws(() => encode({ f: () => 1 }), /f is a function/);
});

test("an address that is none is refused at once", () => {
  for (const url of [
    "localhost:7434",
    "psoup",
    "ftp://host",
    "http://ann@host",
    "http://:pw@host",
    "http://host/?a=1",
    "http://host/#a",
  ])
    assert.throws(() => new Transport({ url }), /is not an address: write http:\/\/HOST:PORT/, url);
  assert.throws(() => new Transport(), /url is missing/);
});
