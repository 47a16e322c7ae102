/** psoup-client/react: a hook, for React 18 or newer and for preact/compat. */
import { useMemo, useSyncExternalStore } from "react";
import { encode } from "./api/encode.js";
import type { Client } from "./client.js";
import type { Snapshot } from "./copy.js";
import type { Question } from "./query.js";
import type { RowObject } from "./sync/objects.js";

/** The answer of a question, as a component shows it. A key names a registered query, whose answer is watched while a
 * component shows it; a SELECT is asked once. `rows` stays the same array until rows come or leave. */
export function useQuery<Row = RowObject>(client: Client, question: string | Question): Snapshot<Row> {
  const id = typeof question === "string" ? question : encode([question.sql, question.parameters]);
  const source = useMemo(
    () => (typeof question === "string" ? client.query<Row>(question) : client.asked<Row>(question)),
    [client, typeof question, id],
  );
  return useSyncExternalStore(source.subscribe, source.getSnapshot, source.getSnapshot);
}
