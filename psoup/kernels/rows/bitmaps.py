"""Columns of results: bitmaps, lists of offsets and runs of (slot, offset), and the ways between them.

    bit i of a bitmap = bit (i & 63) of word (i >> 6): tuple i of the chunk
    offsets             ascending positions of the set bits
    run                 two arrays side by side, sorted by (slot, offset), no pair twice

Nothing here knows which clause a slot belongs to.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.compile.inner import inner

_ONE, _FOUR = np.uint64(1), np.uint64(4)
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_M1 = np.uint64(0x5555_5555_5555_5555)
_M2 = np.uint64(0x3333_3333_3333_3333)
_M4 = np.uint64(0x0F0F_0F0F_0F0F_0F0F)
_SUM = np.uint64(0x0101_0101_0101_0101)
_S1, _S2, _S4, _S6, _S56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(6), np.uint64(56)


@njit(cache=True, nogil=True, inline="always")
def _popcount(x):
    """Set bits of a uint64; LLVM turns the idiom into one instruction."""
    x = x - ((x >> _S1) & _M1)
    x = (x & _M2) + ((x >> _S2) & _M2)
    x = (x + (x >> _S4)) & _M4
    return (x * _SUM) >> _S56


@njit(cache=True, nogil=True, inline="always")
def _word(words, index, start, stop):
    """Word `index` with the bits outside [start, stop) cleared."""
    word = words[index]
    if index == start >> 6:
        word &= _ALL << np.uint64(start & 63)
    if index == (stop - 1) >> 6 and stop & 63:
        word &= ~(_ALL << np.uint64(stop & 63))
    return word


@njit(cache=True, nogil=True)
def mask_to_bits(mask, start_bit, words):
    """OR a mask into a bitmap.

    mask: uint8[n], 0 or 1, read. start_bit: the bit of mask[0]. words: uint64[w] with 64*w >= start_bit + n,
    written in place. O(n).
    """
    for i in range(mask.shape[0]):
        bit = start_bit + i
        words[bit >> 6] |= np.uint64(mask[i]) << np.uint64(bit & 63)


@njit(cache=True, nogil=True)
def count_bits(words, start, stop):
    """The number of set bits in [start, stop) of `words`, uint64[w], read. O((stop - start) / 64)."""
    total = 0
    if stop <= start:
        return total
    for index in range(start >> 6, ((stop - 1) >> 6) + 1):
        total += np.int64(_popcount(_word(words, index, start, stop)))
    return total


@inner
def _write_four(word, first, out, at):
    """Write the places of the four lowest bits that are set, or what comes of fewer; returns the word without them."""
    for i in range(_FOUR):
        out[at + i] = first + np.int32(_popcount((word & (~word + _ONE)) - _ONE))
        word &= word - _ONE
    return word


@njit(cache=True, nogil=True)
def bits_to_offsets(words, start, stop, out):
    """The positions of the set bits in [start, stop), ascending and counted from bit 0.

    words: uint64[w], read. out: int64[k], at least as long as there are set bits; the first `count` are written, and
    scratch behind them. Returns count. O((stop - start) / 64 + count). Words have some bits, at random: to ask after
    each whether there is another takes more time than to write four.
    """
    count, room = np.uint64(0), np.uint64(out.shape[0])
    if stop <= start:
        return np.int64(0)
    begin, last = np.uint64(start >> 6), np.uint64((stop - 1) >> 6)
    for index in range(begin, last + _ONE):  # unsigned, or each would be asked whether it counts from the end
        word, first = words[index], np.int64(index << _S6)
        if index == begin:
            word &= _ALL << np.uint64(start & 63)
        if index == last:
            word &= _ALL >> np.uint64(63 - ((stop - 1) & 63))
        if word == _ALL:
            for bit in range(64):
                out[count + np.uint64(bit)] = first + bit
            count += np.uint64(64)
            continue
        after = count + _popcount(word)
        if after + _FOUR <= room:
            while word != 0:
                word = _write_four(word, first, out, count)
                count += _FOUR
            count = after
        while word != 0:
            out[count] = first + np.int64(_popcount((word & (~word + _ONE)) - _ONE))
            count += _ONE
            word &= word - _ONE
    return np.int64(count)


@njit(cache=True, nogil=True)
def offsets_to_bits(offsets, words):
    """Set the bits at `offsets`, uint16[k], in `words`, uint64[w], written in place. O(k)."""
    for i in range(offsets.shape[0]):
        bit = np.int64(offsets[i])
        words[bit >> 6] |= _ONE << np.uint64(bit & 63)


@njit(cache=True, nogil=True)
def offset_range(offsets, low, high, start, stop):
    """The places (first, last + 1) of offsets in [start, stop), between the places low and high.

    offsets: uint16[n], ascending from low to high, read. O(log n). NumPy's own search would convert the array first.
    """
    first, end = low, high
    while first < end:
        middle = (first + end) >> 1
        if offsets[middle] < start:
            first = middle + 1
        else:
            end = middle
    last, end = first, high
    while last < end:
        middle = (last + end) >> 1
        if offsets[middle] < stop:
            last = middle + 1
        else:
            end = middle
    return first, last
