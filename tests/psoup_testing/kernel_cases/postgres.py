"""Random arguments for the kernels of `postgres`: columns by address, and texts of numbers."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from psoup.kernels.postgres.messages import (
    BIT,
    FIELDS,
    INT,
    LONG,
    SHORT,
    TEXT32,
    TEXT64,
)
from psoup.kernels.postgres.texts import DATES, ZONED

Rng = np.random.Generator
Arguments = tuple[Any, ...]

_ROWS = 20
_KEPT: list[Any] = []
"""The arrays that kernels are given by address."""
_WIDTHS = {SHORT: np.int16, INT: np.int32, LONG: np.int64}


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


def _bytes(text: bytes) -> Any:
    return np.frombuffer(text, np.uint8)


def _address(array: Any) -> int:
    _KEPT.append(array)
    return int(array.__array_interface__["data"][0])


def _column(rng: Rng, kind: int) -> list[int]:
    first = int(rng.integers(0, 9))
    valid = _address(rng.integers(0, 256, 8).astype(np.uint8)) if rng.random() < 0.5 else 0
    if kind == BIT:
        return [kind, _address(rng.integers(0, 256, 8).astype(np.uint8)), first, valid, first, 0, 0]
    if kind in _WIDTHS:
        values = rng.integers(-9_999, 9_999, _ROWS).astype(_WIDTHS[kind])
        return [kind, _address(values), 0, valid, first, 0, 0 if kind == SHORT else int(rng.integers(-99, 99))]
    ends = np.cumsum([3, *rng.choice([0, 1, 20], _ROWS)]).astype(np.int32 if kind == TEXT32 else np.int64)
    text = rng.integers(97, 123, int(ends[-1])).astype(np.uint8)
    return [kind, _address(ends), 0, valid, first, _address(text), 0]


def _columns(rng: Rng, kinds: list[int]) -> Any:
    chosen = rng.choice(kinds, int(rng.integers(1, 5))).tolist()
    return np.array([_column(rng, kind) for kind in chosen], np.int64).reshape(-1, FIELDS)


def _write_rows(rng: Rng) -> Arguments:
    columns = _columns(rng, [BIT, SHORT, INT, LONG, TEXT32, TEXT64])
    return columns, _ROWS, 68, np.zeros(10_000, np.uint8)


def _write_lines(rng: Rng) -> Arguments:
    null = _bytes([b"", b"\\N"][rng.integers(2)])
    return _columns(rng, [TEXT32, TEXT64]), _ROWS, 9, null, np.zeros(10_000, np.uint8)


def _outputs() -> Arguments:
    return np.zeros(_ROWS + 1, np.int64), np.zeros(_ROWS * 64, np.uint8)


def _texts(texts: list[str]) -> Arguments:
    parts = [text.encode() for text in texts]
    return _frozen(np.cumsum([0, *map(len, parts)]).astype(np.int32)), _bytes(b"".join(parts))


def _integer_texts(rng: Rng) -> Arguments:
    values = rng.integers(-(2**63), 2**63 - 1, _ROWS) >> rng.integers(0, 63, _ROWS)
    values[:3] = [-(2**63), 2**63 - 1, 0]
    return _frozen(values), *_outputs()


def _float_texts(rng: Rng) -> Arguments:
    values = rng.standard_normal(_ROWS) * 10.0 ** rng.integers(-30, 30, _ROWS)
    values[:6] = [0, -0.0, np.nan, np.inf, -np.inf, 10.0 ** rng.integers(-8, 22)]
    texts = pa.array(np.where(rng.random(_ROWS) < 0.3, np.round(values, 2), values)).cast(pa.string()).to_pylist()
    return *_texts([*texts[:-1], ""]), 15, *_outputs()


def _scaled(rng: Rng) -> list[str]:
    numbers = [int(rng.integers(-(10**18), 10**18)) * 10**18 // 10 ** int(rng.integers(0, 37)) for _ in range(18)]
    return [*map(str, numbers), "0", ""]


def _decimals(rng: Rng) -> Arguments:
    return *_texts(_scaled(rng)), int(rng.choice([0, 1, 2, 4, 6, 38])), *_outputs()


def _time_texts(rng: Rng) -> Arguments:
    form = int(rng.integers(DATES, ZONED + 1))
    values = rng.integers(-(2**62), 2**62, _ROWS) >> rng.integers(0, 62, _ROWS)
    if form == DATES:
        values >>= 31
    offsets = np.zeros(_ROWS, np.int64)
    if form == ZONED:
        offsets = rng.choice([0, 3600, -3600, 19_800, -1_521, 50_400], _ROWS).astype(np.int64)
    return _frozen(values), _frozen(offsets), form, *_outputs()


def _lines(rng: Rng) -> Arguments:
    return _texts(["".join(rng.choice(list('ab\t\n"\\.,'), int(rng.integers(0, 6)))) for _ in range(_ROWS)])


def _flags(letters: dict[str, int]) -> Any:
    flags = np.zeros(256, np.uint8)
    for letter, flag in letters.items():
        flags[ord(letter)] = flag
    return _frozen(flags)


def _escaped_texts(rng: Rng) -> Arguments:
    return *_lines(rng), _flags({"\t": 116, "\n": 110, "\\": 92}), *_outputs()


def _quoted_texts(rng: Rng) -> Arguments:
    escape = 92 if rng.random() < 0.5 else 34
    null = _bytes([b"", b"a"][rng.integers(2)])
    marks = _flags({",": 1, '"': 1, "\n": 1})
    return *_lines(rng), marks, escape, 34, null, bool(rng.random() < 0.5), *_outputs()


def _find_values(rng: Rng) -> Arguments:
    columns = int(rng.integers(1, 4))
    raw = b"head"
    for _ in range(_ROWS):
        sizes = rng.choice([-1, 0, 3, 8], columns).tolist()
        raw += struct.pack("!h", columns)
        raw += b"".join(struct.pack("!i", size) + bytes(max(size, 0)) for size in sizes)
    raw += [b"\xff\xff", b"", struct.pack("!hi", columns, [-2, 99][rng.integers(2)])][rng.integers(3)]
    raw = raw[: len(raw) - int(rng.choice([0, 1, 5]))]
    capacity = int(rng.integers(1, 30))
    return _bytes(raw), 4, np.zeros((columns, capacity), np.int64), np.zeros((columns, capacity), np.int64)


CASES = {
    "postgres.binary_rows.find_values": _find_values,
    "postgres.messages.write_rows": _write_rows,
    "postgres.messages.write_lines": _write_lines,
    "postgres.texts.integer_texts": _integer_texts,
    "postgres.texts.float_texts": _float_texts,
    "postgres.texts.decimal_texts": _decimals,
    "postgres.texts.numeric_values": _decimals,
    "postgres.texts.time_texts": _time_texts,
    "postgres.quotes.escaped_texts": _escaped_texts,
    "postgres.quotes.quoted_texts": _quoted_texts,
}

WRITTEN = {name: 3 if name.endswith("rows") else 4 for name in CASES if ".messages." in name} | {
    "postgres.texts.integer_texts": 2,
    "postgres.texts.float_texts": 4,
    "postgres.texts.decimal_texts": 4,
    "postgres.texts.numeric_values": 4,
    "postgres.texts.time_texts": 4,
    "postgres.quotes.escaped_texts": 4,
    "postgres.quotes.quoted_texts": 8,
}
"""The argument whose front is written."""
ADDRESSED = {name: (0,) for name in CASES if ".messages." in name}
"""The argument that has addresses, which differ."""
