"""The boundaries of a CSV's records. With them the file is read in pieces, and an error names the line of the file.

    1  id,note                 blocks of bytes ──> pieces of whole records ──> Arrow, piece by piece
    2  1,"two
    3  lines"                  a record of two lines: the row after it is line 4
    4  2,"no end               the quote of line 4 is open at the end of the file: an error, not one long row
    5  3,x

Lines are counted from 1, including blank ones and the header, as in editors. Only a quote at the beginning of a field
counts; any other quote is text. If a piece has quotes, the search for them takes some milliseconds.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from psoup_proto.csv_rows.dialect import Dialect
from psoup_proto.csv_rows.faults import CsvFault

PIECE_BYTES = 8 * 1024 * 1024
_MOST_BYTES = 4 * PIECE_BYTES
"""The greatest size of a record in bytes. A longer record lacks its end, and would not fit into a message."""

_NEWLINE = 10
_RETURN = 13

Array = Any


class _DialectBytes:
    """The bytes of a dialect that end or quote fields.

    `around`: a mask of the bytes that may stand before an opening quote and after a closing one. The quote itself is
    among them, because two quotes mean one in the text. `quoted`: the pattern of quoted fields. It never backtracks, so
    that a match needs no memory for each doubled quote.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.delimiter = dialect.delimiter.encode()
        self.quote = dialect.quote.encode()
        self.around = np.zeros(256, bool)
        self.around[[*b"\r\n", *self.delimiter, *self.quote]] = True
        q, before = re.escape(self.quote), re.escape(self.delimiter)
        if not q:
            return
        self.quoted = re.compile(rb"(?:^|(?<=[%b\r\n]))%b[^%b]*+(?:%b%b[^%b]*+)*+(%b?)" % (before, q, q, q, q, q, q))

    def in_text(self, data: bytes) -> bool:
        """Whether the data has a quote character."""
        return bool(self.quote) and self.quote in data


_marks = lru_cache(_DialectBytes)
COMMAS = Dialect()


@dataclass(frozen=True, slots=True)
class Records:
    """Whole records of a file. `line`: the line of the first byte, from 1."""

    data: bytes
    line: int
    dialect: Dialect = COMMAS

    def texts(self) -> list[bytes]:
        """Split the bytes into records without blank lines. O(bytes)."""
        bounds = [*map(int, self.starts()), len(self.data)]
        return [self.data[low:high].strip(b"\r\n") for low, high in pairwise(bounds)]

    def starts(self) -> Array:
        """Find the position at which each record begins. Blank lines are not records. O(bytes)."""
        ends = _outside(self.data, *_quoted(self.data, self.line, _marks(self.dialect)))
        first = np.concatenate([[0], ends + 1])
        stop = np.concatenate([ends, [len(self.data)]])
        raw = np.frombuffer(self.data, np.uint8)
        returned = (stop > first) & (raw[np.maximum(stop - 1, 0)] == _RETURN)
        return first[stop - returned > first]

    def lines(self) -> list[int]:
        """Return the line of the file on which each record begins. O(bytes)."""
        feeds = np.flatnonzero(np.frombuffer(self.data, np.uint8) == _NEWLINE)
        before: Array = np.searchsorted(feeds, self.starts())
        return [self.line + int(count) for count in before]

    def line_of(self, row: int) -> int:
        """Return the line of one record. Records are counted from 0."""
        return self.lines()[row]


def read_records(
    read: Callable[[int], bytes], dialect: Dialect = COMMAS, *, header: bool = True, line: int = 1
) -> Iterator[Records]:
    """Yield the header, if `header` is set, and then pieces of whole records. `read` returns b"" at the end.

    `line`: line of the first byte. Raises CsvFault for an unclosed quote, with the line where it opens, and for a
    line that is too long. Memory: the longest line, at most 32 MiB.
    """
    parts: list[bytes] = []
    marks, size = _marks(dialect), 0
    while True:
        block = read(PIECE_BYTES)
        parts.append(block)
        size += len(block)
        if block and b"\n" not in block and size <= _MOST_BYTES:
            continue  # wait for the end of a long line, so that its blocks are joined once
        rest = b"".join(parts)
        if len(rest) > _MOST_BYTES and b"\n" not in rest:
            raise _too_long(line)
        while rest:
            end = _end(rest, line, marks, header, last=not block)
            if not end:
                break
            yield Records(rest[:end], line, dialect)
            line, rest = line + rest.count(b"\n", 0, end), rest[end:]
            if not header:
                break
            header = False
        if not block:
            return
        parts, size = [rest] if rest else [], len(rest)


def end_of_records(data: bytes, line: int, dialect: Dialect, *, header: bool = False, last: bool = False) -> int:
    """Find the end of the last whole record in `data`, or of the first one for a header. Returns 0 without one.

    `line`: the line of the first byte. `last`: no bytes follow. Raises CsvFault as `read_records` does.
    """
    return _end(data, line, _marks(dialect), header, last=last)


def _end(data: bytes, line: int, marks: _DialectBytes, header: bool, *, last: bool) -> int:
    """Find the end of the last whole record in `data`, or of the first one for a header. Returns 0 without one."""
    if not header and not marks.in_text(data) and (last or b"\n" in data):
        return len(data) if last else data.rindex(b"\n") + 1
    starts, stops = _quoted(data, line, marks)
    if len(starts) and stops[-1] > len(data) and (last or len(data) - starts[-1] > _MOST_BYTES):
        _refuse_open(data, line, starts, stops, last)
    ends = _outside(data, starts, stops)
    if header:
        ends = ends[[bool(data[: int(end)].strip()) for end in ends[:1_000]] + [True] * max(len(ends) - 1_000, 0)][:1]
    if last and not (header and len(ends)):
        return len(data)
    if not len(ends) and len(data) > _MOST_BYTES:
        raise _too_long(line)
    return int(ends[-1]) + 1 if len(ends) else 0


def _too_long(line: int) -> CsvFault:
    return CsvFault(
        f"line {line}: it has more than {_MOST_BYTES:,} bytes; a line has to end with a line feed",
        "LINE_TOO_LONG",
        line,
    )


def _quoted(data: bytes, line: int, marks: _DialectBytes) -> tuple[Array, Array]:
    """Find the positions at which quoted fields begin and end. An unclosed field ends after the end of `data`."""
    if not marks.in_text(data):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    raw = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(raw == marks.quote[0])
    begin, end = quotes[::2], quotes[1::2]
    before = np.where(begin == 0, _NEWLINE, raw[begin - 1])
    after = np.where(end == len(data) - 1, _NEWLINE, raw[np.minimum(end + 1, len(data) - 1)])
    if marks.around[before].all() and marks.around[after].all():
        return begin, np.concatenate([end + 1, [len(data) + 1] * (len(begin) - len(end))])
    starts, stops = array("q"), array("q")  # a list of the matches is built without a switch to another thread
    for match in marks.quoted.finditer(data):  # rare: some quote is within a field
        _check_closed(data, line, match, marks)
        starts.append(match.start())
        stops.append(match.end() if match[1] else len(data) + 1)
    return np.frombuffer(starts, np.int64), np.frombuffer(stops, np.int64)


def _check_closed(data: bytes, line: int, match: re.Match[bytes], marks: _DialectBytes) -> None:
    """Raise CsvFault if text follows the closing quote of a field of several lines.

    Such a field lacks its own closing quote, and has taken the quote of another field.
    """
    follows = data[match.end() : match.end() + 1]
    if match[1] and follows and follows not in (marks.delimiter, b"\r", b"\n") and b"\n" in match[0]:
        opened = line + data.count(b"\n", 0, match.start())
        closed = line + data.count(b"\n", 0, match.end())
        raise CsvFault(
            f"line {opened}: the quote that opens here is closed on line {closed}, where text follows it; close it on"
            " its own line, double a quote that is text, or say what quotes are with --quote",
            "UNCLOSED_QUOTE",
            opened,
        )


def _refuse_open(data: bytes, line: int, starts: Array, stops: Array, last: bool) -> NoReturn:
    at = len(starts) - 1
    while at and stops[at - 1] == starts[at]:  # a doubled quote belongs to the same field
        at -= 1
    opened = line + data.count(b"\n", 0, int(starts[at]))
    raise CsvFault(
        f"line {opened}: the quote that opens here is not closed"
        f" {'before the end of the file' if last else f'within {_MOST_BYTES:,} bytes'}; close it, double a quote"
        " that is text, or say what quotes are with --quote",
        "UNCLOSED_QUOTE",
        opened,
    )


def _outside(data: bytes, starts: Array, stops: Array) -> Array:
    """Find the ends of records outside quotes: a line feed, or a carriage return without one, as in Arrow."""
    raw = np.frombuffer(data, np.uint8)
    feeds = raw == _NEWLINE
    if b"\r" in data:
        feeds[:-1] |= (raw[:-1] == _RETURN) & ~feeds[1:]  # a line feed may follow the last byte, in the next block
    ends = np.flatnonzero(feeds)
    if not len(starts):
        return ends
    nearest = np.searchsorted(starts, ends, side="right") - 1
    inside = (nearest >= 0) & (ends < stops[np.maximum(nearest, 0)])
    return ends[~inside]
