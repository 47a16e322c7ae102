/** How the rows of an answer come and leave, and the bound of the state that this takes, in plain words. */
import type { StateBoundJson, UpdatePatternJson } from "psoup-client/contract/psoup_proto/v1/queries_pb";

const WORDS: Record<UpdatePatternJson, string> = {
  UPDATE_PATTERN_UNSPECIFIED: "",
  UPDATE_PATTERN_MONOTONIC: "are only added",
  UPDATE_PATTERN_WEAKEST: "leave in the order in which they came",
  UPDATE_PATTERN_WEAK: "leave with the rows that they are made of",
  UPDATE_PATTERN_STRICT: "may change at any time",
};

export function patternWords(pattern: UpdatePatternJson | undefined): string {
  return WORDS[pattern ?? "UPDATE_PATTERN_UNSPECIFIED"];
}

/** The bound of the state of a step, by its name in terms.tsx. Empty for a step without state. */
export function boundFacts(state: StateBoundJson | undefined): [name: string, value: string][] {
  return state === undefined || Number(state.rows) === 0 ? [] : [["state_bound", state.text ?? ""]];
}
