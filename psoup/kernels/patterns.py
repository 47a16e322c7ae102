"""Many patterns looked for in texts together: those that begin at a place are found by one search in their sorted list.

    patterns, sorted     an   and   ant   ban      parent: the longest other that each begins with: and -> an, ant -> an
    text                 b a n d                   place 0: the last that is not above "band" is "ban", and it is there
                           ^ and                   place 1: "and", then its parent "an"; parents need no comparison

Of what is not above a text and begins like it, all patterns that the text begins with are parents of parents. A table
of the first two bytes and a filter of the first four say at most places that no pattern begins there. A pattern counts
once in a text: where it was seen before, its parents were too. So the time follows the bytes and the hits, however
patterns lie within one another.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.arrive import _holds
from psoup.kernels.codes import _not_above
from psoup.kernels.inner import inner

SHORT, LONG = 1, 2
"""Flags of two bytes: a pattern of at most three bytes may begin with them; one of more does."""
_FILTER_BITS = 17
_MIX = np.uint64(0x9E37_79B9_7F4A_7C15)


@njit(cache=True, nogil=True, inline="always")
def _filtered(word):
    """The place of four bytes in the filter."""
    return np.int64((np.uint64(word) * _MIX) >> np.uint64(64 - _FILTER_BITS))


@njit(cache=True, nogil=True)
def link_patterns(offsets, data, parent, jump):
    """What patterns begin with.

    offsets: int64[K + 1], data: uint8: patterns in order, none empty; equal ones may be there. Read. parent: int32[K],
    written: the longest other before it that it begins with, or is equal to; -1 if there is none. jump: int32[K],
    written: a parent of parents from which on half of them are left, about, so that one of a length is found in
    O(log). O(bytes).
    """
    depth = np.zeros(parent.shape[0], np.int32)
    for p in range(parent.shape[0]):
        q = p - 1
        while q >= 0:
            size = offsets[q + 1] - offsets[q]
            same = size <= offsets[p + 1] - offsets[p]
            k = 0
            while same and k < size:
                same = data[offsets[q] + k] == data[offsets[p] + k]
                k += 1
            if same:
                break
            q = parent[q]
        parent[p], jump[p] = q, q
        if q < 0:
            continue
        depth[p] = depth[q] + 1
        far = jump[q]
        if far >= 0 and jump[far] >= 0 and depth[q] - depth[far] == depth[far] - depth[jump[far]]:
            jump[p] = jump[far]


@njit(cache=True, nogil=True)
def filter_patterns(offsets, data, keys, starts, flags, bits):
    """Tables of how patterns begin.

    offsets, data: see `link_patterns`; keys: uint64[K], see `prefix_keys`. Read. starts: int32[65537], written: those
    whose first two bytes (a zero behind a single one) are b lie from starts[b] up to starts[b + 1]. flags:
    uint8[65536], bits: uint8[2**17], zeros before, written.
    """
    starts[:] = 0
    for p in range(keys.shape[0]):
        two, size = np.int64(keys[p] >> np.uint64(48)), offsets[p + 1] - offsets[p]
        starts[two + 1] += 1
        if size == 1:
            flags[two : two + 256] |= np.uint8(SHORT)
        elif size < 4:
            flags[two] |= np.uint8(SHORT)
        else:
            flags[two] |= np.uint8(LONG)
            bits[_filtered(keys[p] >> np.uint64(32))] = 1
    for two in range(starts.shape[0] - 1):
        starts[two + 1] += starts[two]


@inner
def _begins(data, at, end, flags, bits):
    """Whether a pattern may begin at a place of a text that ends at `end`."""
    left = end - at
    two = np.int64(data[at]) << 8 | (np.int64(data[at + 1]) if left > 1 else 0)
    flag = flags[two]
    if flag & SHORT:
        return True
    if not flag & LONG or left < 4:
        return False
    return bits[_filtered(two << 16 | np.int64(data[at + 2]) << 8 | np.int64(data[at + 3]))] != 0


@inner
def _last_not_above(data, at, end, p_offsets, p_data, p_keys, starts):
    """The last pattern that is not above the text from a place on, by bytes; -1 if there is none."""
    key = np.uint64(0)
    for k in range(8):
        byte = data[at + k] if at + k < end else np.uint8(0)
        key = (key << np.uint64(8)) | np.uint64(byte)
    two = np.int64(key >> np.uint64(48))
    first, last = np.int64(starts[two]), np.int64(starts[two + 1])
    while first < last:
        middle = (first + last) >> 1
        below = p_keys[middle] < key
        if p_keys[middle] == key:
            below = _not_above(p_data, p_offsets[middle], p_offsets[middle + 1], data, at, end)
        if below:
            first = middle + 1
        else:
            last = middle
    return first - 1


@inner
def _longest(p, data, at, end, p_offsets, p_data, parent, jump):
    """Of pattern p and its parents the longest that the text begins with from a place on; -1 if there is none."""
    size, same = min(end - at, p_offsets[p + 1] - p_offsets[p]), 0
    while same < size and p_data[p_offsets[p] + same] == data[at + same]:
        same += 1
    while p >= 0 and p_offsets[p + 1] - p_offsets[p] > same:
        far = jump[p]
        p = far if far >= 0 and p_offsets[far + 1] - p_offsets[far] > same else parent[p]
    return p


@njit(cache=True, nogil=True)
def search_texts(
    offsets, data, first, p_offsets, p_data, p_keys, ends, parent, jump, starts, flags, bits, seen,
    out_tuples, out_patterns,
):  # fmt: skip
    """Which patterns occur in which texts, from text `first` on, until there might be no more room.

    offsets: int64[n + 1], data: uint8: the texts. p_offsets, p_data, p_keys, parent, jump, starts, flags, bits: K
    patterns in order, see above; ends: uint8[K], 1 = it counts at the end of a text only; of equal ones those come
    last. Read. seen: int32[K], zeros before the first call, and then as they were left. out_tuples, out_patterns:
    int32[>= K], written: each pair once, by text. Returns (the text to go on with, pairs). O(bytes * log K + pairs).
    """
    size, room = 0, out_tuples.shape[0] - p_keys.shape[0]
    for t in range(first, offsets.shape[0] - 1):
        if size > room:
            return t, size
        end = offsets[t + 1]
        for at in range(offsets[t], end):
            if not _begins(data, at, end, flags, bits):
                continue
            p = _last_not_above(data, at, end, p_offsets, p_data, p_keys, starts)
            if p >= 0:
                p = _longest(p, data, at, end, p_offsets, p_data, parent, jump)
            while p >= 0 and seen[p] != t + 1:
                if not ends[p] or p_offsets[p + 1] - p_offsets[p] == end - at:
                    seen[p] = t + 1
                    out_tuples[size], out_patterns[size] = t, p
                    size += 1
                p = parent[p]
    return offsets.shape[0] - 1, size


@inner
def _occurs(data, begin, end, p_data, p_begin, p_end, at_end):
    """Whether a pattern is in a text, or at its end."""
    size = p_end - p_begin
    for at in range(max(begin, end - size) if at_end else begin, end - size + 1):
        if data[at] != p_data[p_begin]:
            continue
        k = 1
        while k < size and data[at + k] == p_data[p_begin + k]:
            k += 1
        if k == size:
            return True
    return False


@njit(cache=True, nogil=True)
def keep_texts(clauses, tuples, offsets, data, pattern_ptr, patterns, p_offsets, p_data, ends, keep):
    """Clear keep[i] where a pattern of clause clauses[i] is not in text tuples[i].

    clauses, tuples: int64[k]; offsets, data: the texts; clause j has the patterns pattern_ptr[j] up to
    pattern_ptr[j + 1] of `patterns` (int32). p_offsets, p_data, ends: see `search_texts`. Read. keep: uint8[k],
    written.
    """
    for i in range(clauses.shape[0]):
        begin, end = offsets[tuples[i]], offsets[tuples[i] + 1]
        for k in range(pattern_ptr[clauses[i]], pattern_ptr[clauses[i] + 1]):
            p = patterns[k]
            if keep[i] and not _occurs(data, begin, end, p_data, p_offsets[p], p_offsets[p + 1], ends[p]):
                keep[i] = 0


@njit(cache=True, nogil=True)
def keep_factors(clauses, tuples, clause_ptr, factor_ptr, iv_lo, iv_hi, iv_attr, codes, keep):
    """Clear keep[i] where tuple tuples[i] fails a factor of clause clauses[i] (int64[k]; below 0: it has none).

    The index and codes: see `psoup.kernels.arrive`. keep: uint8[k], written.
    """
    for i in range(clauses.shape[0]):
        clause = clauses[i]
        if clause < 0 or not keep[i]:
            continue
        for factor in range(clause_ptr[clause], clause_ptr[clause + 1]):
            if not _holds(factor, factor_ptr, iv_lo, iv_hi, iv_attr, codes, tuples[i]):
                keep[i] = 0
                break
