/** Long work in slices, between which the page draws, and hears what is typed. */

const SLICE_MS = 8;

declare const scheduler: { yield?: () => Promise<void> } | undefined;

/** Work that is under way: `rest` between its steps gives way once a slice is over. */
export class Slices {
  private begun = performance.now();

  async rest(): Promise<void> {
    if (performance.now() - this.begun < SLICE_MS) return;
    await (typeof scheduler !== "undefined" && scheduler.yield !== undefined
      ? scheduler.yield()
      : new Promise((resolve) => setTimeout(resolve)));
    this.begun = performance.now();
  }

  /** What `make` gives for each of some items, with a rest after each. */
  async each<T, U>(items: readonly T[], make: (item: T, at: number) => U): Promise<U[]> {
    const made: U[] = [];
    for (const [at, item] of items.entries()) {
      made.push(make(item, at));
      await this.rest();
    }
    return made;
  }
}
