"""The footer of a Parquet file, checked before the library reads the facts of its columns.

    bytes ──> fields of Thrift, compact ──> row groups ──> columns: sizes of levels, no encryption

For some wrong facts of a column Arrow throws an exception that its Python binding does not catch, and the process ends.
This module checks these facts; the library checks the rest of a footer.
"""

from __future__ import annotations

from typing import Any

MOST_BYTES = 16 * 1024**2
"""The most bytes of a footer. A file with a thousand columns has a footer of three million bytes."""
_DEEP = 16
_GROUPS = 4
"""Number of the field in parquet.thrift: the row groups of a file."""

_COLUMNS = 1
"""Number of the field in parquet.thrift: the columns of a row group."""

_META = 3
"""Number of the field in parquet.thrift: the facts of a column."""

_SIZES = 16
"""Number of the field in parquet.thrift: the size statistics among a column's facts."""

_ENCRYPTED = (8, 9)
_TEXT_BYTES = 1
"""Number of the field in parquet.thrift: the bytes of texts in a column's size statistics."""

_REPETITION = 2
"""Number of the field in parquet.thrift: the histogram of repetition levels."""

_DEFINITION = 3
"""Number of the field in parquet.thrift: the histogram of definition levels."""


def check_footer(content: memoryview, schema: Any) -> None:
    """Raise ValueError if reading the facts of a column with pyarrow would end the process. O(bytes of the footer).

    `content`: the file. `schema`: a `pyarrow.parquet.ParquetSchema` of it.
    """
    size = int.from_bytes(content[-8:-4], "little")
    if not 0 < size <= min(MOST_BYTES, len(content) - 12):
        raise ValueError(f"its footer has {size:,} bytes; the limit is {MOST_BYTES:,}")
    try:
        fields = _ThriftReader(content[-8 - size : -8].tobytes()).read(0)
        for group in fields[_GROUPS]:
            columns = group[_COLUMNS]
            if len(columns) != len(schema.names):
                raise ValueError("its footer leaves out columns")
            for place, column in enumerate(columns):
                if any(field in column for field in _ENCRYPTED) or not _is_possible(
                    column[_META], schema.column(place)
                ):
                    raise ValueError(f"its footer is wrong about column {schema.column(place).path[:64]}")
    except (AttributeError, IndexError, KeyError, TypeError) as problem:
        raise ValueError("its footer is not that of a Parquet file") from problem


def _is_possible(meta: dict[int, Any], column: Any) -> bool:
    """Whether a column's size statistics, if any, have as many levels as the column."""
    sizes = meta.get(_SIZES, {})
    levels = {_REPETITION: column.max_repetition_level, _DEFINITION: column.max_definition_level}
    fits = all(len(sizes.get(field, ())) in (0, limit + 1) for field, limit in levels.items())
    return fits and (_TEXT_BYTES not in sizes or column.physical_type == "BYTE_ARRAY")


class _ThriftReader:
    """Reads structures of Thrift's compact protocol. Raises IndexError at the end of the bytes, ValueError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, depth: int) -> dict[int, Any]:
        """Read a structure: its values by field number. Of a text only the length is returned."""
        fields, number = dict[int, Any](), 0
        while head := self._byte():
            step = head >> 4
            number = number + step if step else _signed(self._varint())
            if number in fields:  # the library would combine both
                raise ValueError(f"its footer has the field {number} twice")
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEEP:
            raise ValueError("its footer is too deep")
        match kind:
            case 1 | 2 | 3:
                return self._byte()
            case 4 | 5 | 6:
                return _signed(self._varint())
            case 7 | 8:
                size = 8 if kind == 7 else self._varint()
                self._at += size
                return size
            case 9 | 10:
                head = self._byte()
                count = head >> 4 if head >> 4 < 15 else self._varint()
                return [self._value(head & 15, depth + 1) for _ in range(count)]
            case 12:
                return self.read(depth + 1)
            case _:
                raise ValueError(f"its footer has a value of the type {kind}")

    def _byte(self) -> int:
        value = self._data[self._at]
        self._at += 1
        return value

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("its footer has a number of more than 64 bits")
        return value | byte << shift


def _signed(number: int) -> int:
    return number >> 1 ^ -(number & 1)
