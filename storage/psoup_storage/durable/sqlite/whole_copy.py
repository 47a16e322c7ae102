"""A copy of a database during writes: SQLite's backup, page by page, in turns with transactions.

If a transaction changes pages that are copied already, SQLite copies them again, as it uses the same connection. So the
copy is the database as it is when the last page has been copied.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import apsw

Act = Callable[[], None]

MARK = "copy of"
"""Name of the row in `meta` that marks a copied directory until a service opens it; see `backup`."""

ADOPT = """
UPDATE meta SET value = ifnull((SELECT json_extract(value, '$.heir') FROM meta WHERE name = ?), ?)
WHERE name = 'incarnation'
"""
"""Gives a marked directory its incarnation: the one in the row of the name `MARK` if it has one, else a new one."""

_PAGES = 256
"""The pages that one step copies. Acknowledgements wait for a step."""


def copy_pages(
    source: apsw.Connection, target: Path, turn: Callable[[], AbstractContextManager[None]], last: Act
) -> None:
    """Copy the database to the file `target`. No other thread uses `source` in a `turn`; `last` is called in the turn
    of the last page. Raises apsw.Error.
    """
    other = apsw.Connection(str(target))
    with turn():
        copying = other.backup("main", source, "main")
    try:
        done = False
        while not done:
            with turn():
                done = copying.step(_PAGES)
                if done:
                    copying.close()  # later transactions do not change the copy
                    last()
    finally:
        with turn():
            copying.close(True)
        other.close()
