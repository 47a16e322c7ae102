/** A recharge: copies are brought up to date, as many in a call as fit. One tab at a time does it.
 *
 *     entries ── wants with tokens ──> Sync ──> changes of the first k ──> each a transaction
 *        ^                                                   |
 *        '── those after them, and those not complete ───────'
 */
import { base64Encode } from "@bufbuild/protobuf/wire";
import {
  Reset,
  type SyncBody,
  type SyncOutcome,
  type SyncResponseJson,
  type WantJson,
} from "../contract/psoup_proto/v1/sync_pb.js";
import { PSoupError, words } from "../api/errors.js";
import type { Transport } from "../api/transport.js";
import { bodyOf } from "../sync/body.js";
import type { Applied, Entry, Last, Store } from "./entry.js";

/** A service, and the copies of its answers. */
export type Link = { transport: Transport; store: Store };

/** What a recharge did. */
export type Recharged = { sent: number; received: number; full: number; came: number; gone: number; failed: number };

const CODES =
  "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED".split(
    " ",
  );
const WANTS = 200;
const BYTES = 1024 * 1024;

/** Bring the copies of some entries up to date, or of all. If a recharge is under way, here or in another tab, `waits` is
 * called, and this one follows. Throws PSoupError if the service cannot be reached. */
export async function recharge(
  link: Link,
  only?: readonly number[],
  waits: () => void = () => undefined,
  signal?: AbortSignal,
): Promise<Recharged> {
  const locks = typeof navigator === "undefined" ? undefined : navigator.locks;
  if (link.store.lock === "" || locks === undefined) return round(link, only, signal);
  const told = await locks.request(link.store.lock, { ifAvailable: true }, (lock) =>
    lock === null ? null : round(link, only, signal),
  );
  if (told !== null) return told;
  waits();
  const options = signal === undefined ? {} : { signal };
  return locks.request(link.store.lock, options, () => round(link, only, signal));
}

const NOTHING: Recharged = { sent: 0, received: 0, full: 0, came: 0, gone: 0, failed: 0 };

async function round(link: Link, only?: readonly number[], signal?: AbortSignal): Promise<Recharged> {
  const all = await link.store.entries();
  let open = all.filter((entry) => only === undefined || only.includes(entry.number)).map((entry) => entry.number);
  const done = new Map<number, Last>();
  const [anew, failed] = [new Set<number>(), new Set<number>()];
  for (let calls = 0; open.length > 0 && calls < 10_000; calls++) {
    const known = new Map((await link.store.entries()).map((entry) => [entry.number, entry]));
    const asked = open.slice(0, WANTS).flatMap((number) => known.get(number) ?? []);
    if (asked.length === 0) break;
    open = [...(await step(link, asked, done, anew, failed, signal)), ...open.slice(WANTS)];
  }
  const told = { ...NOTHING, failed: failed.size };
  for (const last of done.values())
    for (const name of ["sent", "received", "full", "came", "gone"] as const) told[name] += last[name];
  return told;
}

/** One call; returns the numbers of the entries that are to be asked for again. */
async function step(
  link: Link,
  asked: Entry[],
  done: Map<number, Last>,
  anew: Set<number>,
  failed: Set<number>,
  signal?: AbortSignal,
): Promise<number[]> {
  const request = { wants: asked.map(wantOf), maxBytes: BYTES, compression: "COMPRESSION_GZIP" };
  const { reply, sent, received } = await link.transport.call<SyncResponseJson>("SyncService/Sync", request, signal);
  const body = await bodyOf(reply);
  const weights = body.outcomes.map((outcome) => weight(outcome));
  const total = weights.reduce((sum, of) => sum + of, 0) || 1;
  const again: number[] = asked.slice(body.outcomes.length).map((entry) => entry.number);
  if (body.outcomes.length === 0) throw new PSoupError("INTERNAL", "the service has answered with nothing");
  for (const [place, outcome] of body.outcomes.entries()) {
    const entry = asked[place]!;
    const before = done.get(entry.number) ?? {
      sent: 0,
      received: 0,
      came: 0,
      gone: 0,
      reset: Reset.UNSPECIFIED,
      full: 0,
    };
    const took = {
      sent: before.sent + Math.round(sent / asked.length),
      received: before.received + Math.round((received * weights[place]!) / total),
    };
    const told = await outcomeOf(link.store, entry, outcome, body, anew);
    if (told === "again") again.push(entry.number);
    if (told === "failed") failed.add(entry.number);
    if (told === "again" || told === "failed") continue;
    const last = {
      ...took,
      came: before.came + told.came,
      gone: before.gone + told.gone,
      reset: why(told.reset || before.reset, anew.has(entry.number)),
      full: 0,
    };
    done.set(entry.number, last);
    await link.store.note(entry.number, (now) => {
      const whole = last.reset ? { bytes: last.received, rows: Math.max(now.rows, 1) } : now.whole;
      last.full = Math.round(
        whole === null
          ? last.received
          : Math.max((whole.bytes * now.rows) / whole.rows, last.reset ? last.received : 0),
      );
      return { ...now, whole, last };
    });
    const change = outcome.outcome.case === "change" ? outcome.outcome.value : undefined;
    if (change !== undefined && !change.complete) again.push(entry.number);
  }
  return again;
}

/** A query that was found again by its key, after its ID was lost, is one of other data. */
function why(reset: Reset, foundAgain: boolean): Reset {
  return foundAgain && reset === Reset.FIRST ? Reset.INCARNATION : reset;
}

/** Apply one outcome. "again": the copy is to be asked for anew; "failed": it stays as it is, and says why. */
export async function outcomeOf(
  store: Store,
  entry: Entry,
  outcome: SyncOutcome,
  body: SyncBody,
  anew: Set<number>,
): Promise<Applied | "again" | "failed"> {
  if (outcome.outcome.case === "change") {
    try {
      return (await store.apply(entry.number, entry.token, outcome.outcome.value, body)) ?? "again";
    } catch (problem) {
      return fail(store, entry, { code: "INTERNAL", reason: "BAD_REPLY", message: words(problem) });
    }
  }
  const { code = 0, reason = "", message = "" } = outcome.outcome.value ?? {};
  const [missing, wrong] = [code === 5, code === 3];
  if (entry.token.length > 0 && (missing || wrong) && !anew.has(entry.number)) {
    // As after a restore: the token is of data that is gone. Ask by the key, or the ID; the rows stay until a change comes.
    anew.add(entry.number);
    await store.note(entry.number, (now) => ({ ...now, token: new Uint8Array() }));
    return "again";
  }
  return fail(store, entry, { code: CODES[code] ?? String(code), reason, message });
}

async function fail(store: Store, entry: Entry, error: NonNullable<Entry["error"]>): Promise<"failed"> {
  await store.note(entry.number, (now) => ({ ...now, error }));
  return "failed";
}

/** A token names its query, so the rest is left out with one. */
export function wantOf(entry: Entry): WantJson {
  if (entry.token.length > 0) return { token: base64Encode(entry.token) };
  return entry.key !== "" ? { key: entry.key } : { queryId: entry.queryId };
}

function weight(outcome: SyncOutcome): number {
  return outcome.outcome.case === "change"
    ? outcome.outcome.value.columnsJson.length + outcome.outcome.value.token.length + 40
    : 40;
}
