/** The copies that this browser keeps, in IndexedDB: of each query an entry with its token, and beside it the rows.
 *
 * A change is computed first, and then one transaction of rows and token, only if the token is still the one that it was
 * asked with: a page that is closed, a full disk or two tabs leave a copy as it was before or after. */
import { type Change, Reset, type SyncBody } from "../contract/psoup_proto/v1/sync_pb";
import { changed, count, type Held, nowOf } from "../sync/change";
import { type Form } from "../sync/form";
import { database, partsOf, readParts, writeParts } from "./parts";
import { type Clock, estimate } from "../sync/shown";

/** What is known of a query that is kept. Instants of the service are microseconds, those of this device milliseconds. */
export type Entry = {
  number: number;
  name: string;
  queryId: string;
  /** IDs that it had before: of data that was restored since, say. */
  former: string[];
  key: string;
  statement: string;
  token: Uint8Array;
  form: Form | null;
  rows: number;
  complete: boolean;
  final: boolean;
  now: number | null;
  clock: Clock | null;
  synced: number | null;
  /** Rows that had no room in the last reply. */
  left: number;
  error: { code: string; reason: string; message: string } | null;
  last: Last | null;
  /** What the last reply that brought all rows took: the measure for what a full answer would take. */
  whole: { bytes: number; rows: number } | null;
};

/** What the last recharge brought. `full`: about what the whole answer would have taken. */
export type Last = { sent: number; received: number; came: number; gone: number; reset: Reset; full: number };

/** All entries, in the order in which they were added. */
export async function entries(): Promise<Entry[]> {
  return (await database()).getAll("entries");
}

/** The entry of a query; undefined if it is not kept. */
export async function entryOf(queryId: string): Promise<Entry | undefined> {
  return (await database()).getFromIndex("entries", "queryId", queryId);
}

/** The rows that are held of an entry; null before the first reply. */
export async function rowsOf(number: number): Promise<Held | null> {
  return (await read(number))?.held ?? null;
}

/** An entry and its rows, of one moment; undefined if it was forgotten. `parts`: how many records the rows are. */
async function read(number: number): Promise<{ entry: Entry; held: Held | null; parts: number } | undefined> {
  const transaction = (await database()).transaction(["entries", "rows"]);
  const entry = await transaction.objectStore("entries").get(number);
  if (entry === undefined) return undefined;
  const parts = entry.form === null ? [] : await readParts(transaction.objectStore("rows"), number);
  if (entry.form === null || parts.length === 0) return { entry, held: null, parts: 0 };
  const columns = entry.form.fields.map((_, at) => parts[0]![at]!.concat(...parts.slice(1).map((part) => part[at]!)));
  return { entry, held: { form: entry.form, columns }, parts: parts.length };
}

/** Keep a query. The second time it is the same entry. */
export async function keep(name: string, query: { queryId: string; key: string; statement: string }): Promise<number> {
  const known = await entryOf(query.queryId);
  if (known !== undefined) return known.number;
  const nothing = {
    token: new Uint8Array(),
    form: null,
    rows: 0,
    complete: false,
    final: false,
    now: null,
    clock: null,
  };
  const entry = { name, ...query, former: [], ...nothing, synced: null, left: 0, error: null, last: null, whole: null };
  const number = await (await database()).add("entries", entry as unknown as Entry);
  announce();
  return number;
}

/** Forget a copy, and its rows. */
export async function forget(number: number): Promise<void> {
  const transaction = (await database()).transaction(["entries", "rows"], "readwrite");
  await Promise.all([
    transaction.objectStore("entries").delete(number),
    transaction.objectStore("rows").delete(partsOf(number)),
    transaction.done,
  ]);
  announce();
}

/** Forget everything that is kept here. */
export async function forgetAll(): Promise<void> {
  const transaction = (await database()).transaction(["entries", "rows"], "readwrite");
  await Promise.all([
    transaction.objectStore("entries").clear(),
    transaction.objectStore("rows").clear(),
    transaction.done,
  ]);
  announce();
}

/** Change what is known of an entry, beside its rows. Nothing happens if it was forgotten. */
export async function note(number: number, change: (entry: Entry) => Entry): Promise<void> {
  const transaction = (await database()).transaction("entries", "readwrite");
  const entry = await transaction.store.get(number);
  if (entry !== undefined) await transaction.store.put(change(entry));
  await transaction.done;
  announce();
}

/** What a change has done. */
export type Applied = { came: number; gone: number; reset: Reset };

/** Make a change of a copy: rows and token, in one transaction.
 *
 * null: nothing was done, as the copy has another token by now, or was forgotten. Throws for what is no change of it. */
export async function apply(
  number: number,
  asked: Uint8Array,
  change: Change,
  body: SyncBody,
): Promise<Applied | null> {
  const before = await read(number);
  if (before === undefined || !same(before.entry.token, asked)) return null;
  const lost = before.entry.form !== null && before.held === null && change.reset === Reset.UNSPECIFIED;
  const after = change.token.length > 0 && !lost ? await changed(before.held, change) : null;
  const transaction = (await database()).transaction(["entries", "rows"], "readwrite", { durability: "strict" });
  transaction.done.catch(() => undefined);
  const [all, lines] = [transaction.objectStore("entries"), transaction.objectStore("rows")];
  try {
    const entry = await all.get(number);
    if (entry === undefined || !same(entry.token, asked) || (await lines.count(partsOf(number))) !== before.parts) {
      transaction.abort();
      return null;
    }
    // The browser threw the rows away, and not the token: all of them are to come again.
    const next: Entry = lost
      ? { ...entry, token: new Uint8Array() }
      : {
          ...entry,
          ...facts(change, body),
          left: Number(change.rowsLeft),
          error: null,
          ...renamed(entry, change.queryId),
        };
    if (after !== null) {
      Object.assign(next, { token: change.token, form: after.held.form, rows: count(after.held) });
      await writeParts(lines, number, after.held.columns, after.same);
    }
    await all.put(next);
    await transaction.done;
    if (lost) return null;
    announce();
    return { came: Number(change.rows), gone: after?.gone ?? 0, reset: change.reset };
  } catch (problem) {
    try {
      transaction.abort();
    } catch {
      // It has ended: the problem is what ended it.
    }
    throw problem;
  }
}

/** The ID of an entry, after another one was told; "" if none was. */
export function renamed(entry: Entry, queryId: string): Pick<Entry, "queryId" | "former"> {
  if (queryId === "" || queryId === entry.queryId) return { queryId: entry.queryId, former: entry.former };
  return { queryId, former: [...entry.former, entry.queryId] };
}

function facts(change: Change, body: SyncBody): Pick<Entry, "complete" | "final" | "now" | "clock" | "synced"> {
  const [service, wall] = [Number(body.clock), Date.now()];
  const clock = { service, wall: wall * 1000, greatest: service };
  return { complete: change.complete, final: change.final, now: nowOf(change, body.streams), clock, synced: wall };
}

/** Keep the greatest estimate of NOW that was shown: what was hidden stays hidden, whatever becomes of the clock. */
export async function noteGreatest(all: readonly Entry[]): Promise<void> {
  const transaction = (await database()).transaction("entries", "readwrite");
  let greater = false;
  for (const { number } of all) {
    const entry = await transaction.store.get(number);
    if (entry?.clock == null) continue;
    const greatest = estimate(entry.clock, Date.now() * 1000);
    if (greatest <= entry.clock.greatest + 1e6) continue;
    await transaction.store.put({ ...entry, clock: { ...entry.clock, greatest } });
    greater = true;
  }
  await transaction.done;
  if (greater) announce();
}

export function same(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

const channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("psoup");
const listeners = new Set<() => void>();

/** Be told when anything that is kept has changed, here or in another tab; returns how to end that. */
export function onChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

function announce(): void {
  channel?.postMessage("changed");
  for (const listener of listeners) listener();
}

channel?.addEventListener("message", () => {
  for (const listener of listeners) listener();
});
