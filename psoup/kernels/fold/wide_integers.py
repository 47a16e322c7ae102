"""Integers of several 64-bit words in two's complement, the lowest word first: sums that are exact.

    5           5 | 0             -1       2^64-1 | -1
    2^64 + 3    3 | 1             a sum of DOUBLEs counts units of 2^base, so it is an integer too

Two words hold sums of BIGINT and DECIMAL, and of DOUBLEs whose exponents are not far apart; other sums have more.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

_ONE, _WORD = np.uint64(1), np.uint64(63)
_HALF, _BELOW, _CUT = np.uint64(0x400), np.uint64(0x7FF), np.uint64(11)
_TOP = np.uint64(1 << 63)


@njit(cache=True, nogil=True)
def add_wide(other, places, into):
    """Add each integer to the one at its place.

    other: int64[k, words]; places: int64[k], distinct; read. into: int64[n, words], added to. O(k * words).
    """
    for i in range(other.shape[0]):
        place, carry = places[i], np.uint64(0)
        for k in range(other.shape[1]):
            before = np.uint64(into[place, k])
            middle = before + carry
            after = middle + np.uint64(other[i, k])
            carry = np.uint64(middle < before) | np.uint64(after < middle)
            into[place, k] = np.int64(after)


@njit(cache=True, nogil=True)
def add_halves(halves, bits, into):
    """Add low + high * 2^bits to each integer.

    halves: int64[n, 2], low and high, read; bits: from 1 to 63. into: int64[n or more, words], added to. O(n * words).
    """
    up, down = np.uint64(bits), np.uint64(64 - bits)
    for i in range(halves.shape[0]):
        for half in range(2):
            number, carry = halves[i, half], np.uint64(0)
            sign = np.uint64(number >> 63)
            low = np.uint64(number) << up if half else np.uint64(number)
            high = np.uint64(number >> np.int64(down)) if half else sign
            for k in range(into.shape[1]):
                part = low if k == 0 else high if k == 1 else sign
                before = np.uint64(into[i, k])
                middle = before + carry
                after = middle + part
                carry = np.uint64(middle < before) | np.uint64(after < middle)
                into[i, k] = np.int64(after)


@njit(cache=True, nogil=True)
def shift_wide(numbers, bits, out):
    """Multiply the integers by 2^bits.

    numbers: int64[n, words], read; bits: not negative. out: int64[n, more words], written; they have room. O(n *
    words).
    """
    moved, by = bits // 64, np.uint64(bits % 64)
    for i in range(numbers.shape[0]):
        for k in range(out.shape[1]):
            low, high = np.uint64(0), np.uint64(0)
            sign = np.uint64(numbers[i, numbers.shape[1] - 1] >> 63)
            at = k - moved
            if at >= 0:
                high = np.uint64(numbers[i, at]) if at < numbers.shape[1] else sign
            if at >= 1:
                low = np.uint64(numbers[i, at - 1]) if at - 1 < numbers.shape[1] else sign
            out[i, k] = np.int64((high << by) | ((low >> _ONE) >> (_WORD - by)))


@njit(cache=True, nogil=True)
def round_wide(numbers, fractions, exponents):
    """The float64 nearest to each integer, ties to even, as fraction * 2^exponent; the fraction has at most 53 bits.

    numbers: int64[n, words], read. fractions: float64[n], exponents: int64[n], written. O(n * words).
    """
    words = numbers.shape[1]
    size = np.empty(words, np.uint64)
    for i in range(numbers.shape[0]):
        negative = numbers[i, words - 1] < 0
        carry, top = np.uint64(negative), -1
        for k in range(words):
            word = np.uint64(numbers[i, k])
            if negative:
                word = ~word + carry
                carry = np.uint64(carry != 0 and word == 0)
            size[k] = word
            if word != 0:
                top = k
        fractions[i], exponents[i] = 0.0, 0
        if top < 0:
            continue
        first, lead = size[top], np.int64(0)
        while first & _TOP == 0:
            first <<= _ONE
            lead += 1
        rest = np.uint64(0)
        if top > 0:
            below = size[top - 1]
            first |= (below >> _ONE) >> (_WORD - np.uint64(lead))
            rest = below << np.uint64(lead)
        for k in range(top - 1):
            rest |= size[k]
        cut, remaining = first & _BELOW, first >> _CUT
        if cut > _HALF or (cut == _HALF and (rest != 0 or remaining & _ONE != 0)):
            remaining += _ONE
        fractions[i] = -np.float64(remaining) if negative else np.float64(remaining)
        exponents[i] = 64 * top - lead + 11


@njit(cache=True, nogil=True)
def divide_wide(numbers, divisors, out):
    """The greatest integer not above each quotient, which int64 must hold.

    numbers: int64[n, 2]; divisors: int64[n], positive; read. out: int64[n], written. O(n).
    """
    for i in range(numbers.shape[0]):
        low, high, by = np.uint64(numbers[i, 0]), np.uint64(numbers[i, 1]), np.uint64(divisors[i])
        negative = numbers[i, 1] < 0
        if negative:  # -(a // b) - 1 for what is left: floor(-x / b) = -((x - 1) // b) - 1
            low, high = ~low, ~high
        rest, quotient = np.uint64(0), np.uint64(0)
        for bit in range(127, -1, -1):
            word = high if bit >= 64 else low
            over = rest & _TOP
            rest = (rest << _ONE) | ((word >> np.uint64(bit & 63)) & _ONE)
            quotient <<= _ONE
            if over != 0 or rest >= by:
                rest -= by
                quotient |= _ONE
        out[i] = ~np.int64(quotient) if negative else np.int64(quotient)
