/** The time that a stream keeps as a bar, on which BEGIN, END and NOW of a window are dragged, or moved by the arrow keys.
 *
 *     oldest ░░░░░ on disk ░░░░│──────── in memory ──────[BEGIN ====== END]── NOW
 */
import { useRef, useState } from "preact/hooks";
import { instant, span } from "../format";
import type { Reach } from "../api/asked";
import type { Window } from "../sync/window";

export type Instants = { begin: number; end: number; now: number };
type Handle = keyof Instants;

const DAY = 86_400e6;
const NAMES: Record<Handle, string> = { begin: "BEGIN", end: "END", now: "NOW" };

type Props = { reach: Reach; at: Instants; onMove: (window: Window) => void };

export function WindowBar({ reach, at, onMove }: Props) {
  const bar = useRef<HTMLDivElement>(null);
  const [dragged, setDragged] = useState<Instants | null>(null);
  const shown = dragged ?? at;
  const width = reach.now - reach.oldest;
  const percent = (time: number): string => `${Math.min(100, Math.max(0, ((time - reach.oldest) / width) * 100))}%`;

  const timeAt = (x: number): number => {
    const box = bar.current!.getBoundingClientRect();
    return reach.oldest + Math.min(1, Math.max(0, (x - box.left) / box.width)) * width;
  };
  const drag = (handle: Handle) => (event: PointerEvent) => {
    const node = event.currentTarget as HTMLElement;
    node.setPointerCapture(event.pointerId);
    node.focus();
    let latest = at;
    const follow = (moved: PointerEvent): void => setDragged((latest = movedTo(at, handle, timeAt(moved.clientX), reach)));
    const end = (): void => {
      node.removeEventListener("pointermove", follow);
      setDragged(null);
      onMove(windowAt(latest, reach));
    };
    node.addEventListener("pointermove", follow);
    node.addEventListener("pointerup", end, { once: true });
  };
  const press = (handle: Handle) => (event: KeyboardEvent) => {
    const step = event.shiftKey ? DAY : width / 100;
    const by = { ArrowLeft: -step, ArrowDown: -step, ArrowRight: step, ArrowUp: step, PageDown: -DAY, PageUp: DAY, Home: -width, End: width }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    onMove(windowAt(movedTo(at, handle, at[handle] + by, reach), reach));
  };
  return (
    <div class="window">
      <div class="track" ref={bar}>
        {reach.archivedTo > reach.oldest && <div class="archived" style={{ width: percent(reach.archivedTo) }} title="on disk only" />}
        <div class="within" style={{ left: percent(shown.begin), right: `calc(100% - ${percent(shown.end)})` }} />
        {(Object.keys(NAMES) as Handle[]).map((handle) => (
          <div
            key={handle}
            class={`handle ${handle}`}
            style={{ left: percent(shown[handle]) }}
            role="slider"
            tabIndex={0}
            aria-label={NAMES[handle]}
            aria-valuemin={Math.round(reach.oldest / 1e6)}
            aria-valuemax={Math.round(reach.now / 1e6)}
            aria-valuenow={Math.round(shown[handle] / 1e6)}
            aria-valuetext={`${instant(Math.round(shown[handle]))} UTC`}
            onPointerDown={drag(handle)}
            onKeyDown={press(handle)}
          >
            <span aria-hidden="true">{NAMES[handle]}</span>
          </div>
        ))}
      </div>
      <div class="ends quiet">
        <span>{instant(Math.floor(reach.oldest / 1e6) * 1e6)}</span>
        <span class="middle">
          {instant(Math.floor(shown.begin / 1e6) * 1e6)} to {instant(Math.floor(shown.end / 1e6) * 1e6)}, {span((shown.end - shown.begin) / 1e6)}
        </span>
        <span>{instant(Math.floor(reach.now / 1e6) * 1e6)}</span>
      </div>
    </div>
  );
}

/** The instants after one of them was moved. NOW takes the others along; BEGIN and END do not pass each other, nor NOW. */
export function movedTo(at: Instants, handle: Handle, to: number, reach: Reach): Instants {
  const time = Math.min(Math.max(to, reach.oldest), reach.now);
  if (handle === "now") return { begin: Math.max(at.begin + time - at.now, reach.oldest), end: Math.max(at.end + time - at.now, reach.oldest), now: time };
  if (handle === "begin") return { ...at, begin: Math.min(time, at.end) };
  return { ...at, end: Math.min(Math.max(time, at.begin), at.now) };
}

/** The window of three instants: to the second, as the address and a statement have it. */
export function windowAt({ begin, end, now }: Instants, reach: Reach): Window {
  const back = (time: number): number => Math.max(0, Math.round((now - time) / 1e6));
  return {
    now: now >= reach.now ? null : Math.round(now / 1e6) * 1e6,
    begin: begin <= reach.oldest ? "start" : back(begin),
    end: back(end),
  };
}
