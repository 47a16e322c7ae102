/** An update that the reader has asked for, and the words that are shown about it. */
import { failedAt, said } from "../state";
import { PSoupError, words } from "../api/call";
import { bytes, counted, number } from "../format";
import { recharge, type Recharged } from "./copies";

/** Recharge some entries, or all, and say what came. Says why, if it fails; never throws. `quiet`: say only failures. */
export async function rechargeAndSay(only?: readonly number[], quiet = false): Promise<Recharged | null> {
  try {
    const told = await recharge(only, () => (said.value = "Another update is under way: this one follows."));
    if (told.failed > 0) said.value = `${counted(told.failed, "query", "queries")} could not be updated.`;
    else if (!quiet) said.value = toldWords(told);
    return told;
  } catch (problem) {
    failedAt.value = Date.now();
    const offline = problem instanceof PSoupError && problem.unreachable;
    if (!quiet || !offline)
      said.value = offline ? "The service cannot be reached. The rows on this device are shown." : words(problem);
    return null;
  }
}

function toldWords(told: Recharged): string {
  const took = `${bytes(told.sent + told.received)} sent and received`;
  if (told.came === 0 && told.gone === 0) return `Nothing new; ${took}.`;
  const whole = told.full > told.received ? `. The whole answer takes about ${bytes(told.full)}` : "";
  return `${cameAndLeft(told.came, told.gone)}; ${took}${whole}.`;
}

/** How many rows an update brought and took away. */
export function cameAndLeft(came: number, gone: number): string {
  return `${counted(came, "new row")}, ${number(gone)} removed`;
}
