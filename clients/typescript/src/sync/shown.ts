/** What an answer shows of the rows that are held: those that have not left by now, in the order of ORDER BY. */
import { type Form, hidden } from "./form.js";
import type { Held } from "./change.js";
import { compare } from "./values.js";

/** The clocks of the last reply, in microseconds: of the service, and the wall clock here; and the greatest estimate. */
export type Clock = { service: number; wall: number; greatest: number };

/** What NOW is by the clock here. It never goes back; a wall clock that was set back counts as no time. */
export function estimate(clock: Clock, wall: number): number {
  return Math.max(clock.greatest, clock.service + Math.max(wall - clock.wall, 0));
}

/** Whether rows leave by the clock here. */
export function agesByClock(form: Form): boolean {
  return form.ages && form.byClock;
}

/** The places of the rows that are shown, in the order of the answer. `now`: microseconds; null: as of the last reply. */
export function shown(held: Held, now: number | null): number[] {
  const { form, columns } = held;
  let places = (columns[0] ?? []).map((_, place) => place);
  if (now !== null && agesByClock(form) && form.width !== null) {
    const edge = now - form.width;
    const times = columns[hidden(form) - 1]!;
    places = places.filter((place) => (times[place] as number) >= edge);
  }
  return form.keys.length > 0 && !form.whole ? ordered(held, places) : places;
}

/** Rows in the order of the sort keys, the last columns; equal ones stay in the order of their tuple IDs. */
function ordered({ form, columns }: Held, places: number[]): number[] {
  const first = columns.length - form.keys.length;
  return places.sort((one, two) => {
    for (const [at, key] of form.keys.entries()) {
      const [left, right] = [columns[first + at]![one]!, columns[first + at]![two]!];
      if (left === null || right === null) {
        if (left === right) continue;
        return (left === null) === key.nullsFirst ? -1 : 1;
      }
      const by = compare(left, right, form.fields[first + at]!);
      if (by !== 0) return key.descending ? -by : by;
    }
    return one - two;
  });
}
