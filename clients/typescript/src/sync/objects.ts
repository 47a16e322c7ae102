/** Rows as objects, with values that lose nothing.
 *
 *     BOOLEAN    boolean             DECIMAL    string: "900.50"
 *     BIGINT     number, or bigint   TIMESTAMP  string: "2026-01-31T12:00:00.000001Z", in UTC
 *     DOUBLE     number              DATE       string: "2026-01-31"
 *     TEXT       string              NULL       null
 *
 * A BIGINT is a bigint where a number would not be exact: beyond 2^53. */
import { named } from "./column_names.js";
import type { Field } from "./form.js";
import type { Column, Value } from "./values.js";

/** A value of a row. */
export type RowValue = string | number | bigint | boolean | null;

/** A row with the names of its columns. */
export type RowObject = { [column: string]: RowValue };

const DAY_MS = 86_400_000;
/** The range of the Date of JavaScript, in milliseconds. */
const LAST_MS = 8.64e15;

/** Rows as objects. `order`: the places of the rows in the columns. A name that two columns have gets an ending. */
export function objects<Row>(fields: readonly Field[], columns: readonly Column[], order: readonly number[]): Row[] {
  const read = named(fields).map((field, at) => ({ name: field.name, column: columns[at]!, value: reader(field) }));
  return order.map(
    (place) => Object.fromEntries(read.map(({ name, column, value }) => [name, value(column[place]!)])) as Row,
  );
}

function reader(field: Field): (value: Value) => Value {
  if (field.kind === "timestamp") return (value) => (value === null ? null : instantText(value as number | bigint));
  if (field.kind === "date") return (value) => (value === null ? null : dayText(Number(value)));
  return (value) => value;
}

/** Microseconds since 1970 as RFC 3339 in UTC, with as many digits as are needed. */
export function instantText(micros: number | bigint): string {
  const of = BigInt(micros);
  const part = ((of % 1_000_000n) + 1_000_000n) % 1_000_000n;
  const milliseconds = Number((of - part) / 1000n);
  if (Math.abs(milliseconds) > LAST_MS) return `${micros} µs`;
  const second = new Date(milliseconds).toISOString().slice(0, -5);
  return part === 0n ? `${second}Z` : `${second}.${String(part).padStart(6, "0").replace(/0+$/, "")}Z`;
}

function dayText(days: number): string {
  if (Math.abs(days * DAY_MS) > LAST_MS) return `${days} days`;
  return new Date(days * DAY_MS).toISOString().replace(/T.*/, "");
}
