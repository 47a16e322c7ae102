"""The rows of VALUES, read in pieces. So a long INSERT takes little memory, and other threads run in between.

    (1, 'a'), (2, $1), …   ─ one pattern for a plain row ─>   texts by column ─>  arrays of a piece
                           └ word by word: casts, now() …                      └ gaps of parameters, filled at Execute

An Arrow array takes less memory than Python objects, and Python's garbage collector does not visit it.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from psoup.errors import PSoupError, ResourceExhausted
from psoup.model import Attribute, Kind
from psoup.values.kinds import arrow_type
from psoup_service.pg.statements.parameters import CASTS
from psoup_service.pg.statements.present_times import Now, PresentTime
from psoup_service.pg.statements.words import Words
from psoup_service.pg.statements.writing.insert_values import INTEGERS, read_row
from psoup_service.pg.statements.writing.targets import Named, Target
from psoup_service.pg.values import types
from psoup_service.pg.values.assignments import assigned
from psoup_service.pg.values.readers import read_text
from psoup_service.pg.values.to_arrow import array_of
from psoup_service.pg.values.zones import Zone

SHORT = 2_048
"""The most characters of a statement whose rows are read word by word. A pattern takes milliseconds to compile."""
_PIECE = 128 * 1024
"""The characters after which a piece ends. A thread reads them in some 10 ms."""
_MOST_COLUMNS = 64
"""The most columns of a row that one pattern matches."""
_MOST_BYTES = 16 << 20
"""The most bytes of arguments in the rows of a piece."""
FIRST_PRESENT = 100_000
"""The number of the first present time of a statement. Parameters have smaller numbers."""
_SPACE = r"\s{0,1000}+"
_VALUE = (
    r"('[^']*+(?:''[^']*+){0,1000}+'|[+-]?(?:[0-9]{1,1000}+(?:\.[0-9]{0,1000}+)?|\.[0-9]{1,1000}+)(?:[eE][+-]?[0-9]{1,9}+)?"
    r"|\$[1-9][0-9]{0,4}|(?i:NULL|DEFAULT|TRUE|FALSE))"
)
_WHOLE = "|".join(sorted((name for name, oid in CASTS.items() if oid in INTEGERS), reverse=True))
_TYPE = "|".join(sorted((name for name, oid in CASTS.items() if oid not in (types.DATE, *INTEGERS)), reverse=True))
_TOKEN = (
    rf"{_SPACE}(?![+-]?[0-9]{{0,1000}}+[.eE][0-9eE+-]{{0,1000}}+::(?i:{_WHOLE})){_VALUE}"
    rf"(?:(?<='[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}')::(?i:date){_SPACE}|(?<=[0-9])::(?i:{_WHOLE}){_SPACE}"
    rf"|{_SPACE}(?:::{_SPACE}(?i:{_TYPE}){_SPACE})?+)"
)
"""A constant or a parameter, with spaces. A cast that does not change it may follow.

A row with another cast, such as a date with a time of day, is read word by word. Repetitions are bounded, so that a
match does not hold the interpreter for long.
"""


@dataclass(slots=True)
class Piece:
    """Some rows. `columns`: an array for each column, or a list of its plain values if it has gaps.

    `gaps`: three numbers for each parameter: its column, its row, and its own number from 0. A present time is a
    parameter with a number from FIRST_PRESENT on.
    `starts`: the offset of each row in the statement.
    """

    columns: list[pa.Array | list[Any]] = field(default_factory=list)
    gaps: array[int] = field(default_factory=lambda: array("Q"))
    starts: array[int] = field(default_factory=lambda: array("Q"))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.starts)


class RowReader:
    """Reads the rows after VALUES. `more`: whether rows are left. `parameters`: the type of the first column of each.

    `present`: the present times, whose numbers count from FIRST_PRESENT. Only one thread at a time may use it.
    """

    def __init__(self, words: Words, named: Named, target: Target, zone: Zone, *, defaults: bool = False) -> None:
        """`defaults`: the statement has DEFAULT VALUES, which are one row of NULL."""
        self.more = True
        self.parameters = dict[int, int]()
        self.present = list[PresentTime]()
        self.attributes = target.attributes
        self._words = words
        self._named = named
        self._oids = target.oids
        self._zone = zone
        self._defaults = defaults
        self._plain: re.Pattern[str] | None = None

    @property
    def text(self) -> str:
        """The statement."""
        return self._words.source.text

    def piece(self) -> Piece:
        """The next rows, at least one. Raises SqlError."""
        words, piece, columns = self._words, Piece(), len(self.attributes)
        if self._plain is None and len(self.text) > SHORT and columns <= _MOST_COLUMNS:
            self._plain = _plain_row(columns)
        texts: list[list[str | None]] = [[] for _ in self.attributes]
        quoted = [False] * len(texts)
        end = words.place + _PIECE
        if self._defaults:
            texts, self.more = [[None] for _ in texts], False
            piece.starts.append(self._named.place)
        while self.more and words.place <= end:
            if not self._plain_rows(texts, quoted, piece, end):
                place = words.place
                self._row(texts, quoted, piece)
                piece.starts.append(place)
                self.more = words.accept(",")
        if not self.more:
            self._end()
        gaps = set(piece.gaps[::3])
        for column, attribute in enumerate(self.attributes):
            values = None if quoted[column] or column in gaps else _numbers(texts[column], attribute)
            if values is None:
                plain = self._plain_values(texts[column], column, piece)
                values = plain if column in gaps else _array(plain, attribute)
            piece.columns.append(values)
        return piece

    def refused(self, problem: PSoupError, piece: Piece, row: int, column: int) -> PSoupError:
        """An error at the place of a value in the statement."""
        words, attribute = Words(self.text, len(self.text)), self.attributes[column]
        words.go_to(piece.starts[row])
        value = read_row(words, len(self.attributes))[column]
        place = self._named.place if value is None else value.place
        return words.source.error(f'{problem.message} (column "{attribute.name}")', place, reason=problem.reason)

    def _plain_rows(self, texts: list[list[str | None]], quoted: list[bool], piece: Piece, end: int) -> bool:
        """Read rows of plain constants and parameters, up to an offset. Returns whether there were any."""
        text, at, begin = self.text, self._words.place, piece.rows
        while self._plain is not None and at <= end and (match := self._plain.match(text, at)) is not None:
            *tokens, comma = match.groups()
            for column, token in enumerate(tokens):
                first, value = token[0], None
                if first == "'":
                    quoted[column] = True
                    value = token[1:-1].replace("''", "'")
                elif first == "$":
                    self._gap(piece, column, int(token[1:]) - 1)
                elif first not in "nNdD":
                    value = token.lower() if first in "tTfF" else token
                texts[column].append(value)
            piece.starts.append(at)
            at = match.end()
            if comma is None:
                self.more = False
                break
        if piece.rows > begin:
            self._words.go_to(at)
        return piece.rows > begin

    def _row(self, texts: list[list[str | None]], quoted: list[bool], piece: Piece) -> None:
        """Read a row word by word. Raises SqlError."""
        row = read_row(self._words, len(self.attributes) + 1)
        if len(row) != len(self.attributes):
            more = "more" if len(row) > len(self.attributes) else "fewer"
            raise self._words.source.error(
                f"INSERT has {more} expressions than target columns", self._named.place, reason="COLUMN_COUNT"
            )
        for column, value in enumerate(row):
            quoted[column] = True
            if value is not None and value.present is not None:
                piece.gaps.extend((column, piece.rows, self._number(value.present)))
            elif value is not None and value.number >= 0:
                self._gap(piece, column, value.number)
            texts[column].append(None if value is None else value.text)

    def _gap(self, piece: Piece, column: int, number: int) -> None:
        self.parameters.setdefault(number, self._oids[column])
        piece.gaps.extend((column, piece.rows, number))

    def _number(self, present: PresentTime) -> int:
        """The number of a present time in gaps."""
        if present not in self.present:
            self.present.append(present)
        return FIRST_PRESENT + self.present.index(present)

    def _end(self) -> None:
        """Check that the statement ends after the rows."""
        words = self._words
        if words.next() in ("ON", "RETURNING"):
            feature = "ON CONFLICT" if words.next() == "ON" else "RETURNING"
            hint = "a row of a table replaces the row with the same key" if feature == "ON CONFLICT" else ""
            raise words.source.unsupported(feature, words.place, hint=hint)
        words.end()

    def _plain_values(self, texts: Sequence[str | None], column: int, piece: Piece) -> list[Any]:
        """Texts as plain values of a column. Raises SqlError with the place of a value."""
        attribute, zone, values = self.attributes[column], self._zone, list[Any]()
        if attribute.type.kind is Kind.TEXT:
            return [*texts]
        try:
            for text in texts:
                values.append(None if text is None else assigned(text, types.TEXT_OID, attribute, zone))
        except PSoupError as problem:
            raise self.refused(problem, piece, len(values), column) from None
        return values


class Filling:
    """Fills the gaps of pieces. `values`: the plain values of the arguments. `kinds`: the OIDs of their types."""

    def __init__(self, rows: RowReader, values: Sequence[Any], kinds: Sequence[int], zone: Zone, now: Now) -> None:
        self._rows = rows
        self._now = now
        self._values = values
        self._kinds = kinds
        self._zone = zone
        self._assigned = dict[tuple[int, int], Any]()

    def batch(self, piece: Piece) -> pa.RecordBatch:
        """The rows of a piece. Raises SqlError for an argument that its column refuses, at the place of the parameter.

        Raises ResourceExhausted if long arguments are repeated in many rows.
        """
        columns = [values if isinstance(values, pa.Array) else values.copy() for values in piece.columns]
        gaps, size = piece.gaps, 0
        for column, row, number in zip(gaps[::3], gaps[1::3], gaps[2::3], strict=True):
            value = columns[column][row] = self._value(piece, column, row, number)
            size += len(value) if isinstance(value, str) else 0
            if size > _MOST_BYTES:
                raise ResourceExhausted(
                    f"the arguments take more than {_MOST_BYTES:,} bytes in the rows of the INSERT; send fewer rows at"
                    " a time, or use COPY",
                    reason="MESSAGE_TOO_LARGE",
                    limit=_MOST_BYTES,
                )
        attributes = self._rows.attributes
        arrays = [
            values if isinstance(values, pa.Array) else _array(values, attribute)
            for values, attribute in zip(columns, attributes, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, [attribute.name for attribute in attributes])

    def _value(self, piece: Piece, column: int, row: int, number: int) -> Any:
        """An argument or a present time as a plain value of a column."""
        if (column, number) not in self._assigned:
            attribute = self._rows.attributes[column]
            try:
                value = assigned(*self._given(number), attribute, self._zone)
            except PSoupError as problem:
                raise self._rows.refused(problem, piece, row, column) from None
            self._assigned[column, number] = value
        return self._assigned[column, number]

    def _given(self, number: int) -> tuple[Any, int]:
        """The plain value and the type of an argument or a present time."""
        if number < FIRST_PRESENT:
            return self._values[number], self._kinds[number]
        present = self._rows.present[number - FIRST_PRESENT]
        return present.value(self._now, self._zone), present.oid


@lru_cache(_MOST_COLUMNS)
def _plain_row(columns: int) -> re.Pattern[str]:
    """The pattern of a row of constants and parameters, with a comma after it. O(columns), half a millisecond each."""
    return re.compile(rf"{_SPACE}\({_TOKEN}{f',{_TOKEN}' * (columns - 1)}\){_SPACE}(,)?")


def _array(values: Sequence[Any], attribute: Attribute) -> pa.Array:
    return array_of(values, types.type_of(attribute.type)[0], arrow_type(attribute.type))


def _numbers(texts: Sequence[str | None], attribute: Attribute) -> pa.Array | None:
    """Numbers without quotes as an array, if Arrow reads them as PostgreSQL does; else None."""
    if attribute.type.kind not in (Kind.BIGINT, Kind.DOUBLE):
        return None
    try:
        numbers = pa.array(texts, pa.string()).cast(arrow_type(attribute.type))
    except pa.ArrowInvalid:
        return None
    if attribute.type.kind is Kind.BIGINT:
        return numbers
    values = numbers.to_numpy(zero_copy_only=False)
    try:
        for row in np.flatnonzero((values == 0) | np.isinf(values)).tolist():
            read_text(types.FLOAT8, texts[row] or "")
    except PSoupError:
        return None
    return numbers
