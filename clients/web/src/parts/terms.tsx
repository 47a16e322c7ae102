/** Words of the service that a reader may not know: a plain name for each, and an explanation that opens on touch. */

/** By the service's own name: the name that the page shows, and the explanation. */
const TERMS: Record<string, [name: string, explanation: string]> = {
  // Of a stream.
  rate: ["New rows per second", ""],
  watermark: [
    "Complete up to",
    "The watermark: rows with an earlier time come no more, or are refused as late. NOW in an answer is this time.",
  ],
  waiting: [
    "Rows that wait",
    "Rows that have come, and wait for the watermark: older rows may still come before them.",
  ],
  refused: [
    "Refused rows",
    "Late rows have a time before the watermark. Rows ahead have a time too far in the future.",
  ],
  retention: ["Rows are kept", ""],
  versions: ["Versions", "Rows of the table as they are, as they were before their changes, and deletions."],
  history: ["Earlier versions are kept", ""],
  // Of a derived stream.
  sources: ["Derived from", ""],
  every: ["Every", ""],
  derived_up_to: ["Derived up to", "The service has derived all rows up to this time. It is NOW in an answer."],
  lag: ["Lag", "The time from there to the newest row of the sources."],
  lag_limit: [
    "Late after",
    "LAG AT MOST. The sources keep the rows of a stream that does not run, or waits, for so long.",
  ],
  rows_in: ["Rows read", "Rows of the sources that were read since the start of the service."],
  rows_out: ["Rows derived", "Rows that the stream has got since the start of the service."],
  derived_state: ["State", "Rows that operators such as DISTINCT keep to derive the next rows."],
  gap: ["Lacks rows", "These instants were left out, as the stream was resumed from a later one."],
  pin: ["A source keeps", "Rows that the stream still needs stay, whatever the retention of the source."],
  derived: ["Derived by", ""],
  derived_status: ["Derivation", ""],
  // Of a query.
  cpu: ["Processor time", "The query's share of the processor time that the service spends on queries."],
  candidates: ["Rows tested", "Rows that the service compared with the conditions of the query."],
  matched: ["Rows matched", "Rows that satisfied the conditions of the query."],
  // Of the service.
  events: ["Changes", "Pushes, registrations and other changes since the data began. Each has its number."],
  // Figures of a plan, in the order in which they are shown.
  tuples_in_window: ["Rows in the window", ""],
  matches_in_window: ["Matching rows in the window", ""],
  to_evaluate: ["Rows still to test", "Rows of the window whose matches are not stored. The next answer tests them."],
  selectivity: ["Share that matches", "The share of the sampled rows that satisfies all conditions."],
  sample: ["Rows sampled", "The newest rows. The shares of the conditions are measured on them."],
  shared_by: ["Queries with this condition", "They share one set of stored matches."],
  chunks: ["Blocks", "Rows are stored in blocks, in the order in which they came."],
  chunks_covered: [
    "Blocks with matches ready",
    "The matches of these blocks are stored, so an answer only reads them.",
  ],
  chunks_in_memory: ["Blocks in memory", ""],
  chunks_on_disk: ["Blocks on disk only", ""],
  tuples_on_disk_in_window: ["Rows of the window on disk only", ""],
  errors: ["Rows with an error", "Rows whose conditions could not be computed, after a division by zero for instance."],
  rows: ["Rows", ""],
  partners: ["Rows with a partner", ""],
  missing: ["Rows without a partner", "The columns of the other source are NULL in these rows."],
  groups: ["Groups", ""],
  keys: ["Columns of GROUP BY", ""],
  measures: ["Aggregates", ""],
  states: ["Partial results of a group", "An average, for instance, is kept as a sum and a count."],
  key_bytes: ["Bytes of the groups' keys", ""],
  state_bytes: ["Bytes of a group's results", ""],
  // Facts of a plan.
  state_bound: ["Bound of the state", "What it takes at most to keep the rows of this step up to date."],
  stream: ["Stream", ""],
  alias: ["Name in the statement", ""],
  clause: ["Rows", ""],
  window: ["Window", ""],
  begin: ["Window from", ""],
  end: ["Window to", ""],
  idle: ["Stream is idle", ""],
  role: ["Use of its rows", ""],
  may_take_away: ["May take rows away", ""],
  ways: ["Method", ""],
  // Of the amount in a plan.
  invoked_in_a_second: ["Invocations per second", ""],
  core_us_none: ["Estimate under none", "Microseconds of a processor core in a second, if the amount were none."],
  core_us_partial: [
    "Estimate under partial",
    "Microseconds of a processor core in a second, if the amount were partial.",
  ],
  core_us_complete: [
    "Estimate under complete",
    "Microseconds of a processor core in a second, if the amount were complete.",
  ],
  core_us_partial_with_pairs: [
    "Estimate under partial with pairs",
    "Microseconds of a processor core in a second, if the amount were partial and the pairs of the join were stored.",
  ],
  chosen_since: ["Amount chosen at", ""],
  kept_rows: ["Rows of the kept answer", ""],
  kept_answer_bytes: ["Bytes of the kept answer", ""],
  invocations_since: ["Invocations since", "After ten of them the service may keep the answer again."],
  amount_reason: ["Reason", ""],
  kept_form: ["Kept answer", ""],
  given_up: ["Given up at", ""],
  kept_why: ["Reason", ""],
  eager_updates: ["Updates of the kept answer", "Updates after new rows, before anybody asks."],
  eager_updated: ["Updated at", ""],
  eager_why_not: ["Not updated now", ""],
  // What takes memory.
  tuples: ["Rows", ""],
  "tuples that wait": ["Rows that wait", "Rows that have come, and wait until no older row can come before them."],
  "kept answers": ["Kept answers", "Answers that the service brings up to date."],
  "search codes": ["Codes for searches in texts", ""],
  "key indexes": ["Indexes for joins", ""],
  "kept pairs": ["Stored pairs of joins", ""],
  folds: ["Partial sums", "Stored sums and counts of blocks, of which aggregates are made."],
  "fold packs": ["Partial sums of many queries", "Stored sums and counts of blocks, of which aggregates are made."],
  "open results": ["Matches of the newest rows", "The matches of the block that is still being filled."],
  "sealed results": ["Matches of older rows", "The matches of full blocks. They are compressed, and change no more."],
  "predicate index": [
    "Index of the conditions",
    "With it a new row is compared only with queries that it may satisfy.",
  ],
  "query catalog": ["List of the queries", ""],
  "archive entries": ["List of the blocks on disk", ""],
};

const NAMES = Object.keys(TERMS);

/** The plain name of a word of the service. */
export function termName(name: string): string {
  return TERMS[name]?.[0] ?? name.replaceAll("_", " ");
}

/** The place of a word among those that are explained; the words that are not come after them. */
export function termRank(name: string): number {
  const at = NAMES.indexOf(name);
  return at < 0 ? NAMES.length : at;
}

/** The plain name; with an explanation that opens on touch, if there is one. */
export function Term({ name }: { name: string }) {
  const explanation = TERMS[name]?.[1] ?? "";
  if (explanation === "") return <>{termName(name)}</>;
  return <Explained title={termName(name)} explanation={explanation} />;
}

export function Explained({ title, explanation }: { title: string; explanation: string }) {
  return (
    <details class="term">
      <summary>{title}</summary>
      <span>{explanation}</span>
    </details>
  );
}
