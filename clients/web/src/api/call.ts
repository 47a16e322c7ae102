/** The service that the page comes from: its calls, by psoup-client, and whether it can be reached. */
import { signal } from "@preact/signals";
import { PSoupError, words } from "psoup-client/api/errors";
import { Transport } from "psoup-client/api/transport";
import { plain } from "./plain";

export { PSoupError, words };

export type Connection = "unknown" | "reached" | "lost";

/** Whether the last call reached the service. */
export const connection = signal<Connection>("unknown");
/** The service wants an access token, and has none, or one that it does not know. */
export const signInWanted = signal(false);

const KEPT = "psoup token";

/** Carries the calls of the page. The messages of errors lack what only programs can do. */
export const transport = new Transport({
  token: () => sessionStorage.getItem(KEPT) ?? "",
  words: plain,
  onReached: (reached) => void (connection.value = reached ? "reached" : "lost"),
  onUnauthenticated: () => void (signInWanted.value = true),
});

/** Keep an access token as long as this tab is open; "": forget it. */
export function setToken(token: string): void {
  if (token === "") sessionStorage.removeItem(KEPT);
  else sessionStorage.setItem(KEPT, token);
  transport.forgetToken();
  signInWanted.value = false;
}

export function hasToken(): boolean {
  return sessionStorage.getItem(KEPT) !== null;
}

/** Make a call, and return its reply. Throws PSoupError. */
export function ask<T>(method: string, request: object, signal?: AbortSignal): Promise<T> {
  return transport.ask<T>(method, request, signal);
}
