/** How the rows of a copy are read: its columns with their kinds, which of them are hidden, and how rows age. */
import { named } from "./column_names.js";
import type { CopyForm } from "../contract/psoup_proto/v1/sync_pb.js";
import { readSchema } from "./schema.js";

export type Kind = "boolean" | "bigint" | "double" | "decimal" | "text" | "timestamp" | "date";
export type Field = { name: string; kind: Kind; scale: number };
export type SortKey = { descending: boolean; nullsFirst: boolean };

/** As CopyForm of the contract, with its columns read; plain data, so that it can be stored. */
export type Form = {
  fields: Field[];
  whole: boolean;
  idColumns: number;
  keys: SortKey[];
  ages: boolean;
  byClock: boolean;
  /** Microseconds; null: no row leaves by its age. */
  width: number | null;
};

/** Read a form. Throws for columns of a kind that PSoup does not have. */
export function readForm(form: CopyForm): Form {
  const fields = readSchema(form.schemaIpc);
  const keys = form.sortKeys.map(({ descending, nullsFirst }) => ({ descending, nullsFirst }));
  const { whole, idColumns, ages, byClock } = form;
  const read = {
    fields,
    whole,
    idColumns,
    keys,
    ages,
    byClock,
    width: form.width === undefined ? null : Number(form.width),
  };
  if (hidden(read) + keys.length > fields.length) throw new Error(`${fields.length} columns, and more of them hidden`);
  return read;
}

/** How many columns come before those of the answer: tuple IDs, and `_time`, but of joins whose rows do not age. */
export function hidden(form: Form): number {
  if (form.whole) return 0;
  return form.idColumns > 1 ? form.idColumns + (form.width === null ? 0 : 1) : 2;
}

/** The columns that an answer shows, with different names. */
export function shownFields(form: Form): Field[] {
  return named(form.fields.slice(hidden(form), form.fields.length - form.keys.length));
}
