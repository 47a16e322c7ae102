"""Counts with their nouns and verbs, for messages of the SDK and of the commands."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Write a count and its noun in natural English. `plural`: an irregular plural.

    >>> counted(1, "row"), counted(1_200, "row"), counted(0, "query"), counted(2, "match")
    ('1 row', '1,200 rows', '0 queries', '2 matches')
    """
    return f"{count:,} {noun if count == 1 else plural or _plural(noun)}"


def verb(count: int, singular: str, plural: str) -> str:
    """Choose the form of a verb, or of any word, that goes with a count.

    >>> verb(1, "was", "were"), verb(2, "was", "were")
    ('was', 'were')
    """
    return singular if count == 1 else plural


def _plural(noun: str) -> str:
    if noun.endswith(("ch", "sh", "s", "x")):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") and noun[-2] not in "aeiou" else noun + "s"
