"""A copy of a database that is written to: SQLite's backup, page by page, in turns with transactions.

What a transaction changes in pages that are copied already is copied again by SQLite, as the connection is the same
one. So the copy is the database as it is when the last page has been copied.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import apsw

Act = Callable[[], None]

MARK = "copy of"
"""The row of the table `meta` that a copy of a directory has until it is opened; see `backup`."""

_PAGES = 256
"""Copied at once: acknowledgements wait for them."""


def copy_pages(
    source: apsw.Connection, target: Path, turn: Callable[[], AbstractContextManager[None]], last: Act
) -> None:
    """Copy the database to the file `target`. Inside a `turn` nobody else uses `source`; `last` is called in that of
    the last page. Raises apsw.Error.
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
                    copying.close()  # from here on the copy does not follow
                    last()
    finally:
        with turn():
            copying.close(True)
        other.close()
