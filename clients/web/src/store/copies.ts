/** The copies that this browser keeps, by psoup-client, and what the page shows of their updates. */
import { signal } from "@preact/signals";
import { IndexedStore } from "psoup-client/store/indexed";
import * as client from "psoup-client/store/recharge";
import * as watching from "psoup-client/store/watching";
import { transport } from "../api/call";

export { type Entry, renamed } from "psoup-client/store/entry";
export type { Recharged } from "psoup-client/store/recharge";

/** The copies themselves. */
export const store = new IndexedStore("psoup");

/** How many recharges of this tab are under way, or wait for their turn. */
export const recharging = signal(0);

/** Bring the copies of some entries up to date, or of all. If a recharge is under way, here or in another tab, `waits` is
 * called, and this one follows. Throws PSoupError if the service cannot be reached. */
export async function recharge(only: readonly number[] | undefined, waits: () => void): Promise<client.Recharged> {
  recharging.value++;
  try {
    return await client.recharge({ transport, store }, only, waits);
  } finally {
    recharging.value--;
  }
}

export type Live = { number: number; state: watching.WatchState; why: string };

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
  try {
    await watching.watch({ transport, store }, number, mine.signal, (state, why) => {
      live.value = { number, state, why };
    });
  } catch {
    if (!mine.signal.aborted) unwatch();
  }
}
