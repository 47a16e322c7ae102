/** Files of the rows that are shown. */
import { instantUtc, shownValue } from "../format";
import { uniqueNames } from "psoup-client/sync/column_names";
import type { Field } from "psoup-client/sync/form";
import type { Value } from "psoup-client/sync/values";
import type { Rows } from "./table";

/** CSV with a line for the names. No spreadsheet carries out a text of it: one that begins as a formula does gets an
 * apostrophe before it, which spreadsheets do not show. */
export function csv({ fields, columns, order }: Rows): string {
  const lines = [fields.map((field) => cell(field.name, true)).join(",")];
  for (const row of order) lines.push(fields.map((field, at) => valueCell(columns[at]![row]!, field)).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

function valueCell(value: Value, field: Field): string {
  if (value === null) return "";
  return cell(
    field.kind === "timestamp" || field.kind === "date" || field.kind === "text" ? plain(value, field) : String(value),
    field.kind === "text",
  );
}

function cell(text: string, guarded: boolean): string {
  const safe = guarded && /^[\s]*[=+\-@\t\r|%＝＋－＠]/.test(text) ? `'${text}` : text;
  return /[",\r\n;\t]|^\s|\s$/.test(safe) || safe !== text ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** JSON: an array of an object for each row. A BIGINT that a number does not hold is a text, as are DECIMAL, NaN and the like. */
export function json({ fields, columns, order }: Rows): string {
  const names = uniqueNames(fields.map((field) => field.name));
  const rows = order.map((row) =>
    Object.fromEntries(fields.map((field, at) => [names[at]!, jsonValue(columns[at]![row]!, field)])),
  );
  return `[\n${rows.map((row) => JSON.stringify(row)).join(",\n")}\n]\n`;
}

function jsonValue(value: Value, field: Field): Value {
  if (value === null) return null;
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  return field.kind === "timestamp" || field.kind === "date" ? plain(value, field) : value;
}

function plain(value: Value, field: Field): string {
  return field.kind === "timestamp" ? `${instantUtc(value as number).replace(" ", "T")}Z` : shownValue(value, field);
}

/** Hand a file to the browser. */
export function save(name: string, type: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name.replace(/[^\p{L}\p{N}._-]+/gu, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
