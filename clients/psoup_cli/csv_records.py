"""Bounds of the records of a CSV, so that it is read in pieces, and an error names the line of the file.

    1  id,note                 blocks of bytes ──> pieces of whole records ──> Arrow, piece by piece
    2  1,"two
    3  lines"                  a record of two lines: the row after it is line 4
    4  2,"no end               the quote of line 4 is open at the end of the file: an error, and not one row of all
    5  3,x

Lines are counted from 1, blank ones and the header with them, as editors count. A quote counts where it begins a field;
others are text. Looking for quotes costs some milliseconds a piece, if there are any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from psoup_client import InvalidData

PIECE_BYTES = 8 * 1024 * 1024
_MOST_BYTES = 4 * PIECE_BYTES
"""A record longer than this has lost its end: no message would hold it."""

_QUOTE, _NEWLINE, _RETURN = 34, 10, 13
_AROUND = np.zeros(256, bool)
_AROUND[[_QUOTE, _NEWLINE, _RETURN, ord(",")]] = True
"""What stands before a quote that begins a field, and after one that ends it; a quote, if it is one of a pair."""

_QUOTED = re.compile(rb'(?:^|(?<=[,\r\n]))"[^"]*(?:""[^"]*)*("?)')
_BOM = b"\xef\xbb\xbf"

Array = Any


@dataclass(frozen=True, slots=True)
class Records:
    """Whole records of a file. `line`: that of the first byte, from 1; `offset`: where it is in the file."""

    data: bytes
    line: int
    offset: int

    def starts(self) -> Array:
        """Find where each record begins, blank lines left out. O(bytes)."""
        ends = _outside(self.data, *_quoted(self.data, self.line))
        first = np.concatenate([[0], ends + 1])
        stop = np.concatenate([ends, [len(self.data)]])
        raw = np.frombuffer(self.data, np.uint8)
        returned = (stop > first) & (raw[np.maximum(stop - 1, 0)] == _RETURN)
        return first[stop - returned > first]

    def lines(self) -> list[int]:
        """The line of the file on which each record begins. O(bytes)."""
        feeds = np.flatnonzero(np.frombuffer(self.data, np.uint8) == _NEWLINE)
        before: Array = np.searchsorted(feeds, self.starts())
        return [self.line + int(count) for count in before]

    def line_of(self, row: int) -> int:
        """The line of one record, counted from 0."""
        return self.lines()[row]


def read_records(read: Callable[[int], bytes]) -> Iterator[Records]:
    """The first record (the header), then pieces of whole records; `read` gives some bytes, and none at the end.

    Raises InvalidData for a quote without an end, which names the line where it opens.
    """
    rest, line, offset, header = b"", 1, 0, True
    while True:
        block = read(PIECE_BYTES)
        if not offset and not rest and block.startswith(_BOM):
            block, offset = block[len(_BOM) :], len(_BOM)
        rest += block
        while rest:
            end = _end(rest, line, header, last=not block)
            if not end:
                break
            yield Records(rest[:end], line, offset)
            line, offset, rest = line + rest.count(b"\n", 0, end), offset + end, rest[end:]
            if not header:
                break
            header = False
        if not block:
            return


def _end(data: bytes, line: int, header: bool, *, last: bool) -> int:
    """Find where the last whole record of `data` ends, or the first one, if that is the header; 0 if none does."""
    if not header and b'"' not in data and (last or b"\n" in data):
        return len(data) if last else data.rindex(b"\n") + 1
    starts, stops = _quoted(data, line)
    if len(starts) and stops[-1] > len(data) and (last or len(data) - starts[-1] > _MOST_BYTES):
        _refuse_open(data, line, starts, stops, last)
    ends = _outside(data, starts, stops)
    if header:
        ends = ends[[bool(data[: int(end)].strip()) for end in ends[:1_000]] + [True] * max(len(ends) - 1_000, 0)][:1]
    if last and not (header and len(ends)):
        return len(data)
    if not len(ends) and len(data) > _MOST_BYTES:
        raise InvalidData(f"line {line}: it has more than {_MOST_BYTES:,} bytes; a line has to end with a line feed")
    return int(ends[-1]) + 1 if len(ends) else 0


def _quoted(data: bytes, line: int) -> tuple[Array, Array]:
    """Find where quoted fields begin and stop; one that is open stops after the end of `data`."""
    if b'"' not in data:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    raw = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(raw == _QUOTE)
    begin, end = quotes[::2], quotes[1::2]
    before = np.where(begin == 0, _NEWLINE, raw[begin - 1])
    after = np.where(end == len(data) - 1, _NEWLINE, raw[np.minimum(end + 1, len(data) - 1)])
    if _AROUND[before].all() and _AROUND[after].all():
        return begin, np.concatenate([end + 1, [len(data) + 1] * (len(begin) - len(end))])
    fields = list(_QUOTED.finditer(data))  # quotes within fields: rare
    for match in fields:
        _check_closed(data, line, match)
    stops = [match.end() if match[1] else len(data) + 1 for match in fields]
    return np.array([match.start() for match in fields], np.int64), np.array(stops, np.int64)


def _check_closed(data: bytes, line: int, match: re.Match[bytes]) -> None:
    """A field of several lines whose quote is followed by text has lost its own, and ends with that of another."""
    if match[1] and match.end() < len(data) and data[match.end()] not in b",\r\n" and b"\n" in match[0]:
        opened = line + data.count(b"\n", 0, match.start())
        closed = line + data.count(b"\n", 0, match.end())
        raise InvalidData(
            f"line {opened}: the quote that opens here is closed on line {closed}, where text follows it; close it on"
            ' its own line, or double a quote that is text: ""',
            reason="UNCLOSED_QUOTE",
            facts={"line": str(opened)},
        )


def _refuse_open(data: bytes, line: int, starts: Array, stops: Array, last: bool) -> NoReturn:
    at = len(starts) - 1
    while at and stops[at - 1] == starts[at]:  # two quotes that stand for one
        at -= 1
    opened = line + data.count(b"\n", 0, int(starts[at]))
    raise InvalidData(
        f"line {opened}: the quote that opens here is not closed"
        f" {'before the end of the file' if last else f'within {_MOST_BYTES:,} bytes'}; close it, or double a quote"
        ' that is text: ""',
        reason="UNCLOSED_QUOTE",
        facts={"line": str(opened)},
    )


def _outside(data: bytes, starts: Array, stops: Array) -> Array:
    """Find the line feeds that end a record."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE)
    if not len(starts):
        return ends
    nearest = np.searchsorted(starts, ends, side="right") - 1
    inside = (nearest >= 0) & (ends < stops[np.maximum(nearest, 0)])
    return ends[~inside]
