/** Different names for the columns of an answer, as `psoup_proto.column_names` gives them: k, k, K become k, k_1, K_2.
 * A name that another column has is passed over. */
export function uniqueNames(names: readonly string[]): string[] {
  const taken = new Set(names.map((name) => name.toLowerCase()));
  const last = new Map<string, number>();
  return names.map((name) => {
    const folded = name.toLowerCase();
    const before = last.get(folded);
    if (before === undefined) {
      last.set(folded, 0);
      return name;
    }
    let number = before + 1;
    while (taken.has(`${folded}_${number}`)) number++;
    last.set(folded, number);
    taken.add(`${folded}_${number}`);
    return `${name}_${number}`;
  });
}

/** Columns with different names. */
export function named<Column extends { name: string }>(columns: readonly Column[]): Column[] {
  const names = uniqueNames(columns.map(({ name }) => name));
  return columns.map((column, at) => ({ ...column, name: names[at]! }));
}
