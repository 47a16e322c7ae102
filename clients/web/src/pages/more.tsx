/** What else may be done with a query: rename, forget here, unregister at the service, register again. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ask, words } from "../api/call";
import { sure } from "../parts/basics";
import { go, said, to } from "../state";
import { type Entry, store } from "../store/copies";
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
    if (name) await store.note(entry!.number, (now) => ({ ...now, name }));
  });
  const leave = attempt(async () => {
    if (!sure("Remove the copy from this device? The query stays at the service.")) return;
    await store.forget(entry!.number);
    go("#/");
  });
  const unregister = attempt(async () => {
    if (!sure("Unregister this query at the service? It ends for all users, on all devices.")) return;
    await ask("QueryService/Unregister", { queryId, allowMissing: true });
    if (entry !== undefined) await store.forget(entry.number);
    go("#/");
  });
  const again = attempt(async () => {
    const next = await registerAgain(entry!);
    go(to("answer", next));
    await rechargeAndSay([entry!.number]);
  });
  const menu = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const pressed = (event: PointerEvent): void => {
      if (!menu.current?.contains(event.target as Node)) menu.current!.open = false;
    };
    document.addEventListener("pointerdown", pressed);
    return () => document.removeEventListener("pointerdown", pressed);
  }, []);
  return (
    <details class="more" ref={menu} onFocusOut={leftBy} onKeyDown={escaped}>
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
              Remove from this device
            </button>
          </>
        )}
        <hr />
        <button type="button" class="danger" onClick={unregister}>
          Unregister for all users
        </button>
      </div>
    </details>
  );
}

/** Close the menu when the focus leaves it. */
function leftBy(event: FocusEvent): void {
  const menu = event.currentTarget as HTMLDetailsElement;
  if (event.relatedTarget instanceof Node && !menu.contains(event.relatedTarget)) menu.open = false;
}

function escaped(event: KeyboardEvent): void {
  if (event.key === "Escape") (event.currentTarget as HTMLDetailsElement).open = false;
}
