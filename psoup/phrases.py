"""Counts in messages, and quotes in SQL, as a person writes them.

>>> counted(1, "row"), counted(70_000, "row"), counted(0, "query"), counted(2, "match")
('1 row', '70,000 rows', '0 queries', '2 matches')
>>> verb(1, "was", "were"), verb(2, "was", "were")
('was', 'were')

The clients have the same functions in `psoup_client.phrases`, because they do not import the engine.
"""

from __future__ import annotations

_TEXT_SHOWN = 60
"""The most characters of the start of a statement."""


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun: `1 row`, `2 rows`, `3 queries`. `plural`: the plural of a noun with another ending."""
    return f"{count:,} {noun if count == 1 else plural or _plural(noun)}"


def verb(count: int, singular: str, plural: str) -> str:
    """The form of a verb, or of another word, that fits a count."""
    return singular if count == 1 else plural


def _plural(noun: str) -> str:
    if noun.endswith(("ch", "sh", "s", "x")):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") and noun[-2] not in "aeiou" else noun + "s"


def quoted(name: str) -> str:
    """A name of SQL between double quotes."""
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """A text of SQL between single quotes."""
    return "'" + text.replace("'", "''") + "'"


def statement_start(text: str) -> str:
    """The beginning of a statement, on one line."""
    line = " ".join(text[: 2 * _TEXT_SHOWN].split())
    return line if len(line) <= _TEXT_SHOWN else f"{line[:_TEXT_SHOWN]}…"
