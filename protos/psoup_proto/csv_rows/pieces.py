"""CSV files, read as tables, and the fault of each row that cannot be read.

    records ──Arrow, typed──> table                       one piece at a time
       └── it fails: Arrow, all text ──> column by column, distinct values bisected ──> table of the good rows, and
                                                                                        a reason for each other row

The command leaves times as texts, which the SDK converts. Line numbers are those of the file (`records`).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from psoup_proto.csv_rows import records
from psoup_proto.csv_rows.dialect import SAMPLE_BYTES, Dialect, fields_of, find_dialect
from psoup_proto.csv_rows.failing import REFUSALS
from psoup_proto.csv_rows.faults import CsvFault, invalid_text, not_in
from psoup_proto.csv_rows.field import CsvField
from psoup_proto.csv_rows.records import Records, read_records
from psoup_proto.csv_rows.values import FALSE, TRUE, ReasonOf, converted, has_exponents, is_doubtful, typed

_SEPARATOR = re.compile(rb'sep=([^\0\r\n"\x80-\xff])\r?\n')
"""Matches a first line such as `sep=;`, by which Excel learns the delimiter. No delimiter is a quote or a line end."""

MOST_FIELDS = 65_536
"""The most fields of a first line. A line of 4 MiB may have four million. No other thread runs while it is split."""

Read = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """The options of a CSV.

    `nulls`: texts that mean NULL, besides an empty field. `header`: whether the first line names the columns.
    `delimiter`, `quote`: one character each; None: detect it. A quote may be "", for none.
    """

    nulls: tuple[str, ...] = ()
    header: bool = True
    delimiter: str | None = None
    quote: str | None = None


class CsvColumns:
    """The wanted columns of a CSV. This base class wants every column, as text."""

    def known(self, fields: Sequence[str]) -> int:
        """Count the wanted fields among some."""
        return 0

    def choose(self, fields: Sequence[str], line: int) -> list[CsvField | None]:
        """Return the column for each field of the header; None for a field that is left out. Raises CsvFault."""
        return [CsvField(name, pa.string(), "TEXT") for name in fields]


@dataclass(frozen=True, slots=True)
class CsvPiece:
    """The rows of a piece of a CSV. `numbers`: the record of each row; None if every record is a row.

    `refused`: the reason for each other record, by its number. Reasons behind the first `most` of `CsvRules` may be "".
    """

    table: pa.Table
    records: Records
    numbers: Any = None
    refused: dict[int, str] = field(default_factory=dict)


def csv_pieces(read: Read, columns: CsvColumns, options: CsvOptions, reason_of: ReasonOf) -> Iterator[CsvPiece]:
    """Yield the tables of a CSV. `reason_of`: describes the fault of a value.

    Raises CsvFault that names the line at which reading ends, also for an empty file.
    """
    sample, read = _sampled(read)
    dialect, skipped = dialect_of(sample, columns, options)
    pieces = read_records(_after(read, skipped), dialect, header=options.header, line=2 if skipped else 1)
    shape: CsvRules | None = None
    if options.header:
        head = next(pieces, None)
        if head is None or not head.data.strip():
            raise CsvFault("the file is empty: its first line has to name the columns, or say --no-header")
        shape = CsvRules(columns, head, dialect, options, reason_of)
    for part in pieces:
        if part.data.strip():
            shape = shape or CsvRules(columns, part, dialect, options, reason_of)
            yield shape.piece(part)


def dialect_of(sample: bytes, columns: CsvColumns, options: CsvOptions) -> tuple[Dialect, int]:
    """Find the dialect of a CSV by its first bytes. Also returns the bytes of a first line that names the delimiter."""
    said = _SEPARATOR.match(sample)
    given = said[1].decode("latin-1") if said and options.delimiter is None else options.delimiter
    skipped = said.end() if said else 0
    return find_dialect(sample[skipped:], given, options.quote, columns.known), skipped


def _after(read: Read, skipped: int) -> Read:
    """Drop the first `skipped` bytes. They are in the first block."""
    left = [skipped]

    def later(size: int) -> bytes:
        return read(size)[left.pop() :] if left else read(size)

    return later


def _sampled(read: Read) -> tuple[bytes, Read]:
    """Read the first bytes, which show the dialect. Returns them, and a function that reads from the beginning."""
    sample = block = read(records.PIECE_BYTES)
    while block and b"\n" not in sample.lstrip(b"\r\n") and len(sample) < SAMPLE_BYTES:
        block = read(records.PIECE_BYTES)
        sample += block
    given = [sample]
    returns = b"\r" in sample and b"\n" not in sample  # lines end as on an old Macintosh

    def again(size: int) -> bytes:
        block = given.pop() if given else read(size)
        return block.replace(b"\r", b"\n") if returns else block

    return sample.replace(b"\r", b"\n") if returns else sample, again


class CsvRules:
    """The rules by which records of a CSV become rows: the dialect, the columns and the texts for NULL."""

    def __init__(
        self,
        columns: CsvColumns,
        first: Records,
        dialect: Dialect,
        options: CsvOptions,
        reason_of: ReasonOf,
        most: int | None = None,
    ) -> None:
        """`reason_of`, `most`: see `typed`. At most `most` records with a wrong number of fields get a reason."""
        self._most = most
        self._reason_of = reason_of
        self._dialect = dialect
        self._nulls = ["", *options.nulls]
        self._header = options.header
        line = first.line_of(0)
        self._fields = columns.choose(_fields_of(first.texts()[0], dialect, line), line)
        self._names = [csv_field.name if csv_field else f"\0{at}" for at, csv_field in enumerate(self._fields)]
        self._wanted = [csv_field for csv_field in self._fields if csv_field]
        self._decimals = [csv_field.name for csv_field in self._wanted if pa.types.is_decimal(csv_field.arrow)]

    def piece(self, records: Records) -> CsvPiece:
        """Parse some records. Raises CsvFault if they cannot be read one by one."""
        try:
            table = self._table(records.data)
            return self._sifted(records) if any(map(is_doubtful, table.columns)) else CsvPiece(table, records)
        except REFUSALS as problem:
            piece = self._sifted(records)
            if not piece.refused and not self._decimals:  # Arrow also refuses decimals with zeros at the end
                raise CsvFault(f"line {records.line_of(0)} and those after it: {problem}") from problem
            return piece

    def _table(self, data: bytes) -> pa.Table:
        """Parse all records.

        Raises one of REFUSALS. Times and numbers of another form are parsed from texts, and so are decimals if one of
        them may have an exponent.
        """
        types = {csv_field.name: csv_field.arrow for csv_field in self._wanted}
        texts = {csv_field.name: csv_field for csv_field in self._wanted if csv_field.form or _is_time(csv_field)}
        if self._decimals and has_exponents(data):
            texts |= {csv_field.name: csv_field for csv_field in self._wanted if csv_field.name in self._decimals}
        if not texts:
            return self._read(data, types)
        table = self._read(data, types | dict.fromkeys(texts, pa.string()))
        arrays = [
            converted(column, texts[name]) if name in texts else column
            for name, column in zip(table.column_names, table.columns, strict=True)
        ]
        return pa.Table.from_arrays(arrays, table.column_names)

    def _read(self, data: bytes, types: dict[str, pa.DataType], ragged: Callable[[Any], str] | None = None) -> pa.Table:
        return pyarrow.csv.read_csv(
            io.BytesIO(data),
            pyarrow.csv.ReadOptions(column_names=self._names, block_size=len(data) + 1, use_threads=ragged is None),
            pyarrow.csv.ParseOptions(
                delimiter=self._dialect.delimiter,
                quote_char=self._dialect.quote or False,
                newlines_in_values=bool(self._dialect.quote),
                invalid_row_handler=ragged,
            ),
            pyarrow.csv.ConvertOptions(
                column_types=types,
                include_columns=[csv_field.name for csv_field in self._wanted],
                null_values=self._nulls,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=TRUE,
                false_values=FALSE,
            ),
        )

    def _sifted(self, records: Records) -> CsvPiece:
        """Parse the readable records, and describe the fault of each other record."""
        data, refused = self._reportable(records)
        places = np.delete(np.arange(len(records.starts())), list(refused))

        described = 0

        def ragged(row: Any) -> str:
            nonlocal described
            described += 1
            reason = self._counts(row.actual_columns, row.expected_columns) if self._describes(described) else ""
            refused[int(places[row.number - 1])] = reason
            return "skip"

        texts = self._read(data, {csv_field.name: pa.binary() for csv_field in self._wanted}, ragged)
        numbers = np.setdiff1d(places, list(refused))
        arrays, good = [], np.ones(len(texts), bool)
        for csv_field, column in zip(self._wanted, texts.columns, strict=True):
            array, reasons = typed(column.combine_chunks(), csv_field, self._reason_of, self._most)
            arrays.append(array)
            for row, reason in reasons.items():
                good[row] = False
                refused.setdefault(int(numbers[row]), reason)
        table = pa.Table.from_arrays(arrays, [csv_field.name for csv_field in self._wanted]).filter(pa.array(good))
        return CsvPiece(table, records, numbers[good], refused)

    def _reportable(self, records: Records) -> tuple[bytes, dict[int, str]]:
        """Drop the records that Arrow cannot report, because they are not UTF-8 and have a wrong number of fields.

        Returns the remaining bytes, and the reason for each dropped record.
        """
        refused = dict[int, str]()
        if _is_utf8(records.data):
            return records.data, refused
        lines = list[bytes]()
        for number, text in enumerate(records.texts()):
            reason = self._fault_of(text)
            if reason:
                refused[number] = reason if self._describes(len(refused) + 1) else ""
            else:
                lines.append(text)
        return b"\n".join(lines) + b"\n", refused

    def _describes(self, count: int) -> bool:
        """Whether the `count`-th record with a wrong number of fields needs its reason."""
        return self._most is None or count <= self._most

    def _fault_of(self, record: bytes) -> str:
        """The reason why Arrow cannot report a record; "" if it can."""
        if _is_utf8(record):
            return ""
        try:
            delimiters = record.count(self._dialect.delimiter.encode())
            if delimiters < MOST_FIELDS:
                fields = len(next(fields_of(record.decode("latin-1"), self._dialect)))
            else:
                fields = delimiters + 1
        except csv.Error:  # a field has more than 128 KiB, the most that the module csv reads
            return invalid_text("utf-8", _invalid_byte(record))
        return "" if fields == len(self._names) else self._counts(fields, len(self._names))

    def _counts(self, actual: int, wanted: int) -> str:
        first = f"the first line {_counted(wanted, 'name' if self._header else 'value')}"
        hint = f"; they are separated by {self._dialect.delimiter_name}"
        if actual > wanted > 1:
            hint += "; put quotes around a value that contains one"
        elif wanted > actual > 1:
            hint += "; an empty field is NULL"
        else:
            hint += "; --delimiter names another character"
        return f"it has {_counted(actual, 'value')}, and {first}{hint}"


def _fields_of(record: bytes, dialect: Dialect, line: int) -> list[str]:
    """Split the first record into its fields."""
    invalid = _invalid_byte(record)
    if invalid:
        raise not_in("utf-8", line, invalid)
    if record.count(dialect.delimiter.encode()) >= MOST_FIELDS:
        raise CsvFault(f"line {line}: the first line has more than {MOST_FIELDS:,} fields", line=line)
    try:
        fields = next(fields_of(record.decode(), dialect))
    except csv.Error as problem:
        raise CsvFault(f"line {line}: this is not a line of a CSV: {problem}", line=line) from None
    if any("\0" in name for name in fields):
        raise CsvFault(
            f"line {line}: it has NUL bytes; if the file is UTF-16, say --encoding utf-16-le or utf-16-be",
            line=line,
        )
    return fields


def _is_time(csv_field: CsvField) -> bool:
    return bool(pa.types.is_timestamp(csv_field.arrow))


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _is_utf8(data: bytes) -> bool:
    return not _invalid_byte(data)


def _invalid_byte(data: bytes) -> str:
    """The first bytes that are not UTF-8, such as "byte e9"; "" without one. O(bytes)."""
    try:
        data.decode()
    except UnicodeDecodeError as problem:
        return f"byte {data[problem.start : problem.end].hex(' ')}"
    return ""
