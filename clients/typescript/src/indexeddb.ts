/** psoup-client/indexeddb: copies that stay in the browser. */
import type { Store } from "./store/entry.js";
import { IndexedStore } from "./store/indexed.js";

const stores = new Map<string, IndexedStore>();

/** The store in the database `name` of IndexedDB, which all tabs of an origin share. The same name is the same store. */
export function indexedDB(name: string): Store {
  const known = stores.get(name) ?? new IndexedStore(name);
  stores.set(name, known);
  return known;
}
