/** A recharge: copies are brought up to date, as many in a call as fit. One tab at a time does it.
 *
 *     entries ── wants with tokens ──> Sync ──> changes of the first k ──> each a transaction
 *        ^                                                   |
 *        '── those after them, and those not complete ───────'
 */
import { signal } from "@preact/signals";
import { base64Encode } from "@bufbuild/protobuf/wire";
import {
  Reset,
  type SyncBody,
  type SyncOutcome,
  type SyncResponseJson,
  type WantJson,
} from "../contract/psoup_proto/v1/sync_pb";
import { call, CallError, words } from "../api/call";
import { bodyOf } from "../sync/body";
import { apply, type Applied, type Entry, entries, type Last, note } from "./store";

/** What a recharge did. */
export type Recharged = { sent: number; received: number; full: number; came: number; gone: number; failed: number };

const WANTS = 200;
const BYTES = 1024 * 1024;

/** How many recharges of this tab are under way, or wait for their turn. */
export const recharging = signal(0);

/** Bring the copies of some entries up to date, or of all. If a recharge is under way, here or in another tab, `waits` is
 * told, and this one follows. Throws CallError if the service cannot be reached. */
export async function recharge(only: readonly number[] | undefined, waits: () => void): Promise<Recharged> {
  recharging.value++;
  try {
    if (!("locks" in navigator)) return await round(only);
    const name = "psoup recharge";
    const told = await navigator.locks.request(name, { ifAvailable: true }, (lock) =>
      lock === null ? null : round(only),
    );
    if (told !== null) return told;
    waits();
    return await navigator.locks.request(name, () => round(only));
  } finally {
    recharging.value--;
  }
}

const NOTHING: Recharged = { sent: 0, received: 0, full: 0, came: 0, gone: 0, failed: 0 };

async function round(only?: readonly number[]): Promise<Recharged> {
  const all = await entries();
  let open = all.filter((entry) => only === undefined || only.includes(entry.number)).map((entry) => entry.number);
  const done = new Map<number, Last>();
  const [anew, failed] = [new Set<number>(), new Set<number>()];
  for (let calls = 0; open.length > 0 && calls < 10_000; calls++) {
    const known = new Map((await entries()).map((entry) => [entry.number, entry]));
    const asked = open.slice(0, WANTS).flatMap((number) => known.get(number) ?? []);
    if (asked.length === 0) break;
    open = [...(await step(asked, done, anew, failed)), ...open.slice(WANTS)];
  }
  const told = { ...NOTHING, failed: failed.size };
  for (const last of done.values())
    for (const name of ["sent", "received", "full", "came", "gone"] as const) told[name] += last[name];
  return told;
}

/** One call; returns the numbers of the entries that are to be asked for again. */
async function step(
  asked: Entry[],
  done: Map<number, Last>,
  anew: Set<number>,
  failed: Set<number>,
): Promise<number[]> {
  const wants = asked.map(wantOf);
  const { reply, sent, received } = await call<SyncResponseJson>("SyncService/Sync", {
    wants,
    maxBytes: BYTES,
    compression: "COMPRESSION_GZIP",
  });
  const body = await bodyOf(reply);
  const weights = body.outcomes.map((outcome) => weight(outcome));
  const total = weights.reduce((sum, of) => sum + of, 0) || 1;
  const again: number[] = asked.slice(body.outcomes.length).map((entry) => entry.number);
  if (body.outcomes.length === 0) throw new CallError("INTERNAL", "the service has answered with nothing");
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
    const told = await outcomeOf(entry, outcome, body, anew);
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
    await note(entry.number, (now) => {
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
  entry: Entry,
  outcome: SyncOutcome,
  body: SyncBody,
  anew: Set<number>,
): Promise<Applied | "again" | "failed"> {
  if (outcome.outcome.case === "change") {
    try {
      return (await apply(entry.number, entry.token, outcome.outcome.value, body)) ?? "again";
    } catch (problem) {
      return fail(entry, { code: "INTERNAL", reason: "BAD_REPLY", message: words(problem) });
    }
  }
  const { code = 0, reason = "", message = "" } = outcome.outcome.value ?? {};
  const [missing, wrong] = [code === 5, code === 3];
  if (entry.token.length > 0 && (missing || wrong) && !anew.has(entry.number)) {
    // As after a restore: the token is of data that is gone. Ask by the key, or the ID; the rows stay until a change comes.
    anew.add(entry.number);
    await note(entry.number, (now) => ({ ...now, token: new Uint8Array() }));
    return "again";
  }
  return fail(entry, { code: missing ? "NOT_FOUND" : String(code), reason, message });
}

async function fail(entry: Entry, error: NonNullable<Entry["error"]>): Promise<"failed"> {
  await note(entry.number, (now) => ({ ...now, error }));
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
