"""Columns of joined rows, whose tuples are given by code, into the body of one Arrow record batch.

    code     chunk << 16 | offset        of a tuple of one side, in any order, also repeated
    sources  where the arrays of each chunk lie, as in `psoup.kernels.rows.batch_body`

As `psoup.kernels.join.pair_columns.gather_at`, whose rows are positions: a code needs no look for its chunk. No column
is a text.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import carray, njit  # type: ignore[attr-defined]

from psoup.kernels.join.small_pairs import CODE_SHIFT
from psoup.kernels.rows.batch_body import BITS, CODED, NARROW, NUMBER, PARTS, WIDE, _bytes, _longs, _nth, _pointer

_SHIFT, _MASK = np.uint64(CODE_SHIFT), np.uint64((1 << CODE_SHIFT) - 1)


@njit(cache=True, nogil=True)
def _nullable_at(column, sources, stride):
    """Whether any chunk has validity for a column: 0 or 1. O(chunks)."""
    null = np.uint8(0)
    for at in range(PARTS * _nth(column, stride) + 1, sources.shape[0], stride):
        null |= np.uint8(sources[at] != 0)
    return null


@njit(cache=True, nogil=True)
def may_be_null(shown, sources, strides, nullable):
    """Set nullable[i] to whether any chunk has validity for the column at place i of the batch.

    Of both sides: shown: (which, kinds, columns), int64[c] each: places in the batch, kinds and places in the schema;
    sources: int64[chunks * stride]. nullable: uint8[all], written. O(chunks * c).
    """
    for side in range(2):
        which, _, columns = shown[side]
        part, stride = sources[side], strides[side]
        for w in range(which.shape[0]):
            nullable[which[w]] = _nullable_at(columns[w], part, stride)


@njit(cache=True, nogil=True)
def _flags(place, sources, stride, codes, out):
    """A bit for each row; returns the number of ones. An address of 0: all are ones."""
    out[:] = 0
    ones = np.int64(0)
    for i in range(codes.shape[0]):
        code = np.uint64(codes[i])
        address = sources[place + np.int64(code >> _SHIFT) * stride]
        offset = np.int64(code & _MASK)
        bit = np.uint8(1) if address == 0 else np.uint8(_bytes(address, offset + 1)[offset] != 0)
        out[i >> 3] |= np.uint8(bit << np.uint8(i & 7))
        ones += np.int64(bit)
    return ones


@njit(cache=True, nogil=True)
def _wide(place, sources, stride, bases, codes, longs):
    """Values of 8 bytes, from their codes where a chunk has such: a half or less of the memory to read at random."""
    parts, total = bases.shape[0], codes.shape[0]
    narrow = np.zeros((parts, CODED), np.int64)
    for part in range(parts):
        if sources[place + 2 + part * stride]:
            narrow[part] = _longs(sources[place + 2 + part * stride], CODED)
    for i in range(total):
        code = np.uint64(codes[i])
        part, offset = code >> _SHIFT, code & _MASK
        address, width = narrow[part, 0], narrow[part, 1]
        if width == 0:
            longs[i] = _longs(bases[part], total)[offset]
        elif width == 1:
            longs[i] = narrow[part, 2] + np.int64(_bytes(address, total)[offset])
        elif width == 4:
            longs[i] = narrow[part, 2] + np.int64(carray(_pointer(address), total, np.uint32)[offset])
        else:
            longs[i] = narrow[part, 2] + np.int64(carray(_pointer(address), total, np.uint16)[offset])


@njit(cache=True, nogil=True)
def _values(kind, place, sources, stride, codes, values):
    """Values of 4, 8 or 16 bytes; `values`: their address in the result. O(codes)."""
    total, parts = codes.shape[0], (sources.shape[0] + stride - 1) // stride
    longs, ints = _longs(values, 2 * total), carray(_pointer(values), total, np.int32)
    bases = np.empty(parts, np.int64)
    for part in range(parts):
        bases[part] = sources[place + part * stride]
    if kind == WIDE:  # nearly always, and twice as fast if nothing else is asked
        _wide(place, sources, stride, bases, codes, longs)
        return
    for i in range(total):
        code = np.uint64(codes[i])
        base, offset = bases[code >> _SHIFT], code & _MASK
        if kind == NUMBER:
            left = sources[place + 2 + np.int64(code >> _SHIFT) * stride]
            longs[i] = base + np.int64(carray(_pointer(left), total, np.uint16)[offset] if left else offset)
        elif kind == NARROW:
            ints[i] = carray(_pointer(base), total, np.int32)[offset]
        else:
            value = _longs(base, total)[offset]
            longs[2 * i], longs[2 * i + 1] = value, value >> 63


@njit(cache=True, nogil=True)
def _column(kind, column, sources, stride, codes, places, body):
    """Write a column of a side, at its places (int64[3]) in the body; returns how many are NULL. O(codes)."""
    place, size, nulls = PARTS * _nth(column, stride), (codes.shape[0] + 7) >> 3, np.int64(0)
    if places[0] >= 0:
        nulls = codes.shape[0] - _flags(place + 1, sources, stride, codes, body[places[0] : places[0] + size])
    if kind == BITS:
        _flags(place, sources, stride, codes, body[places[1] : places[1] + size])
    else:
        _values(kind, place, sources, stride, codes, np.int64(body.ctypes.data) + places[1])
    return nulls


@njit(cache=True, nogil=True)
def _copy_keys(keys, positions, address):
    """Write the column that a side's keys are, at some positions; `address`: of int64[n]."""
    values = _longs(address, positions.shape[0])
    for i in range(positions.shape[0]):
        values[i] = keys[np.uint64(positions[i])]


@njit(cache=True, nogil=True)
def gather_coded(shown, sources, strides, left, right, places, out, nulls):
    """Write the columns of a record batch that come from both sides of a join.

    shown, sources, strides: as of `may_be_null`; left, right: int32[n], codes; places: int64[all, 3], as in `gather`.
    All read. out, nulls: as there. O(n * c).
    """
    for side in range(2):
        which, kinds, columns = shown[side]
        codes = left if side == 0 else right
        for w in range(which.shape[0]):
            i = which[w]
            nulls[i] = _column(kinds[w], columns[w], sources[side], strides[side], codes, places[i], out)
