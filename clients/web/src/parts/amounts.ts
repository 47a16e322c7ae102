/** The amount of a query in words, as `psoup queries` shows it. */
import type { AmountJson, ExplainResponseJson, QueryJson } from "psoup-client/contract/psoup_proto/v1/queries_pb";

/** What a plan says of the amount: its words, and the figures and facts of the kept answer and of the choice for an
 * AUTO query, by the names of the page's terms. */
export interface AmountFacts {
  words: string;
  figures: [name: string, value: number][];
  facts: [name: string, value: string][];
}

/** The amount in a plan; null if the service says nothing of it. */
export function amountFacts({ details }: ExplainResponseJson): AmountFacts | null {
  const { amount, eager, active, parked, amount_reason: reason, choice, kept_answer: answer } = record(details);
  if (typeof amount !== "string") return null;
  const words = amountWords({
    amount: `AMOUNT_${amount}` as AmountJson,
    amountInForce: `AMOUNT_${record(choice).amount ?? amount}` as AmountJson,
    eager: eager === true,
    active: active === true,
    parked: parked === true,
    pairs: record(choice).pairs_kept === true,
  });
  const { form, rows, bytes, given_up: givenUp, why, invocations } = record(answer);
  const { updates, updated, why_not: whyNot } = record(answer);
  const facts = {
    amount_reason: reason,
    chosen_since: record(choice).since,
    kept_form: form,
    given_up: givenUp,
    kept_why: why,
    eager_updated: updated,
    eager_why_not: whyNot,
  };
  const ofAnswer = givenUp
    ? { invocations_since: invocations }
    : Number(bytes) > 0
      ? { kept_rows: rows, kept_answer_bytes: bytes }
      : {};
  const figures = { ...choiceFigures(record(choice)), ...ofAnswer, ...(updates ? { eager_updates: updates } : {}) };
  return {
    words,
    figures: Object.entries(figures).map(([name, value]) => [name, Number(value)]),
    facts: Object.entries(facts).flatMap(([name, value]) =>
      typeof value === "string" && value ? [[name, value]] : [],
    ),
  };
}

/** What was observed of an AUTO query, and the estimated microseconds of a core in a second for each choice. */
function choiceFigures({ since, core_us: costs, invocations }: Record<string, unknown>): Record<string, number> {
  if (!since) return {};
  const each = Object.entries(record(costs)).map(([name, cost]) => {
    return [`core_us_${name.toLowerCase().replaceAll(" ", "_")}`, tenths(cost)];
  });
  return { invoked_in_a_second: tenths(invocations), ...Object.fromEntries(each) };
}

function tenths(value: unknown): number {
  return Math.round(10 * Number(value ?? 0)) / 10;
}

function record(value: unknown): Record<string, unknown> {
  return { ...(value as Record<string, unknown> | null | undefined) };
}

/** How much the service keeps of a query: "partial", "complete, eager", "none, inactive", "auto (none)". `pairs`: whether
 * it chose to keep the pairs of a join: "auto (partial with pairs)". */
export function amountWords(query: QueryJson & { pairs?: boolean }): string {
  const { amount, amountInForce, eager, active, parked, pairs } = query;
  const [asked, chosen] = [amount, amountInForce].map((text) => (text ?? "").replace("AMOUNT_", "").toLowerCase());
  const kept = asked === "auto" && active ? `auto (${chosen}${pairs ? " with pairs" : ""})` : asked!;
  const words = [kept, eager && asked === "complete" ? "eager" : "", active ? "" : parked ? "parked" : "inactive"];
  return words.filter((word) => word !== "").join(", ");
}
