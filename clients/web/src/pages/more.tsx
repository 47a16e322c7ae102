/** What else may be done with a query: rename, forget here, unregister at the service, register again. */
import type { ComponentChildren } from "preact";
import type { Entry } from "../store/store";
import { ask, words } from "../api/call";
import { sure } from "../parts/basics";
import { go, said, to } from "../state";
import { forget, note } from "../store/store";
import { rechargeAndSay } from "../store/recharging";
import { registerAgain } from "./again";

export function More({
  entry,
  queryId,
  children,
}: {
  entry: Entry | undefined;
  queryId: string;
  children: ComponentChildren;
}) {
  const attempt = (work: () => Promise<void>) => () =>
    work().catch((problem: unknown) => (said.value = words(problem)));
  const rename = attempt(async () => {
    const name = prompt("Name on this device", entry!.name)?.trim();
    if (name) await note(entry!.number, (now) => ({ ...now, name }));
  });
  const leave = attempt(async () => {
    if (!sure("Forget the copy on this device? The query stays registered.")) return;
    await forget(entry!.number);
    go("#/");
  });
  const unregister = attempt(async () => {
    if (!sure("Unregister the query at the service? Nobody can ask it any more.")) return;
    await ask("QueryService/Unregister", { queryId, allowMissing: true });
    if (entry !== undefined) await forget(entry.number);
    go("#/");
  });
  const again = attempt(async () => {
    const next = await registerAgain(entry!);
    go(to("answer", next));
    await rechargeAndSay([entry!.number]);
  });
  return (
    <details class="more">
      <summary class="button">More</summary>
      <div class="menu">
        {children}
        {entry?.error?.code === "NOT_FOUND" && (
          <button type="button" onClick={again}>
            Register it again
          </button>
        )}
        {entry !== undefined && (
          <>
            <button type="button" onClick={rename}>
              Rename
            </button>
            <button type="button" onClick={leave}>
              Forget on this device
            </button>
          </>
        )}
        <button type="button" class="danger" onClick={unregister}>
          Unregister
        </button>
      </div>
    </details>
  );
}
