/** psoup-client: standing queries of PSoup in browsers and Node. */
export type { Altered, Amount, Keeping, Selection } from "./amounts.js";
export type { Answer, AskOptions, InvokeOptions } from "./answer.js";
export { type ErrorJson, PSoupError } from "./api/errors.js";
export type { Token } from "./api/transport.js";
export { Client, type ClientOptions, createClient, memory, type RegisterOptions } from "./client.js";
export type * as contract from "./contract.js";
export { Copy, type Snapshot } from "./copy.js";
export type { Pushed, PushOptions } from "./push.js";
export { type Asked, Query, type Question, type Source } from "./query.js";
export type { Store } from "./store/entry.js";
export type { Recharged } from "./store/recharge.js";
export type { WatchState } from "./store/watching.js";
export type { Field, Kind } from "./sync/form.js";
export { instantText, type RowObject, type RowValue } from "./sync/objects.js";
