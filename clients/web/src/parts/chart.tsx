/** Numeric columns over time. What it shows is also told in words, and the table has it all. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { counted, instant, number } from "../format";
import type { Field } from "psoup-client/sync/form";
import type { Value } from "psoup-client/sync/values";
import { inUtc, wallTime } from "../zone";
import type { Rows } from "./table";

const MOST = 6;

export type Time = { values: Value[]; name: string } | null;

/** The time of rows: the first column of instants that an answer has, or else the hidden one. */
export function timeOf(rows: Rows, hiddenTime: Value[] | null): Time {
  const at = rows.fields.findIndex((field) => field.kind === "timestamp" || field.kind === "date");
  if (at >= 0) {
    const day = rows.fields[at]!.kind === "date" ? 86_400e6 : 1;
    return {
      values:
        day === 1 ? rows.columns[at]! : rows.columns[at]!.map((value) => (value === null ? null : Number(value) * day)),
      name: rows.fields[at]!.name,
    };
  }
  return hiddenTime === null ? null : { values: hiddenTime, name: "time" };
}

export function isNumeric(field: Field): boolean {
  return field.kind === "bigint" || field.kind === "double" || field.kind === "decimal";
}

export function Chart({ rows, time, label }: { rows: Rows; time: Time; label: string }) {
  const numeric = rows.fields.map((field, at) => ({ field, at })).filter(({ field }) => isNumeric(field));
  const [picked, setPicked] = useState<number[]>(() => measure(numeric));
  const box = useRef<HTMLDivElement>(null);
  const data = useMemo(() => (time === null ? null : dataOf(rows, time, picked)), [rows, time, picked]);
  useEffect(() => {
    if (data === null || box.current === null || picked.length === 0) return;
    const node = box.current;
    const plot = new uPlot(options(node, rows, picked, isSeries(data[0])), data, node);
    const seen = new ResizeObserver(() => plot.setSize({ width: node.clientWidth, height: plot.height }));
    seen.observe(node);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const redraw = (): void => plot.redraw();
    scheme.addEventListener("change", redraw);
    return () => {
      scheme.removeEventListener("change", redraw);
      seen.disconnect();
      plot.destroy();
    };
  }, [data, inUtc.value]);
  if (time === null || numeric.length === 0) {
    return (
      <p class="quiet">
        A chart needs a time and a column of numbers, and this answer has {time === null ? "no time" : "no numbers"}.
        The table has all rows.
      </p>
    );
  }
  const toggle = (at: number): void =>
    setPicked(picked.includes(at) ? picked.filter((other) => other !== at) : [...picked, at].slice(-MOST));
  return (
    <figure class="chart">
      <fieldset class="series">
        <legend class="sr">Columns in the chart</legend>
        {numeric.map(({ field, at }) => (
          <label key={at} class={picked.includes(at) ? `chip c${picked.indexOf(at)}` : "chip"}>
            <input type="checkbox" checked={picked.includes(at)} onChange={() => toggle(at)} />
            <bdi>{field.name}</bdi>
          </label>
        ))}
      </fieldset>
      <div ref={box} class="plot" role="img" aria-label={`${label}: ${inWords(rows, time, data, picked)}`} />
      <figcaption class="quiet">{inWords(rows, time, data, picked)} The table has each value.</figcaption>
    </figure>
  );
}

/** What is likely to be measured: the last column of fractions, or else the last one. */
function measure(numeric: { field: Field; at: number }[]): number[] {
  const fractions = numeric.filter(({ field }) => field.kind !== "bigint");
  return [...(fractions.length > 0 ? fractions : numeric)].slice(-1).map(({ at }) => at);
}

/** Times at most of the same distance are a series, which is drawn as a line; others are points. */
function isSeries(times: ArrayLike<number>): boolean {
  const steps = Array.from({ length: Math.max(times.length - 1, 0) }, (_, at) => times[at + 1]! - times[at]!);
  const usual = [...steps].sort((one, two) => one - two)[Math.floor(steps.length / 2)];
  return usual !== 0 && steps.filter((step) => step === usual).length >= steps.length / 2;
}

/** Times of a scale: days, or times of day with the day where it begins. */
function ticks(_plot: uPlot, splits: number[], _axis: number, _space: number, step: number): string[] {
  let day = "";
  return splits.map((split) => {
    const text = wallTime(split * 1000);
    const [date, time] = [text.slice(0, 10), text.slice(11, step < 60 ? 19 : 16)];
    const known = date === day;
    day = date;
    return step >= 86_400 ? date : known ? time : `${time}\n${date}`;
  });
}

/** Times in seconds, ascending, then the picked columns. */
function dataOf(rows: Rows, time: NonNullable<Time>, picked: number[]): uPlot.AlignedData {
  const order = rows.order
    .filter((row) => time.values[row] !== null)
    .sort((one, two) => Number(time.values[one]) - Number(time.values[two]));
  const finite = (value: Value): number | null =>
    value === null || !Number.isFinite(Number(value)) ? null : Number(value);
  return [
    order.map((row) => Number(time.values[row]) / 1e6),
    ...picked.map((at) => order.map((row) => finite(rows.columns[at]![row]!))),
  ];
}

function inWords(rows: Rows, time: NonNullable<Time>, data: uPlot.AlignedData | null, picked: number[]): string {
  const times = data?.[0] ?? [];
  if (times.length === 0 || picked.length === 0) return "No values.";
  const from = instant(Math.round(times[0]! * 1e6));
  const parts = picked.map((at, series) => {
    const values = (data![series + 1] as (number | null)[]).filter((value) => value !== null);
    if (values.length === 0) return `${rows.fields[at]!.name} has no values`;
    const [low, high] = values.reduce(
      ([low, high], value) => [Math.min(low, value), Math.max(high, value)],
      [Infinity, -Infinity],
    );
    return `${rows.fields[at]!.name} from ${number(low)} to ${number(high)}`;
  });
  return `${counted(times.length, "point")} by ${time.name}, ${from} to ${instant(Math.round(times[times.length - 1]! * 1e6))}: ${parts.join(", ")}.`;
}

function options(node: HTMLElement, rows: Rows, picked: number[], line: boolean): uPlot.Options {
  const colour = (name: string) => () => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = {
    stroke: colour("--quiet"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line"), width: 1 },
    font: "12px system-ui",
  };
  return {
    width: node.clientWidth,
    height: Math.max(220, Math.min(360, Math.round(node.clientWidth * 0.5))),
    tzDate: (seconds) => (inUtc.value ? uPlot.tzDate(new Date(seconds * 1e3), "UTC") : new Date(seconds * 1e3)),
    legend: { show: false },
    cursor: { drag: { x: true, y: false } },
    axes: [
      { ...axis, values: ticks, space: 90 },
      { ...axis, size: 56 },
    ],
    series: [
      {},
      ...picked.map((at, series) => ({
        label: rows.fields[at]!.name,
        stroke: colour(`--c${series}`),
        width: 1.5,
        ...(line
          ? { points: { size: 4 } }
          : { paths: () => null, points: { show: true, size: 4, fill: colour(`--c${series}`)() } }),
      })),
    ],
  };
}
