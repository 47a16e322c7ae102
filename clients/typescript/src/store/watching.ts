/** Copies that stay up to date: Watch, and again with the latest token when it ends. */
import { events } from "../api/events.js";
import { PSoupError, words } from "../api/errors.js";
import type { WatchResponseJson } from "../contract/psoup_proto/v1/sync_pb.js";
import { bodyOf } from "../sync/body.js";
import { limitedBy } from "../api/transport.js";
import { type Link, outcomeOf, wantOf } from "./recharge.js";

/** What a watch does: it has no connection yet, has one, or waits before it tries again; shared: another tab watches the
 * same copy, and this one gets its changes from the store. */
export type WatchState = "connecting" | "live" | "waiting" | "shared";

/** The longest pause between two tries, in milliseconds. */
const LONGEST_PAUSE_MS = 60_000;
/** The service sends a message at least each 15 seconds. A connection without one is dead. */
const SILENCE_MS = 45_000;

/** Keep a copy up to date until `signal` is aborted. The service gets the token of the last change that was written, so
 * that after a lost connection no change is missed, and none is made twice. Throws PSoupError for what another try does
 * not mend: a query that is gone, a refused token. */
export async function watch(
  link: Link,
  number: number,
  signal: AbortSignal,
  tell: (state: WatchState, why: string) => void,
): Promise<void> {
  const told = (state: WatchState, why = ""): void => (signal.aborted ? undefined : tell(state, why));
  for (let tries = 0; !signal.aborted; tries++) {
    told(tries === 0 ? "connecting" : "waiting");
    let heard = false;
    let after = 0;
    try {
      await follow(link, number, signal, () => {
        heard = true;
        tries = 0;
        told("live");
      });
    } catch (problem) {
      if (signal.aborted) return;
      if (problem instanceof PSoupError && !passes(link, problem, heard)) throw problem;
      if (problem instanceof PSoupError) after = problem.retryAfterMs ?? 0;
      told("waiting", words(problem));
    }
    await pause(after + Math.random() * Math.min(1000 * 2 ** tries, LONGEST_PAUSE_MS), signal, after);
  }
}

/** The same, in one tab at a time. The others wait for their turn, which comes when that tab is closed. */
export async function watchInTurn(
  link: Link,
  number: number,
  signal: AbortSignal,
  tell: (state: WatchState, why: string) => void,
): Promise<void> {
  const { lock } = link.store;
  const locks = typeof navigator === "undefined" ? undefined : navigator.locks;
  if (lock === "" || locks === undefined) return watch(link, number, signal, tell);
  tell("shared", "");
  await locks.request(`${lock} ${number}`, { signal }, () => watch(link, number, signal, tell));
}

/** Whether another try may mend an error. A token that has expired on the way is replaced by its function. */
function passes(link: Link, problem: PSoupError, heard: boolean): boolean {
  if (problem.code !== "UNAUTHENTICATED" || !heard || !link.transport.renews) return problem.passing;
  link.transport.forgetToken();
  return true;
}

/** One call: from the token that is there until it ends. */
async function follow(link: Link, number: number, signal: AbortSignal, heard: () => void): Promise<void> {
  const { store, transport } = link;
  let entry = await store.entry(number);
  if (entry === undefined) throw new PSoupError("NOT_FOUND", "the copy was forgotten");
  const silence = new Silence();
  const request = { wants: [wantOf(entry)], compression: "COMPRESSION_GZIP" };
  try {
    const ends = limitedBy(silence.signal, signal);
    for await (const message of events<WatchResponseJson>(transport, "SyncService/Watch", request, ends)) {
      silence.broken();
      heard();
      const body = await bodyOf(message);
      for (const outcome of body.outcomes) {
        const told = await outcomeOf(store, entry, outcome, body, new Set());
        entry = await store.entry(number);
        if (entry === undefined) throw new PSoupError("NOT_FOUND", "the copy was forgotten");
        if (told === "failed") throw new PSoupError(entry.error!.code, entry.error!.message, entry.error!);
        if (told === "again") return;
      }
    }
  } finally {
    silence.end();
  }
}

/** Aborts its signal when nothing was heard for a while. */
class Silence {
  private readonly controller = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    this.broken();
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  broken(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.controller.abort(new DOMException("silence", "TimeoutError")), SILENCE_MS);
  }

  end(): void {
    clearTimeout(this.timer);
  }
}

/** Wait. It ends early when the device has a network again, or the page is seen again, but not before `least`. */
function pause(milliseconds: number, signal: AbortSignal, least: number): Promise<void> {
  return new Promise((resolve) => {
    const begun = Date.now();
    const seen = typeof document === "undefined" ? undefined : document;
    const early = (): void => {
      if (seen?.hidden || Date.now() - begun < least) return;
      done();
    };
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      seen?.removeEventListener("visibilitychange", early);
      globalThis.removeEventListener?.("online", early);
      resolve();
    };
    // A page that is not seen tries seldom.
    const timer = setTimeout(done, seen?.hidden ? Math.max(milliseconds, LONGEST_PAUSE_MS) : milliseconds);
    signal.addEventListener("abort", done);
    seen?.addEventListener("visibilitychange", early);
    globalThis.addEventListener?.("online", early);
    if (signal.aborted) done();
  });
}
