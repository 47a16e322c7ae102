/** Copies in IndexedDB: of each query an entry with its token, and beside it the rows. A change is one transaction. */
import type { Change, SyncBody } from "../contract/psoup_proto/v1/sync_pb.js";
import type { Held } from "../sync/change.js";
import { estimate } from "../sync/shown.js";
import {
  advanced,
  afterChange,
  type Applied,
  type Entry,
  found,
  fresh,
  isLost,
  Listeners,
  same,
  type Store,
} from "./entry.js";
import { Database, partsOf, readParts, writeParts } from "./parts.js";

type Kept = { entry: Entry; held: Held | null; parts: number };

/** The store in a database of this name, which all tabs of an origin share. */
export class IndexedStore implements Store {
  readonly lock: string;
  private readonly database: Database;
  private readonly listeners = new Listeners();
  private readonly channel: BroadcastChannel | null;

  constructor(name: string) {
    this.database = new Database(name);
    this.lock = `${name} recharge`;
    this.channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(name);
    this.channel?.addEventListener("message", () => this.listeners.tell());
  }

  async entries(): Promise<Entry[]> {
    return (await this.database.open()).getAll("entries");
  }

  async entry(number: number): Promise<Entry | undefined> {
    return (await this.database.open()).get("entries", number);
  }

  async rowsOf(number: number): Promise<Held | null> {
    return (await this.read(number))?.held ?? null;
  }

  async keep(name: string, query: { queryId: string; key: string; statement: string }): Promise<number> {
    const transaction = (await this.database.open()).transaction("entries", "readwrite");
    const known = found(await transaction.store.getAll(), query);
    const number = known?.number ?? (await transaction.store.add(fresh(name, query) as Entry));
    await transaction.done;
    if (known === undefined) this.announce();
    return number;
  }

  async forget(number: number): Promise<void> {
    const transaction = (await this.database.open()).transaction(["entries", "rows"], "readwrite");
    await Promise.all([
      transaction.objectStore("entries").delete(number),
      transaction.objectStore("rows").delete(partsOf(number)),
      transaction.done,
    ]);
    this.announce();
  }

  /** Forget everything that is kept here. */
  async forgetAll(): Promise<void> {
    const transaction = (await this.database.open()).transaction(["entries", "rows"], "readwrite");
    await Promise.all([
      transaction.objectStore("entries").clear(),
      transaction.objectStore("rows").clear(),
      transaction.done,
    ]);
    this.announce();
  }

  async note(number: number, change: (entry: Entry) => Entry): Promise<void> {
    const transaction = (await this.database.open()).transaction("entries", "readwrite");
    const entry = await transaction.store.get(number);
    if (entry !== undefined) await transaction.store.put(change(entry));
    await transaction.done;
    this.announce();
  }

  async apply(number: number, asked: Uint8Array, change: Change, body: SyncBody): Promise<Applied | null> {
    const before = await this.read(number);
    if (before === undefined || !same(before.entry.token, asked)) return null;
    const lost = isLost(before.entry, before.held, change);
    const after = await afterChange(before.held, change, lost);
    const db = await this.database.open();
    const transaction = db.transaction(["entries", "rows"], "readwrite", { durability: "strict" });
    transaction.done.catch(() => undefined);
    const [all, lines] = [transaction.objectStore("entries"), transaction.objectStore("rows")];
    try {
      const entry = await all.get(number);
      if (entry === undefined || !same(entry.token, asked) || (await lines.count(partsOf(number))) !== before.parts) {
        transaction.abort();
        return null;
      }
      if (after !== null) await writeParts(lines, number, after.held.columns, after.same);
      await all.put(advanced(entry, change, body, after, lost));
      await transaction.done;
      if (lost) return null;
      this.announce();
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

  /** Keep the greatest estimate of NOW that was shown: what was hidden stays hidden, whatever becomes of the clock. */
  async noteGreatest(all: readonly Entry[]): Promise<void> {
    const transaction = (await this.database.open()).transaction("entries", "readwrite");
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
    if (greater) this.announce();
  }

  onChange(listener: () => void): () => void {
    return this.listeners.add(listener);
  }

  /** An entry and its rows, of one moment; undefined if it was forgotten. `parts`: how many records the rows are. */
  private async read(number: number): Promise<Kept | undefined> {
    const transaction = (await this.database.open()).transaction(["entries", "rows"]);
    const entry = await transaction.objectStore("entries").get(number);
    if (entry === undefined) return undefined;
    const parts = entry.form === null ? [] : await readParts(transaction.objectStore("rows"), number);
    if (entry.form === null || parts.length === 0) return { entry, held: null, parts: 0 };
    const columns = entry.form.fields.map((_, at) => parts[0]![at]!.concat(...parts.slice(1).map((part) => part[at]!)));
    return { entry, held: { form: entry.form, columns }, parts: parts.length };
  }

  private announce(): void {
    this.channel?.postMessage("changed");
    this.listeners.tell();
  }
}
