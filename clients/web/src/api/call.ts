/** Calls of the service: POST with the contract's messages in JSON. An error is a CallError, of which the page shows the
 * service's own words; `UNREACHABLE` is the reason if nothing has answered. */
import { signal } from "@preact/signals";
import { plain } from "./plain";

export type Connection = "unknown" | "reached" | "lost";

/** Whether the last call reached the service. */
export const connection = signal<Connection>("unknown");
/** The service wants an access token, and has none, or one that it does not know. */
export const signInWanted = signal(false);

const KEPT = "psoup token";

/** What a call ended with. */
export class CallError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly reason = "",
    readonly line = 0,
    readonly column = 0,
    readonly hint = "",
  ) {
    super(message);
  }

  get unreachable(): boolean {
    return this.reason === "UNREACHABLE";
  }

  get gone(): boolean {
    return this.code === "NOT_FOUND";
  }
}

export type Reply<T> = { reply: T; sent: number; received: number };

/** Keep an access token as long as this tab is open; "": forget it. */
export function setToken(token: string): void {
  if (token === "") sessionStorage.removeItem(KEPT);
  else sessionStorage.setItem(KEPT, token);
  signInWanted.value = false;
}

export function hasToken(): boolean {
  return sessionStorage.getItem(KEPT) !== null;
}

/** Open a call; the reply's body is still to be read. */
export async function open(method: string, body: string, signal?: AbortSignal): Promise<Response> {
  const token = sessionStorage.getItem(KEPT);
  const headers: Record<string, string> = { "Content-Type": "application/json", "X-Psoup": "1" };
  if (token !== null) headers["Authorization"] = `Bearer ${token}`;
  let response: Response;
  try {
    response = await fetch(`/api/psoup.v1.${method}`, {
      method: "POST",
      headers,
      body,
      cache: "no-store",
      credentials: "omit",
      signal: signal ?? null,
    });
  } catch (problem) {
    if (signal?.aborted && signal.reason?.name !== "TimeoutError") throw problem;
    connection.value = "lost";
    throw new CallError("UNAVAILABLE", "The service cannot be reached.", "UNREACHABLE");
  }
  if (response.ok) {
    connection.value = "reached";
    return response;
  }
  throw await errorOf(response);
}

/** Make a call, and count its bytes. */
export async function call<T>(method: string, request: object, signal?: AbortSignal): Promise<Reply<T>> {
  const body = JSON.stringify(request);
  const limit = AbortSignal.timeout(30_000);
  const response = await open(method, body, signal ? AbortSignal.any([signal, limit]) : limit);
  const text = await response.text();
  return { reply: JSON.parse(text) as T, sent: body.length, received: new TextEncoder().encode(text).length };
}

/** Make a call; only its reply matters. */
export async function ask<T>(method: string, request: object, signal?: AbortSignal): Promise<T> {
  return (await call<T>(method, request, signal)).reply;
}

/** An error as the service tells it. */
export type ErrorJson = {
  code?: string;
  message?: string;
  reason?: string;
  line?: number;
  column?: number;
  hint?: string;
};

async function errorOf(response: Response): Promise<CallError> {
  const text = await response.text();
  let told: ErrorJson;
  try {
    told = JSON.parse(text) as ErrorJson;
  } catch {
    told = {};
  }
  // A proxy that answers for a service that is down tells nothing in the service's words.
  const lost = told.code === undefined && response.status >= 500;
  connection.value = lost ? "lost" : "reached";
  if (lost)
    return new CallError("UNAVAILABLE", `The service cannot be reached (HTTP ${response.status}).`, "UNREACHABLE");
  return errorFrom(told, response.status);
}

export function errorFrom(told: ErrorJson, status: number): CallError {
  const code = told.code ?? `HTTP ${status}`;
  if (code === "UNAUTHENTICATED") signInWanted.value = true;
  const message = plain(told.message ?? "") || `HTTP ${status}`;
  return new CallError(code, message, told.reason, told.line, told.column, plain(told.hint ?? ""));
}

/** What is wrong, in a line for people. */
export function words(problem: unknown): string {
  return problem instanceof Error ? problem.message : String(problem);
}
