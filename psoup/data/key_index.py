"""A key index: the rows of a closed chunk's column in the order of their values, for look-ups of few rows.

    row    0    1   2    3                  rows   1 3 0 2          a = 12: places 0 to 2, rows 1 and 3
    a      305  12  307  12                 tags   0 0 1 3          a in [306, 400): place 3, row 2

The form is defined in `psoup.kernels.search.key_index`: 4 to 6 bytes a tuple. The key of a TEXT is a hash, so a look-up
gives rows that may hold the text. An index never changes. It is made after some searches of the column
(`psoup.data.key_room`). Any thread may drop it, as it can be made again from the chunk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psoup.invariants import ensure
from psoup.kernels.search.key_index import number_texts, order_rows
from psoup.model import Kind
from psoup.values.columns import Array, Column, plain

_TAG_BITS = 16
_ALL_VALID: Array = np.zeros(0, np.uint8)
_SAMPLE = 512
"""The most rows of a column that are sampled to count its distinct values."""
_PLACES: Array = np.arange(_SAMPLE) * 2_654_435_761
"""The places of sampled rows. Their step is a constant that periodic values are unlikely to share."""


USELESS = -1
"""Stands in place of the index of a column with too few distinct values."""


class KeyIndexes(dict[int, "KeyIndex | int"]):
    """For each column of a chunk its index, or else the number of its searches, or USELESS."""

    __slots__ = ("__weakref__",)


@dataclass(slots=True, eq=False, weakref_slot=True)
class KeyIndex:
    """The key index of one column. `words`: the starts of the buckets, then rows, then tags.

    `facts`: the description of `words` for the kernels; see `psoup.kernels.search.key_index`. `place`: the address of
    `facts`. `exact`: whether each row that a look-up returns certainly has a key in the interval. `used`: whether a
    reader used the index since the last check of `psoup.data.key_room`.
    """

    words: Array
    facts: Array
    exact: bool
    used: bool = True
    place: int = 0

    def __post_init__(self) -> None:
        """Store the address of the facts."""
        self.place = int(self.facts.__array_interface__["data"][0])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.words.nbytes + self.facts.nbytes

    @property
    def rows(self) -> Array:
        """The rows that are not NULL, in the order of their keys: uint16."""
        return self.words[self.facts[1] : self.facts[1] + self.facts[2]]

    def check(self, column: Column) -> None:
        """Check that each value of the column is in its place. O(n log n)."""
        keys = key_numbers(column)
        valid = np.arange(len(column)) if column.valid is None else np.flatnonzero(column.valid)
        _, buckets, count, lowest, greatest, shift, low = self.facts.tolist()
        rows = self.rows.astype(np.int64)
        ensure(np.array_equal(np.sort(rows), valid), self, "a key index has other rows", rows=count, valid=len(valid))
        codes = (keys[rows].view(np.uint64) - np.uint64(lowest % 2**64)) >> np.uint64(shift)
        order = np.lexsort((rows, codes))
        ensure((order == np.arange(count)).all(), self, "the rows of a key index are not in order")
        ensure(int(keys[rows[0]]) >= lowest and int(keys[rows].max()) == greatest, self, "a key is beyond the ends")
        starts = np.searchsorted(codes >> np.uint64(low), np.arange(buckets, dtype=np.uint64))
        ensure(np.array_equal(starts, self.words[:buckets]), self, "a bucket begins elsewhere")
        tags = self.words[buckets + count :]
        ensure(not low or np.array_equal(tags, codes & np.uint64((1 << low) - 1)), self, "a tag is another")


def key_numbers(column: Column) -> Array:
    """The keys by which an index sorts rows, int64[n]: the order keys of the values, or hashes of texts. O(values)."""
    if column.type.kind is not Kind.TEXT:
        return plain(column.order_keys())
    assert column.data is not None
    return text_numbers(column.values, column.data)


def text_numbers(offsets: Array, data: Array) -> Array:
    """Hashes of texts (int64[n + 1], uint8): int64[n], of 32 bits. O(bytes)."""
    numbers: Array = np.empty(len(offsets) - 1, np.int64)
    number_texts(plain(offsets), plain(data), numbers)
    return numbers


def key_index(column: Column, values: int = 32) -> KeyIndex | None:
    """The index of a column with at most 65,536 rows. None if it has too few distinct values. O(n)."""
    keys = key_numbers(column)
    valid = _ALL_VALID if column.valid is None else plain(column.valid).view(np.uint8)
    valid_keys = keys[valid.view(np.bool_)] if len(valid) else keys
    if not len(valid_keys) or not _differ(valid_keys, values):
        return None
    lowest, highest = int(valid_keys.min()), int(valid_keys.max())
    bucket_bits = max(len(valid_keys).bit_length() - 1, 1)
    bits = (highest - lowest).bit_length()
    coded = min(bits, bucket_bits + _TAG_BITS)
    low, shift = max(coded - bucket_bits, 0), bits - coded
    buckets, count = ((highest - lowest) >> (shift + low)) + 1, len(valid_keys)
    words: Array = np.empty(buckets + (2 if low else 1) * count, np.uint16)
    starts, rows, tags = words[:buckets], words[buckets : buckets + count], words[buckets + count :]
    order_rows(keys, valid, lowest, shift, low, starts, rows, tags)
    address = words.__array_interface__["data"][0]
    facts: Array = np.array([address, buckets, count, lowest, highest, shift, low], np.int64)
    return KeyIndex(words, facts, not shift and column.type.kind is not Kind.TEXT)


def _differ(keys: Array, values: int) -> bool:
    """Whether a sample of the keys has at least `values` distinct keys, or half as many as it has rows."""
    sample = keys if len(keys) <= _SAMPLE else keys[_PLACES % len(keys)]
    return len(np.unique(sample)) >= min(values, len(sample) // 2)
