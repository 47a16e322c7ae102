"""Statements of other systems that change rows, each with the push that does it here, for tables and for streams.

    UPDATE ads SET …     a table     psoup push ads FILE
    DELETE FROM ads      a table     psoup push --delete ads FILE
    UPDATE clicks …      a stream    CREATE TABLE, for rows that change

`psoup.sql.instead` has the hints for other statements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot.tokenizer_core import Token

from psoup.model import StreamSpec

_BEFORE_NAME = frozenset({"FROM", "INTO", "TABLE", "ONLY", "OVERWRITE"})
_DELETING = ("DELETE", "TRUNCATE")
_CHANGING = frozenset({"UPDATE", "MERGE", "INSERT", "REPLACE", "UPSERT", *_DELETING})
_LONGEST = 64

OF_STREAM = "a stream only grows; for rows that change write CREATE TABLE name (column TYPE, PRIMARY KEY (column))"
"""The hint for a statement that changes the tuples of a stream."""


def change_hint(tokens: Sequence[Token], lookup: Callable[[str], StreamSpec | None] | None) -> str:
    """The hint for a statement that changes the rows of a table. Empty for any other statement. O(1).

    `lookup`: finds a stream or a table by its name, or None.
    """
    word = tokens[0].text.upper()
    if lookup is None or word not in _CHANGING:
        return ""
    rest = [token.text for token in tokens[1:4]]
    while rest and rest[0].upper() in _BEFORE_NAME:
        del rest[0]
    spec = lookup(rest[0]) if rest and len(rest[0]) <= _LONGEST else None
    if spec is None or spec.table is None:
        return ""
    if word in _DELETING:
        return f'rows of a table are deleted by key: psoup push --delete {spec.name} FILE, delete("{spec.name}", keys)'
    return f'rows of a table change by a push: psoup push {spec.name} FILE, upsert("{spec.name}", rows)'
