/** The time that a stream keeps as a bar, on which BEGIN, END and NOW of a window are dragged, or moved by the arrow keys.
 *
 *     oldest ░░░░░ on disk ░░░░│──────── in memory ──────[BEGIN ====== END]── NOW
 *
 * A part of it is zoomed into by buttons, by the wheel at the pointer, and by the keys + - 0 at a handle.
 */
import { useEffect, useRef, useState } from "preact/hooks";
import { instant, span } from "../format";
import type { Reach } from "../api/asked";
import type { Window } from "../sync/window";
import { centred, following, isAll, type View, zoomed } from "../sync/zoom";

export type Instants = { begin: number; end: number; now: number };
type Handle = keyof Instants;

const DAY = 86_400e6;
const NAMES: Record<Handle, string> = { begin: "BEGIN", end: "END", now: "NOW" };

type Props = {
  reach: Reach;
  at: Instants;
  view: View;
  onMove: (window: Window, view: View) => void;
  onZoom: (view: View) => void;
};

export function WindowBar({ reach, at, view, onMove, onZoom }: Props) {
  const bar = useRef<HTMLDivElement>(null);
  const [dragged, setDragged] = useState<Instants | null>(null);
  const shown = dragged ?? at;
  const width = view.to - view.from;
  const percent = (time: number): string => `${Math.min(100, Math.max(0, ((time - view.from) / width) * 100))}%`;
  const outside = (time: number): boolean => time < view.from || time > view.to;

  const timeAt = (x: number): number => {
    const box = bar.current!.getBoundingClientRect();
    return view.from + Math.min(1, Math.max(0, (x - box.left) / box.width)) * width;
  };
  const wheel = (event: WheelEvent): void => {
    const next = zoomed(view, timeAt(event.clientX), event.deltaY < 0 ? 0.8 : 1.25, reach);
    if (event.deltaY === 0 || next.to - next.from === width) return; // the page scrolls on
    event.preventDefault();
    onZoom(next);
  };
  const latest = useRef(wheel);
  latest.current = wheel;
  useEffect(() => {
    const turned = (event: WheelEvent): void => latest.current(event);
    bar.current!.addEventListener("wheel", turned, { passive: false });
    return () => bar.current?.removeEventListener("wheel", turned);
  }, []);
  const drag = (handle: Handle) => (event: PointerEvent) => {
    const node = event.currentTarget as HTMLElement;
    node.setPointerCapture(event.pointerId);
    node.focus();
    let latest = at;
    const follow = (moved: PointerEvent): void =>
      setDragged((latest = movedTo(at, handle, timeAt(moved.clientX), reach)));
    const end = (): void => {
      node.removeEventListener("pointermove", follow);
      setDragged(null);
      onMove(windowAt(latest, reach), view);
    };
    node.addEventListener("pointermove", follow);
    node.addEventListener("pointerup", end, { once: true });
  };
  const press = (handle: Handle) => (event: KeyboardEvent) => {
    const step = event.shiftKey ? DAY : width / 100;
    const times = { "+": 0.5, "=": 0.5, "-": 2, "0": Infinity }[event.key];
    if (times !== undefined && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      return onZoom(following(zoomed(view, at[handle], times, reach), at[handle], reach));
    }
    const by = {
      ArrowLeft: -step,
      ArrowDown: -step,
      ArrowRight: step,
      ArrowUp: step,
      PageDown: -DAY,
      PageUp: DAY,
      Home: -Infinity,
      End: Infinity,
    }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = movedTo(at, handle, at[handle] + by, reach);
    onMove(windowAt(next, reach), following(view, next[handle], reach));
  };
  return (
    <div class="window">
      <Legend shown={shown} />
      <div class="track" ref={bar}>
        {reach.archivedTo > view.from && reach.archivedTo > reach.oldest && (
          <div class="archived" style={{ width: percent(reach.archivedTo) }} title="on disk only" />
        )}
        <div class="within" style={{ left: percent(shown.begin), right: `calc(100% - ${percent(shown.end)})` }} />
        {(Object.keys(NAMES) as Handle[]).map((handle) => (
          <div
            key={handle}
            class={outside(shown[handle]) ? `handle ${handle} outside` : `handle ${handle}`}
            style={{ left: percent(shown[handle]) }}
            role="slider"
            tabIndex={0}
            aria-label={NAMES[handle]}
            aria-valuemin={Math.round(reach.oldest / 1e6)}
            aria-valuemax={Math.round(reach.now / 1e6)}
            aria-valuenow={Math.round(shown[handle] / 1e6)}
            aria-valuetext={instant(Math.round(shown[handle]))}
            onPointerDown={drag(handle)}
            onKeyDown={press(handle)}
          />
        ))}
      </div>
      <div class="ends quiet">
        <span>{instant(Math.floor(view.from / 1e6) * 1e6)}</span>
        <span>{instant(Math.floor(view.to / 1e6) * 1e6)}</span>
      </div>
      <Zoom reach={reach} view={view} middle={middleOf(shown, view)} onZoom={onZoom} />
    </div>
  );
}

/** The handles by name with their times. Beside the handles the names would lie on each other in short windows. */
function Legend({ shown }: { shown: Instants }) {
  const handles: Handle[] = shown.end === shown.now ? ["begin", "now"] : ["begin", "end", "now"];
  return (
    <ul class="legend" aria-hidden="true">
      {handles.map((handle) => (
        <li key={handle} class={handle}>
          <b>{NAMES[handle]}</b> {instant(Math.floor(shown[handle] / 1e6) * 1e6)}
        </li>
      ))}
      <li class="quiet">{span((shown.end - shown.begin) / 1e6)}</li>
    </ul>
  );
}

function Zoom({
  reach,
  view,
  middle,
  onZoom,
}: {
  reach: Reach;
  view: View;
  middle: number;
  onZoom: (view: View) => void;
}) {
  const [whole, nearer, farther] = [
    isAll(view, reach),
    centred(view, middle, 0.5, reach),
    centred(view, middle, 2, reach),
  ];
  const [part, all] = [span((view.to - view.from) / 1e6), span((reach.now - reach.oldest) / 1e6)];
  return (
    <div class="zoom" role="group" aria-label="Zoom of the bar">
      <button type="button" aria-label="Zoom out" disabled={whole} onClick={() => onZoom(farther)}>
        −
      </button>
      <button
        type="button"
        aria-label="Zoom in"
        disabled={nearer.to - nearer.from === view.to - view.from}
        onClick={() => onZoom(nearer)}
      >
        +
      </button>
      <button type="button" disabled={whole} onClick={() => onZoom({ from: reach.oldest, to: reach.now })}>
        All
      </button>
      <span class="quiet small" aria-live="polite">
        {whole ? `All ${all} that are stored` : `${part} of ${all}`}
      </span>
    </div>
  );
}

/** The middle of what is in sight of the window; of the view, if nothing is. */
function middleOf({ begin, end }: Instants, { from, to }: View): number {
  return begin > to || end < from ? (from + to) / 2 : (Math.max(begin, from) + Math.min(end, to)) / 2;
}

/** The instants after one of them was moved. NOW takes the others along; BEGIN and END do not pass each other, nor NOW. */
export function movedTo(at: Instants, handle: Handle, to: number, reach: Reach): Instants {
  const time = Math.min(Math.max(to, reach.oldest), reach.now);
  if (handle === "now")
    return {
      begin: Math.max(at.begin + time - at.now, reach.oldest),
      end: Math.max(at.end + time - at.now, reach.oldest),
      now: time,
    };
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
