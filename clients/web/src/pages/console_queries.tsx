/** The console's list of queries, a page at a time: by cost or in their order, of a stream, or with labels. */
import { useState } from "preact/hooks";
import type {
  GetQueryResponseJson,
  ListQueriesResponseJson,
  QueryCostJson,
  QueryJson,
  TopQueriesResponseJson,
} from "psoup-client/contract/psoup_proto/v1/queries_pb";
import type { ListStreamsResponseJson } from "psoup-client/contract/psoup_proto/v1/streams_pb";
import { ask } from "../api/call";
import { bytes, instant, microsOf, number } from "../format";
import { Problem } from "../parts/basics";
import { amountWords } from "../parts/amounts";
import { List } from "../parts/list";
import { Statement } from "../parts/statement";
import { go, kept, place, route, to } from "../state";
import { useTold } from "./told";

const ORDERS: [string, string][] = [
  ["CPU", "processor time"],
  ["CANDIDATES", "rows tested"],
  ["MATCHED", "rows matched"],
  ["BYTES", "memory"],
  ["ALL", "time of registration"],
];

const PAGE = 50;

export function Queries() {
  const order = route.value.query.get("by") ?? "CPU";
  const stream = route.value.query.get("stream") ?? "";
  const label = route.value.query.get("label") ?? "";
  const [id, setId] = useState("");
  const [typed, setTyped] = useState(label);
  const [streams] = useTold<ListStreamsResponseJson>("StreamService/ListStreams", {}, 0);
  const [open, setOpen] = useState(() => matchMedia("(min-width: 721px)").matches || label !== "" || stream !== "");
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
        <form class="find" onSubmit={find}>
          <input
            aria-label="ID or key of a query"
            placeholder="ID or key"
            value={id}
            onInput={(event) => setId(event.currentTarget.value)}
          />
          <button type="submit">Open</button>
        </form>
        <button type="button" aria-expanded={open} aria-controls="filters" onClick={() => setOpen(!open)}>
          Order and filter
        </button>
      </div>
      <div class="tools" id="filters" hidden={!open}>
        <label class="pick">
          Order by{" "}
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
      </div>
      {labels === null ? (
        <Problem>Write labels as name=value, with commas between them.</Problem>
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
            Previous
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
  if (rows.length === 0) return <p class="quiet">No queries are registered.</p>;
  const costs = rows.some(({ cost }) => cost !== undefined);
  const mine = new Set(kept.value?.map((entry) => entry.queryId));
  return (
    <List
      head={["Query", "Amount", ...(costs ? ["cpu", "candidates", "matched", "Memory"] : ["Stream", "Registered"])]}
      label="Queries"
      words={["Amount", "Stream", "Registered"]}
    >
      {rows.map(({ query, cost }) => (
        <tr key={query.queryId}>
          <th scope="row">
            <a href={to("answer", query.queryId)}>
              <bdi>{query.key || query.queryId}</bdi>
            </a>
            {mine.has(query.queryId!) && <span class="quiet"> · kept here</span>}
            <Statement text={query.statement ?? ""} />
          </th>
          <td>{amountWords(query)}</td>
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
