"""Errors for constructs of PostgreSQL's SQL that the port does not support. Each error names the construct."""

from __future__ import annotations

from psoup.errors import SqlError
from psoup.sql.source import StatementText
from psoup_service.pg.statements.words import Words

_TWO = frozenset({"CREATE", "ALTER", "DROP", "COMMENT", "REFRESH", "REASSIGN", "IMPORT", "SECURITY", "TABLE"})
_SKIPPED = frozenset({"OR", "REPLACE", "TEMP", "TEMPORARY", "UNLOGGED", "GLOBAL", "LOCAL", "UNIQUE", "RECURSIVE"})
_DEFINITIONS = "this port does not create or change streams: use psoup sql, or Client.execute"
_HINTS = {
    "CREATE": _DEFINITIONS,
    "ALTER": _DEFINITIONS,
    "DROP": _DEFINITIONS,
    "UPDATE": "an INSERT into a table replaces the row with the same key",
    "DELETE": "INSERT INTO t (…, _deleted) VALUES (…, true) deletes the row with this key from a table",
    "MERGE": "an INSERT into a table replaces the row with the same key",
    "TRUNCATE": "streams drop old tuples by RETENTION",
    "NOTIFY": "the service notifies of changes of answers; send rows by INSERT",
    "LOCK": "readers and writers do not wait for each other",
    "TABLE": "write SELECT * FROM name",
}


def refused(text: str) -> SqlError:
    """The error for a statement that is not supported. It names the construct, at its place."""
    words = Words(text)
    place = words.place
    first = words.next()
    if not first[:1].isalpha():
        return StatementText(text).error(f"syntax error at or near {first[:40]!r}", place)
    names = [first]
    if first in _TWO:
        words.accept(first)
        while (word := words.next()) in _SKIPPED:
            words.accept(word)
        if word[:1].isalpha():
            names.append(word[:40])
    return words.source.unsupported(" ".join(names)[:80], place, hint=_HINTS.get(first, ""))
