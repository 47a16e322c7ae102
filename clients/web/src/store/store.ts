/** The copies that this browser keeps, in IndexedDB: of each query an entry with its token, and beside it the rows.
 *
 * A change is one transaction, of rows and token, and only if the token is still the one that it was asked with: a page
 * that is closed, a full disk or two tabs leave a copy as it was before or after. */
import { type DBSchema, type IDBPDatabase, openDB } from "idb";
import { type Change, Reset, type SyncBody } from "../contract/psoup_proto/v1/sync_pb";
import { changed, count, type Held, nowOf } from "../sync/change";
import { type Form } from "../sync/form";
import { type Clock, estimate } from "../sync/shown";
import type { Column } from "../sync/values";

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

interface Tables extends DBSchema {
  entries: { key: number; value: Entry; indexes: { queryId: string } };
  rows: { key: number; value: Column[] };
}

let opened: Promise<IDBPDatabase<Tables>> | null = null;

function database(): Promise<IDBPDatabase<Tables>> {
  opened ??= openDB<Tables>("psoup", 1, {
    upgrade(db) {
      db.createObjectStore("entries", { keyPath: "number", autoIncrement: true }).createIndex("queryId", "queryId");
      db.createObjectStore("rows");
    },
    blocking: () => void close(),
    terminated: () => void (opened = null),
  });
  opened.catch(() => (opened = null));
  return opened;
}

async function close(): Promise<void> {
  const db = await opened;
  opened = null;
  db?.close();
}

/** All entries, in the order in which they were added. */
export async function entries(): Promise<Entry[]> {
  return (await database()).getAll("entries");
}

/** The entry of a query; undefined if it is not kept. */
export async function entryOf(queryId: string): Promise<Entry | undefined> {
  return (await database()).getFromIndex("entries", "queryId", queryId);
}

/** The rows that are held of an entry; null before the first reply. */
export async function rowsOf(entry: Entry): Promise<Held | null> {
  if (entry.form === null) return null;
  const columns = await (await database()).get("rows", entry.number);
  return columns === undefined ? null : { form: entry.form, columns };
}

/** Keep a query. The second time it is the same entry. */
export async function keep(name: string, query: { queryId: string; key: string; statement: string }): Promise<number> {
  const known = await entryOf(query.queryId);
  if (known !== undefined) return known.number;
  const nothing = { token: new Uint8Array(), form: null, rows: 0, complete: false, final: false, now: null, clock: null };
  const entry = { name, ...query, former: [], ...nothing, synced: null, left: 0, error: null, last: null, whole: null };
  const number = await (await database()).add("entries", entry as unknown as Entry);
  announce();
  return number;
}

/** Forget a copy, and its rows. */
export async function forget(number: number): Promise<void> {
  const transaction = (await database()).transaction(["entries", "rows"], "readwrite");
  await Promise.all([transaction.objectStore("entries").delete(number), transaction.objectStore("rows").delete(number), transaction.done]);
  announce();
}

/** Forget everything that is kept here. */
export async function forgetAll(): Promise<void> {
  const transaction = (await database()).transaction(["entries", "rows"], "readwrite");
  await Promise.all([transaction.objectStore("entries").clear(), transaction.objectStore("rows").clear(), transaction.done]);
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
export async function apply(number: number, asked: Uint8Array, change: Change, body: SyncBody): Promise<Applied | null> {
  const transaction = (await database()).transaction(["entries", "rows"], "readwrite", { durability: "strict" });
  transaction.done.catch(() => undefined);
  const [all, lines] = [transaction.objectStore("entries"), transaction.objectStore("rows")];
  try {
    const entry = await all.get(number);
    if (entry === undefined || !same(entry.token, asked)) {
      transaction.abort();
      return null;
    }
    const columns = await lines.get(number);
    if (entry.form !== null && columns === undefined && change.reset === Reset.UNSPECIFIED) {
      // The browser threw the rows away, and not the token: all of them are to come again.
      await all.put({ ...entry, token: new Uint8Array() });
      await transaction.done;
      return null;
    }
    const before = entry.form === null || columns === undefined ? null : { form: entry.form, columns };
    let gone = 0;
    const next: Entry = { ...entry, ...facts(change, body), left: Number(change.rowsLeft), error: null, ...renamed(entry, change.queryId) };
    if (change.token.length > 0) {
      const after = changed(before, change);
      gone = after.gone;
      Object.assign(next, { token: change.token, form: after.held.form, rows: count(after.held) });
      await lines.put(after.held.columns, number);
    }
    await all.put(next);
    await transaction.done;
    announce();
    return { came: Number(change.rows), gone, reset: change.reset };
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
