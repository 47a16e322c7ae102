/** psoup-client/bundle: all but the hook in one file, for a page without a bundler. */
export * from "./index.js";
export * from "./indexeddb.js";
