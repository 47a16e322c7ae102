"""The mark of a standby's data directory: a row in the table `meta` with the place of the copy that it follows.

A standby has the incarnation of the service that writes. If both wrote, they would give the same IDs to different
things. So only a standby may open a marked directory.

A promotion replaces the mark by a row with the number and the name of the promotion. From then on the directory writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import apsw

from psoup.errors import InvalidInput
from psoup_storage.durable.sqlite.seals import register
from psoup_storage.durable.sqlite.whole_copy import MARK

STANDBY = "standby of"
"""Name of the row in `meta`."""
PROMOTION = "promotion"
"""Name of the row in `meta` of a directory that was a standby."""

Query = Callable[[str, Sequence[Any]], Iterable[tuple[Any, ...]]]
"""Runs a SELECT in the directory's database."""


def mark_standby(database: Path, place: str, incarnation: str) -> None:
    """Mark a restored database for a standby. It gets the incarnation of the writer."""
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        for name, value in (("locking_mode", "EXCLUSIVE"), ("synchronous", "FULL")):
            connection.pragma(name, value)
        register(connection)
        with connection:
            connection.execute("DELETE FROM meta WHERE name IN (?, ?)", (MARK, PROMOTION))
            connection.execute("UPDATE meta SET value = ? WHERE name = 'incarnation'", (incarnation,))
            connection.execute("INSERT INTO meta (name, value) VALUES (?, ?)", (STANDBY, place))
    finally:
        connection.close()


def mark_promoted(connection: apsw.Connection, number: int, writer: str) -> None:
    """Let a standby's directory write from now on, in the present transaction. `number`, `writer`: of the promotion."""
    connection.execute("DELETE FROM meta WHERE name = ?", (STANDBY,))
    facts = json.dumps({"number": number, "writer": writer})
    connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (PROMOTION, facts))


def promotion_of(query: Query) -> tuple[int, str]:
    """The number and the name of the promotion of a directory; (0, "") if it was no standby."""
    facts = next((json.loads(text) for (text,) in query("SELECT value FROM meta WHERE name = ?", (PROMOTION,))), None)
    return (0, "") if facts is None else (int(facts["number"]), str(facts["writer"]))


def refuse_other_use(path: Path, query: Query, follows: bool) -> None:
    """Raise InvalidInput if a standby opens a writer's directory, or a writer a standby's directory."""
    copy = next((str(value) for (value,) in query("SELECT value FROM meta WHERE name = ?", (STANDBY,))), "")
    if follows and not copy:
        raise InvalidInput(
            f"{path} is the data directory of a service that writes; a standby needs a directory of its own: name one"
            " that is not there yet as --data-dir. If another service took over its copy, psoup replica rejoin makes it"
            " a standby's",
            reason="DATA_DIR",
            data_dir=str(path),
        )
    if copy and not follows:
        raise InvalidInput(
            f"{path} is the data directory of a standby of {copy}, and two services must not write under the same IDs;"
            f" serve it with --standby {copy}, and let it write by psoup promote; or make another directory: psoup"
            f" restore {copy} DIR",
            reason="STANDBY_DIRECTORY",
            data_dir=str(path),
        )
