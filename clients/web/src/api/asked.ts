/** Answers that are asked for once, and what is known of the time that a stream keeps. */
import type { AskStreamResponseJson } from "psoup-client/contract/psoup_proto/v1/statements_pb";
import type { InvokeRowsResponseJson } from "psoup-client/contract/psoup_proto/v1/queries_pb";
import type { CompletenessJson } from "psoup-client/contract/psoup_proto/v1/types_pb";
import type { GetStreamResponseJson } from "psoup-client/contract/psoup_proto/v1/streams_pb";
import { microsOf, rfc3339 } from "../format";
import { addRows, fieldOf } from "../parts/row_values";
import type { Rows } from "../parts/table";
import { textOf, type Window } from "../sync/window";
import { ArrowRows } from "psoup-client/sync/arrow";
import { base64Decode } from "psoup-client/sync/body";
import { events } from "psoup-client/api/events";
import { ask, transport } from "./call";

export type Asked = { rows: Rows; completeness: CompletenessJson; more: boolean };

const MOST = 10_000;
/** An answer that is not registered is read no further once so many rows are there. */
const PREVIEW = 1_000;

/** The answer of a query over a window, of at most 10,000 rows; `more` if there are others. Throws PSoupError. */
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

/** The answer of a SELECT that is not registered: its first 256 KiB of rows, or a little more. Throws PSoupError. */
export async function askOnce(statement: string, signal: AbortSignal): Promise<Asked> {
  const end = new AbortController();
  const read = new ArrowRows();
  let known: CompletenessJson = {};
  const request = { statement, acceptTruncation: true };
  const both = AbortSignal.any([signal, end.signal]);
  try {
    for await (const piece of events<AskStreamResponseJson>(transport, "StatementService/AskStream", request, both)) {
      known = piece.completeness ?? known;
      read.add(base64Decode(piece.arrowIpc ?? ""));
      if (read.rows >= PREVIEW && !read.ended) break;
    }
  } finally {
    end.abort();
  }
  const { fields, columns, rows, ended } = read;
  return {
    rows: { fields, columns, order: Array.from({ length: rows }, (_, row) => row) },
    completeness: known,
    more: !ended,
  };
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
