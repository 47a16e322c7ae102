/** How sure one may be of a copy: exact now, exact as of an instant, or a part. */
import { ago, counted, instant } from "../format";
import { connection } from "../api/call";
import { failedAt, tick } from "../state";
import type { Entry } from "../store/copies";
import { agesByClock, estimate } from "psoup-client/sync/shown";

/** NOW by the clock here, for rows that leave while it goes on; null: they are shown as of the last reply. */
export function nowHere(entry: Entry, wall: number): number | null {
  if (entry.form === null || entry.clock === null || !agesByClock(entry.form)) return null;
  return Math.max(entry.now ?? 0, estimate(entry.clock, wall * 1000));
}

/** Whether the last attempt to update a copy failed. */
function behind(entry: Entry): boolean {
  return entry.error !== null || connection.value === "lost" || failedAt.value > (entry.synced ?? 0);
}

export function Certainty({ entry }: { entry: Entry }) {
  if (entry.error?.code === "NOT_FOUND") return <span class="badge warn">Not updated any more</span>;
  if (entry.form === null) return <span class="badge">Nothing here yet</span>;
  if (!entry.complete) return <span class="badge warn">A part: {counted(entry.left, "row")} or more left out</span>;
  const moves = entry.form.ages && entry.form.byClock;
  if (entry.final) return <span class="badge good">Final: no row will come or leave</span>;
  if (moves && !behind(entry)) return <span class="badge good">All rows up to the last update</span>;
  if (moves) return <span class="badge">All rows up to the last update</span>;
  return <span class="badge">As of {entry.now === null ? "the beginning" : instant(entry.now)}</span>;
}

export function Age({ entry }: { entry: Entry }) {
  if (entry.synced === null) return <span>never updated</span>;
  if (entry.error?.code === "NOT_FOUND") return <span class="age">last updated {instant(entry.synced * 1000)}</span>;
  if (behind(entry)) return <span class="age">not updated since {instant(entry.synced * 1000)}</span>;
  return <span class="age">updated {ago(entry.synced, Math.max(tick.value, entry.synced))}</span>;
}

/** What is wrong with a query, in plain words. */
export function errorWords(entry: Entry): string {
  if (entry.error === null) return "";
  if (entry.error.code === "NOT_FOUND") {
    const why =
      entry.error.reason === "QUERY_EXPIRED"
        ? "It expired, because no client asked for it long enough."
        : "It was unregistered, or the service holds other data by now.";
    return `The service does not know this query any more. ${why} The rows on this device stay as they were.`;
  }
  return `The service says: ${entry.error.message}`;
}
