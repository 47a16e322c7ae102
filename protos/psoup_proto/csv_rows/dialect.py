"""The dialect of a CSV: its delimiter and its quote.

    id;note;price            by ","  1 field   names none of the stream's columns
    1;'a;b';2,5              by ";"  3 fields  names all three   ──> ";", and "'" as then all lines have 3 fields

The dialect in which the first line names most of the stream's columns is chosen. Among equals, the dialect is chosen in
which most lines have as many fields as the first.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

DELIMITERS = (",", ";", "\t", "|")
QUOTES = ('"', "'")
SAMPLE_BYTES = 65_536
"""The size of the sample that decides the dialect, in bytes."""

_RECORDS = 100


@dataclass(frozen=True, slots=True)
class Dialect:
    """The delimiter between fields, and the quote around fields that contain it. `quote` is "" without quotes."""

    delimiter: str = ","
    quote: str = '"'

    @property
    def delimiter_name(self) -> str:
        """The name of the delimiter for a sentence, such as commas."""
        names = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
        return names.get(self.delimiter, repr(self.delimiter))


def find_dialect(
    sample: bytes, delimiter: str | None, quote: str | None, matches: Callable[[Sequence[str]], int]
) -> Dialect:
    """Find the parts of the dialect that are not given, from a sample of the text.

    `matches` counts the columns that a record names.
    """
    text = sample[:SAMPLE_BYTES].decode("utf-8", errors="replace").lstrip("\r\n")
    if len(sample) > SAMPLE_BYTES or "\n" in text:  # drop the last line, which may be incomplete
        text = text[: text.rfind("\n") + 1] or text
    quotes = QUOTES if '"' not in text else QUOTES[:1]  # if a text has both quotes, ' is an apostrophe
    candidates = [
        Dialect(candidate, other)
        for other in (quotes if quote is None else (quote,))
        for candidate in (DELIMITERS if delimiter is None else (delimiter,))
        if candidate != other
    ]
    best = max(range(len(candidates)), key=lambda at: (*_score(text, candidates[at], matches), -at))
    return candidates[best]


def fields_of(text: str, dialect: Dialect) -> Iterator[list[str]]:
    """Split a text into records and fields."""
    lines = io.StringIO(text, newline="")
    if dialect.quote:
        return csv.reader(lines, delimiter=dialect.delimiter, quotechar=dialect.quote)
    return csv.reader(lines, delimiter=dialect.delimiter, quoting=csv.QUOTE_NONE)


def _score(text: str, dialect: Dialect, matches: Callable[[Sequence[str]], int]) -> tuple[float, float, int]:
    reader = fields_of(text, dialect)
    try:
        records = [record for record, _ in zip(reader, range(_RECORDS), strict=False) if record]
    except csv.Error:  # a field has more than 128 KiB, so the dialect is wrong
        return 0, 0.0, 0
    if not records:
        return 0, 0.0, 0
    first = records[0]
    alike = sum(len(record) == len(first) for record in records) / len(records)
    return matches(first), alike if len(first) > 1 else 0.0, len(first)
