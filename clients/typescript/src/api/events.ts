/** A call that is answered with events: one `data:` line of JSON a message, read by fetch. */
import { encode } from "./encode.js";
import type { ErrorJson } from "./errors.js";
import type { Transport } from "./transport.js";

/** The messages, until the service ends the call or `signal` is aborted. Throws PSoupError if it ends with an error. */
export async function* events<T>(
  transport: Transport,
  method: string,
  request: object,
  signal?: AbortSignal,
): AsyncGenerator<T> {
  const response = await transport.openCall(method, encode(request), signal);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let failed = false;
  try {
    for (;;) {
      const { value, done } = await transport.read(() => reader.read(), signal);
      if (done) return;
      rest += value;
      const lines = rest.split("\n");
      rest = lines.pop()!;
      for (const line of lines) {
        if (line.startsWith("event:")) failed = line.slice(6).trim() === "error";
        if (!line.startsWith("data:")) continue;
        const told: unknown = JSON.parse(line.slice(5));
        if (failed) throw transport.errorFrom(told as ErrorJson, 200);
        yield told as T;
      }
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}
