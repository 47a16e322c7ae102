/** A call that is answered with events: one `data:` line of JSON a message, read by fetch. */
import { type ErrorJson, errorFrom, open } from "./call";

/** The messages, until the service ends the call or `signal` is aborted. Throws CallError if it ends with an error. */
export async function* events<T>(method: string, request: object, signal: AbortSignal): AsyncGenerator<T> {
  const response = await open(method, JSON.stringify(request), signal);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let failed = false;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const lines = rest.split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      if (line.startsWith("event:")) failed = line.slice(6).trim() === "error";
      if (!line.startsWith("data:")) continue;
      const told: unknown = JSON.parse(line.slice(5));
      if (failed) throw errorFrom(told as ErrorJson, 200);
      yield told as T;
    }
  }
}
