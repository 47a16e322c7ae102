"""Columns of stored chunks, read when a reader asks for them: the disk's side of `psoup.data.archived`.

    column(a)   cache? ─ no ─> open the file ─> footer, checked ─> the pages of a, checked ─> cache
    take(a, k)  the row groups that hold the rows k, if they are few; their columns are not cached
    expect(…)   the system is told which pages will be read, and fetches them from many files at once

The cache is bounded in bytes and shared by all readers; the least recently used columns go. Any thread; no lock is held
while the disk is read. A file that the manifest forgets stays until no reader can ask for it: its `StoredColumns` keep
it.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from psoup.columns import Array, Column, column_from_arrow
from psoup.data.widening import absent_column
from psoup.errors import Internal, PSoupError
from psoup.kinds import arrow_type
from psoup.model import Attribute
from psoup.wording import counted
from psoup_storage.durable.chunks.covering import Covers
from psoup_storage.formats.chunk_file import DAMAGED, GROUP_ROWS, damaged
from psoup_storage.formats.matches import NOTHING, SUFFIX, Index, read_index, read_matches


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=_Sized)


class ColumnCache:
    """Columns by (file, name), indexes of matches by (file, ""): at most `limit` bytes. Two threads may read the same
    column.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self.reads = 0
        """Columns, or parts of them, that were read from files."""
        self._columns: OrderedDict[tuple[str, str], Any] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, key: tuple[str, str]) -> Any:
        """The column if it is in the cache."""
        with self._lock:
            column = self._columns.get(key)
            if column is not None:
                self._columns.move_to_end(key)
            return column

    def get(self, key: tuple[str, str], read: Callable[[], T]) -> T:
        """The column, read if it is not in the cache."""
        cached: T | None = self.known(key)
        if cached is not None:
            return cached
        column = read()
        self._put(key, column)
        return column

    def _put(self, key: tuple[str, str], column: _Sized) -> None:
        with self._lock:
            before = self._columns.pop(key, None)
            self.bytes += column.nbytes - (0 if before is None else before.nbytes)
            self._columns[key] = column
            while self.bytes > self.limit and self._columns:
                self.bytes -= self._columns.popitem(last=False)[1].nbytes


class StoredColumns:
    """The columns of one file (`psoup.data.archived.ChunkSource`); raises Internal, reason DATA_DAMAGED, for a bad
    file.

    `nbytes`: of the file; `footer`: the number of bytes at its end that describe it, and their checksum. `ranges`:
    uint32[columns, row groups, 2], the place and the length of columns; empty if they are not known. `crc`: of all
    bytes. `attached`: the file may have matches beside it. `covers`: they may have more matches.
    """

    def __init__(
        self,
        path: Path,
        rows: int,
        nbytes: int,
        footer: tuple[int, int],
        ranges: Array,
        cache: ColumnCache,
        crc: int,
        attached: bool,
        covers: Covers,
    ) -> None:
        self.path = path
        self.nbytes = nbytes
        self.crc = crc
        self._rows = rows
        self._footer = footer
        self._ranges = ranges
        self._attached = attached
        self._covers = covers
        self._cache = cache

    def column(self, attribute: Attribute) -> Column:
        """All values of an attribute."""
        return self._cache.get((self.path.name, attribute.name), lambda: self._read([attribute], None)[0])

    def take(self, attributes: Sequence[Attribute], rows: Array) -> list[Column]:
        """The values at positions `rows`, ascending; columns that are not in the cache are read together."""
        groups = np.unique(rows // GROUP_ROWS)
        cached = [self._cache.known((self.path.name, attribute.name)) for attribute in attributes]
        if 2 * len(groups) * GROUP_ROWS > self._rows:
            return [(self.column(a) if c is None else c).take(rows) for a, c in zip(attributes, cached, strict=True)]
        missing = [attribute for attribute, column in zip(attributes, cached, strict=True) if column is None]
        inside = np.searchsorted(groups, rows // GROUP_ROWS) * GROUP_ROWS + rows % GROUP_ROWS
        read = iter(self._read(missing, [int(group) for group in groups]) if missing else [])
        return [next(read).take(inside) if column is None else column.take(rows) for column in cached]

    def evaluated(self) -> Array:
        """The queries whose matches are beside the file or in covers, int64[r, 2]."""
        beside, covers = self._index(None).ranges, self._covers.of(self.path.name)
        return np.concatenate([beside, *(cover.ranges for cover in covers)]) if covers else beside

    def matches(self, query_id: int) -> tuple[Array, int] | None:
        """The offsets that an `evaluated` query matched, and its errors; None if they cannot be read."""
        name = self.path.name
        if _within(query_id, (index := self._index(None)).ranges):
            offsets = read_matches(self._beside, index, query_id)
            if offsets is not None:
                return offsets, index.errors.get(query_id, 0)
        for cover in self._covers.of(name):
            if _within(query_id, cover.ranges) and _within(query_id, (index := self._index(cover.beside(name))).ranges):
                offsets = read_matches(cover.beside(name), index, query_id)
                if offsets is not None:
                    return offsets, index.errors.get(query_id, 0)
        return None

    @property
    def _beside(self) -> Path:
        return self.path.with_name(self.path.name + SUFFIX)

    def _index(self, path: Path | None) -> Index:
        """The index of the matches in a cover or, without a path, beside the file."""
        if path is None and not self._attached:
            return NOTHING
        place = self._beside if path is None else path
        name = "" if path is None else f"/{path.parent.name}"
        return self._cache.get((self.path.name, name), lambda: read_index(place, self.crc, self._rows))

    def expect(self, places: Sequence[int], rows: Array | None) -> None:
        """Tell the system which columns, by their places in the file, are read soon. `column` reports failures."""
        columns = self._ranges[[place for place in places if place < len(self._ranges)]]
        if not columns.size:
            return
        if rows is not None:
            columns = columns[:, np.unique(rows // GROUP_ROWS)]
        with suppress(OSError):
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                for start, size in [*columns.reshape(-1, 2).tolist(), (self.nbytes - self._footer[0], 0)]:
                    os.posix_fadvise(handle, start, size, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(handle)

    def _read(self, attributes: Sequence[Attribute], groups: list[int] | None) -> list[Column]:
        self._cache.reads += len(attributes)
        try:
            with pa.OSFile(str(self.path)) as file:
                meta = self._metadata(file)
                stored = set(meta.schema.names)
                rows = self._rows if groups is None else sum(meta.row_group(group).num_rows for group in groups)
                names = list(dict.fromkeys(a.name for a in attributes if a.name in stored))  # others are younger
                opened = pq.ParquetFile(file, metadata=meta, page_checksum_verification=True)
                table = (
                    opened.read(names, use_threads=False)
                    if groups is None
                    else opened.read_row_groups(groups, names, use_threads=False)
                )
            columns = [_column(a, table) if a.name in stored else absent_column(a.type, rows) for a in attributes]
        except OSError as problem:
            raise damaged(self.path, problem.strerror or str(problem)) from problem
        except (pa.ArrowException, PSoupError) as problem:
            if isinstance(problem, Internal) and problem.reason == DAMAGED:
                raise  # it says so already
            raise damaged(self.path, str(problem)) from problem
        for attribute, column in zip(attributes, columns, strict=True):
            if len(column) != rows:  # Parquet has checksums of the bytes of a page, and none of its number of values
                raise damaged(
                    self.path, f"column {attribute.name} has {counted(len(column), 'value')} for {counted(rows, 'row')}"
                )
        return columns

    def _metadata(self, file: pa.NativeFile) -> pq.FileMetaData:
        size, checksum = self._footer
        file.seek(max(0, self.nbytes - size))
        footer = file.read(size)
        if zlib.crc32(footer) != checksum:
            raise damaged(self.path, "its footer is not as it was written")
        return pq.read_metadata(pa.BufferReader(b"PAR1" + footer))


def _within(query_id: int, ranges: Array) -> bool:
    """Whether an ID is in one of some ranges, int64[r, 2]."""
    return bool(((ranges[:, 0] <= query_id) & (query_id < ranges[:, 1])).any())


def _column(attribute: Attribute, table: pa.Table) -> Column:
    array, wanted = table.column(attribute.name), arrow_type(attribute.type)
    array = array if array.type == wanted else array.cast(wanted)
    return column_from_arrow(attribute.name, attribute.type, array)
