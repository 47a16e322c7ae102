"""Clauses and texts that might match, pair by pair: are the patterns there, do the other factors hold?

    hits of a text     bar, foo          clauses that 'foo' drives: 0 needs foo          written
                                                                    2 needs foo and bar  written
                                                                    3 needs foo and x    not

The time follows the length of a text, also if a pattern almost begins at many of its places.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.arrive.arrays import IndexArrays
from psoup.kernels.arrive.index_probe import _holds
from psoup.kernels.compile.inner import inner

ANY_BYTE, ONE_BYTE = 0xFF, 0xFE
"""% and _ of LIKE, among the bytes of a pattern."""
_STEPS, _MANY_STEPS = 2, 4_096
"""Steps, for each byte of a text and in addition, after which it is left open whether it is LIKE a pattern."""
_PATIENCE = 4
"""Comparisons for each place of a text after which a pattern is looked for with a table of its own."""


@njit(cache=True, nogil=True)
def hit_clauses(tuples, hit_patterns, driven_ptr, driven, pattern_ptr, patterns, wanted, seen, out_clauses, out_tuples):
    """Pairs of a clause and a tuple that has all of the clause's patterns.

    tuples, hit_patterns: int32[h]: hits, a tuple and a pattern, all hits of a tuple together, none twice. Pattern p
    drives the clauses driven[driven_ptr[p] : driven_ptr[p + 1]], each clause being driven by one of its patterns;
    clause j has the patterns pattern_ptr[j] up to pattern_ptr[j + 1] of `patterns`. wanted: uint8[S], the clauses that
    are asked for. All int32 and read. seen: int32[P], below 1 + tuples[0] before, changed. out_clauses, out_tuples:
    int64, room for all that the hits drive, written, by tuple. Returns how many pairs there are. O(what the hits
    drive).
    """
    size, first = 0, 0
    while first < tuples.shape[0]:
        mark, last = tuples[first] + 1, first
        while last < tuples.shape[0] and tuples[last] + 1 == mark:
            seen[hit_patterns[last]] = mark
            last += 1
        for i in range(first, last):
            for k in range(driven_ptr[hit_patterns[i]], driven_ptr[hit_patterns[i] + 1]):
                clause = driven[k]
                at = pattern_ptr[clause]
                while at < pattern_ptr[clause + 1] and seen[patterns[at]] == mark:
                    at += 1
                if wanted[clause] and at == pattern_ptr[clause + 1]:
                    out_clauses[size], out_tuples[size] = clause, mark - 1
                    size += 1
        first = last
    return size


@inner
def _occurs(data, begin, end, p_data, p_begin, p_end, at_end):
    """Whether a pattern is in a text, or at its end: 1 or 0; -1 where it takes long to tell."""
    size, compared = p_end - p_begin, 0
    start = max(begin, end - size) if at_end else begin
    for at in range(start, end - size + 1):
        if data[at] != p_data[p_begin]:
            continue
        k = 1
        while k < size and data[at + k] == p_data[p_begin + k]:
            k += 1
        if k == size:
            return 1
        compared += k
        if compared > _PATIENCE * (at - start + size):
            return -1
    return 0


@njit(cache=True, nogil=True)
def _occurs_anywhere(data, begin, end, p_data, p_begin, p_end):
    """Whether a pattern is in a text (Knuth, Morris and Pratt): O(bytes of both)."""
    borders, k = np.zeros(p_end - p_begin + 1, np.int64), 0
    for at in range(1, p_end - p_begin):
        while k and p_data[p_begin + at] != p_data[p_begin + k]:
            k = borders[k]
        k += p_data[p_begin + at] == p_data[p_begin + k]
        borders[at + 1] = k
    k = 0
    for at in range(begin, end):
        while k and data[at] != p_data[p_begin + k]:
            k = borders[k]
        k += data[at] == p_data[p_begin + k]
        if k == p_end - p_begin:
            return True
    return False


@njit(cache=True, nogil=True)
def keep_texts(clauses, tuples, offsets, data, pattern_ptr, patterns, p_offsets, p_data, ends, keep):
    """Clear keep[i] where a pattern of clause clauses[i] is not in text tuples[i].

    clauses, tuples: int64[k]; offsets: int64[n + 1], data: uint8: the texts; clause j has the patterns pattern_ptr[j]
    up to pattern_ptr[j + 1] of `patterns` (int32). p_offsets, p_data: the patterns; ends: uint8[P], 1 = it counts at
    the end of a text only. Read. keep: uint8[k], written. O(bytes of the texts) for each pair and pattern.
    """
    for i in range(clauses.shape[0]):
        begin, end = offsets[tuples[i]], offsets[tuples[i] + 1]
        for k in range(pattern_ptr[clauses[i]], pattern_ptr[clauses[i] + 1]):
            if not keep[i]:
                break
            p = patterns[k]
            occurs = _occurs(data, begin, end, p_data, p_offsets[p], p_offsets[p + 1], ends[p])
            if occurs < 0:
                occurs = _occurs_anywhere(data, begin, end, p_data, p_offsets[p], p_offsets[p + 1])
            if not occurs:
                keep[i] = 0


@inner
def _after(data, at, end):
    """The place behind the code point at a place."""
    at += 1
    while at < end and data[at] & 0xC0 == 0x80:
        at += 1
    return at


@inner
def _like(data, begin, end, p_data, p_begin, p_end):
    """Whether a text is LIKE a pattern: 1 or 0; -1 where it takes long to tell. A part between two % is looked for
    where the one before ended, and again from the next place on where it differs."""
    at, p, retry, behind, steps = begin, p_begin, begin, np.int64(-1), 0
    while at < end:
        steps += 1
        if p < p_end and p_data[p] == ANY_BYTE:
            p += 1
            if p == p_end:
                return 1
            retry, behind = at, p
        elif p < p_end and p_data[p] == ONE_BYTE:
            at, p = _after(data, at, end), p + 1
        elif p < p_end and p_data[p] == data[at]:
            at, p = at + 1, p + 1
        elif behind < 0:
            return 0
        elif steps > _STEPS * (end - begin) + _MANY_STEPS:
            return -1
        else:
            retry = _after(data, retry, end)
            at, p = retry, behind
    while p < p_end and p_data[p] == ANY_BYTE:
        p += 1
    return 1 if p == p_end else 0


@njit(cache=True, nogil=True)
def keep_likes(clauses, tuples, offsets, data, pattern_ptr, patterns, p_offsets, p_data, keep):
    """Clear keep[i] where text tuples[i] is not LIKE a pattern of clause clauses[i]; 2 where that takes long to tell.

    p_offsets, p_data: patterns as bytes (`psoup.expressions.texts.like.SoughtText.whole`), empty ones match all; the
    rest: see `keep_texts`. keep: uint8[k], written. O(bytes of the texts and patterns) for each pair and pattern.
    """
    for i in range(clauses.shape[0]):
        begin, end = offsets[tuples[i]], offsets[tuples[i] + 1]
        for k in range(pattern_ptr[clauses[i]], pattern_ptr[clauses[i] + 1]):
            p = patterns[k]
            if not keep[i]:
                break
            if p_offsets[p] == p_offsets[p + 1]:
                continue
            like = _like(data, begin, end, p_data, p_offsets[p], p_offsets[p + 1])
            if like <= 0:
                keep[i] = 0 if like == 0 else 2


@njit(cache=True, nogil=True)
def keep_factors(clauses, tuples, index, codes, keep):
    """Clear keep[i] where tuple tuples[i] fails a factor of clause clauses[i] (int64[k]; below 0: it has none).

    index: `IndexArrays`; codes: see `psoup.kernels.arrive.index_probe`. keep: uint8[k], written.
    """
    index = IndexArrays(*index)
    for i in range(clauses.shape[0]):
        clause = clauses[i]
        if clause < 0 or not keep[i]:
            continue
        for factor in range(index.clause_ptr[clause], index.clause_ptr[clause + 1]):
            if not _holds(factor, index, codes, tuples[i]):
                keep[i] = 0
                break
