"""The way that folds each row of a HOP once for each of its buckets. It serves every aggregate.

    t      x        bucket  x
    12:07  3   ─>   12:05   3       hop(t, INTERVAL 5 MINUTES, INTERVAL 10 MINUTES)
                    12:00   3
    12:11  5   ─>   12:10   5       the rows of a bucket stay in their order
                    12:05   5

The rows are repeated in pieces, and the bytes of a piece are charged to the read. A kept fold in the middle of the
window has states of panes. They are added to their buckets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np

from psoup.aggregates.recipes import Fold
from psoup.data.dictionary_column import Coded
from psoup.execution.aggregate.combined_panes import bucket_parts
from psoup.execution.aggregate.fold_rows import Folder, row_pieces, text_pieces
from psoup.execution.aggregate.row_parts import GroupCase, GroupTable, parts_of
from psoup.expressions.civil import FIRST_MICRO
from psoup.expressions.times.moments import MONDAY
from psoup.plan.nodes import Hop
from psoup.values.columns import Array, Column

_ROWS = 65_536
"""The most repeated rows of a piece, unless one row is repeated more often."""
_BYTES = 1 << 24
"""The most bytes of a piece, if its texts have about the same length, unless it has one row."""


def repeated_rows(case: GroupCase) -> GroupTable:
    """Compute the table of buckets. O(rows * buckets of a tuple).

    Raises ResourceExhausted if the groups are too many, or too large.
    """
    hop, reading = case.buckets, case.rows.reading
    folder = Folder(replace(case.node, keys=hop.keys), reading, case.hold)
    place, pane = folder.wanted.index(hop.key), case.node.keys[hop.place]
    wanted = [pane if at == place else expr for at, expr in enumerate(folder.wanted)]

    def join(fold: Fold) -> None:
        reading.folded_errors += fold.failed
        for part in bucket_parts(replace(fold, failed=0), hop):
            folder.join(part)

    with text_pieces(reading):
        for some in row_pieces(case.rows, join):
            with closing(parts_of(some, wanted)) as parts:
                for _, given in parts:
                    _add(folder, [_values(column) for column in given], place, case)
    return folder.table()


def _add(folder: Folder, columns: Sequence[Column], place: int, case: GroupCase) -> None:
    """Add the rows of a part once for each of their buckets. `place`: the place of the panes among `columns`."""
    hop, reading = case.buckets, case.rows.reading
    reading.count_folded(columns)
    for start, stop in _pieces(columns, hop):
        reading.budget.check()
        rows, begins = repeated(columns[place].slice(start, stop), hop)
        size = sum([column.bytes_at(rows + start) for column in columns])
        reading.budget.hold(size, "the rows of a hop, once for each bucket,")
        try:
            repetitions = [_plain(column).take(rows + start) for column in columns]
            repetitions[place] = begins
            folder.add(len(rows), repetitions)
        finally:
            reading.budget.give_back(size)


def repeated(pane: Column, hop: Hop) -> tuple[Array, Column]:
    """For each row and bucket: the place of the row, int64[k] ascending, and the beginning of the bucket.

    `pane`: the beginning of each row's pane. A NULL has one bucket, which is NULL. Buckets that begin before the first
    TIMESTAMP are left out.
    """
    begins, slide = pane.values, hop.slide
    into = (begins % slide - MONDAY % slide) % slide
    counts = (hop.size - hop.pane - into) // slide + 1
    early = np.flatnonzero(begins < FIRST_MICRO + hop.size)
    counts[early] = np.minimum(counts[early], np.maximum((begins[early] - FIRST_MICRO - into[early]) // slide + 1, 0))
    if pane.valid is not None:
        counts[~pane.valid] = 1
    rows = np.repeat(np.arange(len(begins)), counts)
    number = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    values = (begins - into)[rows] - number * slide
    if pane.valid is None:
        return rows, Column(pane.type, values)
    valid = pane.valid[rows]
    return rows, Column(pane.type, np.where(valid, values, 0), valid)


def _pieces(columns: Sequence[Column], hop: Hop) -> Iterator[tuple[int, int]]:
    """Yield the first row and the end of each piece."""
    count = len(columns[0])
    each = hop.buckets * (1 + sum([column.nbytes for column in columns]) // max(count, 1))
    step = max(min(_ROWS // hop.buckets, _BYTES // each), 1)
    for start in range(0, count, step):
        yield start, min(start + step, count)


def _values(column: Column | Coded) -> Column:
    assert isinstance(column, Column)  # no key was asked for in dictionary encoding
    return column


def _plain(column: Column) -> Column:
    """The column without its errors, which are counted once for each row."""
    return column if column.error is None else replace(column, error=None)
