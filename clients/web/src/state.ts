/** What the pages share: the entries that are kept, the time, the place in the address, and what is said aloud. */
import { effect, signal } from "@preact/signals";
import { type Entry, store } from "./store/copies";

/** What is kept; null until the store was read. */
export const kept = signal<Entry[] | null>(null);
/** Why nothing can be kept here: a private window, say. "" if it can. */
export const storeProblem = signal("");
/** The wall clock here, once in some seconds. */
export const tick = signal(Date.now());
/** What a screen reader says next, politely; shown, too, for a while. */
export const said = signal("");
/** When an update of the copies failed as a whole, by the clock here; 0: it did not. */
export const failedAt = signal(0);
/** A new version of the application waits. */
export const newVersion = signal<ServiceWorker | null>(null);

export type Route = { page: string; id: string; query: URLSearchParams };
export const route = signal<Route>(routeOf(location.hash));

function routeOf(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [page = "", ...id] = path.split("/");
  return { page, id: decodeURIComponent(id.join("/")), query: new URLSearchParams(query) };
}

/** The address of a page. */
export function to(page: string, id = "", query: Record<string, string> = {}): string {
  const search = new URLSearchParams(query).toString();
  return `#/${page}${id === "" ? "" : `/${encodeURIComponent(id)}`}${search === "" ? "" : `?${search}`}`;
}

export function go(address: string): void {
  location.hash = address;
}

/** Change parts of the address without a new step of the history; "" removes one. */
export function place(parts: Record<string, string>): void {
  const query = new URLSearchParams(route.value.query);
  for (const [name, value] of Object.entries(parts)) value === "" ? query.delete(name) : query.set(name, value);
  history.replaceState(null, "", to(route.value.page, route.value.id, Object.fromEntries(query)));
  route.value = { ...route.value, query };
}

export async function reload(): Promise<void> {
  try {
    kept.value = await store.entries();
    storeProblem.value = "";
  } catch {
    kept.value = [];
    storeProblem.value =
      "This browser keeps nothing for this page: answers are not there offline. A private window or a full disk may be why.";
  }
}

/** Begin: read what is kept, and follow address, clock and store. */
export function begin(): void {
  addEventListener("hashchange", () => {
    const before = route.value;
    route.value = routeOf(location.hash);
    if (route.value.page !== before.page) said.value = "";
  });
  let asked = false;
  store.onChange(() => {
    if (asked) return;
    asked = true;
    setTimeout(() => {
      asked = false;
      void reload();
    }, 30);
  });
  setInterval(() => {
    tick.value = Date.now();
    if (kept.value?.some((entry) => entry.form?.ages)) void store.noteGreatest(kept.value).catch(() => undefined);
  }, 5_000);
  effect(() => {
    if (said.value === "") return;
    const text = said.value;
    setTimeout(() => said.value === text && (said.value = ""), 6_000);
  });
  void reload();
}
