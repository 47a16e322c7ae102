/** Copies in the memory of this page or process. */
import type { Change, SyncBody } from "../contract/psoup_proto/v1/sync_pb.js";
import type { Held } from "../sync/change.js";
import { advanced, afterChange, type Applied, type Entry, found, fresh, Listeners, same, type Store } from "./entry.js";

/** A store of this page alone; its copies end with it. */
export class MemoryStore implements Store {
  readonly lock = "";
  private readonly kept = new Map<number, { entry: Entry; held: Held | null }>();
  private readonly listeners = new Listeners();
  private next = 1;

  async entries(): Promise<Entry[]> {
    return [...this.kept.values()].map(({ entry }) => entry);
  }

  async entry(number: number): Promise<Entry | undefined> {
    return this.kept.get(number)?.entry;
  }

  async rowsOf(number: number): Promise<Held | null> {
    return this.kept.get(number)?.held ?? null;
  }

  async keep(name: string, query: { queryId: string; key: string; statement: string }): Promise<number> {
    const known = found(await this.entries(), query);
    if (known !== undefined) return known.number;
    const number = this.next++;
    this.kept.set(number, { entry: { number, ...fresh(name, query) }, held: null });
    this.listeners.tell();
    return number;
  }

  async forget(number: number): Promise<void> {
    this.kept.delete(number);
    this.listeners.tell();
  }

  async note(number: number, change: (entry: Entry) => Entry): Promise<void> {
    const kept = this.kept.get(number);
    if (kept !== undefined) this.kept.set(number, { ...kept, entry: change(kept.entry) });
    this.listeners.tell();
  }

  async apply(number: number, asked: Uint8Array, change: Change, body: SyncBody): Promise<Applied | null> {
    const before = this.kept.get(number);
    if (before === undefined || !same(before.entry.token, asked)) return null;
    const after = await afterChange(before.held, change, false);
    const now = this.kept.get(number);
    if (now === undefined || !same(now.entry.token, asked)) return null;
    const entry = advanced(now.entry, change, body, after, false);
    this.kept.set(number, { entry, held: after === null ? now.held : after.held });
    this.listeners.tell();
    return { came: Number(change.rows), gone: after?.gone ?? 0, reset: change.reset };
  }

  onChange(listener: () => void): () => void {
    return this.listeners.add(listener);
  }
}
