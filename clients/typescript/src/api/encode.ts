/** Values of JavaScript in the JSON that the service reads: a bigint as its digits, a Date as an instant, NaN and
 * Infinity as texts. JSON itself has none of them, and would write null for the last two. */

/** A value as JSON. Throws TypeError for an invalid Date, a function or a symbol. */
export function encode(value: unknown): string {
  return JSON.stringify(value, replaced);
}

function replaced(this: unknown, key: string, value: unknown): unknown {
  const given = (this as Record<string, unknown>)[key];
  if (given instanceof Date) {
    if (Number.isNaN(given.getTime())) throw new TypeError(`${key} is an invalid Date`);
    return given.toISOString();
  }
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (typeof value === "function" || typeof value === "symbol") throw new TypeError(`${key} is a ${typeof value}`);
  return value;
}
