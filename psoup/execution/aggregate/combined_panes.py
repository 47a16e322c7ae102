"""The way that folds the rows of a HOP by pane. Then it combines the states of panes into states of buckets.

    pane 0   count 7 ──┬─> bucket 0   count 7 + 1 + 4        a row is folded once, however many buckets it is in
    pane 1   count 1 ──┤   bucket 1   count 1 + 4 + 2
    pane 2   count 4 ──┴─> …

The panes of a bucket are added in their order. The folds of whole chunks that serve `GROUP BY tumble(t, pane)` serve
here, too (`psoup.execution.aggregate.window_folds`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from psoup.aggregates.recipes import Fold
from psoup.execution.aggregate.fold_rows import Folder, folded, states_of
from psoup.execution.aggregate.pane_facts import combines_panes
from psoup.execution.aggregate.row_parts import GroupCase, GroupTable
from psoup.expressions.civil import FIRST_MICRO
from psoup.expressions.times.moments import MONDAY
from psoup.plan.nodes import Aggregate, Hop
from psoup.values.columns import Array, Column


def serves(node: object) -> bool:
    """Whether the states of the buckets are exactly the combined states of their panes."""
    return isinstance(node, Hop) and combines_panes(node)


def combined_panes(case: GroupCase) -> GroupTable:
    """Compute the table of buckets. O(rows + groups of panes * buckets of a tuple).

    Raises ResourceExhausted if the groups are too many, or too large.
    """
    hop, budget = case.buckets, case.rows.reading.budget
    folder = folded(case)
    case.hold(2 * folder.fold_bytes)  # the panes in order, and once more by their place in a slide
    panes = replace(folder.folded(0, 0), failed=0)
    del folder
    buckets = Folder(case.node, case.rows.reading, case.hold)
    for part in bucket_parts(panes, hop):
        budget.check()
        buckets.join(part)
    return buckets.table()


def bucket_parts(panes: Fold, hop: Hop) -> Iterator[Fold]:
    """Yield folds of panes with the keys of buckets: the first pane of each bucket, then the second pane, and so on.

    `panes`: the groups of panes. A pane comes once for each of its buckets.
    """
    key = panes.keys[hop.place]
    timed = np.arange(len(key)) if key.valid is None else np.flatnonzero(key.valid)
    if key.valid is not None and len(timed) < len(key):
        yield _taken(panes, hop.aggregate, np.flatnonzero(~key.valid))
    places = panes_after(key.values[timed], hop)
    classes = [timed[places == place] for place in range(hop.slide // hop.pane)]
    parts = [_taken(panes, hop.aggregate, rows) for rows in classes]
    for number in range(hop.panes):
        part = parts[number % len(parts)]
        if part.groups:
            yield from _moved(part, hop, number * hop.pane)


def panes_after(begins: Array, hop: Hop) -> Array:
    """The number of panes from the beginning of the last bucket of each pane to the pane itself: int64[n].

    `begins`: the beginnings of panes, int64[n].
    """
    return (begins % hop.slide - MONDAY % hop.slide) % hop.slide // hop.pane


def _taken(fold: Fold, node: Aggregate, rows: Array) -> Fold:
    """The fold with some of its groups only. `rows`: int64, ascending."""
    if len(rows) == fold.groups:
        return fold
    foldings = [each.folding for each in states_of(node).values()]
    states = tuple([folding.arrange(state, rows) for folding, state in zip(foldings, fold.states, strict=True)])
    return replace(fold, keys=tuple([key.take(rows) for key in fold.keys]), states=states)


def _moved(fold: Fold, hop: Hop, back: int) -> Iterator[Fold]:
    """Yield the fold with the beginnings of its panes moved back. Leaves out beginnings before the first TIMESTAMP."""
    key = fold.keys[hop.place]
    early = np.flatnonzero(key.values < FIRST_MICRO + back)
    if len(early):
        fold = _taken(fold, hop.aggregate, np.flatnonzero(key.values >= FIRST_MICRO + back))
        key = fold.keys[hop.place]
    begins = Column(key.type, key.values - back)
    yield replace(fold, keys=(*fold.keys[: hop.place], begins, *fold.keys[hop.place + 1 :]))
