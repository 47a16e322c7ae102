/** How much the service keeps of queries: what a program says, and what the contract has for it. */
import type {
  AlterQueriesRequestJson,
  AlterQueriesResponseJson,
  AmountJson,
} from "./contract/psoup_proto/v1/queries_pb.js";

/**
 * What the service keeps between two invocations: nothing, the matches, or also the answer. With "auto" it chooses. No
 * answer depends on it.
 */
export type Amount = "none" | "partial" | "complete" | "auto";

/** How a query is kept. What is left out stays as it is. */
export type Keeping = {
  amount?: Amount | undefined;
  /** Bring a complete answer up to date as tuples come, and not when it is asked for. */
  eager?: boolean | undefined;
  /** Whether tuples meet the query as they come. */
  active?: boolean | undefined;
  /** Whether an inactive query leaves the memory, until it is asked. */
  parked?: boolean | undefined;
};

/** Some queries: by their IDs, by labels that all of them have, or by how their keys begin. */
export type Selection =
  { queryIds: readonly string[] } | { labels: Readonly<Record<string, string>> } | { keyPrefix: string };

/** The queries that were meant, and how many of them changed. */
export type Altered = { count: number; changed: number };

const AMOUNTS: Record<Amount, AmountJson> = {
  none: "AMOUNT_NONE",
  partial: "AMOUNT_PARTIAL",
  complete: "AMOUNT_COMPLETE",
  auto: "AMOUNT_AUTO",
};

/** An amount as the contract has it. Throws TypeError for another text, which a program without types may give. */
export function amountJson(amount: Amount | undefined): AmountJson | undefined {
  if (amount === undefined) return undefined;
  if (!Object.hasOwn(AMOUNTS, amount))
    throw new TypeError(`amount is ${JSON.stringify(amount)}; take one of ${Object.keys(AMOUNTS).join(", ")}`);
  return AMOUNTS[amount];
}

/** The request that alters queries. */
export function altering(
  selection: Selection,
  { amount, eager, active, parked }: Keeping,
  dryRun: boolean,
): { [Name in keyof AlterQueriesRequestJson]: AlterQueriesRequestJson[Name] | undefined } {
  return { ...(selection as AlterQueriesRequestJson), amount: amountJson(amount), eager, active, parked, dryRun };
}

export function altered({ count, changed }: AlterQueriesResponseJson): Altered {
  return { count: Number(count ?? 0), changed: Number(changed ?? 0) };
}
