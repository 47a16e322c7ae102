/** Numbers, times and values as people read them. */
import { Reset } from "psoup-client/contract/psoup_proto/v1/sync_pb";
import type { Field } from "psoup-client/sync/form";
import type { Value } from "psoup-client/sync/values";
import { wallTime } from "./zone";

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });

const YEAR = 365.2425 * 86_400;

export function counted(count: number, noun: string, many = `${noun}s`): string {
  return `${number(count)} ${count === 1 ? noun : many}`;
}

export function number(value: number): string {
  return NUMBER.format(value);
}

export function bytes(count: number): string {
  if (count < 1000) return `${Math.round(count)} B`;
  if (count < 1e6) return `${(count / 1e3).toFixed(count < 1e4 ? 1 : 0)} kB`;
  return count < 1e9 ? `${(count / 1e6).toFixed(count < 1e7 ? 1 : 0)} MB` : `${(count / 1e9).toFixed(1)} GB`;
}

/** How long, in the largest unit that fits; in years from two on. */
export function span(seconds: number): string {
  if (Math.abs(seconds) >= 2 * YEAR) return counted(Math.round(seconds / YEAR), "year");
  const units: [number, string][] = [
    [86_400, "day"],
    [3_600, "hour"],
    [60, "minute"],
    [1, "second"],
  ];
  const [size, unit] = units.find(([size]) => Math.abs(seconds) >= size) ?? [1, "second"];
  return counted(Math.round(seconds / size), unit);
}

export function ago(milliseconds: number, now: number): string {
  const seconds = (now - milliseconds) / 1000;
  return seconds < 5 ? "just now" : `${span(seconds)} ago`;
}

/** Microseconds since 1970 as an exact text in UTC, as long as it must be: for files. */
export function instantUtc(micros: number | bigint): string {
  const [date, part] = split(micros);
  if (Number.isNaN(date.getTime())) return `${micros} µs`;
  const text = date
    .toISOString()
    .replace(/\.\d+Z$/, "")
    .replace("T", " ");
  if (part !== 0) return `${text}.${String(part).padStart(6, "0").replace(/0+$/, "")}`;
  return text.replace(/(:\d\d):00$/, "$1");
}

/** How much of an instant is shown: whole minutes, seconds, or so many digits behind them. */
export type Digits = "minutes" | 0 | 3 | 6;

/** Microseconds since 1970 in the zone that is shown. Without `digits`: seconds, if there are any. */
export function instant(micros: number | bigint, digits?: Digits): string {
  const [date, part] = split(micros);
  if (Number.isNaN(date.getTime())) return `${micros} µs`;
  const text = wallTime(date.getTime());
  if (digits === undefined) return text.replace(/(:\d\d):00$/, "$1");
  if (digits === "minutes") return text.slice(0, -3);
  return digits === 0 ? text : `${text}.${String(part).padStart(6, "0").slice(0, digits)}`;
}

/** Whole seconds as a date, and the microseconds behind them. */
function split(micros: number | bigint): [Date, number] {
  const of = BigInt(micros);
  const part = ((of % 1_000_000n) + 1_000_000n) % 1_000_000n;
  return [new Date(Number((of - part) / 1000n)), Number(part)];
}

/** The digits that tell the instants of a column apart. Fractions are left out unless two of them share a second. */
export function digitsOf(column: readonly Value[]): Digits {
  const instants = column.filter((value) => value !== null).map(Number);
  const several = (unit: number): number => new Set(instants.map((value) => Math.floor(value / unit))).size;
  const exact = several(1);
  if (several(1e6) < exact) return several(1e3) < exact ? 6 : 3;
  return instants.some((value) => value % 60e6 >= 1e6 || value % 60e6 < 0) ? 0 : "minutes";
}

/** A value as a table shows it; `digits`: of a TIMESTAMP. */
export function shownValue(value: Value, field: Field, digits?: Digits): string {
  if (value === null) return "NULL";
  if (field.kind === "timestamp") return instant(value as number, digits);
  if (field.kind === "date") return new Date(Number(value) * 86_400_000).toISOString().slice(0, 10);
  if (field.kind === "double") return double(value as number);
  return String(value);
}

/** Six digits behind the point; of what is nearly nothing, six digits. */
function double(value: number): string {
  if (Number.isInteger(value)) return String(value);
  return String(Math.abs(value) < 1e-3 ? Number(value.toPrecision(6)) : Math.round(value * 1e6) / 1e6);
}

/** RFC 3339 as microseconds. */
export function microsOf(text: string): number {
  const fraction = /\.(\d+)/.exec(text)?.[1] ?? "";
  return Math.floor(Date.parse(text.replace(/\.\d+/, "")) * 1000) + Number(fraction.padEnd(6, "0").slice(0, 6));
}

export function rfc3339(micros: number): string {
  return new Date(Math.round(micros / 1000)).toISOString();
}

/** Why rows of before were forgotten, for people; "" if they were not. */
export function resetWords(reset: Reset): string {
  const words: Partial<Record<Reset, string>> = {
    [Reset.FIRST]: "",
    [Reset.INCARNATION]:
      "The service holds other data than before: it was restored or began anew. The answer came whole.",
    [Reset.ROLLED_BACK]: "The service's data was put back to an earlier state. The answer came whole.",
    [Reset.KEY]: "The service has changed its key. The answer came whole.",
    [Reset.FORMAT]: "The service is of another version. The answer came whole.",
    [Reset.WINDOW]: "The window has changed. The answer came whole.",
    [Reset.TOO_OLD]: "The copy is older than the table remembers deletions. The answer came whole.",
  };
  return words[reset] ?? "";
}
