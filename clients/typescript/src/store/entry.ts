/** What is kept of a query beside its rows, and what a store of such copies does.
 *
 * A change is computed first, and then rows and token are written together, only if the token is still the one that the
 * service was asked with: a page that is closed, a full disk or two tabs leave a copy as it was before or after. */
import { type Change, Reset, type SyncBody } from "../contract/psoup_proto/v1/sync_pb.js";
import { type Changed, changed, count, type Held, nowOf } from "../sync/change.js";
import type { Form } from "../sync/form.js";
import type { Clock } from "../sync/shown.js";

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

/** What a change has done. */
export type Applied = { came: number; gone: number; reset: Reset };

/** Where copies are kept. */
export interface Store {
  /** The Web Lock under which one tab at a time recharges; "": the copies are of this page alone. */
  readonly lock: string;
  /** All entries, in the order in which they were added. */
  entries(): Promise<Entry[]>;
  /** An entry; undefined if it was forgotten. */
  entry(number: number): Promise<Entry | undefined>;
  /** The rows that are held of an entry; null before the first reply. */
  rowsOf(number: number): Promise<Held | null>;
  /** Keep a query. The second time it is the same entry. */
  keep(name: string, query: { queryId: string; key: string; statement: string }): Promise<number>;
  /** Forget a copy, and its rows. */
  forget(number: number): Promise<void>;
  /** Change what is known of an entry, beside its rows. Nothing happens if it was forgotten. */
  note(number: number, change: (entry: Entry) => Entry): Promise<void>;
  /** Make a change of a copy: rows and token together. null: nothing was done, as the copy has another token by now, or
   * was forgotten. Throws for what is no change of it. */
  apply(number: number, asked: Uint8Array, change: Change, body: SyncBody): Promise<Applied | null>;
  /** Be told when anything that is kept has changed, also in another tab; returns how to end that. */
  onChange(listener: () => void): () => void;
}

/** The entry of a query that nothing is known of, without its number. */
export function fresh(name: string, query: { queryId: string; key: string; statement: string }): Omit<Entry, "number"> {
  const nothing = {
    token: new Uint8Array(),
    form: null,
    rows: 0,
    complete: false,
    final: false,
    now: null,
    clock: null,
  };
  return { name, ...query, former: [], ...nothing, synced: null, left: 0, error: null, last: null, whole: null };
}

/** The entry of a query in a list of them: the one with its ID, or, without an ID, with its key. */
export function found(all: readonly Entry[], query: { queryId: string; key: string }): Entry | undefined {
  return query.queryId !== ""
    ? all.find((entry) => entry.queryId === query.queryId)
    : all.find((entry) => query.key !== "" && entry.key === query.key);
}

/** The rows after a change; null if it has none for this copy. `lost`: the rows of before are not there any more. */
export async function afterChange(held: Held | null, change: Change, lost: boolean): Promise<Changed | null> {
  return change.token.length > 0 && !lost ? changed(held, change) : null;
}

/** An entry after a change. `lost`: the rows of before are gone, and all of them are to come again. */
export function advanced(entry: Entry, change: Change, body: SyncBody, after: Changed | null, lost: boolean): Entry {
  if (lost) return { ...entry, token: new Uint8Array() };
  const [service, wall] = [Number(body.clock), Date.now()];
  const next: Entry = {
    ...entry,
    complete: change.complete,
    final: change.final,
    now: nowOf(change, body.streams),
    clock: { service, wall: wall * 1000, greatest: service },
    synced: wall,
    left: Number(change.rowsLeft),
    error: null,
    ...renamed(entry, change.queryId),
  };
  if (after !== null) Object.assign(next, { token: change.token, form: after.held.form, rows: count(after.held) });
  return next;
}

/** Whether a change goes on from rows that are not there. */
export function isLost(entry: Entry, held: Held | null, change: Change): boolean {
  return entry.form !== null && held === null && change.reset === Reset.UNSPECIFIED;
}

/** The ID of an entry, after another one was told; "" if none was. */
export function renamed(entry: Entry, queryId: string): Pick<Entry, "queryId" | "former"> {
  if (queryId === "" || queryId === entry.queryId) return { queryId: entry.queryId, former: entry.former };
  return { queryId, former: entry.queryId === "" ? entry.former : [...entry.former, entry.queryId] };
}

export function same(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

/** Listeners to changes. */
export class Listeners {
  private readonly all = new Set<() => void>();

  add(listener: () => void): () => void {
    const own = (): void => listener();
    this.all.add(own);
    return () => void this.all.delete(own);
  }

  get size(): number {
    return this.all.size;
  }

  /** Tell all. An error of a listener is thrown in a task of its own, as for events of the browser. */
  tell(): void {
    for (const listener of [...this.all]) {
      try {
        listener();
      } catch (problem) {
        queueMicrotask(() => {
          throw problem;
        });
      }
    }
  }
}
