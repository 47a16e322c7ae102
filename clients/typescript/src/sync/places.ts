/** Rows without tuple IDs, told by their positions: some leave, move, or come between.
 *
 *     rows   a b c d e      removed 1 3      places 2 4      new x f
 *     after  a c x e f      a, c, e stay, at the positions 0, 1, 3 that no new row takes
 */
import { ends, inside } from "./intervals.js";

export type Placing = { removed: readonly bigint[]; places: readonly bigint[]; moved: readonly bigint[] };

/** For each row after a change its place among those of before, or, behind them, among the new ones. */
export function placed(rows: number, fresh: number, change: Placing): number[] {
  const removed = ends(change.removed);
  const stays = Array.from({ length: rows }, (_, place) => place).filter((place) => !inside(removed, place));
  const after = new Array<number>(stays.length + fresh).fill(-1);
  const places = ends(change.places);
  let next = rows;
  for (let place = 0; place < after.length; place++) if (inside(places, place)) after[place] = next++;
  if (next !== rows + fresh) throw new Error("not as many places as new rows");
  const moves = ends2(change.moved);
  const gone = new Set<number>();
  for (const [from, to] of moves) {
    if (after[to] !== -1) throw new Error("a row moves to a place that is taken");
    after[to] = from;
    gone.add(from);
  }
  let free = 0;
  for (const row of stays) {
    if (gone.has(row)) continue;
    while (after[free] !== -1) free++;
    after[free] = row;
  }
  return after;
}

/** Pairs of positions, each the differences to the pair before. */
function ends2(differences: readonly bigint[]): [number, number][] {
  const pairs: [number, number][] = [];
  let [from, to] = [0, 0];
  for (let at = 0; at + 1 < differences.length; at += 2) {
    from += Number(differences[at]);
    to += Number(differences[at + 1]);
    pairs.push([from, to]);
  }
  return pairs;
}
