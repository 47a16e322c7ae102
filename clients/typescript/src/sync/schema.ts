/** The columns in a schema of Arrow. The types of Arrow stay in here: a program that uses the package does not have them. */
import { Field as ArrowField } from "apache-arrow/fb/field";
import { Decimal } from "apache-arrow/fb/decimal";
import { Message } from "apache-arrow/fb/message";
import { Schema } from "apache-arrow/fb/schema";
import { Type } from "apache-arrow/fb/type";
import { ByteBuffer } from "flatbuffers";
import type { Field, Kind } from "./form.js";

const KINDS: Partial<Record<Type, Kind>> = {
  [Type.Bool]: "boolean",
  [Type.Int]: "bigint",
  [Type.FloatingPoint]: "double",
  [Type.Decimal]: "decimal",
  [Type.Utf8]: "text",
  [Type.Timestamp]: "timestamp",
  [Type.Date]: "date",
};

/** The columns in a schema message of Arrow IPC: its length behind a mark, then a flat buffer. */
export function readSchema(bytes: Uint8Array): Field[] {
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
