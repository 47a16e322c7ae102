/** The types that a program sees, of the package as it is packed. A line after `@ts-expect-error` must not compile. */
import {
  type Altered,
  type Answer,
  type contract,
  createClient,
  memory,
  PSoupError,
  type Snapshot,
} from "psoup-client";
import * as bundle from "psoup-client/bundle";
import { indexedDB } from "psoup-client/indexeddb";
import { useQuery } from "psoup-client/react";

type Trade = { symbol: string; price: string; size: number | bigint };

export async function program(): Promise<void> {
  const client = createClient({ url: "http://127.0.0.1:7434", token: async () => "psoup_…" });
  const answer: Answer<Trade> = await client.ask<Trade>("SELECT * FROM trades WHERE price > ?", { parameters: [100n] });
  const price: string | undefined = answer.rows[0]?.price;
  // @ts-expect-error: a DECIMAL is a text
  const wrong: number | undefined = answer.rows[0]?.price;
  const query = await client.register<Trade>("SELECT * FROM trades", { key: "all", parameters: { most: 5 } });
  // @ts-expect-error: a query is registered under a key
  await client.register("SELECT * FROM trades", {});
  for await (const { rows, complete } of query.watch({ signal: AbortSignal.timeout(10) }))
    void [rows[0]?.size, complete];
  const signal: AbortSignal | undefined = undefined;
  await client.register("SELECT * FROM trades", { key: "all", labels: undefined, replace: undefined, signal });
  await client.register("SELECT * FROM trades", { key: "all", amount: "complete", eager: true, active: undefined });
  // @ts-expect-error: there is no such amount
  await client.register("SELECT * FROM trades", { key: "all", amount: "some" });
  const altered: Altered = await client.alterQueries({ labels: { of: "ann" } }, { amount: "none" }, { dryRun: true });
  void [altered.count, (await client.alter("all", { active: false }, { signal })).changed];
  // @ts-expect-error: queries are given in one way
  await client.alterQueries({}, { active: true });
  await client.unregister("all", { signal });
  void query.watch({ signal });
  const stop: () => void = query.subscribe((snapshot: Snapshot<Trade>) => void snapshot.rows.length);
  stop();
  for (const store of [memory(), indexedDB("copies"), bundle.indexedDB("copies")]) {
    const copy = await client.copy<Trade>("all", { store });
    void [copy.rows, copy.complete, (await copy.recharge()).came, copy.subscribe(() => undefined)];
  }
  await client.push("trades", [{ symbol: "IBM", size: 2n ** 60n }], { idempotencyKey: "morning-1", refused: "count" });
  const listed: contract.ListQueriesResponseJson = await client.call("QueryService/ListQueries", { pageSize: 10 });
  void listed.queries?.[0]?.queryId;
  // @ts-expect-error: there is no such call
  await client.call("QueryService/Nothing", {});
  // @ts-expect-error: there is no such field
  await client.call("QueryService/ListQueries", { size: 10 });
  // @ts-expect-error: Watch has many replies: watch a query
  await client.call("SyncService/Watch", {});
  const problem: unknown = new Error(String([price, wrong]));
  if (problem instanceof PSoupError) void [problem.code, problem.line, problem.column, problem.hint];
}

export function hooks(): void {
  const client = createClient();
  const { rows, complete, error, loading } = useQuery<Trade>(client, "all");
  void [rows[0]?.symbol, complete, error?.message, loading];
  void useQuery(client, { sql: "SELECT * FROM trades WHERE price > ?", parameters: [100] });
}
