"""Data of a COPY FROM STDIN in binary format as columns, without a Python step for each value.

    data ──kernel──> starts and sizes of values ──> int64[n] by their bytes, texts by their offsets

Columns of one width are gathered at once. Decimals are put together from their groups of four digits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from psoup.kernels.postgres.binary_rows import find_values
from psoup_service.pg.values import types
from psoup_service.pg.values.binary import DAYS_TO_2000, MICROS_TO_2000
from psoup_service.pg.values.cells import Array, frozen

_FORMS = {
    types.INT8: (">i8", np.int64, 0),
    types.FLOAT8: (">f8", np.float64, 0),
    types.DATE: (">i4", np.int32, DAYS_TO_2000),
    types.TIMESTAMPTZ: (">i8", np.int64, MICROS_TO_2000),
}
"""The format of a value, its type, and the number that is added to it."""
_POWERS = 10 ** np.arange(19, dtype=np.int64)
_MOST_GROUPS = 5
_BEYOND = 1e18
"""The value of a group of digits is smaller, so that the sum of five does not overflow."""


def rows_of(data: bytes, first: int, columns: int) -> tuple[Array, Array, int]:
    """The starts and the sizes of the values of whole rows, int64[columns, rows], and the place behind the rows."""
    capacity = max(1, (len(data) - first) // (2 + 4 * columns))
    starts, sizes = np.zeros((columns, capacity), np.int64), np.zeros((columns, capacity), np.int64)
    rows, after = find_values(frozen(np.frombuffer(data, np.uint8)), first, starts, sizes)
    return starts[:, :rows], sizes[:, :rows], after


def columns_of(
    data: bytes, starts: Array, sizes: Array, oids: Sequence[int], kinds: Sequence[pa.DataType]
) -> list[pa.Array] | None:
    """The columns of values; None if a value is not an ordinary one of its type."""
    raw, arrays = np.frombuffer(data, np.uint8), list[pa.Array]()
    for start, size, oid, kind in zip(starts, sizes, oids, kinds, strict=True):
        nulls = size < 0
        if oid == types.TEXT_OID:
            array = _texts(data, start, size)
        elif oid == types.BOOL:
            array = _truths(raw, start, size, nulls)
        elif oid == types.NUMERIC:
            array = _decimals(raw, start, size, nulls, kind)
        else:
            array = _numbers(raw, start, size, nulls, oid, kind)
        if array is None:
            return None
        arrays.append(array)
    return arrays


def _texts(data: bytes, start: Array, size: Array) -> pa.Array | None:
    spans = zip(start.tolist(), size.tolist(), strict=True)
    try:
        values = [None if count < 0 else data[first : first + count].decode() for first, count in spans]
    except UnicodeDecodeError:
        return None
    return pa.array(values, pa.string())


def _gathered(raw: Array, start: Array, width: int) -> Array:
    """The bytes of values of one width, uint8[n, width]. The bytes of a NULL are arbitrary."""
    places = np.minimum(start, len(raw) - width)[:, None] + np.arange(width)
    return raw[places]


def _numbers(raw: Array, start: Array, size: Array, nulls: Array, oid: int, kind: pa.DataType) -> pa.Array | None:
    form, dtype, added = _FORMS[oid]
    width = np.dtype(form).itemsize
    if not ((size == width) | nulls).all() or len(raw) < width:
        return None
    values = _gathered(raw, start, width).view(form)[:, 0].astype(dtype)
    if added:
        minimum = -(2 ** (8 * width - 1))
        if ((values == minimum) | (values > -minimum - 1 - added))[~nulls].any():
            return None  # an infinity, or a time that PSoup does not hold
        values[nulls] = 0
        values += dtype(added)
    array = pa.array(values, mask=nulls)
    return array.cast(pa.timestamp("us")).cast(kind) if oid == types.TIMESTAMPTZ else array.cast(kind)


def _truths(raw: Array, start: Array, size: Array, nulls: Array) -> pa.Array | None:
    if not ((size == 1) | nulls).all():
        return None
    return pa.array(_gathered(raw, start, 1)[:, 0] != 0, mask=nulls)


def _decimals(raw: Array, start: Array, size: Array, nulls: Array, kind: pa.DataType) -> pa.Array | None:
    """Decimals of up to 18 digits whose groups need no rounding."""
    if kind.precision > 18 or len(raw) < 8 or not ((size >= 8) | nulls).all():
        return None
    count, weight, sign, _ = (column.astype(np.int64) for column in _gathered(raw, start, 8).view(">i2").T)
    count[nulls] = weight[nulls] = sign[nulls] = 0
    if not ((size == 8 + 2 * count) | nulls).all() or not np.isin(sign, (0, 0x4000)).all():
        return None
    if (count > _MOST_GROUPS).any():
        return None
    values = np.zeros(len(start), np.int64)
    for group in range(int(count.max(initial=0))):
        has = count > group
        digits = _gathered(raw, start + 8 + 2 * group, 2).view(">i2")[:, 0].astype(np.int64)
        power = 4 * (weight - group) + kind.scale
        cut = _POWERS[np.clip(-power, 0, 4)]
        large = digits * 10.0 ** np.clip(power, 0, 40) >= _BEYOND
        if (has & (large | (power < -3) | (digits < 0) | (digits > 9_999) | (digits % cut != 0))).any():
            return None
        values += np.where(has, digits // cut * _POWERS[np.clip(power, 0, 18)], 0)
    if (values >= _POWERS[kind.precision]).any():
        return None
    scaled = pa.array(np.where(sign == 0, values, -values), mask=nulls)
    narrow = pa.Array.from_buffers(pa.decimal64(18, kind.scale), len(scaled), scaled.buffers())
    return narrow.cast(pa.decimal128(18, kind.scale)).cast(kind)
