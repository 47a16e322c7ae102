/** A copy of an answer on this device, which only changes reach. */
import { PSoupError } from "./api/errors.js";
import { type Entry, Listeners, same } from "./store/entry.js";
import { type Link, recharge, type Recharged } from "./store/recharge.js";
import { watchInTurn, type WatchState } from "./store/watching.js";
import type { Held } from "./sync/change.js";
import { type Field, hidden, shownFields } from "./sync/form.js";
import { instantText, objects, type RowObject } from "./sync/objects.js";
import { agesByClock, estimate, shown } from "./sync/shown.js";

/** An answer at one moment. Snapshots do not change; the next one is another object. */
export type Snapshot<Row> = {
  readonly rows: readonly Row[];
  readonly fields: readonly Field[];
  /** Whether these are all rows of the answer; while a first copy comes in parts they are not. */
  readonly complete: boolean;
  /** Whether the answer cannot change any more. */
  readonly final: boolean;
  /** NOW of the answer; null before the first reply, and for streams without tuples. */
  readonly now: string | null;
  /** Whether no reply has come yet. */
  readonly loading: boolean;
  /** What has ended the watch, or the last failure of the service for this copy; null for none. While a watch waits for
   * a new connection there is none, and `state` is "waiting". */
  readonly error: Error | null;
  /** What the connection does; "idle" if nothing is watched. */
  readonly state: WatchState | "idle";
};

/** Rows leave a window by the clock of this device, looked at so often. */
const AGE_MS = 1_000;

/** A copy. `Client.copy` makes one. */
export class Copy<Row = RowObject> {
  private entry: Entry | undefined;
  private held: Held | null = null;
  private present: Snapshot<Row>;
  private problem: Error | null = null;
  private state: WatchState | "idle" = "idle";
  private places: number[] = [];
  private made: { held: Held | null; places: number; rows: Row[] | null } | null = null;
  private readonly listeners = new Listeners();
  private readonly end: () => void;
  private stop: AbortController | null = null;
  private timer: ReturnType<typeof setInterval> | undefined;
  private reading: Promise<void> | null = null;
  private stale = false;
  private closed = false;

  private constructor(
    private readonly link: Link,
    private readonly number: number,
  ) {
    this.present = this.taken();
    this.end = link.store.onChange(() => void this.refresh().catch(() => undefined));
  }

  /** The copy of a query in a store; the rows that are kept of it are read. */
  static async open<Row>(link: Link, key: string): Promise<Copy<Row>> {
    const copy = new Copy<Row>(link, await link.store.keep(key, { queryId: "", key, statement: "" }));
    await copy.refresh();
    return copy;
  }

  /** The answer at this moment. The same object as long as nothing has changed. */
  get snapshot(): Snapshot<Row> {
    return this.present;
  }

  get rows(): readonly Row[] {
    return this.present.rows;
  }

  get fields(): readonly Field[] {
    return this.present.fields;
  }

  get complete(): boolean {
    return this.present.complete;
  }

  get final(): boolean {
    return this.present.final;
  }

  get now(): string | null {
    return this.present.now;
  }

  get error(): Error | null {
    return this.present.error;
  }

  /** When the service was last heard, by the clock of this device; null: never. */
  get synced(): Date | null {
    return this.entry?.synced == null ? null : new Date(this.entry.synced);
  }

  /** Bring the copy up to date, once. Throws PSoupError; the rows stay then. */
  async recharge({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<Recharged> {
    if ((await this.link.store.entry(this.number)) === undefined)
      throw new PSoupError("NOT_FOUND", "the copy was forgotten");
    const told = await recharge(this.link, [this.number], undefined, signal);
    await this.refresh();
    if (told.failed > 0) throw this.failure() ?? new PSoupError("UNKNOWN", "the copy could not be brought up to date");
    return told;
  }

  /** Keep the copy up to date until `unwatch` or `close`. A lost connection is made again by itself. */
  watch(): void {
    if (this.stop !== null || this.closed) return;
    const stop = new AbortController();
    this.stop = stop;
    this.problem = null;
    const tell = (state: WatchState): void => this.told(state);
    watchInTurn(this.link, this.number, stop.signal, tell).catch(async (problem: unknown) => {
      if (stop.signal.aborted) return;
      this.stop = null;
      await this.refresh().catch(() => undefined);
      this.problem = problem instanceof Error ? problem : new Error(String(problem));
      this.told("idle");
    });
  }

  /** End what `watch` has begun. The rows stay. */
  unwatch(): void {
    this.stop?.abort();
    this.stop = null;
    this.told("idle");
  }

  /** Be told when there is another snapshot; returns how to end that. */
  readonly subscribe = (listener: () => void): (() => void) => {
    const end = this.listeners.add(listener);
    if (!this.closed) this.timer ??= setInterval(() => this.age(), AGE_MS);
    (this.timer as { unref?: () => void }).unref?.();
    return () => {
      end();
      if (this.listeners.size > 0) return;
      clearInterval(this.timer);
      this.timer = undefined;
    };
  };

  /** End the copy in this program. What is in IndexedDB stays. */
  close(): void {
    this.unwatch();
    this.closed = true;
    this.end();
    clearInterval(this.timer);
  }

  /** Remove the copy from its store, and end it. */
  async forget(): Promise<void> {
    this.close();
    await this.link.store.forget(this.number);
  }

  /** Read the store again. While one reading is under way others wait for one after it. */
  private refresh(): Promise<void> {
    this.stale = true;
    this.reading ??= (async () => {
      try {
        while (this.stale && !this.closed) {
          this.stale = false;
          await this.read();
        }
      } finally {
        this.reading = null;
      }
    })();
    return this.reading;
  }

  private async read(): Promise<void> {
    const before = this.entry;
    const entry = await this.link.store.entry(this.number);
    if (entry === undefined || before === undefined || this.held === null || !same(entry.token, before.token))
      this.held = await this.link.store.rowsOf(this.number);
    this.entry = entry;
    this.tellOf(before?.error !== entry?.error || !sameFacts(before, entry));
  }

  private told(state: WatchState | "idle"): void {
    const changed = this.state !== state || this.problem !== this.present.error;
    this.state = state;
    if (state === "live") this.problem = null;
    this.tellOf(changed);
  }

  private age(): void {
    const form = this.held?.form;
    if (form === undefined || !agesByClock(form)) return;
    const places = this.shownPlaces();
    if (places.length !== this.places.length) this.tellOf(true);
  }

  private tellOf(changed: boolean): void {
    if (!changed || this.closed) return;
    this.present = this.taken();
    this.listeners.tell();
  }

  private shownPlaces(): number[] {
    if (this.held === null) return [];
    const clock = this.entry?.clock;
    return shown(this.held, clock == null ? null : estimate(clock, Date.now() * 1000));
  }

  private failure(): PSoupError | null {
    const error = this.entry?.error;
    return error == null ? null : new PSoupError(error.code, error.message, error);
  }

  private taken(): Snapshot<Row> {
    const { held, entry } = this;
    const places = (this.places = this.shownPlaces());
    const fields = held === null ? [] : shownFields(held.form);
    // Rows are made when they are first read, and stay the same array until rows come or leave.
    if (this.made?.held !== held || this.made.places !== places.length)
      this.made = { held, places: places.length, rows: null };
    const made = this.made;
    const error = this.problem ?? this.failure();
    return {
      get rows() {
        made.rows ??= held === null ? [] : objects<Row>(fields, held.columns.slice(hidden(held.form)), places);
        return made.rows;
      },
      fields,
      complete: entry?.complete ?? false,
      final: entry?.final ?? false,
      now: entry?.now == null ? null : instantText(entry.now),
      loading: held === null && error === null,
      error,
      state: this.state,
    };
  }
}

function sameFacts(one: Entry | undefined, other: Entry | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return one.complete === other.complete && one.final === other.final && same(one.token, other.token);
}
