/** How the rows of a copy are read: its columns with their kinds, which of them are hidden, and how rows age. */
import { Field as ArrowField } from "apache-arrow/fb/field";
import { Decimal } from "apache-arrow/fb/decimal";
import { Message } from "apache-arrow/fb/message";
import { Schema } from "apache-arrow/fb/schema";
import { Type } from "apache-arrow/fb/type";
import { ByteBuffer } from "flatbuffers";
import { named } from "./column_names.js";
import type { CopyForm } from "../contract/psoup_proto/v1/sync_pb.js";

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

const KINDS: Partial<Record<Type, Kind>> = {
  [Type.Bool]: "boolean",
  [Type.Int]: "bigint",
  [Type.FloatingPoint]: "double",
  [Type.Decimal]: "decimal",
  [Type.Utf8]: "text",
  [Type.Timestamp]: "timestamp",
  [Type.Date]: "date",
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

/** The columns in a schema message of Arrow IPC: its length behind a mark, then a flat buffer. */
function readSchema(bytes: Uint8Array): Field[] {
  const buffer = new ByteBuffer(bytes.slice(8));
  const schema = Message.getRootAsMessage(buffer).header(new Schema()) as Schema | null;
  if (schema === null) throw new Error("no schema");
  return fieldsOf(schema);
}

/** The columns of a schema. Throws for columns of a kind that PSoup does not have. */
export function fieldsOf(schema: Schema): Field[] {
  return Array.from({ length: schema.fieldsLength() }, (_, place) => readField(schema.fields(place)!));
}

function readField(field: ArrowField): Field {
  const kind = KINDS[field.typeType() as Type];
  if (kind === undefined) throw new Error(`column ${field.name()} has a type that is not known here`);
  const scale = kind === "decimal" ? (field.type(new Decimal()) as Decimal).scale() : 0;
  return { name: field.name() ?? "", kind, scale };
}
