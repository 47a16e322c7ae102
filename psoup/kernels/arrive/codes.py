"""Values to codes: the place of a value among the sorted constants (boundaries) of its attribute.

    boundaries        10        20        35            D = 3
    value         7   |  10 19  |   20    |  99
    code          0   |   1     |    2    |   3         NULL: D + 1, error: D + 2

A code is kept as a *row*, `base + code`; `base` is the attribute's place in one numbering of all codes. An interval of
values is then a pair of rows. Rows mean nothing outside the index that made them.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.arrive.arrays import IndexArrays
from psoup.kernels.compile.inner import inner


@njit(cache=True, nogil=True)
def encode_int64(keys, bounds, table, shift, base, out):
    """out[i] = base + number of boundaries <= keys[i].

    keys: int64[n], read. bounds: int64[D], ascending, no two equal, read. table: int32[t + 1], read: bucket k holds the
    boundaries table[k] up to table[k + 1], all those b with (b - bounds[0]) >> shift == k; t * 2**shift is above
    bounds[D - 1] - bounds[0]. out: int32[n], written. O(n * log of a bucket's boundaries).
    """
    size = bounds.shape[0]
    if size == 0:
        out[:] = base
        return
    minimum, maximum, move = bounds[0], bounds[size - 1], np.uint64(shift)
    if shift == 0:  # a bucket holds one value: nothing to search, and no branch to mispredict
        for i in range(keys.shape[0]):
            key = min(max(keys[i], minimum), maximum)
            out[i] = base + (table[key - minimum + 1] if keys[i] >= minimum else 0)
        return
    for i in range(keys.shape[0]):
        key = keys[i]
        if key < minimum:
            out[i] = base
        elif key >= maximum:
            out[i] = base + size
        else:
            bucket = np.int64((np.uint64(key) - np.uint64(minimum)) >> move)
            first, last = table[bucket], table[bucket + 1]
            while first < last:
                middle = (first + last) >> 1
                if bounds[middle] <= key:
                    first = middle + 1
                else:
                    last = middle
            out[i] = base + first


@njit(cache=True, nogil=True)
def prefix_keys(offsets, data, out):
    """The first eight bytes of each text as a big-endian number, shorter texts padded with zeros.

    offsets: int64[n + 1], data: uint8[b], read. out: uint64[n], written. O(n).
    """
    for i in range(out.shape[0]):
        key = np.uint64(0)
        start, stop = offsets[i], offsets[i + 1]
        for k in range(8):
            byte = data[start + k] if start + k < stop else np.uint8(0)
            key = (key << np.uint64(8)) | np.uint64(byte)
        out[i] = key


@inner
def _not_above(data_a, start_a, stop_a, data_b, start_b, stop_b):
    """Whether text a <= text b by bytes."""
    length = min(stop_a - start_a, stop_b - start_b)
    for k in range(length):
        a, b = data_a[start_a + k], data_b[start_b + k]
        if a != b:
            return a < b
    return stop_a - start_a <= stop_b - start_b


@njit(cache=True, nogil=True)
def encode_text(offsets, data, keys, bound_offsets, bound_data, bound_keys, base, out):
    """out[i] = base + number of boundaries <= text i, by bytes.

    offsets: int64[n + 1], data: uint8[b], keys: uint64[n] (see `prefix_keys`): the texts, read. bound_*: the same
    of D boundaries, ascending, no two equal, read. out: int32[n], written. O(n log D) comparisons of keys, and of
    bytes only where the keys are equal.
    """
    size = bound_keys.shape[0]
    for i in range(keys.shape[0]):
        key = keys[i]
        first, last = 0, size
        while first < last:
            middle = (first + last) >> 1
            bound = bound_keys[middle]
            below = bound < key
            if bound == key:
                below = _not_above(
                    bound_data, bound_offsets[middle], bound_offsets[middle + 1], data, offsets[i], offsets[i + 1]
                )
            if below:
                first = middle + 1
            else:
                last = middle
        out[i] = base + first


@njit(cache=True, nogil=True)
def mark_rows(flags, wanted, row, out):
    """out[i] = row where flags[i] == wanted. flags: uint8[n], read; out: int32[n], written. O(n)."""
    for i in range(flags.shape[0]):
        if flags[i] == wanted:
            out[i] = row


@njit(cache=True, nogil=True)
def count_codes(codes, base, counts, ranks, starts):
    """Prefix counts of the codes of every attribute, and a dense numbering of the codes that occur.

    codes: int32[A, n], rows, read. base: int64[A + 1], the rows of attribute a are [base[a], base[a + 1]), read.
    counts: int32[base[A]], written: tuples of the attribute whose row is smaller. ranks: int32[base[A]], written:
    starts[a] + how many different smaller rows of the attribute occur. starts: int64[A + 1], written; attribute a
    has ranks starts[a] up to and without starts[a + 1]. O(A * n + base[A]).
    """
    counts[:] = 0
    starts[0] = 0
    for a in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            counts[codes[a, i]] += 1
        total, rank = np.int32(0), np.int32(starts[a])
        for row in range(base[a], base[a + 1]):
            count = counts[row]
            counts[row] = total
            ranks[row] = rank
            total += count
            rank += 1 if count > 0 else 0
        starts[a + 1] = rank + 1


@njit(cache=True, nogil=True)
def sort_tuples(codes, base, counts, use, cursor, order):
    """The tuples in order of their code, for the attributes in use; equal codes in stream order.

    codes: int32[A, n], base: int64[A + 1], counts: int32[base[A]] (see `count_codes`), use: uint8[A], read.
    cursor: int32[base[A]], scratch. order: int32[A, n], rows in use written: tuples with a code in rows [lo, hi)
    are order[a, counts[lo]:counts[hi]]. O(n + D) per attribute in use.
    """
    for a in range(codes.shape[0]):
        if use[a] == 0:
            continue
        for row in range(base[a], base[a + 1]):
            cursor[row] = counts[row]
        for i in range(codes.shape[1]):
            row = codes[a, i]
            order[a, cursor[row]] = i
            cursor[row] += 1


@njit(cache=True, nogil=True)
def count_some(keys, clauses, index, counts, ranks, starts, order):
    """Write the output of `count_codes` and `sort_tuples`, but only for rows that tuples have or that some clauses use.

    keys: uint64[A, n], row << 32 | tuple, ascending; clauses: int32[k], index: `IndexArrays`, read. counts, ranks:
    int32[base[A]], written at those rows; starts: int64[A + 1], order: int32[A, n], written.
    O(A * n + intervals of the clauses * log n).
    """
    clause_ptr, factor_ptr, iv_lo, iv_hi, iv_attr = IndexArrays(*index)
    n = keys.shape[1]
    starts[0] = 0
    for a in range(keys.shape[0]):
        last, rank = np.int64(-1), starts[a] - 1
        for i in range(n):
            row = np.int64(keys[a, i] >> np.uint64(32))
            order[a, i] = keys[a, i] & np.uint64(0xFFFF_FFFF)
            if row != last:
                rank += 1
                counts[row], ranks[row] = i, rank
                last = row
        starts[a + 1] = rank + 2
    for k in range(clauses.shape[0]):
        first, last = factor_ptr[clause_ptr[clauses[k]]], factor_ptr[clause_ptr[clauses[k] + 1]]
        for i in range(first, last):
            a = iv_attr[i]
            for edge in (iv_lo[i], iv_hi[i]):
                sought = np.uint64(edge) << np.uint64(32)
                low, high = 0, n
                while low < high:
                    middle = (low + high) >> 1
                    if keys[a, middle] < sought:
                        low = middle + 1
                    else:
                        high = middle
                counts[edge] = low
                ranks[edge] = ranks[keys[a, low] >> np.uint64(32)] if low < n else starts[a + 1] - 1
