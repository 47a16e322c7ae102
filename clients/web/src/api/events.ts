/** A call that is answered with events: one `data:` line of JSON a message, read by fetch. */
import { open } from "./call";

/** The messages, until the service ends the call or `signal` is aborted. */
export async function* events<T>(method: string, request: object, signal: AbortSignal): AsyncGenerator<T> {
  const response = await open(method, JSON.stringify(request), signal);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const lines = rest.split("\n");
    rest = lines.pop()!;
    for (const line of lines) if (line.startsWith("data:")) yield JSON.parse(line.slice(5)) as T;
  }
}
