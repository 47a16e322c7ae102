"""The boundaries of one attribute: the sorted constants of all its intervals, each once.

    a >= 10, a < 20, a = 35          boundaries 10  20  35  36           (35 as an interval is [35, 36))
    name = 'ab'                      boundaries "ab"  "ab\\0"

Boundaries are order keys: int64, or bytes for TEXT. They are immutable, and convert columns to codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.data.values import Values
from psoup.kernels.arrive import codes as kernels
from psoup.plan.factors import Key
from psoup.values.columns import Array

_TABLE_BITS = (8, 20)
"""The fewest and the most bits of the number of buckets in a lookup table for integers: 1 KiB to 4 MiB."""

_NO_TABLE: Array = np.zeros(0, np.int32)
_ONE_KEY: Array = np.array([0, 1], np.int32)
"""The lookup table of a single boundary, the usual case for expressions."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """D boundaries of one attribute, ascending.

    `keys`: int64[D]; for TEXT the first eight bytes of each, uint64[D]. `offsets`, `data`: the texts, as in a column.
    `table`, `shift`: the lookup table, see `psoup.kernels.arrive.codes.encode_int64`.
    """

    keys: Array
    table: Array
    shift: int = 0
    offsets: Array | None = None
    data: Array | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def text(self) -> bool:
        """Whether the keys are bytes."""
        return self.offsets is not None

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.keys, self.table, self.offsets, self.data)
        return sum(array.nbytes for array in arrays if array is not None)

    def encode(self, values: Values, base: int, out: Array) -> None:
        """Set out[i] (int32[n]) to `base` plus the code of value i. NULL has the code D + 1, an error D + 2.

        The code of a value is the number of boundaries that are at most as great. O(n log D).
        """
        if self.offsets is None:
            kernels.encode_int64(values.keys, self.keys, self.table, self.shift, base, out)
        else:
            kernels.encode_text(values.offsets, values.data, values.keys, self.offsets, self.data, self.keys, base, out)
        if values.valid is not None:
            kernels.mark_rows(values.valid, 0, base + len(self) + 1, out)
        if values.error is not None:
            kernels.mark_rows(values.error, 1, base + len(self) + 2, out)

    def key(self, position: int) -> Key:
        """The boundary at a position. O(1)."""
        if self.offsets is None or self.data is None:
            return int(self.keys[position])
        return bytes(self.data[self.offsets[position] : self.offsets[position + 1]])

    def select(self, mask: Array) -> Bounds:
        """The boundaries where `mask` (bool[D]) is true. O(D)."""
        if self.offsets is None:
            return int_bounds(self.keys[mask])
        return _from_arrow(self._arrow().filter(pa.array(mask)))

    def positions(self, keys: Bounds) -> Array:
        """The code of each of the k boundaries `keys` among these boundaries: int32[k]. O(k log D)."""
        out = np.empty(len(keys), np.int32)
        self.encode(Values(keys.keys, keys.offsets, keys.data), 0, out)
        return out

    def _arrow(self) -> pa.Array:
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)


def distinct(keys: Array) -> Array:
    """The different values of `keys`, ascending. O(n log n). Faster than NumPy's `unique`, which hashes first."""
    ordered = np.sort(keys)
    return ordered[np.diff(ordered, prepend=ordered[:1] - 1) != 0] if len(ordered) else ordered


def int_bounds(keys: Array) -> Bounds:
    """Boundaries from int64 keys, ascending, no two equal."""
    keys = np.ascontiguousarray(keys, np.int64)
    if not len(keys):
        return Bounds(keys, _NO_TABLE)
    if len(keys) == 1:
        return Bounds(keys, _ONE_KEY)
    span = int(keys[-1]) - int(keys[0])
    bits = min(max(_TABLE_BITS[0], (4 * len(keys)).bit_length()), _TABLE_BITS[1])
    shift = max(0, span.bit_length() - bits)
    buckets = (keys.view(np.uint64) - keys.view(np.uint64)[0]) >> np.uint64(shift)
    table = np.searchsorted(buckets, np.arange((span >> shift) + 2, dtype=np.uint64))
    return Bounds(keys, table.astype(np.int32), shift)


def text_bounds(texts: Sequence[bytes]) -> Bounds:
    """Boundaries from byte strings, ascending, no two equal."""
    return _from_arrow(pa.array(texts, pa.large_binary()))


def edge_bounds(texts: pa.LargeBinaryArray, past: Array) -> Bounds:
    """Boundaries at texts, or just past the texts with a 1 in `past` (int64[n]). They must ascend, and no two be equal.
    O(bytes)."""
    plain = _from_arrow(texts)
    assert plain.offsets is not None and plain.data is not None
    lengths = np.diff(plain.offsets)
    offsets = np.zeros(len(plain) + 1, np.int64)
    np.cumsum(lengths + past, out=offsets[1:])
    data = np.zeros(int(offsets[-1]), np.uint8)  # the byte just past a text is a zero
    data[np.repeat(offsets[:-1] - plain.offsets[:-1], lengths) + np.arange(len(plain.data))] = plain.data
    return Bounds(plain.keys, _NO_TABLE, 0, offsets, data)


def union(parts: Sequence[Bounds]) -> Bounds:
    """The union of sets of boundaries of one attribute. There must be at least one set. O(n log n)."""
    if not parts[0].text:
        return int_bounds(distinct(np.concatenate([part.keys for part in parts])))
    unique = pc.unique(pa.chunked_array([part._arrow() for part in parts]))
    return _from_arrow(unique.take(pc.sort_indices(unique)))


def _from_arrow(texts: pa.Array) -> Bounds:
    """Make boundaries from Arrow binaries. Copies them into NumPy arrays, so that kernels get one kind of array."""
    if len(texts) == 0:
        return Bounds(np.zeros(0, np.uint64), _NO_TABLE, 0, np.zeros(1, np.int64), np.zeros(0, np.uint8))
    source = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    offsets = source - source[0]
    data = np.zeros(int(offsets[-1]), np.uint8)
    if len(data):
        data[:] = np.frombuffer(texts.buffers()[2], np.uint8)[source[0] : source[-1]]
    keys = np.empty(len(texts), np.uint64)
    kernels.prefix_keys(offsets, data, keys)
    return Bounds(keys, _NO_TABLE, 0, offsets, data)
