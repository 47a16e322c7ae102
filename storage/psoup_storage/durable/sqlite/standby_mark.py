"""The mark of a standby's data directory: a row in the table `meta` with the place of the copy that it follows.

A standby has the incarnation of the service that writes. If both wrote, they would give the same IDs to different
things. So only a standby may open a marked directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import apsw

from psoup.errors import InvalidInput
from psoup_storage.durable.sqlite.seals import register
from psoup_storage.durable.sqlite.whole_copy import MARK

STANDBY = "standby of"
"""Name of the row in `meta`."""


def mark_standby(database: Path, place: str, incarnation: str) -> None:
    """Mark a restored database for a standby. It gets the incarnation of the writer."""
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        for name, value in (("locking_mode", "EXCLUSIVE"), ("synchronous", "FULL")):
            connection.pragma(name, value)
        register(connection)
        with connection:
            connection.execute("DELETE FROM meta WHERE name = ?", (MARK,))
            connection.execute("UPDATE meta SET value = ? WHERE name = 'incarnation'", (incarnation,))
            connection.execute("INSERT INTO meta (name, value) VALUES (?, ?)", (STANDBY, place))
    finally:
        connection.close()


def refuse_other_use(
    path: Path, query: Callable[[str, Sequence[Any]], Iterable[tuple[Any, ...]]], follows: bool
) -> None:
    """Raise InvalidInput if a standby opens a writer's directory, or a writer a standby's directory.

    `query`: runs a SELECT in the directory's database.
    """
    copy = next((str(value) for (value,) in query("SELECT value FROM meta WHERE name = ?", (STANDBY,))), "")
    if follows and not copy:
        raise InvalidInput(
            f"{path} is the data directory of a service that writes; a standby needs a directory of its own: name one"
            " that is not there yet as --data-dir",
            reason="DATA_DIR",
            data_dir=str(path),
        )
    if copy and not follows:
        raise InvalidInput(
            f"{path} is the data directory of a standby of {copy}, and two services must not write under the same IDs;"
            f" serve it with --standby {copy}, or make a directory that may write: psoup restore {copy} DIR",
            reason="STANDBY_DIRECTORY",
            data_dir=str(path),
        )
