/** The amount of a query in words, as `psoup queries` shows it. */
import type { AmountJson, ExplainResponseJson, QueryJson } from "psoup-client/contract/psoup_proto/v1/queries_pb";

/** The amount in a plan, with the reason that the service gives: "Amount: none. Amount is NONE: …". */
export function amountNote({ details }: ExplainResponseJson): string {
  const { amount, active, amount_reason: reason } = { ...(details as Record<string, unknown> | undefined) };
  if (typeof amount !== "string") return "";
  const words = amountWords({
    amount: `AMOUNT_${amount}` as AmountJson,
    active: active === true,
  });
  const why = typeof reason === "string" && reason !== "" ? ` ${reason[0]!.toUpperCase()}${reason.slice(1)}.` : "";
  return `Amount: ${words}.${why}`;
}

/** How much the service keeps of a query: "partial", "complete", "none, inactive". */
export function amountWords({ amount, active }: QueryJson): string {
  const kept = (amount ?? "").replace("AMOUNT_", "").toLowerCase();
  const words = [kept, active ? "" : "inactive"];
  return words.filter((word) => word !== "").join(", ");
}
