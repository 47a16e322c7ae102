/** The amount of a query in words, as `psoup queries` shows it. */
import type { AmountJson, ExplainResponseJson, QueryJson } from "psoup-client/contract/psoup_proto/v1/queries_pb";

/** What a plan says of the amount: its words, and the figures and facts of the kept answer by the service's names. */
export interface AmountFacts {
  words: string;
  figures: [name: string, value: number][];
  facts: [name: string, value: string][];
}

/** The amount in a plan; null if the service says nothing of it. */
export function amountFacts({ details }: ExplainResponseJson): AmountFacts | null {
  const { amount, eager, active, amount_reason: reason, choice, kept_answer: answer } = record(details);
  if (typeof amount !== "string") return null;
  const words = amountWords({
    amount: `AMOUNT_${amount}` as AmountJson,
    amountInForce: `AMOUNT_${record(choice).amount ?? amount}` as AmountJson,
    eager: eager === true,
    active: active === true,
  });
  const { form, rows, bytes, given_up: givenUp, why, invocations } = record(answer);
  const facts = { amount_reason: reason, kept_form: form, given_up: givenUp, kept_why: why };
  const figures = givenUp
    ? { invocations_since: invocations }
    : Number(bytes) > 0
      ? { kept_rows: rows, kept_answer_bytes: bytes }
      : {};
  return {
    words,
    figures: Object.entries(figures).map(([name, value]) => [name, Number(value)]),
    facts: Object.entries(facts).flatMap(([name, value]) =>
      typeof value === "string" && value ? [[name, value]] : [],
    ),
  };
}

function record(value: unknown): Record<string, unknown> {
  return { ...(value as Record<string, unknown> | null | undefined) };
}

/** How much the service keeps of a query: "partial", "complete, eager", "none, inactive", "auto (none)". */
export function amountWords({ amount, amountInForce, eager, active, parked }: QueryJson): string {
  const [asked, chosen] = [amount, amountInForce].map((text) => (text ?? "").replace("AMOUNT_", "").toLowerCase());
  const kept = asked === "auto" && active ? `auto (${chosen})` : asked!;
  const words = [kept, eager && asked === "complete" ? "eager" : "", active ? "" : parked ? "parked" : "inactive"];
  return words.filter((word) => word !== "").join(", ");
}
