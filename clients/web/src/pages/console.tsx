/** The console: what queries cost, how streams do, and what the service is. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type {
  GetQueryResponseJson,
  ListQueriesResponseJson,
  QueryCostJson,
  QueryJson,
  TopQueriesResponseJson,
} from "../contract/psoup_proto/v1/queries_pb";
import type { GetServerInfoResponseJson, MemoryItemJson } from "../contract/psoup_proto/v1/server_pb";
import type { ListStreamsResponseJson, StreamJson } from "../contract/psoup_proto/v1/streams_pb";
import { ask, words } from "../api/call";
import { ago, bytes, instant, microsOf, number, span } from "../format";
import { Choice, Facts, Head, Problem } from "../parts/basics";
import { go, kept, place, route, tick, to } from "../state";

export function Console() {
  const tab = route.value.query.get("tab") ?? "queries";
  return (
    <>
      <Head title="Console" />
      <div class="tools">
        <Choice
          label="Show"
          value={tab}
          options={[
            ["queries", "Queries"],
            ["streams", "Streams"],
            ["service", "Service"],
          ]}
          onChange={(next) => place({ tab: next === "queries" ? "" : next })}
        />
      </div>
      {tab === "streams" ? <Streams /> : tab === "service" ? <Service /> : <Queries />}
    </>
  );
}

// Queries ------------------------------------------------------------------------------------------------------

const ORDERS: [string, string][] = [
  ["CPU", "share of the work"],
  ["CANDIDATES", "tuples looked at"],
  ["MATCHED", "tuples that matched"],
  ["BYTES", "memory"],
  ["ALL", "registration"],
];

const PAGE = 50;

function Queries() {
  const order = route.value.query.get("by") ?? "CPU";
  const stream = route.value.query.get("stream") ?? "";
  const label = route.value.query.get("label") ?? "";
  const [id, setId] = useState("");
  const [typed, setTyped] = useState(label);
  const [streams] = useTold<ListStreamsResponseJson>("StreamService/ListStreams", {}, 0);
  const labels = labelsOf(label);
  const find = async (event: Event): Promise<void> => {
    event.preventDefault();
    const wanted = id.trim();
    if (wanted === "") return;
    const known = await ask<GetQueryResponseJson>(
      "QueryService/GetQuery",
      wanted.startsWith("q-") ? { queryId: wanted } : { key: wanted },
    ).catch(() => null);
    go(to("answer", known?.query?.queryId ?? wanted));
  };
  const narrow = (event: Event): void => {
    event.preventDefault();
    place({ label: typed.trim() });
  };
  return (
    <>
      <div class="tools">
        <label class="pick">
          By{" "}
          <select value={order} onChange={(event) => place({ by: event.currentTarget.value })}>
            {ORDERS.map(([name, text]) => (
              <option key={name} value={name}>
                {text}
              </option>
            ))}
          </select>
        </label>
        <label class="pick">
          Stream{" "}
          <select value={stream} onChange={(event) => place({ stream: event.currentTarget.value })}>
            <option value="">all</option>
            {(streams?.streams ?? []).map(({ name }) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <form class="find" onSubmit={narrow}>
          <input
            aria-label="Labels, as name=value"
            placeholder="label=value, …"
            value={typed}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
          <button type="submit">Filter</button>
        </form>
        <form class="find" onSubmit={find}>
          <input
            aria-label="ID or key of a query"
            placeholder="ID or key"
            value={id}
            onInput={(event) => setId(event.currentTarget.value)}
          />
          <button type="submit">Open</button>
        </form>
      </div>
      {labels === null ? (
        <Problem>Labels are written name=value, with commas between them.</Problem>
      ) : (
        <Listed key={`${order} ${stream} ${label}`} order={order} stream={stream} labels={labels} />
      )}
    </>
  );
}

/** The labels in a text: "user=u1, kind=alert"; null if it is none. */
function labelsOf(text: string): Record<string, string> | null {
  const parts = text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
  if (parts.some((part) => part.indexOf("=") < 1)) return null;
  return Object.fromEntries(parts.map((part) => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)]));
}

/** A page at a time: the service makes each for itself, and the one before is let go. Costs are asked for again. */
function Listed({ order, stream, labels }: { order: string; stream: string; labels: Record<string, string> }) {
  const [tokens, setTokens] = useState<string[]>([""]);
  const pageToken = tokens[tokens.length - 1]!;
  const byCost = order !== "ALL";
  const request = byCost
    ? { order: `COST_ORDER_${order}`, stream, labels, limit: PAGE, pageToken }
    : { stream, labels, pageSize: PAGE, pageToken };
  const [told, problem] = useTold<TopQueriesResponseJson & ListQueriesResponseJson>(
    byCost ? "QueryService/TopQueries" : "QueryService/ListQueries",
    request,
    byCost ? 5_000 : 0,
  );
  const rows =
    told === null
      ? []
      : byCost
        ? (told.costs ?? []).map((cost) => ({ query: cost.query!, cost }))
        : (told.queries ?? []).map((query) => ({ query }));
  const next = told?.nextPageToken;
  return (
    <>
      {problem !== "" && <Problem>{problem}</Problem>}
      {(problem === "" || told !== null) && <QueryTable rows={rows} loading={told === null} />}
      {(tokens.length > 1 || next) && (
        <nav class="tools" aria-label="Pages of queries">
          <button type="button" disabled={tokens.length === 1} onClick={() => setTokens(tokens.slice(0, -1))}>
            Before
          </button>
          <span aria-live="polite">
            {told === null
              ? "Asking…"
              : `${number((tokens.length - 1) * PAGE + 1)} to ${number((tokens.length - 1) * PAGE + rows.length)}`}
          </span>
          <button type="button" disabled={!next} onClick={() => setTokens([...tokens, next!])}>
            Next
          </button>
        </nav>
      )}
    </>
  );
}

function QueryTable({ rows, loading }: { rows: { query: QueryJson; cost?: QueryCostJson }[]; loading: boolean }) {
  if (loading) return <p class="quiet">Asking…</p>;
  if (rows.length === 0) return <p class="quiet">No queries stand.</p>;
  const costs = rows.some(({ cost }) => cost !== undefined);
  const mine = new Set(kept.value?.map((entry) => entry.queryId));
  return (
    <List
      head={["Query", ...(costs ? ["Work", "Looked at", "Matched", "Memory"] : ["Stream", "Registered"])]}
      label="Queries"
    >
      {rows.map(({ query, cost }) => (
        <tr key={query.queryId}>
          <th scope="row">
            <a href={to("answer", query.queryId)}>
              <bdi>{query.key || query.queryId}</bdi>
            </a>
            {mine.has(query.queryId!) && <span class="quiet"> · kept here</span>}
            <div class="sql one" dir="auto">
              {query.statement}
            </div>
          </th>
          {cost === undefined ? (
            <>
              <td>{(query.streams ?? []).join(", ")}</td>
              <td>
                {query.registerTime === undefined ? "" : instant(Math.floor(microsOf(query.registerTime) / 1e6) * 1e6)}
              </td>
            </>
          ) : (
            <>
              <td class="num">{`${((cost.cpuShare as number | undefined) === undefined ? 0 : Number(cost.cpuShare) * 100).toFixed(1)} %`}</td>
              <td class="num">{number(Number(cost.candidates ?? 0))}</td>
              <td class="num">{number(Number(cost.matched ?? 0))}</td>
              <td class="num">{bytes(Number(cost.bytes ?? 0))}</td>
            </>
          )}
        </tr>
      ))}
    </List>
  );
}

function List({ head, label, children }: { head: string[]; label: string; children: ComponentChildren }) {
  return (
    <div class="wide" tabIndex={0} role="region" aria-label={label}>
      <table class="list">
        <thead>
          <tr>
            {head.map((name, at) => (
              <th key={name} scope="col" class={at === 0 ? "" : "num"}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

// Streams ------------------------------------------------------------------------------------------------------

function Streams() {
  const [told, problem, before] = useTold<ListStreamsResponseJson>("StreamService/ListStreams", {}, 2_000);
  if (problem !== "") return <Problem>{problem}</Problem>;
  if (told === null) return <p class="quiet">Asking…</p>;
  if ((told.streams ?? []).length === 0) return <p class="quiet">There are no streams yet.</p>;
  return (
    <ul class="cards">
      {(told.streams ?? []).map((stream) => (
        <li key={stream.streamId} class="card">
          <h2>
            <bdi>{stream.name}</bdi>
          </h2>
          <Facts facts={streamFacts(stream, rate(stream, before))} />
        </li>
      ))}
    </ul>
  );
}

function rate(stream: StreamJson, before: { told: ListStreamsResponseJson; seconds: number } | null): string {
  const earlier = before?.told.streams?.find(({ streamId }) => streamId === stream.streamId);
  if (earlier === undefined) return "…";
  return `${number(Math.max(0, (Number(stream.nextTupleId ?? 0) - Number(earlier.nextTupleId ?? 0)) / before!.seconds))} tuples/s`;
}

function streamFacts(stream: StreamJson, rate: string): [string, string][] {
  const lag = stream.watermark === undefined ? null : (tick.value * 1000 - microsOf(stream.watermark)) / 1e6;
  const archived = Number(stream.archivedTuples ?? 0);
  return [
    ["Tuples", number(Number(stream.tuples ?? 0))],
    ["Rate", rate],
    [
      "Watermark",
      stream.watermark === undefined
        ? "nothing seen"
        : `${instant(microsOf(stream.watermark))}${lag === null ? "" : `, ${lag < 0 ? "ahead of the clock" : `${span(lag)} behind the clock`}`}`,
    ],
    ["Waiting", number(Number(stream.pending ?? 0))],
    ["Refused", `${number(Number(stream.late ?? 0))} late, ${number(Number(stream.ahead ?? 0))} ahead`],
    ["Memory", `${bytes(Number(stream.bytes ?? 0))} in ${number(Number(stream.chunks ?? 0))} chunks`],
    ["Archive", archived === 0 ? "none" : `${number(archived)} tuples, ${bytes(Number(stream.archivedBytes ?? 0))}`],
    [
      "Retention",
      stream.retention !== undefined
        ? span(Number(stream.retention.replace("s", "")))
        : stream.retentionRows !== undefined
          ? `${number(Number(stream.retentionRows))} rows`
          : "everything",
    ],
    ["Queries", number(Number(stream.queries ?? 0))],
  ];
}

// The service --------------------------------------------------------------------------------------------------

function Service() {
  const [told, problem] = useTold<GetServerInfoResponseJson>("ServerService/GetServerInfo", { withBill: true }, 5_000);
  if (problem !== "") return <Problem>{problem}</Problem>;
  if (told === null) return <p class="quiet">Asking…</p>;
  const bill = told.bill ?? [];
  const own = Object.values(told.memory ?? {});
  const total = (bill.length > 0 ? bill.map((item) => item.bytes) : own).reduce<number>(
    (sum, taken) => sum + Number(taken ?? 0),
    0,
  );
  const calls = Number(told.calls ?? 0); // this one is among them; none is told to a tenant beside others
  const under: [string, string][] = [
    ["Watching", number(Number(told.watchers ?? 0))],
    ["Calls under way", number(calls)],
  ];
  return (
    <>
      <div class="card">
        <Facts
          facts={[
            ["State", told.state ?? ""],
            ["Version", told.version ?? ""],
            ["Store", `${told.store}, ${told.durable ? "survives a restart" : "gone at its end"}`],
            ["Started", told.startTime === undefined ? "" : ago(microsOf(told.startTime) / 1000, tick.value)],
            ["Events", number(Number(told.sequence ?? 0))],
            ["Memory", `${bytes(total)} of ${bytes(Number(told.memoryBudget ?? 0))}`],
            ...(calls > 0 ? under : []),
          ]}
        />
      </div>
      {bill.length > 0 && <Bill items={bill} />}
    </>
  );
}

/** The bill of the service: what each structure takes. Only its operator is told. */
function Bill({ items }: { items: MemoryItemJson[] }) {
  return (
    <>
      <h2>What takes memory</h2>
      <List head={["Structure", "Bytes", "Could be given back", "For", "Each"]} label="What takes memory">
        {items.map((item) => (
          <tr key={item.structure}>
            <th scope="row">{item.structure}</th>
            <td class="num">{bytes(Number(item.bytes ?? 0))}</td>
            <td class="num">{bytes(Number(item.reclaimableBytes ?? 0))}</td>
            <td class="num">{`${number(Number(item.count ?? 0))} × ${item.per ?? ""}`}</td>
            <td class="num">
              {Number(item.count ?? 0) === 0
                ? ""
                : `${number(Math.round((Number(item.bytes ?? 0) / Number(item.count)) * 10) / 10)} B`}
            </td>
          </tr>
        ))}
      </List>
    </>
  );
}

/** What a call says, again after so many milliseconds; 0: once. With it what it said before, and how long ago that was. */
function useTold<T>(
  method: string,
  request: object,
  every: number,
): [T | null, string, { told: T; seconds: number } | null] {
  const key = JSON.stringify([method, request]);
  const [state, set] = useState<{
    told: T | null;
    at: number;
    of: string;
    problem: string;
    before: { told: T; seconds: number } | null;
  }>({ told: null, at: 0, of: key, problem: "", before: null });
  useEffect(() => {
    const end = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async (): Promise<void> => {
      try {
        const told = document.hidden ? null : await ask<T>(method, request, end.signal);
        const at = performance.now();
        if (told !== null)
          set((now) => ({
            told,
            at,
            of: key,
            problem: "",
            before: now.told === null || now.of !== key ? null : { told: now.told, seconds: (at - now.at) / 1000 },
          }));
      } catch (wrong) {
        if (end.signal.aborted) return;
        set((now) => ({ ...now, of: key, told: now.of === key ? now.told : null, problem: words(wrong) }));
      }
      if (every > 0 && !end.signal.aborted) timer = setTimeout(() => void look(), every);
    };
    void look();
    return () => {
      end.abort();
      clearTimeout(timer);
    };
  }, [key]);
  return state.of === key ? [state.told, state.problem, state.before] : [null, "", null];
}
