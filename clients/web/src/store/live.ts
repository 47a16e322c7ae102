/** Copies that stay up to date while the page is open: Watch, and again with the latest tokens when it ends. */
import { signal } from "@preact/signals";
import type { WatchResponseJson } from "../contract/psoup_proto/v1/sync_pb";
import { CallError, words } from "../api/call";
import { events } from "../api/events";
import { bodyOf } from "../sync/body";
import { outcomeOf, wantOf } from "./recharge";
import { type Entry, entries } from "./store";

export type Live = { number: number; state: "connecting" | "live" | "waiting"; why: string };

/** What is watched now; null: nothing. There is one call at most in a page. */
export const live = signal<Live | null>(null);
let stop: AbortController | null = null;

/** End what is watched. */
export function unwatch(): void {
  stop?.abort();
  stop = null;
  live.value = null;
}

/** Watch an entry, in place of another one, until `unwatch`. */
export async function watch(number: number): Promise<void> {
  unwatch();
  const mine = new AbortController();
  stop = mine;
  const tell = (state: Live["state"], why = ""): void => {
    if (!mine.signal.aborted) live.value = { number, state, why };
  };
  for (let tries = 0; !mine.signal.aborted; tries++) {
    tell(tries === 0 ? "connecting" : "waiting");
    try {
      await follow(number, mine.signal, () => {
        tries = 0;
        tell("live");
      });
    } catch (problem) {
      if (mine.signal.aborted) return;
      if (
        problem instanceof CallError &&
        !problem.unreachable &&
        problem.code !== "UNAVAILABLE" &&
        problem.code !== "RESOURCE_EXHAUSTED"
      ) {
        unwatch();
        return;
      }
      tell("waiting", words(problem));
    }
    await pause(Math.random() * Math.min(1000 * 2 ** tries, 60_000), mine.signal);
  }
}

/** One call: from the token that is there until it ends. */
async function follow(number: number, signal: AbortSignal, heard: () => void): Promise<void> {
  let entry = await entryAt(number);
  if (entry === undefined) throw new CallError("NOT_FOUND", "the copy was forgotten");
  const request = { wants: [wantOf(entry)], compression: "COMPRESSION_GZIP" };
  for await (const message of events<WatchResponseJson>("SyncService/Watch", request, signal)) {
    heard();
    const body = await bodyOf(message);
    for (const outcome of body.outcomes) {
      const told = await outcomeOf(entry, outcome, body, new Set());
      if (told === "failed") throw new CallError("NOT_FOUND", "the query is gone");
      if (told === "again") return;
      entry = (await entryAt(number)) ?? entry;
    }
  }
}

async function entryAt(number: number): Promise<Entry | undefined> {
  return (await entries()).find((entry) => entry.number === number);
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
