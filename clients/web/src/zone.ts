/** The zone of the times that a page shows: the reader's own, or UTC. Addresses and files always have UTC. */
import { signal } from "@preact/signals";

const KEPT = "psoup zone";

/** The reader's zone, such as Europe/Berlin. */
export const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** Whether times are shown in UTC. */
export const inUtc = signal(HERE === "UTC" || stored() === "UTC");

/** The zone of the times that are shown. */
export function zone(): string {
  return inUtc.value ? "UTC" : HERE;
}

export function showUtc(utc: boolean): void {
  inUtc.value = utc;
  try {
    localStorage.setItem(KEPT, utc ? "UTC" : HERE);
  } catch {
    // A browser that stores nothing has the zone until the page is closed.
  }
}

/** Day and time of milliseconds since 1970 in the zone that is shown: "2026-01-31 12:00:00". */
export function wallTime(milliseconds: number): string {
  const date = new Date(milliseconds);
  if (inUtc.value)
    return date
      .toISOString()
      .replace(/\.\d+Z$/, "")
      .replace("T", " ");
  const two = (part: number): string => String(part).padStart(2, "0");
  const day = `${String(date.getFullYear()).padStart(4, "0")}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

function stored(): string | null {
  try {
    return typeof document === "undefined" ? null : localStorage.getItem(KEPT);
  } catch {
    return null;
  }
}
