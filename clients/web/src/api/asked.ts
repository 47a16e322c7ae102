/** Answers that are asked for once, and what is known of the time that a stream keeps. */
import type { InvokeRowsResponseJson } from "../contract/psoup_proto/v1/queries_pb";
import type { CompletenessJson } from "../contract/psoup_proto/v1/types_pb";
import type { GetStreamResponseJson } from "../contract/psoup_proto/v1/streams_pb";
import { microsOf, rfc3339 } from "../format";
import { addRows, fieldOf } from "../parts/row_values";
import type { Rows } from "../parts/table";
import { textOf, type Window } from "../sync/window";
import { ask } from "./call";

export type Asked = { rows: Rows; completeness: CompletenessJson; more: boolean };

const MOST = 10_000;

/** The answer of a query over a window, of at most 10,000 rows; `more` if there are others. Throws CallError. */
export async function invoke(queryId: string, window: Window, signal: AbortSignal): Promise<Asked> {
  const request = {
    queryId,
    window: textOf(window),
    acceptTruncation: true,
    pageSize: MOST,
    ...(window.now === null ? {} : { asOf: rfc3339(window.now) }),
  };
  let page = await ask<InvokeRowsResponseJson>("QueryService/InvokeRows", request, signal);
  const fields = (page.columns ?? []).map(fieldOf);
  const columns = fields.map(() => []);
  let rows = 0;
  for (;;) {
    addRows(columns, page.rows ?? []);
    rows += page.rows?.length ?? 0;
    if (!page.nextPageToken || rows >= MOST) break;
    page = await ask<InvokeRowsResponseJson>(
      "QueryService/InvokeRows",
      { ...request, pageToken: page.nextPageToken },
      signal,
    );
  }
  const order = Array.from({ length: rows }, (_, row) => row);
  return { rows: { fields, columns, order }, completeness: page.completeness ?? {}, more: Boolean(page.nextPageToken) };
}

/** How complete an answer is, without its rows. */
export async function completeness(queryId: string, signal: AbortSignal): Promise<CompletenessJson> {
  const request = { queryId, acceptTruncation: true, pageSize: 1 };
  return (await ask<InvokeRowsResponseJson>("QueryService/InvokeRows", request, signal)).completeness ?? {};
}

/** What a stream keeps, in microseconds: its oldest tuple, the edge before which tuples are on disk only, and NOW. */
export type Reach = { oldest: number; archivedTo: number; now: number };

export async function reachOf(stream: string, signal: AbortSignal): Promise<Reach | null> {
  const known = (await ask<GetStreamResponseJson>("StreamService/GetStream", { name: stream }, signal)).stream;
  if (known?.now === undefined || known.firstTime === undefined) return null;
  const now = microsOf(known.now);
  const oldest = microsOf(known.firstTime);
  if (oldest >= now) return null;
  const onDisk = known.firstTimeInMemory === undefined ? now : microsOf(known.firstTimeInMemory);
  return { oldest, archivedTo: Number(known.archivedTuples ?? 0) === 0 ? oldest : Math.min(onDisk, now), now };
}
