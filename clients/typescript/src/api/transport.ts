/** Calls of the service over fetch: POST with the messages of the contract in JSON. */
import { encode } from "./encode.js";
import { type ErrorJson, PSoupError, unreachable } from "./errors.js";

/** An access token, or a function that gets one. The function is called for the first call, and again when the service
 * refuses the token because it has expired. */
export type Token = string | (() => string | Promise<string>);

export type TransportOptions = {
  /** The address of the page's port, such as https://psoup.example.org:7434; by default the host of the page itself. */
  url?: string | undefined;
  token?: Token | undefined;
  /** Instead of the global fetch. */
  fetch?: typeof fetch | undefined;
  /** The time for a call with one reply, in milliseconds; 30,000 by default. */
  timeoutMs?: number | undefined;
  /** Called after each request: whether the service has answered. */
  onReached?: ((reached: boolean) => void) | undefined;
  /** Called when the service refuses a call without a valid token. */
  onUnauthenticated?: (() => void) | undefined;
  /** Changes the texts of errors. */
  words?: ((message: string) => string) | undefined;
};

/** A reply, and the bytes of both bodies. */
export type Reply<T> = { reply: T; sent: number; received: number };

type Sent = { body?: string | undefined; headers?: Record<string, string>; signal?: AbortSignal | undefined };

const TIMEOUT_MS = 30_000;

/** Of signals that `limitedBy` has made: the limit in each. */
const limits = new WeakMap<AbortSignal, AbortSignal>();

/** A signal that ends with `signal`, whose reason a call throws, or by `limit`: then the service counts as unreachable. */
export function limitedBy(limit: AbortSignal, signal?: AbortSignal): AbortSignal {
  const both = AbortSignal.any(signal ? [signal, limit] : [limit]);
  limits.set(both, limit);
  return both;
}

/** Sends requests to one service. */
export class Transport {
  private readonly base: string;
  private token: Promise<string> | null = null;

  constructor(private readonly options: TransportOptions = {}) {
    this.base = baseOf(options.url);
  }

  /** Forget the token of the function; the next call asks for it. */
  forgetToken(): void {
    this.token = null;
  }

  /** Whether the token comes from a function, which can be called again for a new token. */
  get renews(): boolean {
    return typeof this.options.token === "function";
  }

  /** Open a call; the body of the reply is not read yet. Throws PSoupError, and what an aborted `signal` throws. */
  async open(path: string, sent: Sent): Promise<Response> {
    const given = this.presentToken();
    const token = await this.had(given, sent.signal);
    const response = await this.send(path, token, sent);
    if (response.ok) return response;
    const error = await this.errorOf(response, sent.signal);
    if (error.code !== "UNAUTHENTICATED") throw error;
    if (this.renews) {
      // Another call may have asked for a new one meanwhile.
      if (this.token === given) this.forgetToken();
      const newer = await this.had(this.presentToken(), sent.signal);
      if (newer !== token) {
        const again = await this.send(path, newer, sent);
        if (again.ok) return again;
        throw this.noted(await this.errorOf(again, sent.signal));
      }
    }
    throw this.noted(error);
  }

  /** Open a call of the contract, "Service/Method". */
  openCall(method: string, body: string, signal?: AbortSignal): Promise<Response> {
    return this.open(`/api/psoup.v1.${method}`, { body, headers: { "Content-Type": "application/json" }, signal });
  }

  /** Make a call, and count its bytes. */
  async call<T>(method: string, request: object, signal?: AbortSignal): Promise<Reply<T>> {
    const body = encode(request);
    const limited = this.limited(signal);
    const response = await this.openCall(method, body, limited);
    const text = await this.read(() => response.text(), limited);
    return { reply: JSON.parse(text) as T, sent: body.length, received: new TextEncoder().encode(text).length };
  }

  /** Make a call, and return its reply. */
  async ask<T>(method: string, request: object, signal?: AbortSignal): Promise<T> {
    return (await this.call<T>(method, request, signal)).reply;
  }

  /** A signal that also ends after the time for a call. */
  limited(signal?: AbortSignal): AbortSignal {
    return limitedBy(AbortSignal.timeout(this.options.timeoutMs ?? TIMEOUT_MS), signal);
  }

  /** Read something of a reply. A connection that is cut, or a time that is over, is a PSoupError. */
  async read<T>(reading: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    try {
      return await reading();
    } catch (problem) {
      throw this.lost(problem, signal);
    }
  }

  /** An error of the service, with its texts changed as the options say. */
  errorFrom(told: ErrorJson, status: number): PSoupError {
    const words = this.options.words ?? ((message: string) => message);
    const hint = told.hint === undefined ? {} : { hint: words(told.hint) };
    return new PSoupError(told.code ?? `HTTP ${status}`, words(told.message ?? "") || `HTTP ${status}`, {
      ...told,
      ...hint,
    });
  }

  private async send(path: string, token: string, { body, headers = {}, signal }: Sent): Promise<Response> {
    const all: Record<string, string> = { "X-Psoup": "1", ...headers };
    if (token !== "") all["Authorization"] = `Bearer ${token}`;
    const sendable = headersOf(all);
    const send = this.options.fetch ?? fetch;
    try {
      const response = await send(`${this.base}${path}`, {
        method: "POST",
        headers: sendable,
        body: body ?? null,
        cache: "no-store",
        credentials: "omit",
        signal: signal ?? null,
      });
      if (response.ok) this.options.onReached?.(true);
      return response;
    } catch (problem) {
      throw this.lost(problem, signal);
    }
  }

  private lost(problem: unknown, signal?: AbortSignal): unknown {
    if (problem instanceof PSoupError) return problem;
    if (signal?.aborted && signal.reason !== limits.get(signal)?.reason) return signal.reason;
    this.options.onReached?.(false);
    return unreachable(this.base ? `The service at ${this.base} cannot be reached.` : undefined, { cause: problem });
  }

  /** The token, one promise for all calls until it is forgotten. */
  private presentToken(): Promise<string> {
    if (this.token !== null) return this.token;
    const { token } = this.options;
    const asked = (async () => (typeof token === "function" ? await token() : token) ?? "")();
    this.token = asked;
    asked.catch(() => {
      if (this.token === asked) this.token = null;
    });
    return asked;
  }

  /** A token, if it comes before the signal ends the call. */
  private async had(token: Promise<string>, signal?: AbortSignal): Promise<string> {
    if (signal === undefined) return token;
    let stopped = (): void => undefined;
    const ended = new Promise<never>((_, reject) => {
      stopped = () => reject(this.lost(signal.reason, signal));
    });
    if (signal.aborted) stopped();
    signal.addEventListener("abort", stopped);
    try {
      return await Promise.race([token, ended]);
    } finally {
      signal.removeEventListener("abort", stopped);
    }
  }

  private async errorOf(response: Response, signal?: AbortSignal): Promise<PSoupError> {
    const told = parsed(await this.read(() => response.text(), signal));
    const after = Number(response.headers.get("retry-after") ?? Number.NaN);
    if (told.retryAfterMs === undefined && after >= 0) told.retryAfterMs = after * 1000;
    // A proxy that answers for a service that is down has no error of the service.
    const lost = told.code === undefined && response.status >= 500;
    this.options.onReached?.(!lost);
    if (!lost) return this.errorFrom(told, response.status);
    const error = unreachable(`The service cannot be reached (HTTP ${response.status}).`);
    error.details.retryAfterMs = told.retryAfterMs!;
    return error;
  }

  private noted(error: PSoupError): PSoupError {
    if (error.code === "UNAUTHENTICATED") this.options.onUnauthenticated?.();
    return error;
  }
}

/** Headers of a request. Throws PSoupError for a value that a header cannot have, which fetch would tell as a network error. */
function headersOf(all: Record<string, string>): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(all)) {
    try {
      headers.set(name, value);
    } catch {
      const what = name === "Authorization" ? "the access token" : name;
      throw new PSoupError(
        "INVALID_ARGUMENT",
        `${what} has a character that a header cannot have, such as … or a line end`,
      );
    }
  }
  return headers;
}

function parsed(text: string): ErrorJson {
  try {
    const told: unknown = JSON.parse(text);
    return typeof told === "object" && told !== null ? (told as ErrorJson) : {};
  } catch {
    return {};
  }
}

function baseOf(url: string | undefined): string {
  if (url === undefined || url === "") {
    if (typeof location !== "undefined") return "";
    throw new PSoupError("INVALID_ARGUMENT", "url is missing: give the address that `psoup serve` prints for the page");
  }
  const read = URL.canParse(url) ? new URL(url) : null;
  if (read === null || !/^https?:$/.test(read.protocol) || read.username || read.password || read.search || read.hash)
    throw new PSoupError("INVALID_ARGUMENT", `${JSON.stringify(url)} is not an address: write http://HOST:PORT`);
  return read.href.replace(/\/+$/, "");
}
