/** The part of the kept time that the window bar shows: all of it, or what was zoomed into. Microseconds. */

export type View = { from: number; to: number };
type All = { oldest: number; now: number };

/** No bar is shorter than a minute, but one of a stream that is. */
const LEAST = 60e6;

/** The view in an address, inside what is kept now; all of it if nothing is said. */
export function viewOf(query: URLSearchParams, { oldest, now }: All): View {
  const told = /^(-?\d{1,12})~(-?\d{1,12})$/.exec(query.get("zoom") ?? "");
  if (told === null) return { from: oldest, to: now };
  const [from, to] = [Number(told[1]) * 1e6, Number(told[2]) * 1e6];
  return to - from < LEAST || to <= oldest || from >= now
    ? { from: oldest, to: now }
    : within(from, to - from, { oldest, now });
}

/** The same as a part of an address; "" for all of it. */
export function zoomOf(view: View, all: All): string {
  return isAll(view, all) ? "" : `${Math.floor(view.from / 1e6)}~${Math.ceil(view.to / 1e6)}`;
}

export function isAll(view: View, { oldest, now }: All): boolean {
  return view.from <= oldest && view.to >= now;
}

/** A view so many times as long, in which an instant stays where it is; within the limits. */
export function zoomed(view: View, around: number, times: number, all: All): View {
  const width = view.to - view.from;
  const wanted = Math.max(width * times, Math.min(LEAST, width));
  const at = Math.min(Math.max(around, view.from), view.to);
  return within(at - ((at - view.from) / width) * wanted, wanted, all);
}

/** A view so many times as long, in whose middle an instant is if the limits let it. */
export function centred(view: View, middle: number, times: number, all: All): View {
  const { from, to } = zoomed(view, middle, times, all);
  return within(middle - (to - from) / 2, to - from, all);
}

/** The view moved as far as it must be for an instant to be in it. */
export function following(view: View, time: number, all: All): View {
  const by = time < view.from ? time - view.from : time > view.to ? time - view.to : 0;
  return by === 0 ? view : within(view.from + by, view.to - view.from, all);
}

function within(from: number, width: number, { oldest, now }: All): View {
  if (width >= now - oldest) return { from: oldest, to: now };
  const begun = Math.min(Math.max(from, oldest), now - width);
  return { from: begun, to: begun + width };
}
