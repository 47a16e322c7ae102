/** A window that was dragged: NOW, and how many seconds before it the window begins and ends. */

/** `now`: microseconds, null: the present one. `begin`: seconds before NOW; "start": all that is kept; null: the query's own window. */
export type Window = { now: number | null; begin: number | "start" | null; end: number };

/** The window in an address; the query's own one if nothing is said. */
export function windowOf(query: URLSearchParams): Window {
  const whole = (name: string): number | null =>
    /^\d{1,12}$/.test(query.get(name) ?? "") ? Number(query.get(name)) : null;
  const now = Date.parse(query.get("now") ?? "");
  return {
    now: Number.isNaN(now) ? null : now * 1000,
    begin: query.get("begin") === "start" ? "start" : whole("begin"),
    end: whole("end") ?? 0,
  };
}

/** The same as parts of an address. */
export function partsOf(window: Window): Record<string, string> {
  return {
    now: window.now === null ? "" : new Date(window.now / 1000).toISOString().replace(".000", ""),
    begin: window.begin === null ? "" : String(window.begin),
    end: window.end === 0 ? "" : String(window.end),
  };
}

/** As a statement has it; "": the query's own. */
export function textOf({ begin, end }: Window): string {
  if (begin === null) return "";
  const from = begin === "start" ? "BEGIN (START)" : `BEGIN (NOW - ${begin} SECONDS)`;
  return `${from} END (NOW${end === 0 ? "" : ` - ${end} SECONDS`})`;
}

/** Whether it is what the query itself says, now. */
export function isOwn(window: Window): boolean {
  return window.now === null && window.begin === null;
}
