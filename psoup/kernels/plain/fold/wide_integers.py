"""Twins of `psoup.kernels.fold.wide_integers`, over Python's integers."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def _integer(words: Array) -> int:
    """The integer of some words."""
    whole = sum(int(word) << 64 * k for k, word in enumerate(words.view(np.uint64)))
    return whole - (1 << 64 * len(words) if words[-1] < 0 else 0)


def _put(words: Array, value: int) -> None:
    """Write an integer into words."""
    words.view(np.uint64)[:] = [(value >> 64 * k) % 2**64 for k in range(len(words))]


def add_wide(other: Array, places: Array, into: Array) -> None:
    """See the kernel."""
    for i, place in enumerate(places):
        _put(into[place], _integer(into[place]) + _integer(other[i]))


def add_halves(halves: Array, bits: int, into: Array) -> None:
    """See the kernel."""
    for i, (low, high) in enumerate(halves.tolist()):
        _put(into[i], _integer(into[i]) + low + (high << bits))


def shift_wide(numbers: Array, bits: int, out: Array) -> None:
    """See the kernel."""
    for i, words in enumerate(numbers):
        _put(out[i], _integer(words) << bits)


def round_wide(numbers: Array, fractions: Array, exponents: Array) -> None:
    """See the kernel."""
    for i, words in enumerate(numbers):
        value = _integer(words)
        exponent = abs(value).bit_length() - 53 if value else 0
        fractions[i] = _rounded(value, exponent)
        exponents[i] = exponent


def _rounded(value: int, exponent: int) -> float:
    """An integer in units of 2^exponent, ties to even."""
    if exponent <= 0:
        return float(value << -exponent)
    unit = 1 << exponent
    whole, rest = divmod(abs(value), unit)
    whole += 2 * rest > unit or (2 * rest == unit and whole % 2)
    return float(whole if value > 0 else -whole)


def divide_wide(numbers: Array, divisors: Array, out: Array) -> None:
    """See the kernel."""
    for i, words in enumerate(numbers):
        out[i] = _integer(words) // int(divisors[i])
