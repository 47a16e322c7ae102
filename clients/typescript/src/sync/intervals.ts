/** Intervals whose ends are told as differences: [low, high) pairs, each number the difference to the one before. */

/** The ends themselves. */
export function ends(differences: readonly bigint[]): number[] {
  let sum = 0n;
  return differences.map((step) => Number((sum += step)));
}

/** Whether a number lies in one of ascending intervals. O(log n). */
export function inside(of: readonly number[], value: number): boolean {
  let low = 0;
  let high = of.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of[middle]! <= value) low = middle + 1;
    else high = middle;
  }
  return low % 2 === 1;
}

/** Throws unless these are intervals, none empty: ascending, or of joined rows one for each source. */
export function checkIntervals(name: string, differences: readonly bigint[], sources: number, least?: bigint): void {
  const grows = differences.filter((_, place) => (sources === 1 ? place > 0 : place % 2 === 1));
  const odd = differences.length % (sources === 1 ? 2 : 2 * sources) !== 0;
  if (odd || grows.some((step) => step <= 0n)) throw new Error(`the ends of ${name} are not intervals`);
  if (least !== undefined && differences.length > 0 && differences[0]! < least)
    throw new Error(`${name} begins before the first row`);
}
