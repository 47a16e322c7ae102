/** What the page of an answer knows: the query, the copy on this device, what the service says, and the stored time. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { GetQueryResponseJson, QueryJson } from "psoup-client/contract/psoup_proto/v1/queries_pb";
import { completeness, invoke, type Asked, type Reach, reachOf } from "../api/asked";
import { ask, PSoupError, connection, words } from "../api/call";
import { microsOf } from "../format";
import { nowHere } from "../parts/certainty";
import type { Rows } from "../parts/table";
import type { Instants } from "../parts/window_bar";
import { tick } from "../state";
import { type Entry, store } from "../store/copies";
import type { Held } from "psoup-client/sync/change";
import { hidden, shownFields } from "psoup-client/sync/form";
import { shown } from "psoup-client/sync/shown";
import type { Value } from "psoup-client/sync/values";
import type { Window } from "../sync/window";

/** Rows that are shown; `time`: their times, if no column has them. */
export type Part = { rows: Rows; time: Value[] | null };

/** The query as the service describes it, or why it does not. Asked again when the service is reached again. */
export function useQuery(id: string): { query: QueryJson | null; problem: string } {
  const [state, set] = useState<{ query: QueryJson | null; problem: string }>({ query: null, problem: "" });
  useEffect(() => {
    const end = new AbortController();
    ask<GetQueryResponseJson>("QueryService/GetQuery", { queryId: id }, end.signal).then(
      ({ query }) => set({ query: query ?? null, problem: "" }),
      (problem) =>
        end.signal.aborted ||
        set({
          query: null,
          problem:
            problem instanceof PSoupError && problem.gone
              ? "The service does not know this query: it was unregistered, or the service holds other data by now."
              : words(problem),
        }),
    );
    return () => end.abort();
  }, [id, connection.value]);
  return state;
}

/** The rows of the copy, without those that have left since. */
export function useCopy(entry: Entry | undefined): Part | null {
  const [held, set] = useState<Held | null>(null);
  const wall = tick.value;
  useEffect(() => {
    let current = true;
    if (entry === undefined) set(null);
    else void store.rowsOf(entry.number).then((rows) => current && set(rows));
    return () => void (current = false);
  }, [entry?.number, entry?.token.join(), entry?.rows]);
  const now = entry === undefined ? null : nowHere(entry, wall);
  return useMemo(() => {
    if (held === null) return null;
    const first = hidden(held.form);
    const fields = shownFields(held.form);
    const timed = !held.form.whole && (held.form.idColumns <= 1 || held.form.width !== null);
    const time = timed && held.form.idColumns <= 1 ? held.columns[first - 1]! : null;
    return {
      rows: { fields, columns: held.columns.slice(first, first + fields.length), order: shown(held, now) },
      time,
    };
  }, [held, now]);
}

/** The answer over a window, from the service. */
export function useAsked(id: string, window: Window, wanted: boolean): { asked: Asked | null; problem: string } {
  const [state, set] = useState<{ asked: Asked | null; problem: string }>({ asked: null, problem: "" });
  const key = `${id} ${JSON.stringify(window)} ${wanted}`;
  useEffect(() => {
    if (!wanted) return set({ asked: null, problem: "" });
    const end = new AbortController();
    invoke(id, window, end.signal).then(
      (asked) => set({ asked, problem: "" }),
      (problem) => end.signal.aborted || set({ asked: null, problem: words(problem) }),
    );
    return () => end.abort();
  }, [key]);
  return state;
}

type Known = { reach: Reach; own: Instants; kind: string };

/** What the stream keeps, and where the query's own window lies in it. `now`: NOW of the copy, which Live moves on. */
export function useReach(
  query: QueryJson | null,
  asked: Asked | null,
  now: number | null,
): { reach: Reach; at: Instants } | null {
  const [known, set] = useState<Known | null>(null);
  useEffect(() => {
    if (query === null) return;
    const end = new AbortController();
    const work = async (): Promise<void> => {
      const [reach, told] = await Promise.all([
        reachOf(query.stream!, end.signal),
        completeness(query.queryId!, end.signal),
      ]);
      if (reach === null || told.now === undefined) return;
      const now = microsOf(told.now);
      const stop = told.end === undefined ? now : microsOf(told.end);
      set({
        reach: { ...reach, now: Math.max(reach.now, now) },
        own: { begin: told.begin === undefined ? reach.oldest : microsOf(told.begin), end: stop, now },
        kind: query.windowKind ?? "",
      });
    };
    work().catch(() => undefined);
    return () => end.abort();
  }, [query?.queryId, asked === null]);
  return known === null ? null : movedOn(known, now);
}

/** The window at a later NOW: both ends of a sliding one move, the end of one that begins at a fixed time, else none. */
function movedOn({ reach, own, kind }: Known, now: number | null): { reach: Reach; at: Instants } {
  const by = Math.max((now ?? own.now) - own.now, 0);
  const begin = own.begin + (kind === "WINDOW_KIND_SLIDING" && own.begin > reach.oldest ? by : 0);
  const end = own.end + (kind === "WINDOW_KIND_SNAPSHOT" ? 0 : by);
  return {
    reach: { ...reach, now: Math.max(reach.now, own.now + by) },
    at: { begin, end: Math.min(end, own.now + by), now: own.now + by },
  };
}

/** Where the handles are: as the address says, or as the query's own window has it. */
export function instantsOf(window: Window, own: Instants, reach: Reach): Instants {
  const now = window.now ?? own.now;
  if (window.begin === null)
    return { begin: Math.max(own.begin + now - own.now, reach.oldest), end: own.end + now - own.now, now };
  return {
    begin: window.begin === "start" ? reach.oldest : Math.max(now - window.begin * 1e6, reach.oldest),
    end: now - window.end * 1e6,
    now,
  };
}
