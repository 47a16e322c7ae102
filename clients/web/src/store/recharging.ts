/** A recharge that somebody has asked for, with what is said of it. */
import { said } from "../state";
import { CallError, words } from "../api/call";
import { bytes, counted } from "../format";
import { recharge, type Recharged } from "./recharge";

/** Recharge some entries, or all, and say what came. Says why, if it fails; never throws. `quiet`: say only failures. */
export async function rechargeAndSay(only?: readonly number[], quiet = false): Promise<Recharged | null> {
  try {
    const told = await recharge(only, () => (said.value = "A recharge is under way: this one follows."));
    if (told.failed > 0) said.value = `${counted(told.failed, "query", "queries")} could not be recharged.`;
    else if (!quiet) said.value = toldWords(told);
    return told;
  } catch (problem) {
    const offline = problem instanceof CallError && problem.unreachable;
    if (!quiet || !offline)
      said.value = offline ? "The service cannot be reached: what is here is shown." : words(problem);
    return null;
  }
}

function toldWords(told: Recharged): string {
  const took = `${bytes(told.sent + told.received)} both ways`;
  if (told.came === 0 && told.gone === 0) return `Nothing new; ${took}.`;
  const rows = `${counted(told.came, "row")} came, ${counted(told.gone, "row")} left`;
  return `${rows}; ${took}${told.full > told.received ? `, a full answer about ${bytes(told.full)}` : ""}.`;
}
