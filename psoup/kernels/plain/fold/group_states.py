"""Twins of `psoup.kernels.fold.group_states`."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from psoup.kernels.plain import Array


def _rows(mask: Array, count: int) -> list[int]:
    """The rows that count."""
    return np.flatnonzero(mask).tolist() if len(mask) else list(range(count))


def count_rows(mask: Array, codes: Array, counts: Array) -> None:
    """See the kernel."""
    np.add.at(counts, codes[_rows(mask, len(codes))], 1)


def sum_integers(values: Array, mask: Array, codes: Array, sums: Array) -> None:
    """See the kernel."""
    for i in _rows(mask, len(values)):
        _add(sums[codes[i]], int(values[i]))


def _add(words: Array, value: int) -> None:
    """Add to an integer of several words."""
    unsigned = words.view(np.uint64)
    whole = sum(int(word) << 64 * k for k, word in enumerate(unsigned)) + value
    unsigned[:] = [(whole >> 64 * k) % 2**64 for k in range(len(words))]


def sum_whole(values: Array, mask: Array) -> tuple[int, int]:
    """See the kernel."""
    rows = values[_rows(mask, len(values))]
    return int((rows & 0xFFFF_FFFF).sum()), int((rows >> 32).sum())


def sum_bits(words: Array, start: int, stop: int, values: Array, sums: Array) -> None:
    """See the kernel."""
    _add(sums[0], sum(values[_set_bits(words, start, stop)].tolist()))


def extreme_bits(words: Array, start: int, stop: int, values: Array, maximum: bool, best: Array, seen: Array) -> None:
    """See the kernel."""
    matched = values[_set_bits(words, start, stop)].tolist()
    if matched:
        pick = max if maximum else min
        best[0], seen[0] = pick([*matched, *(best.tolist() if seen[0] else [])]), 1


def _set_bits(words: Array, start: int, stop: int) -> Array:
    bits = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
    return bits[(bits >= start) & (bits < stop)]


def sum_lists(lists: Array, begins: Array, counts: Array, values: Array, sums: Array) -> None:
    """See the kernel."""
    sums[:] = 0
    for i, (begin, count) in enumerate(zip(begins.tolist(), counts.tolist(), strict=True)):
        _add(sums[i], sum(values[lists[begin : begin + count]].tolist()))


def extreme_lists(lists: Array, begins: Array, counts: Array, values: Array, greatest: bool, best: Array) -> None:
    """See the kernel."""
    for i, (begin, count) in enumerate(zip(begins.tolist(), counts.tolist(), strict=True)):
        some = values[lists[begin : begin + count]]
        best[i] = some.max() if greatest else some.min()


def span_of_doubles(words: Array, mask: Array) -> tuple[int, int, int]:
    """See the kernel."""
    values = words[_rows(mask, len(words))].view(np.float64)
    fields = [max(math.frexp(value)[1] + 1022, 1) for value in values.tolist() if math.isfinite(value) and value]
    odd = int(np.count_nonzero(~np.isfinite(values)))
    return min(fields, default=0x7FF), max(fields, default=0), odd


def sum_doubles(words: Array, mask: Array, codes: Array, base: int, sums: Array) -> None:
    """See the kernel."""
    for i in _rows(mask, len(words)):
        value = float(words[i : i + 1].view(np.float64)[0])
        if math.isfinite(value):
            fraction, exponent = math.frexp(value)
            units = int(fraction * 2**53)
            shift = exponent - 53 - base
            _add(sums[codes[i]], units << shift if shift >= 0 else units >> -shift)


def sum_near(values: Array, mask: Array, unit: float) -> tuple[int, int]:
    """See the kernel."""
    sums = np.zeros((1, 2), np.int64)
    sum_groups_near(values, mask, np.zeros(len(values), np.int32), unit, sums)
    return int(sums[0, 0]), int(sums[0, 1])


def sum_groups_near(values: Array, mask: Array, codes: Array, unit: float, sums: Array) -> None:
    """See the kernel."""
    for i in _rows(mask, len(values)):
        if math.isfinite(values[i]):
            units = int(Fraction(float(values[i])) * Fraction(unit))
            upper = abs(units) >> 46
            high = upper if units > 0 else -upper
            sums[codes[i]] += np.array([units - (high << 46), high])


def count_odd(values: Array, mask: Array, codes: Array, counts: Array) -> None:
    """See the kernel."""
    for i in _rows(mask, len(values)):
        if not math.isfinite(values[i]):
            counts[codes[i], 0 if math.isnan(values[i]) else 1 if values[i] > 0 else 2] += 1


def _better(value: float, best: float, greatest: bool) -> bool:
    """Whether a value takes the place of another."""
    order = (math.isnan(value), 0 if math.isnan(value) else value), (math.isnan(best), 0 if math.isnan(best) else best)
    return order[0] > order[1] if greatest else order[0] < order[1]


def keep_extreme(
    values: Array, mask: Array, codes: Array, greatest: bool, best: Array, seen: Array, rows: Array
) -> None:
    """See the kernel."""
    for i in _rows(mask, len(values)):
        group = codes[i]
        if not seen[group] or _better(values[i].item(), best[group].item(), greatest):
            best[group], seen[group] = values[i], 1
            if len(rows):
                rows[group] = i


def first_rows(mask: Array, codes: Array, rows: Array) -> None:
    """See the kernel."""
    for i in _rows(mask, len(codes)):
        if rows[codes[i]] < 0:
            rows[codes[i]] = i


def last_rows(mask: Array, codes: Array, rows: Array) -> None:
    """See the kernel."""
    for i in _rows(mask, len(codes)):
        rows[codes[i]] = i


def extreme_texts(ends: Array, data: Array, mask: Array, codes: Array, greatest: bool, rows: Array) -> None:
    """See the kernel."""
    texts = [bytes(data[ends[i] : ends[i + 1]]) for i in range(len(codes))]
    for i in _rows(mask, len(codes)):
        best = rows[codes[i]]
        if best < 0 or (texts[i] > texts[best] if greatest else texts[i] < texts[best]):
            rows[codes[i]] = i


def sum_deviations(values: Array, mask: Array, codes: Array, origins: Array, counts: Array, sums: Array) -> None:
    """See the kernel."""
    rows = _rows(mask, len(values))
    np.add.at(counts, codes[rows], 1)
    np.add.at(sums, codes[rows], values[rows] - origins[codes[rows]])


def sum_squares(values: Array, mask: Array, codes: Array, origins: Array, means: Array, sums: Array) -> None:
    """See the kernel."""
    rows = _rows(mask, len(values))
    np.add.at(sums, codes[rows], ((values[rows] - origins[codes[rows]]) - means[codes[rows]]) ** 2)
