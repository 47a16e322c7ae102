/** Whether the service can be reached: asked on each page, also where nothing else is called. */
import { ask, connection } from "./call";

const EVERY = 10_000;

/** Ask now and then, as long as the page is seen. The first call is one that needs a token if the service has tokens. */
export function beginHealth(): void {
  void ask("ServerService/GetServerInfo", {}).catch(() => undefined);
  const look = (): void => void (document.hidden || health());
  setInterval(look, EVERY);
  for (const name of ["online", "offline"]) addEventListener(name, look);
  document.addEventListener("visibilitychange", look);
}

async function health(): Promise<void> {
  try {
    const { status } = await fetch("/healthz", {
      cache: "no-store",
      credentials: "omit",
      signal: AbortSignal.timeout(5_000),
    });
    connection.value = status >= 500 ? "lost" : "reached";
  } catch {
    connection.value = "lost";
  }
}
