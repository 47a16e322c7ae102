"""A Bloom filter of the small side's keys, applied to the chunks of the large side before the join.

    small part   keys 7 9      marks  . . 1 . . 1 .      a bit for each key, at the place of its hash
    large part   chunk 4  k: 1 7 3 9 7 …   match bits   ──> rows 1 3 4       no key is copied
                 chunk 5  …

A row of the large side remains if the bit of its key is set. Some rows without a partner remain, too. The join drops
them. This serves sides with an equality of whole numbers. `psoup.joins.semi_join` filters by gathered keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from psoup.data.chunk import ChunkView
from psoup.execution.join.direct_join import Columns, direct_join
from psoup.execution.join.sides import MatchedSide
from psoup.execution.rows.source_rows import Reading
from psoup.execution.select.match_forms import KeptBits, Matches, Packed
from psoup.kernels.join.hash_buckets import mark_keys
from psoup.kernels.join.small_pairs import SPREADING
from psoup.kernels.join.stored_pairs import marked_rows
from psoup.kernels.rows.batch_body import WIDE
from psoup.kernels.rows.bitmaps import offsets_to_bits
from psoup.plan.nodes import Join
from psoup.values.columns import Array
from psoup.work.runner import threads_of

_RATIO = 4
"""The large side is filtered only if it has at least 4 rows for each row of the small side."""
_LARGE = 32_768
"""The least number of rows of a large side that is filtered."""
_FEWEST = 16
"""The least number of bits for each key. With n bits a key, about 1/n of the rows without a partner remain."""
_MOST = 64
"""The most bits for each key."""
_CACHED = 1 << 22
"""The size in bits up to which a filter may have more than `_FEWEST` bits a key. It fits in the processor's cache."""
_NO_BITS: Array = np.zeros(0, np.uint64)

Side = Sequence[Matches]


def cut_by_marks(node: Join, parts: Sequence[Side], reading: Reading) -> Sequence[Side]:
    """Filter the larger side by the keys of the smaller one, if it is much larger. Returns both sides.

    O(rows), 1 ns each.
    """
    key = _key(node)
    counts = [sum([match.count for match in part]) for part in parts]
    small, large = (0, 1) if counts[0] < counts[1] else (1, 0)
    here = all(isinstance(match.data, ChunkView) for part in parts for match in part)
    if key is None or not here or counts[large] < max(_LARGE, _RATIO * counts[small]):
        return parts
    side = MatchedSide(parts[small], reading.texts, reading.budget)
    small_keys = side.keys(key.columns[small], WIDE)
    bits = max(_FEWEST * side.rows, min(_MOST * side.rows, _CACHED)).bit_length()
    shift, marks = np.uint64(64 - bits), np.zeros(1 << (bits - 6), np.uint64)
    mark_keys(small_keys.keys, small_keys.taking_part, SPREADING, shift, marks)
    cut: list[Matches | None] = [None] * len(parts[large])
    places = iter(range(len(cut)))

    def cut_some() -> None:
        for place in places:  # an iterator of a range gives each number to one thread
            cut[place] = _cut(parts[large][place], key.columns[large], shift, marks)

    reading.run([partial(cut_some) for _ in range(threads_of(reading.run))])
    left = [match for match in cut if match is not None]
    return [left, parts[small]] if small else [parts[small], left]


def _key(node: Join) -> Columns | None:
    """An equality of two columns of whole numbers. None if there is none, or if a band has a sum, which may fail."""
    direct = direct_join(node)
    keys = () if direct is None or direct.sums else direct.keys
    return next((key for key in keys if key.kinds == (WIDE, WIDE) and min(key.columns) >= 0), None)


def _cut(match: Matches, column: int, shift: np.uint64, marks: Array) -> Packed | None:
    """The rows of a match whose keys are marked in the filter. None if there are none."""
    start, stop, own = bits_of(match)
    rows: Array = np.empty(stop - start + 1, np.uint16)
    rows = rows[: marked_rows(match.data.columns[column].values, start, stop, own, SPREADING, shift, marks, rows)]
    return Packed(match.data, int(rows[0]), len(rows), rows.copy()) if len(rows) else None


def bits_of(match: Matches) -> tuple[int, int, Array]:
    """The range [start, stop) of the rows of a match, and their bitmap. The bitmap is empty if all rows match.

    O(rows), or less.
    """
    if isinstance(match, KeptBits):
        return 0, len(match.data), match.bits
    if isinstance(match, Packed) and match.packed_offsets is None:
        return match.start, match.start + match.count, _NO_BITS
    offsets = match.offsets
    start, stop = int(offsets[0]), int(offsets[-1]) + 1
    if stop - start == len(offsets):
        return start, stop, _NO_BITS
    bits: Array = np.zeros(-(-len(match.data) // 64), np.uint64)
    offsets_to_bits(offsets, bits)
    return start, stop, bits
