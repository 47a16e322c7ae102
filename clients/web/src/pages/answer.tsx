/** The answer of a query: the copy on this device, or of another window what the service says; as a table or a chart. */
import { useEffect, useState } from "preact/hooks";
import type { QueryJson } from "psoup-client/contract/psoup_proto/v1/queries_pb";
import type { Asked, Reach } from "../api/asked";
import { words } from "../api/call";
import { counted, instant, microsOf, resetWords, span } from "../format";
import { Choice, Head, Note, Problem } from "../parts/basics";
import { Age, Certainty, errorWords } from "../parts/certainty";
import { Chart, timeOf } from "../parts/chart";
import { lackWords } from "../parts/derived";
import { csv, json, save } from "../parts/export";
import { type Rows, Table } from "../parts/table";
import { WindowBar } from "../parts/window_bar";
import { kept, place, route, said, to } from "../state";
import { rechargeAndSay } from "../store/recharging";
import { type Entry, live, recharging, store, unwatch, watch } from "../store/copies";
import { isOwn, partsOf, textOf, type Window, windowOf } from "../sync/window";
import { viewOf, zoomOf } from "../sync/zoom";
import { instantsOf, type Part, useAsked, useCopy, useQuery, useReach } from "./answer_data";
import { More } from "./more";

/** Whether there is room for the window and the statement beside the rows. */
const ROOMY = "(min-width: 721px) and (min-height: 600px)";

export function Answer({ id: named }: { id: string }) {
  const entry = kept.value?.find((of) => of.queryId === named || of.former.includes(named));
  const id = entry?.queryId ?? named;
  const query = useQuery(id);
  const window = windowOf(route.value.query);
  const view = route.value.query.get("view") ?? "table";
  const own = isOwn(window);
  const copy = useCopy(entry);
  const asked = useAsked(id, window, kept.value !== null && (!own || entry === undefined));
  const reach = useReach(query.query, asked.asked, entry?.now ?? null);
  const beside = route.value.query.get("beside") ?? "";
  const [open, setOpen] = useState(() => matchMedia(ROOMY).matches || !own || beside !== "");
  const now = window.now ?? reach?.at.now ?? entry?.now ?? null;
  const name = entry?.name ?? (query.query?.key || id);
  const statement = entry?.statement ?? query.query?.statement;
  const part: Part | null = own && entry !== undefined ? copy : asked.asked && { rows: asked.asked.rows, time: null };
  useEffect(() => unwatch, [id]);
  if (kept.value === null) return <Head title={name} back="#/" />;
  return (
    <>
      <Head title={name} back="#/">
        {entry === undefined ? (
          query.query !== null && <Keep query={query.query} />
        ) : (
          <>
            {entry.error?.code !== "NOT_FOUND" && <Live entry={entry} />}
            <button
              type="button"
              class="main"
              disabled={recharging.value > 0}
              onClick={() => rechargeAndSay([entry.number])}
            >
              Update
            </button>
          </>
        )}
      </Head>
      {query.problem !== "" && entry === undefined && <Problem>{query.problem}</Problem>}
      {entry !== undefined && errorWords(entry) !== "" && <Note>{errorWords(entry)}</Note>}
      {entry?.last != null && resetWords(entry.last.reset) !== "" && <Note>{resetWords(entry.last.reset)}</Note>}
      <p class="meta">
        {own && entry !== undefined ? (
          <>
            <Certainty entry={entry} /> <Age entry={entry} />
          </>
        ) : (
          <AskedWords asked={asked.asked} window={window} />
        )}
      </p>
      <div class="tools">
        <Choice
          label="Show as"
          value={view}
          options={[
            ["table", "Table"],
            ["chart", "Chart"],
          ]}
          onChange={(next) => place({ view: next === "table" ? "" : next })}
        />
        <a class="button" href={to("plan", id)}>
          Plan
        </a>
        <More entry={entry} queryId={id}>
          {part !== null && <Exports name={name} rows={part.rows} />}
        </More>
        <button type="button" aria-expanded={open} aria-controls="window" onClick={() => setOpen(!open)}>
          Details
        </button>
      </div>
      <div id="window" class="panel" hidden={!open}>
        {statement !== undefined && (
          <p class="sql open" dir="auto">
            {statement}
          </p>
        )}
        {open && reach !== null && (
          <>
            <WindowBar
              reach={reach.reach}
              at={instantsOf(window, reach.at, reach.reach)}
              view={viewOf(route.value.query, reach.reach)}
              onMove={(next, view) => place({ ...partsOf(next), zoom: zoomOf(view, reach.reach) })}
              onZoom={(view) => place({ zoom: zoomOf(view, reach.reach) })}
            />
            <Steps now={now} window={window} beside={beside} reach={reach.reach} />
          </>
        )}
      </div>
      {asked.problem !== "" && part === null && <Problem>{asked.problem}</Problem>}
      <div class={beside === "" ? "" : "beside"}>
        {part !== null && (
          <Shown
            part={part}
            view={view}
            label={beside === "" ? `Answer of ${name}` : `Now: ${name}`}
            title={beside === "" ? "" : now === null ? "Now" : `NOW ${instant(Math.round(now))}`}
          />
        )}
        {beside !== "" && now !== null && (
          <Earlier id={id} window={window} now={now} days={Number(beside)} view={view} />
        )}
      </div>
    </>
  );
}

function Shown({ part, view, label, title }: { part: Part; view: string; label: string; title: string }) {
  const rows = part.rows;
  return (
    <section class="answer">
      {title !== "" && <h2>{title}</h2>}
      {rows.order.length === 0 ? (
        <p class="quiet">No rows: no row in the window satisfies the query.</p>
      ) : view === "chart" ? (
        <Chart rows={rows} time={timeOf(rows, part.time)} label={label} />
      ) : (
        <Table rows={rows} label={`${label}, ${counted(rows.order.length, "row")}`} />
      )}
      <p class="quiet small">
        {counted(rows.order.length, "row")}, {counted(rows.fields.length, "column")}
      </p>
    </section>
  );
}

function Earlier({
  id,
  window,
  now,
  days,
  view,
}: {
  id: string;
  window: Window;
  now: number;
  days: number;
  view: string;
}) {
  const then = now - days * 86_400e6;
  const { asked, problem } = useAsked(id, { ...window, now: then }, true);
  if (problem !== "") return <Problem>{problem}</Problem>;
  return asked === null ? null : (
    <Shown
      part={{ rows: asked.rows, time: null }}
      view={view}
      label={`${span(days * 86_400)} before`}
      title={`NOW ${instant(Math.round(then))}, ${span(days * 86_400)} before`}
    />
  );
}

function Steps({ now, window, beside, reach }: { now: number | null; window: Window; beside: string; reach: Reach }) {
  const step = (days: number): void => {
    const next = Math.max((now ?? reach.now) + days * 86_400e6, reach.oldest);
    place(partsOf({ ...window, now: next >= reach.now ? null : Math.floor(next / 1e6) * 1e6 }));
  };
  return (
    <div class="tools steps">
      <button type="button" aria-label="A day back" onClick={() => step(-1)}>
        ‹ Day
      </button>
      <button type="button" aria-label="A day on" onClick={() => step(1)} disabled={window.now === null}>
        Day ›
      </button>
      <button type="button" onClick={() => place({ now: "", begin: "", end: "" })} disabled={isOwn(window)}>
        Window of the query
      </button>
      <label class="pick">
        Compare with{" "}
        <select value={beside} onChange={(event) => place({ beside: event.currentTarget.value })}>
          <option value="">nothing</option>
          <option value="1">a day before</option>
          <option value="7">a week before</option>
          <option value="28">four weeks before</option>
        </select>
      </label>
    </div>
  );
}

function Keep({ query }: { query: QueryJson }) {
  const run = async (): Promise<void> => {
    try {
      const number = await store.keep(query.key || query.queryId!, {
        queryId: query.queryId!,
        key: query.key ?? "",
        statement: query.statement ?? "",
      });
      void navigator.storage?.persist?.();
      await rechargeAndSay([number]);
    } catch (problem) {
      said.value = words(problem);
    }
  };
  return (
    <button type="button" class="main" onClick={run}>
      Keep on this device
    </button>
  );
}

function Live({ entry }: { entry: Entry }) {
  const mine = live.value?.number === entry.number ? live.value : null;
  return (
    <button
      type="button"
      aria-pressed={mine !== null}
      class={mine?.state === "live" ? "live" : ""}
      title={mine?.why ?? ""}
      onClick={() => (mine === null ? void watch(entry.number) : unwatch())}
    >
      {mine === null
        ? "Live"
        : mine.state === "live"
          ? "● Live"
          : mine.state === "connecting"
            ? "Connecting…"
            : "Waiting…"}
    </button>
  );
}

function Exports({ name, rows }: { name: string; rows: Rows }) {
  return (
    <>
      <button type="button" onClick={() => save(`${name}.csv`, "text/csv", csv(rows))}>
        Save as CSV
      </button>
      <button type="button" onClick={() => save(`${name}.json`, "application/json", json(rows))}>
        Save as JSON
      </button>
    </>
  );
}

function AskedWords({ asked, window }: { asked: Asked | null; window: Window }) {
  if (asked === null) return <span class="quiet">Asking…</span>;
  const { now, final, truncated, errors } = asked.completeness;
  return (
    <>
      <span class={final ? "badge good" : "badge"}>
        {final ? "Final, NOW" : "As of"} {now === undefined ? "the beginning" : instant(microsOf(now))}
      </span>{" "}
      {isOwn(window) ? "not kept on this device" : textOf(window)}
      {truncated ? ". The window begins before the oldest stored row" : ""}
      {asked.more ? ". These are the first 10,000 rows" : ""}
      {Number(errors ?? 0) > 0 ? `. ${counted(Number(errors), "row")} could not be computed` : ""}
      {lackWords(asked.completeness)}
    </>
  );
}
