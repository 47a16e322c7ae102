/** Answers that are asked for once, and what is known of the time that a stream keeps. */
import type { ExecuteResponseJson } from "../contract/psoup_proto/v1/statements_pb";
import type { InvokeRowsResponseJson } from "../contract/psoup_proto/v1/queries_pb";
import type { CompletenessJson } from "../contract/psoup_proto/v1/types_pb";
import type { GetStreamResponseJson } from "../contract/psoup_proto/v1/streams_pb";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { Message } from "apache-arrow/fb/message";
import { RecordBatch } from "apache-arrow/fb/record-batch";
import { ByteBuffer } from "flatbuffers";
import { microsOf, rfc3339 } from "../format";
import { addRows, fieldOf } from "../parts/row_values";
import type { Rows } from "../parts/table";
import { textOf, type Window } from "../sync/window";
import { ask } from "./call";

export type Asked = { rows: Rows; completeness: CompletenessJson; more: boolean };

const MOST = 10_000;

/** The answer of a query over a window, of at most 10,000 rows; `more` if there are others. Throws CallError. */
export async function invoke(queryId: string, window: Window, signal: AbortSignal): Promise<Asked> {
  const request = { queryId, window: textOf(window), acceptTruncation: true, pageSize: MOST, ...(window.now === null ? {} : { asOf: rfc3339(window.now) }) };
  let page = await ask<InvokeRowsResponseJson>("QueryService/InvokeRows", request, signal);
  const fields = (page.columns ?? []).map(fieldOf);
  const columns = fields.map(() => []);
  let rows = 0;
  for (;;) {
    addRows(columns, page.rows ?? []);
    rows += page.rows?.length ?? 0;
    if (!page.nextPageToken || rows >= MOST) break;
    page = await ask<InvokeRowsResponseJson>("QueryService/InvokeRows", { ...request, pageToken: page.nextPageToken }, signal);
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
  if (known?.now === undefined) return null;
  const now = microsOf(known.now);
  const oldest = (await oldestOf(stream, signal)) ?? (known.retention === undefined ? null : now - seconds(known.retention) * 1e6);
  if (oldest === null || oldest >= now) return null;
  const inMemory = known.retention !== undefined && known.archive !== undefined ? seconds(known.retention) - seconds(known.archive) : null;
  return { oldest, archivedTo: inMemory === null ? oldest : Math.max(oldest, now - inMemory * 1e6), now };
}

function seconds(duration: string): number {
  return Number(duration.replace("s", ""));
}

/** The time of the oldest tuple; null if the service does not say it: over a large archive, say. */
async function oldestOf(stream: string, signal: AbortSignal): Promise<number | null> {
  const name = `"${stream.replaceAll('"', '""')}"`;
  try {
    const told = await ask<ExecuteResponseJson>("StatementService/Execute", { statement: `SELECT min(_time) AS oldest FROM ${name} BEGIN (START)` }, signal);
    return told.answer?.arrowIpc === undefined ? null : firstInteger(base64Decode(told.answer.arrowIpc));
  } catch (problem) {
    if (signal.aborted) throw problem;
    return null;
  }
}

/** The first value of the first column, of 64 bits, in an Arrow IPC stream. */
export function firstInteger(bytes: Uint8Array): number | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at + 8 <= bytes.length; ) {
    const length = view.getInt32(at + 4, true);
    if (length === 0) return null;
    const message = Message.getRootAsMessage(new ByteBuffer(bytes.slice(at + 8, at + 8 + length)));
    const body = at + 8 + length;
    const batch = message.header(new RecordBatch()) as RecordBatch | null;
    if (message.headerType() === 3 && batch !== null && batch.length() > 0n && batch.nodes(0)!.nullCount() === 0n) {
      return Number(view.getBigInt64(body + Number(batch.buffers(1)!.offset()), true));
    }
    at = body + Number(message.bodyLength());
  }
  return null;
}
