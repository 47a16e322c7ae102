/** Rows in Arrow's IPC stream format, as the service sends them: a schema, then record batches.
 *
 *     message = FF FF FF FF, length of the head, head (a flat buffer), body (the buffers of the columns)
 *
 * Only the types of PSoup, without compression and dictionaries. */
import { Message } from "apache-arrow/fb/message";
import { RecordBatch } from "apache-arrow/fb/record-batch";
import { Schema } from "apache-arrow/fb/schema";
import { MessageHeader } from "apache-arrow/fb/message-header";
import { ByteBuffer } from "flatbuffers";
import { named } from "./column_names.js";
import type { Field } from "./form.js";
import { fieldsOf } from "./schema.js";
import { type Column, exact, type Value } from "./values.js";

/** Columns that are read from pieces of a stream. */
export class ArrowRows {
  fields: Field[] = [];
  columns: Column[] = [];
  rows = 0;
  /** Whether the end of the stream was read. */
  ended = false;

  /** Add whole messages. Throws for what is not a message. */
  add(bytes: Uint8Array): void {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let at = 0; at < bytes.length;) {
      if (view.getUint32(at, true) !== 0xffffffff) throw new Error("not a message of Arrow");
      const head = view.getInt32(at + 4, true);
      if (head === 0) {
        this.ended = true;
        return;
      }
      const message = Message.getRootAsMessage(new ByteBuffer(bytes.slice(at + 8, at + 8 + head)));
      const body = at + 8 + head;
      at = body + Number(message.bodyLength());
      if (message.headerType() === MessageHeader.Schema) {
        this.fields = named(fieldsOf(message.header(new Schema()) as Schema));
        this.columns = this.fields.map(() => []);
      } else this.addBatch(message.header(new RecordBatch()) as RecordBatch, bytes.subarray(body, at));
    }
  }

  private addBatch(batch: RecordBatch, body: Uint8Array): void {
    const rows = Number(batch.length());
    let next = 0;
    const buffer = (): DataView => {
      const place = batch.buffers(next++)!;
      return new DataView(body.buffer, body.byteOffset + Number(place.offset()), Number(place.length()));
    };
    for (const [at, field] of this.fields.entries()) {
      const valid = buffer();
      const nulls = batch.nodes(at)!.nullCount() > 0n;
      const value = reader(field, buffer);
      for (let row = 0; row < rows; row++) this.columns[at]!.push(nulls && !bit(valid, row) ? null : value(row));
    }
    this.rows += rows;
  }
}

function bit(bits: DataView, at: number): boolean {
  return ((bits.getUint8(at >> 3) >> (at & 7)) & 1) === 1;
}

/** What reads the values of a column; `buffer` gives its next buffer. */
function reader(field: Field, buffer: () => DataView): (row: number) => Value {
  const data = buffer();
  switch (field.kind) {
    case "boolean":
      return (row) => bit(data, row);
    case "double":
      return (row) => data.getFloat64(row * 8, true);
    case "date":
      return (row) => data.getInt32(row * 4, true);
    case "decimal":
      return (row) =>
        decimal((data.getBigInt64(row * 16 + 8, true) << 64n) | data.getBigUint64(row * 16, true), field.scale);
    case "text": {
      const bytes = buffer();
      const decoder = new TextDecoder();
      return (row) => {
        const [from, to] = [data.getInt32(row * 4, true), data.getInt32(row * 4 + 4, true)];
        return decoder.decode(new Uint8Array(bytes.buffer, bytes.byteOffset + from, to - from));
      };
    }
    default:
      return (row) => exact(data.getBigInt64(row * 8, true));
  }
}

function decimal(digits: bigint, scale: number): string {
  const text = String(digits < 0n ? -digits : digits).padStart(scale + 1, "0");
  const sign = digits < 0n ? "-" : "";
  return scale === 0 ? sign + text : `${sign}${text.slice(0, -scale)}.${text.slice(-scale)}`;
}
