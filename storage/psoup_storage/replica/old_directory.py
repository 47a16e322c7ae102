"""A data directory that no service uses, read without a change: the definitions, the log, the stored chunks.

The caller has locked it. A directory that was restored without its chunk files can be read, too, but for their tuples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from psoup.data.stored_chunk import StoredChunk
from psoup.errors import Internal
from psoup.model import StreamSpec
from psoup_storage.durable.chunks.column_cache import ColumnCache
from psoup_storage.durable.chunks.covers import Covers
from psoup_storage.durable.chunks.folder import ChunkFolder, ChunkRow, checked_row, columns_of
from psoup_storage.durable.chunks.sidecars import SidecarFolder
from psoup_storage.durable.directory import DATABASE
from psoup_storage.durable.log import log
from psoup_storage.durable.log.codec import Decoder
from psoup_storage.durable.log.rows import LogRow
from psoup_storage.durable.log.tuples import StoredEnd
from psoup_storage.durable.sqlite.schema import is_readable, unknown_format
from psoup_storage.durable.sqlite.standby_mark import STANDBY, promotion_of
from psoup_storage.durable.sqlite.structure import damaged_log, damaged_pages, open_to_look
from psoup_storage.durable.sqlite.whole_copy import MARK


class OldDirectory:
    """See the module. Raises Internal, reason DATA_DAMAGED, and InvalidInput for another format. O(database)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._connection = open_to_look(path / DATABASE)
        except apsw.Error as problem:
            raise self._damaged(str(problem)) from problem
        try:
            damage = damaged_log(self._connection, path / f"{DATABASE}-wal")
            damage = damage or next(iter(damaged_pages(self._connection)), None)
            if damage is not None:
                raise self._damaged(damage)
            if not is_readable(version := self._meta("format")):
                raise unknown_format(path, version)
            self.standby_of = self._meta(STANDBY)
            """The copy that the directory follows; "" for a directory that writes."""
            self.incarnation = self._incarnation()
            self.writer = promotion_of(self.query)[1] or self.incarnation
            """The name of the directory as a writer of a copy."""
            ((self.last,),) = self.query("SELECT ifnull(max(sequence), 0) FROM log")
            rows = self.query(f"SELECT {columns_of(self.query)} FROM chunks ORDER BY stream, number")
            self.chunks = [checked_row(row) for row in rows]
            """The rows of the manifest, by stream and number."""
        except apsw.Error as problem:
            self.close()
            raise self._damaged(str(problem)) from problem
        except BaseException:
            self.close()
            raise
        self._folder = ChunkFolder(path, ColumnCache(0), Covers(path), SidecarFolder(path))

    def close(self) -> None:
        """Close the database. Idempotent."""
        self._connection.close()

    def query(self, statement: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a SELECT."""
        yield from self._connection.execute(statement, values)

    def rows(self, wanted: Callable[[LogRow], bool], *, whole: bool = True) -> Iterator[LogRow]:
        """The rows of the log that are wanted, in order. `whole`: with all their tuples. O(log)."""
        try:
            yield from filter(wanted, log.read(self.query, unneeded=lambda row: not (whole and wanted(row))))
        except apsw.Error as problem:
            raise self._damaged(str(problem)) from problem

    def decoder(self) -> Decoder:
        """A decoder of the rows. Pushes have only their tuples that no stored chunk has."""
        return Decoder({row.stream: StoredEnd(row.last_time, row.ties) for row in self.logged}, lambda *_: None)

    @property
    def logged(self) -> list[ChunkRow]:
        """The rows of chunks that no job wrote, by stream and number."""
        return [row for row in self.chunks if not row.attached]

    def load(self, spec: StreamSpec, row: ChunkRow) -> StoredChunk:
        """The tuples of a chunk that has a file. Raises Internal, reason DATA_DAMAGED. O(bytes)."""
        return self._folder.load(spec, row)

    def _meta(self, name: str) -> str:
        return next((str(value) for (value,) in self.query("SELECT value FROM meta WHERE name = ?", (name,))), "")

    def _incarnation(self) -> str:
        """The incarnation with which the next start would go on; "" if that is not known yet."""
        marked = self._meta(MARK)
        return str(json.loads(marked).get("heir", "")) if marked else self._meta("incarnation")

    def _damaged(self, why: str) -> Internal:
        return Internal(
            f"the database {self.path / DATABASE} is damaged: {why}; nothing was changed. psoup doctor {self.path} says"
            " what is lost",
            reason="DATA_DAMAGED",
        )
