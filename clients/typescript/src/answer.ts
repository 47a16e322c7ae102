/** Answers that are asked for once. They come as Arrow, so that every value is exact. */
import { encode } from "./api/encode.js";
import type { Transport } from "./api/transport.js";
import type { CompletenessJson } from "./contract/psoup_proto/v1/types_pb.js";
import { ArrowRows } from "./sync/arrow.js";
import type { Field } from "./sync/form.js";
import { objects, type RowObject } from "./sync/objects.js";

/** What a question may say beside its statement. */
export type AskOptions = {
  /** Values of the parameters: a list for `?`, an object for `$name`. */
  parameters?: readonly unknown[] | Record<string, unknown> | undefined;
  /** The answer of an earlier time, as an instant or a Date. */
  asOf?: string | Date | undefined;
  /** Another window than that of the query: BEGIN (NOW - 7 DAYS). */
  window?: string | undefined;
  /** Wait until this event is part of the answer: `sequence` of a push. */
  minSequence?: string | undefined;
  /** Whether an answer may lack what its stream does not keep any more. */
  acceptTruncation?: boolean | undefined;
  signal?: AbortSignal | undefined;
};

export type InvokeOptions = Omit<AskOptions, "parameters">;

/** An answer. `fields`: its columns. `completeness`: what the service says about it, as the contract has it. */
export type Answer<Row> = { rows: Row[]; fields: Field[]; completeness: CompletenessJson };

const ARROW = "application/vnd.apache.arrow.stream";

/** The answer of a SELECT. Throws PSoupError. */
export function asked<Row = RowObject>(transport: Transport, sql: string, options: AskOptions): Promise<Answer<Row>> {
  return answered(transport, "/api/ask", { sql, ...options }, options.signal);
}

/** The answer of a registered query. Throws PSoupError. */
export function invoked<Row = RowObject>(
  transport: Transport,
  key: string,
  options: InvokeOptions,
): Promise<Answer<Row>> {
  return answered(transport, `/api/queries/${encodeURIComponent(key)}/rows`, options, options.signal);
}

async function answered<Row>(
  transport: Transport,
  path: string,
  question: object,
  signal?: AbortSignal,
): Promise<Answer<Row>> {
  const limited = transport.limited(signal);
  const headers = { Accept: ARROW, "Content-Type": "application/json" };
  const body = encode({ ...question, signal: undefined });
  const response = await transport.open(path, { body, headers, signal: limited });
  const bytes = new Uint8Array(await transport.read(() => response.arrayBuffer(), limited));
  const read = new ArrowRows();
  read.add(bytes);
  const order = Array.from({ length: read.rows }, (_, row) => row);
  const completeness = JSON.parse(response.headers.get("psoup-completeness") ?? "{}") as CompletenessJson;
  return { rows: objects<Row>(read.fields, read.columns, order), fields: read.fields, completeness };
}
