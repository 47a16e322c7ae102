/** The console's cards of streams and tables: how many rows, how fast they come, and how far the watermark is. */
import type { ListStreamsResponseJson, StreamJson } from "psoup-client/contract/psoup_proto/v1/streams_pb";
import { bytes, counted, instant, microsOf, number, span } from "../format";
import { Facts, Problem } from "../parts/basics";
import { Derivation } from "../parts/derived";
import { tick } from "../state";
import { FirstStream } from "./first_stream";
import { useTold } from "./told";

export function Streams() {
  const [told, problem, before] = useTold<ListStreamsResponseJson>("StreamService/ListStreams", {}, 2_000);
  if (problem !== "") return <Problem>{problem}</Problem>;
  if (told === null) return <p class="quiet">Asking…</p>;
  if ((told.streams ?? []).length === 0) return <FirstStream />;
  return (
    <ul class="cards">
      {(told.streams ?? []).map((stream) => (
        <li key={stream.streamId} class="card">
          <h2>
            <bdi>{stream.name}</bdi>
            {isTable(stream) && <span class="quiet small"> table</span>}
          </h2>
          {isTable(stream) && <p class="quiet small">{columnsOf(stream)}</p>}
          <Facts facts={streamFacts(stream, rate(stream, before))} />
          {stream.derived !== undefined && <Derivation derived={stream.derived} />}
        </li>
      ))}
    </ul>
  );
}

function isTable(stream: StreamJson): boolean {
  return (stream.primaryKey ?? []).length > 0;
}

/** The columns of a table in one line, those of its key first. */
function columnsOf(table: StreamJson): string {
  const key = table.primaryKey ?? [];
  const others = (table.columns ?? []).map((column) => column.name ?? "").filter((name) => !key.includes(name));
  return `Key: ${key.join(", ")}${others.length > 0 ? `. Columns: ${others.join(", ")}` : ""}`;
}

/** Rows a second since the call before. */
function rate(stream: StreamJson, before: { told: ListStreamsResponseJson; seconds: number } | null): string {
  const earlier = before?.told.streams?.find(({ streamId }) => streamId === stream.streamId);
  if (earlier === undefined) return "measuring…";
  return number(Math.max(0, (Number(stream.nextTupleId ?? 0) - Number(earlier.nextTupleId ?? 0)) / before!.seconds));
}

/** By the names of terms.tsx. */
function streamFacts(stream: StreamJson, rate: string): [string, string][] {
  const lag = stream.watermark === undefined ? null : (tick.value * 1000 - microsOf(stream.watermark)) / 1e6;
  const archived = Number(stream.archivedTuples ?? 0);
  const chunks = Number(stream.chunks ?? 0);
  return [
    [isTable(stream) ? "versions" : "tuples", number(Number(stream.tuples ?? 0))],
    ["rate", rate],
    [
      "watermark",
      stream.watermark === undefined ? "no row yet" : `${instant(microsOf(stream.watermark))}${behind(lag)}`,
    ],
    ["waiting", number(Number(stream.pending ?? 0))],
    ["refused", `${number(Number(stream.late ?? 0))} late, ${number(Number(stream.ahead ?? 0))} ahead`],
    ["Memory", `${bytes(Number(stream.bytes ?? 0))} in ${counted(chunks, "block")}`],
    [
      "On disk only",
      archived === 0 ? "none" : `${counted(archived, "row")}, ${bytes(Number(stream.archivedBytes ?? 0))}`,
    ],
    [
      isTable(stream) ? "history" : "retention",
      isTable(stream)
        ? `for ${span(Number((stream.history ?? "0s").replace("s", "")))}`
        : stream.retention !== undefined
          ? `for ${span(Number(stream.retention.replace("s", "")))}`
          : stream.retentionRows !== undefined
            ? `the newest ${number(Number(stream.retentionRows))} rows`
            : "for ever",
    ],
    ...expiry(stream),
    ["Queries", number(Number(stream.queries ?? 0))],
  ];
}

/** The fact of EXPIRES BY, for a table that has it. */
function expiry(stream: StreamJson): [string, string][] {
  const column = stream.expiresBy ?? "";
  return column === "" ? [] : [["Rows end", `at the time in ${column}`]];
}

function behind(lag: number | null): string {
  if (lag === null) return "";
  return lag < 0 ? ", ahead of the clock" : `, ${span(lag)} behind the clock`;
}
