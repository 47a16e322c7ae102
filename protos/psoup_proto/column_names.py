"""Different names for the columns of an answer, as a part of the contract.

    SELECT a.k, b.k, b.K, b.k_1   ->   k, k_2, K_3, k_1

A SELECT list may repeat a name. Arrow and CSV have the names as written. Rows, frames, JSON and tables of SQLite need a
different name for each column. Clients derive these names from the written ones by this function. It has twins in
`psoup.plan.column_names`, for the service, and in `clients/typescript/src/sync/column_names.ts`, for browsers and Node.
"""

from __future__ import annotations

from collections.abc import Iterable


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """Different names for columns, without regard to case. O(columns).

    The first column of a name keeps it. Each repetition gets the next of the endings `_1`, `_2`, … that gives a name
    which no other column has.
    """
    written = tuple(names)
    taken = {name.lower() for name in written}
    if len(taken) == len(written):
        return written
    unique, last = list[str](), dict[str, int]()
    for name in written:
        folded = name.lower()
        number = last.get(folded)
        if number is None:
            last[folded] = 0
            unique.append(name)
            continue
        number += 1
        while f"{folded}_{number}" in taken:
            number += 1
        last[folded] = number
        taken.add(f"{folded}_{number}")
        unique.append(f"{name}_{number}")
    return tuple(unique)
