/** A table of many rows, of which only those in sight are in the document. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { digitsOf, instantUtc, shownValue, type Digits } from "../format";
import type { Field } from "psoup-client/sync/form";
import type { Column, Value } from "psoup-client/sync/values";
import { inUtc } from "../zone";
import { Scrolled } from "./scrolled";

const ROW = 32;
const MARGIN = 12;
const LONGEST = 300;
/** Characters of a column; a longer text is shown whole when it is pointed at or touched. */
const WIDEST = 36;

export type Rows = { fields: Field[]; columns: Column[]; order: number[] };

export function Table({ rows, label }: { rows: Rows; label: string }) {
  const { fields, columns, order } = rows;
  const box = useRef<HTMLDivElement>(null);
  const [from, setFrom] = useState(0);
  const [room, setRoom] = useState(20);
  const [whole, setWhole] = useState<[name: string, text: string] | null>(null);
  const utc = inUtc.value;
  const [digits, widths] = useMemo(() => {
    const digits = fields.map((field, at) => (field.kind === "timestamp" ? digitsOf(columns[at]!) : undefined));
    return [digits, fields.map((field, at) => widthOf(field, columns[at]!, order, digits[at]))];
  }, [fields, columns, utc]);
  useLayoutEffect(() => {
    const seen = new ResizeObserver(() => setRoom(Math.ceil((box.current?.clientHeight ?? 0) / ROW)));
    seen.observe(box.current!);
    return () => seen.disconnect();
  }, []);
  useEffect(() => {
    const node = box.current!;
    if (node.scrollTop > order.length * ROW) node.scrollTop = 0;
  }, [order.length]);
  const scrolled = (): void => {
    const first = Math.max(0, Math.floor(box.current!.scrollTop / ROW) - MARGIN);
    if (Math.abs(first - from) >= MARGIN / 2 || first === 0) setFrom(first);
  };
  const first = Math.min(from, Math.max(0, order.length - 1));
  const last = Math.min(order.length, first + Math.min(room, 150) + 2 * MARGIN);
  return (
    <>
      <Scrolled box={box} kind="scroll" label={label} onScroll={scrolled}>
        <table class="rows" aria-rowcount={order.length + 1}>
          <colgroup>
            {widths.map((width, at) => (
              <col key={at} style={{ width: at === 0 ? `min(${width}ch, 48vw)` : `${width}ch` }} />
            ))}
          </colgroup>
          <thead>
            <tr aria-rowindex={1}>
              {fields.map((field, at) => (
                <th key={at} scope="col" class={field.kind} title={`${field.name}: ${field.kind}`}>
                  <bdi>{field.name}</bdi>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            <Space rows={first} columns={fields.length} />
            {order.slice(first, last).map((row, at) => (
              <tr key={first + at} aria-rowindex={first + at + 2} class={(first + at) % 2 === 1 ? "odd" : ""}>
                {fields.map((field, column) => {
                  const value = columns[column]![row]!;
                  const full = shownValue(value, field, digits[column]);
                  const text = short(full);
                  const rest = restOf(value, field, text);
                  return (
                    <td
                      key={column}
                      class={value === null ? `${field.kind} null` : field.kind}
                      dir="auto"
                      title={rest}
                      onClick={
                        rest === undefined ? undefined : () => setWhole([field.name, wholeOf(field, full, rest)])
                      }
                    >
                      {text}
                    </td>
                  );
                })}
              </tr>
            ))}
            <Space rows={order.length - last} columns={fields.length} />
          </tbody>
        </table>
      </Scrolled>
      {whole !== null && (
        <div class="note row whole" role="status">
          <span>
            <bdi>{whole[0]}</bdi>: <bdi>{whole[1]}</bdi>
          </span>
          <button type="button" onClick={() => setWhole(null)}>
            Close
          </button>
        </div>
      )}
    </>
  );
}

/** What a cell does not show, for when it is pointed at or touched: a longer text, or an instant to the microsecond. */
function restOf(value: Value, field: Field, text: string): string | undefined {
  if (value !== null && field.kind === "timestamp") return `${instantUtc(value as number)} UTC`;
  return text.length > WIDEST ? text : undefined;
}

/** The whole value, for when it is touched. */
function wholeOf(field: Field, full: string, rest: string): string {
  return field.kind === "timestamp" ? rest : full;
}

function Space({ rows, columns }: { rows: number; columns: number }) {
  if (rows <= 0) return null;
  return (
    <tr aria-hidden="true" class="space" style={{ height: `${rows * ROW}px` }}>
      <td colSpan={columns} />
    </tr>
  );
}

function short(text: string): string {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

/** So many characters as most of the first values have. */
function widthOf(field: Field, column: Column, order: number[], digits?: Digits): number {
  const lengths = order.slice(0, 200).map((row) => shownValue(column[row]!, field, digits).length);
  return Math.min(Math.max(field.name.length + 1, 5, ...lengths) + 3, WIDEST);
}
