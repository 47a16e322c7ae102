/** How the rows of an answer come and leave, in plain words. */
import type { UpdatePatternJson } from "psoup-client/contract/psoup_proto/v1/queries_pb";

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
