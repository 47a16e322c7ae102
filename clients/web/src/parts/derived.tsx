/** How a stream is derived: its SELECT, its pump, its lag, and what its sources keep for it. */
import type { ComponentChildren } from "preact";
import type { DerivationJson, SourcePinJson } from "psoup-client/contract/psoup_proto/v1/streams_pb";
import type { DelayJson, GapJson } from "psoup-client/contract/psoup_proto/v1/types_pb";
import { bytes, counted, instant, microsOf, number, span } from "../format";
import { Facts } from "./basics";

export function Derivation({ derived }: { derived: DerivationJson }) {
  const runs = derived.state === "running" && derived.late !== true;
  const words = derived.state === "running" && derived.late === true ? "late" : (derived.state ?? "");
  return (
    <section class="derived">
      <p>
        <span class={runs ? "badge good" : "badge warn"}>{runs ? "Derived" : `Derived, ${words}`}</span>
        {derived.since !== undefined && <span class="quiet small"> since {instant(microsOf(derived.since))}</span>}
      </p>
      <details class="statement">
        <summary class="sql" dir="auto">
          {derived.operator} of {oneLine(derived.select)}
        </summary>
        <code dir="auto">{derived.select}</code>
      </details>
      {(derived.failure ?? "") !== "" && <p class="note">{derived.failure}</p>}
      <Facts facts={facts(derived)} />
    </section>
  );
}

/** By the names of terms.tsx. */
function facts(derived: DerivationJson): [string, ComponentChildren][] {
  const every: [string, string][] = derived.every === undefined ? [] : [["every", span(seconds(derived.every))]];
  const reached = derived.reached === undefined ? "nothing yet" : instant(microsOf(derived.reached));
  return [
    ["sources", (derived.sources ?? []).join(", ")],
    ...every,
    ["derived_up_to", reached],
    ["lag", `${span(seconds(derived.lag ?? "0s"))}${lagCause(derived)}`],
    ["lag_limit", span(derived.lagLimit === undefined ? 86_400 : seconds(derived.lagLimit))],
    ["rows_in", number(Number(derived.tuples ?? 0))],
    ["rows_out", number(Number(derived.rows ?? 0))],
    ["derived_state", stateWords(derived)],
    ...lines("state_bound", derived.stateBound ? [derived.stateBound] : []),
    ...lines("gap", (derived.gaps ?? []).map(gapWords)),
    ...lines("pin", (derived.pins ?? []).map(pinWords)),
  ];
}

/** Why a stream is behind: a source holds it back, or it has closed rows to read. Empty if it is not, or does not run. */
export function lagCause(derived: DerivationJson): string {
  if ((derived.heldBy ?? "") !== "") return `, held back by ${derived.heldBy}`;
  const behind = seconds(derived.lag ?? "0s") > seconds(derived.every ?? "0s");
  return derived.state === "running" && behind ? ", catching up" : "";
}

/** A fact with a line for each text; none without a text. */
function lines(name: string, texts: string[]): [string, ComponentChildren][] {
  return texts.length === 0 ? [] : [[name, texts.map((text) => <div key={text}>{text}</div>)]];
}

function stateWords(derived: DerivationJson): string {
  const limit = Number(derived.stateLimit ?? 0);
  const most = limit === 0 ? "" : `, at most ${bytes(limit)}`;
  return `${counted(Number(derived.stateRows ?? 0), "row")}, ${bytes(Number(derived.stateBytes ?? 0))}${most}`;
}

function pinWords(pin: SourcePinJson): string {
  const from = pin.time === undefined ? "all its rows" : `its rows from ${instant(microsOf(pin.time))} on`;
  return `${pin.source}: ${pin.released === true ? "nothing" : from}; ${number(Number(pin.unread ?? 0))} not read`;
}

/** The instants that a derived stream has left out. */
function gapWords(gap: GapJson): string {
  const begin = gap.begin === undefined ? "the beginning" : instant(microsOf(gap.begin));
  return gap.end === undefined ? `from ${begin} on` : `from ${begin} to ${instant(microsOf(gap.end))}`;
}

/** Why an answer lacks rows of a derived stream, and which ones. Empty for any other answer. */
export function lackWords(completeness: { halt?: string; delay?: DelayJson; gaps?: GapJson[] }): string {
  const gaps = (completeness.gaps ?? []).map(gapWords).join(" and ");
  return `${delayWords(completeness)}${gaps === "" ? "" : `. It lacks rows ${gaps}`}`;
}

/** Why an answer gets no rows of a derived stream. Empty if it gets them. */
function delayWords({ halt = "", delay = {} }: { halt?: string; delay?: DelayJson }): string {
  if (halt === "") return "";
  const state = halt === "waiting" ? "waits for room in memory" : `is ${halt}`;
  const since = delay.since === undefined ? "" : ` since ${instant(microsOf(delay.since))}`;
  const why = (delay.why ?? "") === "" ? "" : `: ${delay.why}`;
  return `. The derived stream ${delay.stream ?? ""} ${state}${since}${why}`;
}

function seconds(duration: string): number {
  return Number(duration.replace("s", ""));
}

function oneLine(text = ""): string {
  return text.split(/\s+/).join(" ").trim();
}
