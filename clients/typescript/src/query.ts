/** Registered queries, and questions, as sources of snapshots that several parts of a program share. */
import { asked, type Answer, type InvokeOptions, invoked, type AskOptions } from "./answer.js";
import type { Transport } from "./api/transport.js";
import { Copy, type Snapshot } from "./copy.js";
import { Listeners } from "./store/entry.js";
import { MemoryStore } from "./store/memory.js";
import type { RowObject } from "./sync/objects.js";

/** What a part of a page reads: the present snapshot, and when there is another one. */
export interface Source<Row> {
  /** The answer at this moment. The same object as long as nothing has changed. */
  getSnapshot(): Snapshot<Row>;
  /** Be told when there is another snapshot; returns how to end that. */
  subscribe(listener: (snapshot: Snapshot<Row>) => void): () => void;
}

/** A question that is asked once, and again by `refetch`. */
export type Question = { sql: string; parameters?: AskOptions["parameters"] };

/** The time for which rows stay after the last listener has left: another part of a page may take its place. */
const LINGER_MS = 1_000;

const NOTHING: Snapshot<never> = {
  rows: [],
  fields: [],
  complete: false,
  final: false,
  now: null,
  loading: true,
  error: null,
  state: "idle",
};

/** A registered query. While it has listeners its answer is watched, once for all of them. */
export class Query<Row = RowObject> implements Source<Row> {
  private present: Snapshot<Row> = NOTHING;
  private copy: Copy<Row> | null = null;
  private begun = false;
  private linger: ReturnType<typeof setTimeout> | undefined;
  private readonly listeners = new Listeners();

  constructor(
    private readonly transport: Transport,
    readonly key: string,
  ) {}

  /** The answer now, in one call. Throws PSoupError. */
  invoke(options: InvokeOptions = {}): Promise<Answer<Row>> {
    return invoked<Row>(this.transport, this.key, options);
  }

  readonly getSnapshot = (): Snapshot<Row> => this.present;

  readonly subscribe = (listener: (snapshot: Snapshot<Row>) => void): (() => void) => {
    const end = this.listeners.add(() => listener(this.present));
    clearTimeout(this.linger);
    if (!this.begun) void this.begin();
    // What has ended the watch may be mended: the query is registered again, say.
    else if (this.present.error !== null && this.present.state === "idle") this.copy?.watch();
    return () => {
      end();
      clearTimeout(this.linger);
      if (this.listeners.size === 0) this.linger = setTimeout(() => this.end(), LINGER_MS);
      (this.linger as { unref?: () => void } | undefined)?.unref?.();
    };
  };

  /** The snapshots of the answer, the first once there are rows. While there is no connection a snapshot has the `state`
   * "waiting"; without rows so far it is `loading`. A slow reader gets the newest, not each. It ends with `signal`, and
   * throws PSoupError for what a new connection does not mend. */
  async *watch({ signal }: { signal?: AbortSignal | undefined } = {}): AsyncGenerator<Snapshot<Row>, void, undefined> {
    let seen: Snapshot<Row> | null = null;
    let wake: () => void = () => undefined;
    const leave = this.subscribe(() => wake());
    const stopped = (): void => wake();
    signal?.addEventListener("abort", stopped);
    try {
      while (!signal?.aborted) {
        const next = this.present;
        if (next.error !== null && next.state === "idle") throw next.error;
        const readable = next.error === null && (!next.loading || next.state === "waiting");
        if (readable && (seen === null || isNews(seen, next))) {
          seen = next;
          yield next;
        } else await new Promise<void>((resolve) => (this.present === next ? (wake = resolve) : resolve()));
      }
    } finally {
      signal?.removeEventListener("abort", stopped);
      leave();
    }
  }

  private async begin(): Promise<void> {
    this.begun = true;
    const copy = await Copy.open<Row>({ transport: this.transport, store: new MemoryStore() }, this.key);
    if (!this.begun) return copy.close();
    this.copy = copy;
    copy.subscribe(() => this.tell(copy.snapshot));
    copy.watch();
  }

  private end(): void {
    this.begun = false;
    this.copy?.close();
    this.copy = null;
    this.present = NOTHING;
  }

  private tell(snapshot: Snapshot<Row>): void {
    this.present = snapshot;
    this.listeners.tell();
  }
}

/** Whether a snapshot has another answer, or says that the connection was lost or made again. */
function isNews<Row>(before: Snapshot<Row>, next: Snapshot<Row>): boolean {
  const waits = (snapshot: Snapshot<Row>): boolean => snapshot.state === "waiting";
  return (
    (waits(before) !== waits(next) && next.state !== "connecting") ||
    before.complete !== next.complete ||
    before.final !== next.final ||
    before.rows !== next.rows
  );
}

/** A SELECT that is not registered, asked when it gets its first listener. */
export class Asked<Row = RowObject> implements Source<Row> {
  private present: Snapshot<Row> = NOTHING;
  private begun = false;
  private stop: AbortController | null = null;
  private readonly listeners = new Listeners();

  constructor(
    private readonly transport: Transport,
    private readonly question: Question,
  ) {}

  readonly getSnapshot = (): Snapshot<Row> => this.present;

  readonly subscribe = (listener: (snapshot: Snapshot<Row>) => void): (() => void) => {
    const end = this.listeners.add(() => listener(this.present));
    if (!this.begun || this.present.error !== null) void this.refetch();
    return end;
  };

  /** Ask again. The rows of before stay until others are there. */
  readonly refetch = async (): Promise<void> => {
    this.begun = true;
    this.stop?.abort();
    const stop = (this.stop = new AbortController());
    try {
      const { parameters } = this.question;
      const answer = await asked<Row>(this.transport, this.question.sql, { parameters, signal: stop.signal });
      const { rows, fields } = answer;
      const final = answer.completeness.final ?? false;
      this.tell({ ...NOTHING, rows, fields, complete: true, final, loading: false });
    } catch (problem) {
      if (stop.signal.aborted) return;
      const error = problem instanceof Error ? problem : new Error(String(problem));
      this.tell({ ...this.present, loading: false, error });
    }
  };

  private tell(snapshot: Snapshot<Row>): void {
    this.present = snapshot;
    this.listeners.tell();
  }
}
