"""Arguments for the kernels that fold and group: groups without a row, NULL keys, extremes, numbers far apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.kernels.plain.fold import group_numbers as plain

Rng = np.random.Generator
Arguments = tuple[Any, ...]

_ROWS, _GROUPS = 60, 7
_ENDS = np.array([-(2**63), 2**63 - 1, -1, 0, 1, 2**32, -(2**32)])
_ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308])


def _mask(rng: Rng) -> Any:
    """Some rows, all by an array of no length, or none."""
    kind = rng.integers(0, 4)
    return np.zeros(0, np.uint8) if kind == 0 else (rng.random(_ROWS) < (0.0, 0.1, 0.7)[kind - 1]).astype(np.uint8)


def _codes(rng: Rng) -> Any:
    return rng.integers(0, _GROUPS, _ROWS).astype(np.int32)


def _integers(rng: Rng) -> Any:
    return np.where(rng.random(_ROWS) < 0.4, rng.choice(_ENDS, _ROWS), rng.integers(-(2**63), 2**63 - 1, _ROWS))


def doubles(rng: Rng, odd: bool = True) -> Any:
    """DOUBLE values: some whose exponents are far apart, some that are not finite."""
    values = rng.standard_normal(_ROWS) * 2.0 ** rng.integers(-300, 300, _ROWS)
    values = np.where(rng.random(_ROWS) < 0.5, np.round(rng.standard_normal(_ROWS), 2), values)
    return np.where(rng.random(_ROWS) < 0.3, rng.choice(_ODD if odd else _ODD[3:], _ROWS), values)


def _words(rng: Rng, rows: int, words: int) -> Any:
    numbers = rng.integers(-(2**63), 2**63 - 1, (rows, words))
    numbers[rng.random((rows, words)) < 0.4] = -1
    numbers[rng.random((rows, words)) < 0.4] = 0
    return numbers


def count_rows(rng: Rng) -> Arguments:
    """Counts that are not 0 before."""
    return _mask(rng), _codes(rng), rng.integers(0, 5, _GROUPS)


def sum_integers(rng: Rng) -> Arguments:
    """Sums that carry and borrow."""
    return _integers(rng), _mask(rng), _codes(rng), _words(rng, _GROUPS, 2)


def sum_whole(rng: Rng) -> Arguments:
    """Values of both signs."""
    return _integers(rng), _mask(rng)


def _bits(rng: Rng) -> Arguments:
    """Words with few bits and with many; ranges that begin and end within words, or are empty."""
    words = rng.integers(0, 2**64, 5, dtype=np.uint64)
    words[rng.random(5) < 0.4] &= np.uint64(0x1100_0000_0000_0011)
    start, stop = np.sort(rng.choice([0, 1, 63, 64, 65, 127, 128, 200, 300], 2)).tolist()
    values = np.where(rng.random(300) < 0.3, rng.choice(_ENDS, 300), rng.integers(-(2**63), 2**63 - 1, 300))
    return words, start, stop, values


def sum_bits(rng: Rng) -> Arguments:
    """A sum that carries and borrows."""
    return *_bits(rng), _words(rng, 1, 2)


def extreme_bits(rng: Rng) -> Arguments:
    """The first values, or better and worse ones than what was there."""
    before = rng.choice([-(2**63), 0, 2**63 - 1], 1)
    return *_bits(rng), bool(rng.random() < 0.5), before, rng.integers(0, 2, 1).astype(np.uint8)


def _lists(rng: Rng) -> Arguments:
    """Lists of one offset and of many, side by side and not."""
    lists = rng.integers(0, _ROWS, 90).astype(np.uint16)
    begins = rng.integers(0, 80, 12)
    return lists, begins, rng.integers(1, 10, 12), _integers(rng)


def sum_lists(rng: Rng) -> Arguments:
    """Sums that carry and borrow, over what was there before."""
    return *_lists(rng), _words(rng, 12, 2)


def extreme_lists(rng: Rng) -> Arguments:
    """Either end."""
    return *_lists(rng), bool(rng.random() < 0.5), np.zeros(12, np.int64)


def span_of_doubles(rng: Rng) -> Arguments:
    """Values of any size."""
    return doubles(rng).view(np.int64), _mask(rng)


def sum_doubles(rng: Rng) -> Arguments:
    """Sums of two words of numbers of like size, or of many words."""
    mask, codes = _mask(rng), _codes(rng)
    if rng.random() < 0.5:
        values = np.where(
            rng.random(_ROWS) < 0.2, np.nan, rng.standard_normal(_ROWS) * 2.0 ** rng.integers(0, 9, _ROWS)
        )
        return values.view(np.int64), mask, codes, -90, np.zeros((_GROUPS, 2), np.int64)
    return doubles(rng).view(np.int64), mask, codes, -1074, _words(rng, _GROUPS, 34)


def _near(rng: Rng) -> Any:
    """Multiples of 2^-60 of which the greatest are some 2^33, and some that are not finite."""
    values = np.round(rng.standard_normal(_ROWS) * 2.0 ** rng.integers(20, 90, _ROWS)) * 2.0**-60
    return np.where(rng.random(_ROWS) < 0.2, rng.choice(_ODD[:5], _ROWS), np.clip(values, -(2.0**32), 2.0**32))


def sum_near(rng: Rng) -> Arguments:
    """Values whose exponents are not far apart."""
    return _near(rng), _mask(rng), 2.0**60


def sum_groups_near(rng: Rng) -> Arguments:
    """The same by groups."""
    return _near(rng), _mask(rng), _codes(rng), 2.0**60, rng.integers(-9, 9, (_GROUPS, 2))


def count_odd(rng: Rng) -> Arguments:
    """Values of which some are not finite."""
    return doubles(rng), _mask(rng), _codes(rng), np.zeros((_GROUPS, 3), np.int64)


def keep_extreme(rng: Rng) -> Arguments:
    """Least or greatest of integers or numbers, groups with and without a value before."""
    values = _integers(rng) if rng.random() < 0.5 else doubles(rng)
    best, seen = values[rng.integers(0, _ROWS, _GROUPS)], rng.integers(0, 2, _GROUPS).astype(np.uint8)
    rows = np.full(_GROUPS if rng.random() < 0.5 else 0, -1, np.int64)
    return values, _mask(rng), _codes(rng), bool(rng.random() < 0.5), best, seen, rows


def some_rows(rng: Rng) -> Arguments:
    """Groups of which some have a row."""
    rows = np.full(_GROUPS, -1, np.int64)
    rows[rng.integers(0, _GROUPS)] = 3
    return _mask(rng), _codes(rng), rows


def _texts(rng: Rng) -> tuple[Any, Any]:
    texts = [bytes(rng.choice(list(b"ab\xc3\x00"), int(rng.integers(0, 4))).astype(np.uint8)) for _ in range(_ROWS)]
    return np.cumsum([0, *map(len, texts)]).astype(np.int64), np.frombuffer(b"".join(texts), np.uint8).copy()


def extreme_texts(rng: Rng) -> Arguments:
    """Texts of which one may begin as another, or be empty."""
    return *_texts(rng), _mask(rng), _codes(rng), bool(rng.random() < 0.5), np.full(_GROUPS, -1, np.int64)


def sum_deviations(rng: Rng) -> Arguments:
    """Values about their origins."""
    values, origins = rng.standard_normal(_ROWS), rng.standard_normal(_GROUPS)
    return values, _mask(rng), _codes(rng), origins, rng.integers(0, 5, _GROUPS), np.zeros(_GROUPS)


def sum_squares(rng: Rng) -> Arguments:
    """Values about their means."""
    values, (origins, means) = rng.standard_normal(_ROWS), rng.standard_normal((2, _GROUPS))
    return values, _mask(rng), _codes(rng), origins, means, np.zeros(_GROUPS)


def add_wide(rng: Rng) -> Arguments:
    """Integers of some words."""
    words, places = int(rng.choice([2, 3, 34])), rng.permutation(9)[:4]
    return _words(rng, 4, words), places, _words(rng, 9, words)


def add_halves(rng: Rng) -> Arguments:
    """Numbers of both signs, and integers of some words."""
    words = int(rng.choice([2, 3]))
    return _words(rng, 9, 2), int(rng.choice([1, 46, 63])), _words(rng, 9, words)


def shift_wide(rng: Rng) -> Arguments:
    """Shifts by whole words, and by bits."""
    words, bits = int(rng.integers(2, 5)), int(rng.choice([0, 1, 63, 64, 65, 128, 200]))
    return _words(rng, 9, words), bits, np.zeros((9, words + 4), np.int64)


def round_wide(rng: Rng) -> Arguments:
    """Integers that are halfway between two numbers, and any others."""
    numbers = _words(rng, 30, int(rng.choice([2, 3, 5])))
    numbers[:5] = 0
    numbers[:5, 0] = [2**53 + 1, 2**53 + 3, 1, 0, -(2**63)]
    numbers[5:9] >>= 63
    numbers[9:14, 0] &= ~0xFFF
    return numbers, np.zeros(30), np.zeros(30, np.int64)


def divide_wide(rng: Rng) -> Arguments:
    """Sums of so many int64."""
    divisors = rng.integers(1, 2**40, 20)
    numbers = np.zeros((20, 2), np.int64)
    for i, divisor in enumerate(divisors.tolist()):
        whole = int(rng.integers(-(2**63), 2**63 - 1)) * divisor + int(rng.integers(0, divisor))
        numbers[i] = np.array([whole % 2**64, whole // 2**64 % 2**64], np.uint64).view(np.int64)
    return numbers, divisors, np.zeros(20, np.int64)


def _numbering(rng: Rng) -> tuple[Any, Any, Any, Any]:
    """NULLs, where to start, no numbers yet, and room for the numbers of rows."""
    return _mask(rng), int(rng.integers(0, 9)), np.array([0, -1]), np.zeros(_ROWS, np.int32)


def number_near(rng: Rng) -> Arguments:
    """Keys in a table by key; room for all, or for some; some have numbers before."""
    keys, known = rng.integers(-20, 20, _ROWS), np.zeros(int(rng.choice([3, 20, 60])), np.int64)
    valid, start, counts, numbers = _numbering(rng)
    table = np.full(40, -1, np.int32)
    plain.number_near(keys[:9], np.zeros(0, np.uint8), 0, -20, table, known, counts, numbers)
    return keys, valid, start, -20, table, known, counts, numbers


def number_keys(rng: Rng) -> Arguments:
    """Keys in a table by hash; room for all, or for some; some have numbers before."""
    keys = rng.integers(-20, 20, _ROWS) if rng.random() < 0.5 else _integers(rng)
    known, seed = np.zeros(int(rng.choice([3, 20, 60])), np.int64), np.uint64(rng.integers(0, 2**63))
    valid, start, counts, numbers = _numbering(rng)
    table = np.full(64, -1, np.int32)
    plain.number_keys(keys[:9], np.zeros(0, np.uint8), 0, int(seed), table, known, counts, numbers)
    return keys, valid, start, seed, table, known, counts, numbers


def place_keys(rng: Rng) -> Arguments:
    """Different keys, one of which may be NULL."""
    keys = rng.permutation(np.unique(_integers(rng)))
    null = int(rng.integers(-1, 5))
    return keys, int(rng.integers(0, len(keys))), null, np.uint64(rng.integers(0, 2**63)), np.full(64, -1, np.int32)


def number_texts(rng: Rng) -> Arguments:
    """Texts of which some have numbers before, and hashes of which several are equal."""
    (ends, data), (old_ends, old) = _texts(rng), _texts(rng)
    old_ends = old_ends[: int(rng.integers(1, 4))]
    hashes = _hashes(ends, data)
    known, table = np.zeros(int(rng.choice([8, 20, 60])), np.uint64), np.full(64, -1, np.int32)
    valid, start, counts, numbers = _numbering(rng)
    names = dict.fromkeys(bytes(old[old_ends[i] : old_ends[i + 1]]) for i in range(len(old_ends) - 1))
    kept = np.frombuffer(b"".join(names), np.uint8).copy()
    kept_ends = np.cumsum([0, *map(len, names)]).astype(np.int64)
    counts[0] = len(names)
    known[: len(names)] = _hashes(kept_ends, kept)
    plain.place_texts(known, len(names), -1, table)
    rows = np.full(len(known), -1, np.int64)
    return ends, data, hashes, valid, start, table, known, kept_ends, kept, counts, numbers, rows


def _hashes(ends: Any, data: Any) -> Any:
    """Poor hashes, so that different texts have the same."""
    sums = [int(data[ends[i] : ends[i + 1]].sum()) % 5 * (2**61 + 3) for i in range(len(ends) - 1)]
    return np.array(sums, np.uint64)


def place_texts(rng: Rng) -> Arguments:
    """Hashes, one of which may be that of NULL."""
    hashes = rng.integers(0, 99, 20).astype(np.uint64)
    return hashes, int(rng.integers(0, 21)), int(rng.integers(-1, 5)), np.full(64, -1, np.int32)


def merge_runs(rng: Rng) -> Arguments:
    """Keys that come several times."""
    return np.sort(rng.integers(0, 20, _ROWS)), rng.integers(0, 9, _ROWS), bool(rng.random() < 0.5)


CASES = {
    "fold.group_states.count_rows": count_rows,
    "fold.group_states.sum_integers": sum_integers,
    "fold.group_states.sum_whole": sum_whole,
    "fold.group_states.sum_bits": sum_bits,
    "fold.group_states.extreme_bits": extreme_bits,
    "fold.group_states.sum_lists": sum_lists,
    "fold.group_states.extreme_lists": extreme_lists,
    "fold.group_states.span_of_doubles": span_of_doubles,
    "fold.group_states.sum_doubles": sum_doubles,
    "fold.group_states.sum_near": sum_near,
    "fold.group_states.sum_groups_near": sum_groups_near,
    "fold.wide_integers.add_halves": add_halves,
    "fold.group_states.count_odd": count_odd,
    "fold.group_states.keep_extreme": keep_extreme,
    "fold.group_states.first_rows": some_rows,
    "fold.group_states.last_rows": some_rows,
    "fold.group_states.extreme_texts": extreme_texts,
    "fold.group_states.sum_deviations": sum_deviations,
    "fold.group_states.sum_squares": sum_squares,
    "fold.wide_integers.add_wide": add_wide,
    "fold.wide_integers.shift_wide": shift_wide,
    "fold.wide_integers.round_wide": round_wide,
    "fold.wide_integers.divide_wide": divide_wide,
    "fold.group_numbers.number_near": number_near,
    "fold.group_numbers.number_keys": number_keys,
    "fold.group_numbers.place_keys": place_keys,
    "fold.group_numbers.number_texts": number_texts,
    "fold.group_numbers.place_texts": place_texts,
    "fold.group_numbers.mark_codes": lambda rng: (rng.integers(0, 9, _ROWS).astype(np.uint16), np.zeros(9, np.uint8)),
    "fold.group_numbers.map_codes": lambda rng: (
        rng.integers(0, 9, _ROWS).astype(np.uint16),
        rng.integers(0, 99, 9).astype(np.int32),
        np.zeros(_ROWS, np.int32),
    ),
    "fold.group_numbers.pair_numbers": lambda rng: (
        *rng.integers(0, 2**31, (2, _ROWS)).astype(np.int32),
        np.zeros(_ROWS, np.int64),
    ),
    "fold.group_numbers.merge_runs": merge_runs,
}
