/** A query whose ID the service has lost is registered again, in place of the one that is kept. */
import type { RegisterResponseJson } from "psoup-client/contract/psoup_proto/v1/queries_pb";
import { ask } from "../api/call";
import { type Entry, renamed, store } from "../store/copies";

/** Register the statement of an entry anew; returns the ID. Throws PSoupError. */
export async function registerAgain(entry: Entry): Promise<string> {
  const { query } = await ask<RegisterResponseJson>("QueryService/Register", {
    statement: entry.statement,
    key: entry.key,
  });
  const queryId = query!.queryId!;
  await store.note(entry.number, (now) => ({ ...now, ...renamed(now, queryId), token: new Uint8Array(), error: null }));
  return queryId;
}
