/** A change makes the rows of a copy those of the present answer. All of it is computed before anything is stored. */
import { type Change, Reset, type StreamTime } from "../contract/psoup_proto/v1/sync_pb.js";
import { type Form, hidden, readForm } from "./form.js";
import { checkIntervals, ends, inside } from "./intervals.js";
import { placed } from "./places.js";
import { Slices } from "./slices.js";
import { type Column, readColumns } from "./values.js";

export type Held = { form: Form; columns: Column[] };
/** `same`: how many rows at the beginning are those of before. */
export type Changed = { held: Held; gone: number; same: number };

/** How many rows there are. */
export function count(held: Held | null): number {
  return held?.columns[0]?.length ?? 0;
}

/** The rows after a change that has a token, and how many left. It takes slices of the page's time, a column a step.
 * Throws for what is no change of this copy. */
export async function changed(before: Held | null, change: Change): Promise<Changed> {
  const slices = new Slices();
  const form = change.reset !== Reset.UNSPECIFIED ? readForm(change.form!) : before?.form;
  if (form === undefined) throw new Error("rows for a copy that holds nothing");
  const fresh = await newRows(form, change, slices);
  if (change.reset !== Reset.UNSPECIFIED || before === null) {
    return {
      held: { form, columns: form.whole ? fresh : await inOrder(form, fresh, slices) },
      gone: count(before),
      same: 0,
    };
  }
  const rows = count(before);
  if (form.whole) {
    const order = placed(rows, Number(change.rows), change);
    const columns = await slices.each(before.columns, (column, at) =>
      order.map((place) => (place < rows ? column[place]! : fresh[at]![place - rows]!)),
    );
    return {
      held: { form, columns },
      gone: rows + Number(change.rows) - order.length,
      same: Math.min(sameUntil(order), rows),
    };
  }
  const stay = staying(form, before.columns, change.keep);
  await slices.rest();
  const joined = await slices.each(before.columns, (column, at): Column => [
    ...stay.map((place) => column[place]!),
    ...fresh[at]!,
  ]);
  const columns = await inOrder(form, joined, slices);
  return { held: { form, columns }, gone: rows - stay.length, same: columns === joined ? sameUntil(stay) : 0 };
}

function sameUntil(places: readonly number[]): number {
  const moved = places.findIndex((place, at) => place !== at);
  return moved < 0 ? places.length : moved;
}

/** The places of the rows whose tuple IDs are kept: of joined rows each in the interval of its column. */
export function staying(form: Form, columns: readonly Column[], keep: readonly bigint[]): number[] {
  const of = ends(keep);
  const places = (columns[0] ?? []).map((_, place) => place);
  if (form.idColumns <= 1) return places.filter((place) => inside(of, Number(columns[0]![place])));
  if (of.length === 0) return [];
  return places.filter((place) =>
    columns
      .slice(0, form.idColumns)
      .every((ids, at) => Number(ids[place]) >= of[2 * at]! && Number(ids[place]) < of[2 * at + 1]!),
  );
}

/** NOW of an answer in microseconds: the least of its streams, if the change says nothing else. */
export function nowOf(change: Change, streams: readonly StreamTime[]): number | null {
  if (change.now !== undefined) return micros(change.now);
  const of = change.streams.map((place) => streams[place]!.now);
  return of.every((now) => now !== undefined) ? Math.min(...of.map((now) => micros(now!))) : null;
}

function micros(instant: { seconds: bigint; nanos: number }): number {
  return Number(instant.seconds) * 1e6 + Math.floor(instant.nanos / 1e3);
}

async function newRows(form: Form, change: Change, slices: Slices): Promise<Column[]> {
  checkIntervals("keep", change.keep, Math.max(form.idColumns, 1));
  checkIntervals("removed", change.removed, 1, 0n);
  checkIntervals("places", change.places, 1, 0n);
  const columns = await readColumns(new TextDecoder().decode(change.columnsJson), form.fields, hidden(form), slices);
  if (columns.some((column) => column.length !== Number(change.rows)))
    throw new Error(`not the ${change.rows} rows that it tells of`);
  return columns;
}

/** Rows ascending by their tuple IDs, which are the first columns. */
async function inOrder(form: Form, columns: Column[], slices: Slices): Promise<Column[]> {
  const ids = columns.slice(0, Math.max(form.idColumns, 1)) as number[][];
  const less = (one: number, two: number): number => {
    for (const column of ids) if (column[one] !== column[two]) return column[one]! - column[two]!;
    return 0;
  };
  const order = (ids[0] ?? []).map((_, place) => place);
  if (order.every((place) => place === 0 || less(place - 1, place) < 0)) return columns;
  order.sort(less);
  await slices.rest();
  return slices.each(columns, (column) => order.map((place) => column[place]!));
}
