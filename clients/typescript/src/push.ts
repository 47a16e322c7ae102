/** Rows in. A push that had no reply is sent again with its key, and the stream takes it once. */
import { encode } from "./api/encode.js";
import { type ErrorJson, PSoupError } from "./api/errors.js";
import type { Transport } from "./api/transport.js";

export type PushOptions = {
  /** A text of this push alone: rows with the same key are taken once. By default a random one. */
  idempotencyKey?: string | undefined;
  /** What happens to rows that are too late, or too far ahead of the clock: all rows are refused, or these are counted. */
  refused?: "raise" | "count" | undefined;
  /** How often the push is tried while the service cannot be reached or is busy; 5 by default. */
  attempts?: number | undefined;
  signal?: AbortSignal | undefined;
};

/** What became of the rows. `duplicate`: they were taken before. `sequence`: for `minSequence` of a question. */
export type Pushed = { accepted: number; duplicate: boolean; late: number; ahead: number; sequence: string };

type PushedJson = { accepted: string; duplicate: boolean; late: string; ahead: string; sequence: string };

const FIRST_PAUSE_MS = 100;

/** Push rows. Throws PSoupError; of bad rows `details.rows` has each with its line, from 1. */
export async function pushed(
  transport: Transport,
  stream: string,
  rows: readonly object[],
  options: PushOptions,
): Promise<Pushed> {
  const { idempotencyKey = randomKey(), refused = "raise", attempts = 5, signal } = options;
  const body = rows.map((row) => `${encode(row)}\n`).join("");
  const headers = { "Content-Type": "application/x-ndjson", "Idempotency-Key": idempotencyKey };
  const path = `/api/streams/${encodeURIComponent(stream)}/rows${refused === "count" ? "?refused=count" : ""}`;
  for (let attempt = 1; ; attempt++) {
    try {
      const limited = transport.limited(signal);
      const response = await transport.open(path, { body, headers, signal: limited });
      return countsOf((await transport.read(() => response.json(), limited)) as PushedJson);
    } catch (problem) {
      if (!(problem instanceof PSoupError) || !problem.passing || attempt >= attempts) throw problem;
      const { retryAfterMs } = problem;
      const pause = retryAfterMs ?? (FIRST_PAUSE_MS * 2 ** attempt) / 2;
      await slept(pause * (1 + Math.random()), signal);
    }
  }
}

function countsOf(told: PushedJson & ErrorJson): Pushed {
  const { accepted, duplicate, late, ahead, sequence } = told;
  return { accepted: Number(accepted), duplicate, late: Number(late), ahead: Number(ahead), sequence };
}

/** 128 random bits. crypto.randomUUID is not there in pages without TLS. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function slept(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stopped = (): void => {
      clearTimeout(timer);
      reject(signal!.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stopped);
      resolve();
    }, milliseconds);
    if (signal?.aborted) stopped();
    signal?.addEventListener("abort", stopped, { once: true });
  });
}
