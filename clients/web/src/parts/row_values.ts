/** Rows of plain values, as InvokeRows gives them, as the columns that tables and charts take. */
import type { ColumnJson, RowJson, ValueJson } from "psoup-client/contract/psoup_proto/v1/types_pb";
import { microsOf } from "../format";
import type { Field, Kind } from "psoup-client/sync/form";
import type { Column, Value } from "psoup-client/sync/values";

export function fieldOf(column: ColumnJson): Field {
  const kind = (column.type?.kind ?? "KIND_TEXT").replace("KIND_", "").toLowerCase() as Kind;
  return { name: column.name ?? "", kind, scale: column.type?.scale ?? 0 };
}

export function addRows(columns: Column[], rows: readonly RowJson[]): void {
  for (const row of rows) for (const [at, value] of (row.values ?? []).entries()) columns[at]!.push(valueOf(value));
}

function valueOf(value: ValueJson): Value {
  if (value.timestampValue !== undefined) return microsOf(value.timestampValue);
  if (value.bigintValue !== undefined) return whole(value.bigintValue as string);
  if (value.doubleValue !== undefined) return Number(value.doubleValue);
  return value.textValue ?? value.decimalValue ?? value.booleanValue ?? value.dateValue ?? null;
}

function whole(text: string): number | bigint {
  const near = Number(text);
  return Number.isSafeInteger(near) ? near : BigInt(text);
}
