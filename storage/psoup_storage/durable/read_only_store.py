"""A data directory that is only read: its events and stored chunks as a start would read them.

For `psoup doctor --replay`, in a process of its own. The store locks the directory, but changes nothing on the disk: it
removes no orphans and makes no checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

from psoup_storage.durable.chunks.chunk_loader import Restoring
from psoup_storage.durable.chunks.column_cache import ColumnCache
from psoup_storage.durable.chunks.covers import Covers
from psoup_storage.durable.chunks.folder import ChunkFolder
from psoup_storage.durable.chunks.sidecars import SidecarFolder
from psoup_storage.durable.directory import DataDirectory, Notes
from psoup_storage.durable.sqlite.database import Database
from psoup_storage.durable.sqlite.schema import is_readable, unknown_format
from psoup_storage.durable.sqlite.structure import open_to_look
from psoup_storage.durable.store import CACHE_BYTES, DurableStore


class LookingStore(DurableStore):
    """A store with `read` and `noted`, which takes no events.

    Raises the errors of `DataDirectory`, and InvalidInput for a directory of another format that a start does not
    upgrade.
    """

    def __init__(self, path: Path) -> None:
        with ExitStack() as opened:
            self._directory = DataDirectory(path, to_look=True)
            opened.callback(self._directory.close)
            rows = _LookedAt(self._directory.database)
            opened.callback(rows.close)
            self._database = cast(Database, rows)
            ((version,),) = rows.query("SELECT value FROM meta WHERE name = 'format'")
            if not is_readable(version):
                raise unknown_format(path, str(version))
            ((self.incarnation,),) = rows.query("SELECT value FROM meta WHERE name = 'incarnation'")
            self._notes = Notes(self._directory.path)
            at = self._directory.path
            self._chunks = ChunkFolder(at, ColumnCache(CACHE_BYTES), Covers(at), SidecarFolder(at))
            self._restoring = Restoring(self._database.query, self._chunks, 2**62)
            self._stored = {row.stream: row for row in self._manifest("ORDER BY stream, number") if not row.attached}
            opened.pop_all()

    def close(self) -> None:
        """Close the files and unlock the directory; idempotent."""
        self._restoring.close()
        self._database.close()
        self._directory.close()


class _LookedAt:
    """The part of a `Database` that reading needs."""

    def __init__(self, path: Path) -> None:
        self._connection = open_to_look(path)

    def query(self, statement: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a SELECT."""
        yield from self._connection.execute(statement, values)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
