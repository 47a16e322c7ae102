/** Errors of calls. */

/** An error as the service sends it, in JSON. */
export type ErrorJson = {
  code?: string;
  message?: string;
  reason?: string;
  line?: number;
  column?: number;
  hint?: string;
  retryAfterMs?: number;
  metadata?: Record<string, string>;
  [fact: string]: unknown;
};

/** Why a call failed, in the words of the service. */
export class PSoupError extends Error {
  /** As it is without the short names of the built package, for the messages of Node. */
  static override readonly name = "PSoupError";
  override readonly name = "PSoupError";

  /** `code`: as in gRPC, such as NOT_FOUND; UNAVAILABLE with the reason UNREACHABLE if no service has answered.
   * `details`: the error as the service sent it; for a push, `details.rows` lists the bad rows. `cause`: the error of
   * fetch, if no service has answered. */
  constructor(
    readonly code: string,
    message: string,
    readonly details: ErrorJson = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** The reason in one word, such as UNKNOWN_COLUMN; "" without one. */
  get reason(): string {
    return this.details.reason ?? "";
  }

  /** The line in the statement, from 1; 0 for errors without a place. */
  get line(): number {
    return this.details.line ?? 0;
  }

  /** The column in that line, from 1; 0 for errors without a place. */
  get column(): number {
    return this.details.column ?? 0;
  }

  /** What may help, such as "did you mean 'symbol'?"; "" without a hint. */
  get hint(): string {
    return this.details.hint ?? "";
  }

  /** Milliseconds after which a retry may help; undefined if the service names none. */
  get retryAfterMs(): number | undefined {
    return this.details.retryAfterMs;
  }

  /** Whether no service has answered. */
  get unreachable(): boolean {
    return this.reason === "UNREACHABLE";
  }

  /** Whether the query, stream or other thing does not exist. */
  get gone(): boolean {
    return this.code === "NOT_FOUND";
  }

  /** Whether the same call may succeed later. An error of a full budget passes only if it says when. */
  get passing(): boolean {
    if (this.code === "RESOURCE_EXHAUSTED")
      return this.retryAfterMs !== undefined || this.reason === "RECEIVE_DEADLINE";
    return this.code === "UNAVAILABLE" || this.code === "DEADLINE_EXCEEDED";
  }
}

/** The error for a service that has not answered. */
export function unreachable(message = "The service cannot be reached.", options?: ErrorOptions): PSoupError {
  return new PSoupError("UNAVAILABLE", message, { reason: "UNREACHABLE" }, options);
}

/** The message of a problem of any kind. */
export function words(problem: unknown): string {
  return problem instanceof Error ? problem.message : String(problem);
}
