"""Data of a COPY FROM STDIN read by Arrow, for lines and values in the common form.

    data ──csv──> texts of each column ──cast──> columns
      └─ None: an escape, a quote within a text, another way to write a value, or a fault: read one value at a time

`copy_splits` and `readers` read every form. Both ways give equal values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from psoup_service.pg.values import types
from psoup_service.pg.values.copy_form import CopyForm
from psoup_service.pg.values.zones import Zone

_TRIES = 64
"""The line breaks at the end of a piece that are tried, because they may lie within a quoted value."""
_INTEGER = r"^-?[0-9]{1,19}$"
_NOT_ZERO = r"^[^eE]*[1-9]"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_CLOCK = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_LOCAL, _ZONED = f"{_CLOCK}$", f"{_CLOCK}(?:Z|[+-][0-9]{{2}}(?::[0-9]{{2}})?)$"
_WORDS = pa.array(["t", "f", "true", "false"])


def whole_lines(data: bytes, form: CopyForm) -> int:
    """The bytes of the lines that are whole; -1 if the last line break may belong to a value."""
    end = data.rfind(b"\n")
    if form.name == "text":
        return end + 1 if end < 1 or data[end - 1] != 0x5C else -1
    quote = form.quote.encode()
    for _ in range(_TRIES):
        if data.count(quote, 0, end + 1) % 2 == 0:
            return end + 1
        end = data.rfind(b"\n", 0, end)
    return -1


def texts_of(data: bytes, form: CopyForm, columns: int) -> list[pa.Array] | None:
    """The texts of each column of whole lines; None if Arrow would read them in another way than PostgreSQL."""
    if form.name == "binary" or not _is_common(data, form):
        return None
    names = [str(column) for column in range(columns)]
    quoted = form.name == "csv"
    try:
        table = csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(column_names=names, block_size=len(data) + 1, use_threads=False),
            csv.ParseOptions(
                delimiter=form.delimiter,
                quote_char=form.quote if quoted else False,
                newlines_in_values=quoted,
                ignore_empty_lines=False,
            ),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[form.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    arrays = [column.combine_chunks() for column in table.columns]
    if b"\\" in data and any(pc.any(pc.match_substring(array, "\\")).as_py() for array in arrays):
        return None
    return arrays


def _is_common(data: bytes, form: CopyForm) -> bool:
    """Whether the data has neither escapes nor quotes within texts, nor line breaks of other systems."""
    if form.name == "text":
        return b"\r" not in data
    if form.escape != form.quote or data.count(b"\r") != data.count(b"\r\n"):
        return False
    quote, ends = re.escape(form.quote.encode()), re.escape(form.delimiter.encode()) + b"\r\n"
    within = b"[^%b%b]%b[^%b%b]" % (ends, quote, quote, ends, quote)
    behind = b"(?:^|[%b])%b%b[^%b%b]" % (ends, quote, quote, ends, quote)
    return quote not in data or not re.search(b"%b|%b" % (within, behind), data)


def columns_of(
    texts: Sequence[pa.Array], oids: Sequence[int], kinds: Sequence[pa.DataType], zone: Zone
) -> list[pa.Array] | None:
    """The columns of texts; None if a text is not written in the common way."""
    arrays = list[pa.Array]()
    for text, oid, kind in zip(texts, oids, kinds, strict=True):
        try:
            array = _cast(text, oid, kind, zone)
        except pa.ArrowInvalid:
            return None
        if array is None:
            return None
        arrays.append(array)
    return arrays


def _cast(texts: pa.Array, oid: int, kind: pa.DataType, zone: Zone) -> pa.Array | None:
    if oid == types.TEXT_OID:
        return texts
    if oid == types.INT8:
        return texts.cast(kind) if _all(texts, _INTEGER) else None
    if oid == types.FLOAT8:
        values = texts.cast(kind)
        odd = pc.or_(pc.is_inf(values), pc.and_(pc.equal(values, 0), pc.match_substring_regex(texts, _NOT_ZERO)))
        return None if pc.any(odd).as_py() else values
    if oid == types.NUMERIC:
        return texts.cast(kind)
    if oid == types.BOOL:
        ordinary = pc.all(pc.is_in(texts.drop_null(), _WORDS)).as_py() is not False
        return pc.starts_with(texts, "t") if ordinary else None
    if pc.any(pc.starts_with(texts, "0000")).as_py():
        return None
    if oid == types.DATE:
        return texts.cast(kind) if _all(texts, _DATE) else None
    if _all(texts, _ZONED):
        return texts.cast(kind)
    if not _all(texts, _LOCAL):
        return None
    local = texts.cast(pa.timestamp("us")).cast(pa.int64())
    numbers = local.fill_null(0).to_numpy()
    mask = local.is_null().to_numpy(zero_copy_only=False)
    return pa.array(zone.instants(np.asarray(numbers)), pa.int64(), mask=mask).cast(kind)


def _all(texts: pa.Array, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False
