"""Different names for columns whose names repeat: of the answers of a query, and of a subselect in FROM.

    SELECT a.k, b.k, b.K, b.k_1   ->   k, k_2, K_3, k_1

`psoup_proto.column_names` is the twin of this module, for clients, which have no engine.
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
