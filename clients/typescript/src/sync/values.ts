/** Values as they come and are stored: BIGINT as number, or bigint where that is not exact; DECIMAL as text; TIMESTAMP in
 * microseconds and DATE in days since 1970, as BIGINT; DOUBLE as number. NULL is null. */
import type { Field } from "./form.js";
import type { Slices } from "./slices.js";

export type Value = string | number | bigint | boolean | null;
export type Column = Value[];

/** Columns of `Change.columns_json`. The first `differences` are differences to the value before. */
export async function readColumns(
  json: string,
  fields: readonly Field[],
  differences: number,
  slices: Slices,
): Promise<Column[]> {
  const columns = (json === "" ? fields.map(() => []) : JSON.parse(json)) as Value[][];
  if (columns.length !== fields.length) throw new Error(`${columns.length} columns, and not ${fields.length}`);
  await slices.rest();
  return slices.each(columns, (values, place) =>
    place < differences ? sums(values) : values.map((value) => read(value, fields[place]!)),
  );
}

function read(value: Value, field: Field): Value {
  if (value === null || typeof value !== "string") return value;
  if (field.kind === "double") return Number(value);
  return field.kind === "bigint" || field.kind === "timestamp" || field.kind === "date" ? exact(BigInt(value)) : value;
}

function sums(steps: Value[]): Column {
  let sum: number | bigint = 0;
  return steps.map((step) => {
    const next: number | bigint =
      typeof step === "string" || typeof sum === "bigint"
        ? exact(BigInt(sum) + BigInt(step as string))
        : sum + Number(step);
    return (sum = next);
  });
}

/** A number if that is exact, else a bigint. */
export function exact(value: bigint): number | bigint {
  const near = Number(value);
  return Number.isSafeInteger(near) ? near : value;
}

/** How two values that are not NULL stand to each other: texts by their bytes, NaN as the greatest number. */
export function compare(left: Value, right: Value, field: Field): number {
  if (field.kind === "text") return byBytes(left as string, right as string);
  if (field.kind === "decimal") return order(scaled(left as string, field.scale), scaled(right as string, field.scale));
  if (field.kind === "double") {
    const [one, two] = [Number.isNaN(left), Number.isNaN(right)];
    if (one || two) return Number(one) - Number(two);
  }
  return order(left as number, right as number);
}

function order<T>(left: T, right: T): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

/** UTF-16 puts surrogates before the last of the basic plane; bytes do not. */
function byBytes(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let at = 0; at < length; at++) {
    if (left[at] === right[at]) continue;
    return order(left.codePointAt(at)!, right.codePointAt(at)!);
  }
  return order(left.length, right.length);
}

/** A DECIMAL as the integer that it is of its last digit. */
export function scaled(text: string, scale: number): bigint {
  const [whole = "", part = ""] = text.replace("-", "").split(".");
  const digits = BigInt(whole + part.padEnd(scale, "0").slice(0, scale));
  return text.startsWith("-") ? -digits : digits;
}
