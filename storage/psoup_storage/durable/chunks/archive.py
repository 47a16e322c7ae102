"""Columns of stored chunks, read when a reader needs them: the disk's side of `psoup.data.archived_chunk`.

    column(a)   cache? ─ no ─> open the file ─> footer, checked ─> the pages of a, checked ─> cache
    take(a, k)  the row groups that hold the rows k, if they are few; the values of these rows alone are cached
    within(…)   all pages of a column of whole numbers, in memory that the next column overwrites; the rows are cached
    expect(…)   the system is told which pages will be read, and fetches them from many files at once

All readers share one cache (`psoup_storage.durable.chunks.column_cache`). For any thread; no lock is held while the
disk is read. A file that left the manifest stays on disk until no reader has its `StoredColumns` any more.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from psoup.data.schema_growth import absent_column
from psoup.errors import Internal, PSoupError
from psoup.kernels.search.row_masks import range_mask
from psoup.model import Attribute
from psoup.phrases import counted
from psoup.values.columns import Array, Column
from psoup.values.from_arrow import column_from_arrow
from psoup.values.kinds import TYPES, arrow_type
from psoup_storage.durable.chunks.column_cache import ColumnCache
from psoup_storage.durable.chunks.covers import Covers
from psoup_storage.durable.chunks.sidecars import SidecarFolder
from psoup_storage.formats.chunk_file import DAMAGED, GROUP_ROWS, damaged
from psoup_storage.formats.matches import NOTHING, SUFFIX, MatchFileIndex, read_index, read_matches
from psoup_storage.formats.pages import has_pages

_ENTRY = 200
_FEW = 8
"""If a read takes at most one `_FEW`-th of a chunk's rows, the cache gets only their values."""

ColumnPlaces = Mapping[tuple[str, bool], int]
"""The places of columns in a file, by their names and whether they may be NULL."""


@dataclass(frozen=True, slots=True)
class _SelectedValues:
    """Some values of a column. `rows`: the numbers of their rows, int64, ascending."""

    rows: Array
    column: Column

    @property
    def nbytes(self) -> int:
        """Bytes of the row numbers and of the values."""
        return self.rows.nbytes + self.column.nbytes

    def take(self, rows: Array) -> Column | None:
        """The values in `rows`; None if some of these rows are not known here."""
        if len(rows) == len(self.rows):
            return self.column if (rows == self.rows).all() else None
        places = np.searchsorted(self.rows, rows)
        inside = len(rows) < len(self.rows) and int(places[-1]) < len(self.rows)
        return self.column.take(places) if inside and np.array_equal(self.rows[places], rows) else None


@dataclass(frozen=True, slots=True)
class _Rows:
    """The numbers of the rows whose values are in one range, int64, ascending."""

    rows: Array

    @property
    def nbytes(self) -> int:
        """Bytes of the row numbers, and a constant for the entry, which may have no rows."""
        return self.rows.nbytes + _ENTRY


@dataclass(frozen=True, slots=True)
class ChunkFileFacts:
    """The facts of a chunk's file that its row in the manifest holds.

    `nbytes`, `checksum`: of the whole file. `footer`: the number of bytes at its end that describe it, and their
    checksum. `ranges`: uint32[columns, row groups, 2], the start and the length of each column in a row group, or empty
    if unknown. `attached`: whether a job wrote the file. Then there may be a file of matches with it.
    """

    path: Path
    rows: int
    nbytes: int
    checksum: int
    footer: tuple[int, int]
    ranges: Array
    attached: bool


class StoredColumns:
    """The columns of one file (`psoup.data.archived_chunk.ChunkSource`). Raises Internal, reason DATA_DAMAGED, for a
    damaged file.

    `places`: the positions of columns in a file of the service. None for a file of a job, whose footer has them.
    `covers`: matches that jobs found later. `sidecars`: the sidecars of all chunks.
    """

    def __init__(
        self,
        file: ChunkFileFacts,
        places: ColumnPlaces | None,
        cache: ColumnCache,
        covers: Covers,
        sidecars: SidecarFolder,
    ) -> None:
        self.file = file
        self.path = file.path
        self.nbytes = file.nbytes
        self.checksum = file.checksum
        self.sidecars = sidecars
        self._rows = file.rows
        self._places = places
        self._covers = covers
        self._cache = cache

    def column(self, attribute: Attribute) -> Column:
        """All values of an attribute."""
        return self._cache.get((self.path.name, attribute.name), lambda: self._whole(attribute))

    def within(self, attribute: Attribute, low: int, last: int) -> Array | None:
        """The rows (int64, ascending) whose order keys are in [low, last]; None if `column` would be quicker."""
        key = (self.path.name, attribute.name, low, last)
        cached: _Rows | None = self._cache.known(key)
        if cached is not None:
            return cached.rows
        whole: Column | None = self._cache.known(key[:2])
        if whole is None:
            values = self._numbers(attribute, None)
        else:
            values = whole.order_keys() if whole.valid is None and has_pages(attribute.type) else None
        if values is None:
            return None
        mask: Array = np.empty(len(values), np.uint8)
        range_mask(values, low, last, mask)
        rows = np.flatnonzero(mask.view(np.bool_))
        if len(rows) * _FEW <= self._rows:
            self._cache.put(key, _Rows(rows))
            self._keep_some(attribute, rows, values.take(rows))
        return rows

    def take(self, attributes: Sequence[Attribute], rows: Array) -> list[Column]:
        """The values at positions `rows` (ascending). Reads from the file the columns that are not in the cache."""
        taken = {attribute: self._known(attribute, rows) for attribute in attributes}
        columns = [column for column in taken.values() if column is not None]
        if len(columns) == len(attributes):
            return columns
        groups = np.unique(rows // GROUP_ROWS)
        inside = np.searchsorted(groups, rows // GROUP_ROWS) * GROUP_ROWS + rows % GROUP_ROWS
        for attribute in [attribute for attribute, column in taken.items() if column is None]:
            if len(rows) * _FEW <= self._rows and (values := self._numbers(attribute, groups)) is not None:
                taken[attribute] = self._keep_some(attribute, rows, values.take(inside))
            elif 2 * len(groups) * GROUP_ROWS > self._rows:
                taken[attribute] = self.column(attribute).take(rows)
        missing = [attribute for attribute, column in taken.items() if column is None]
        if missing:
            read = self._read(missing, [int(group) for group in groups])
            taken |= {attribute: column.take(inside) for attribute, column in zip(missing, read, strict=True)}
        return [column for attribute in attributes if (column := taken[attribute]) is not None]

    def evaluated(self) -> Array:
        """The ID ranges [from, to) of queries whose matches a job found in this chunk, int64[r, 2]."""
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

    def _index(self, path: Path | None) -> MatchFileIndex:
        """The index of the matches in a cover's file `path`; without a path, in the file of the chunk's job."""
        if path is None and not self.file.attached:
            return NOTHING
        place = self._beside if path is None else path
        name = "" if path is None else f"/{path.parent.name}"
        return self._cache.get((self.path.name, name), lambda: read_index(place, self.checksum, self._rows))

    def expect(self, columns: Sequence[tuple[Attribute, int]], rows: Array | None) -> None:
        """Tell the system which columns (with their places in the file) will be read soon, so that it fetches them.

        Leaves out cached columns. Failures are ignored here; `column` reports them.
        """
        places = [place for attribute, place in columns if not self._is_known(attribute, rows)]
        ranges = self.file.ranges[[place for place in places if place < len(self.file.ranges)]]
        if not ranges.size:
            return
        if rows is not None:
            ranges = ranges[:, np.unique(rows // GROUP_ROWS)]
        with suppress(OSError):
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                for start, size in [*ranges.reshape(-1, 2).tolist(), (self.nbytes - self.file.footer[0], 0)]:
                    os.posix_fadvise(handle, start, size, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(handle)

    def _known(self, attribute: Attribute, rows: Array) -> Column | None:
        """The values at positions `rows` if they are in the cache."""
        column = self._cache.known((self.path.name, attribute.name))
        if column is None:
            some = self._cache.known((self.path.name, attribute.name, "some"))
            return None if some is None or not len(rows) else some.take(rows)
        taken: Column = column.take(rows)
        return taken

    def _is_known(self, attribute: Attribute, rows: Array | None) -> bool:
        """Whether the cache has the values in `rows`; None stands for all rows."""
        name = self.path.name
        if self._cache.known((name, attribute.name)) is not None:
            return True
        if rows is None:
            return False
        some: _SelectedValues | None = self._cache.known((name, attribute.name, "some"))
        return some is not None and len(some.rows) == len(rows)  # probably the same rows; an error costs only time

    def _keep_some(self, attribute: Attribute, rows: Array, values: Array) -> Column:
        """Put the values of some rows into the cache, and return them as a column."""
        column = Column(attribute.type, values.astype(TYPES[attribute.type.kind].dtype, copy=False))
        if len(rows):
            self._cache.put((self.path.name, attribute.name, "some"), _SelectedValues(rows, column))
        return column

    def _whole(self, attribute: Attribute) -> Column:
        values = self._numbers(attribute, None)
        if values is None:
            return self._read([attribute], None)[0]
        return Column(attribute.type, values.astype(TYPES[attribute.type.kind].dtype))

    def _numbers(self, attribute: Attribute, groups: Array | None) -> Array | None:
        """The values of some row groups (None: all) as whole numbers. They are valid until the thread's next call.

        None if they are of another type or cannot be read in this way; `_read` reports damage.
        """
        if not len(self.file.ranges) or not has_pages(attribute.type):
            return None
        rows = self._rows
        if groups is not None:
            rows = sum(min(GROUP_ROWS, rows - GROUP_ROWS * g) for g in groups.tolist())
        with suppress(OSError, pa.ArrowException):
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                place = self._place(attribute, handle)
                if place >= 0:
                    ranges = self.file.ranges[place] if groups is None else self.file.ranges[place][groups]
                    nullable = attribute.nullable
                    values = self._cache.pages.numbers(handle, ranges.tolist(), rows, attribute.type, nullable)
                    self._cache.reads += values is not None
                    return values
            finally:
                os.close(handle)
        return None

    def _place(self, attribute: Attribute, handle: int) -> int:
        """The place of a column in the file, from its checked footer; -1 if unknown.

        A job may put `_time` anywhere, and may write a NOT NULL column without validity levels.
        """
        size, checksum = self.file.footer
        footer = os.pread(handle, size, self.nbytes - size)
        if zlib.crc32(footer) != checksum:
            return -1
        if self._places is None:
            schema = pq.read_metadata(pa.BufferReader(b"PAR1" + footer)).schema
            columns = [schema.column(place) for place in range(len(schema))]
            self._places = _placed(tuple([(column.path, column.max_definition_level > 0) for column in columns]))
        return self._places.get((attribute.name, attribute.nullable), -1)

    def _read(self, attributes: Sequence[Attribute], groups: list[int] | None) -> list[Column]:
        self._cache.reads += len(attributes)
        try:
            with pa.OSFile(str(self.path)) as file:
                meta = self._metadata(file)
                stored = set(meta.schema.names)
                rows = self._rows if groups is None else sum(meta.row_group(group).num_rows for group in groups)
                names = list(dict.fromkeys(a.name for a in attributes if a.name in stored))  # the stream got more later
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
                raise  # the error names the damage already
            raise damaged(self.path, str(problem)) from problem
        for attribute, column in zip(attributes, columns, strict=True):
            if len(column) != rows:  # Parquet has checksums of the bytes of a page, and none of its number of values
                raise damaged(
                    self.path, f"column {attribute.name} has {counted(len(column), 'value')} for {counted(rows, 'row')}"
                )
        return columns

    def _metadata(self, file: pa.NativeFile) -> pq.FileMetaData:
        size, checksum = self.file.footer
        file.seek(max(0, self.nbytes - size))
        footer = file.read(size)
        if zlib.crc32(footer) != checksum:
            raise damaged(self.path, "its footer has changed since it was written")
        return pq.read_metadata(pa.BufferReader(b"PAR1" + footer))


@lru_cache(1_024)
def _placed(columns: tuple[tuple[str, bool], ...]) -> ColumnPlaces:
    """The position of each column in a file. Files with the same columns share one object."""
    return {column: place for place, column in enumerate(columns)}


def _within(query_id: int, ranges: Array) -> bool:
    """Whether one of the ranges [from, to), int64[r, 2], contains an ID."""
    return bool(((ranges[:, 0] <= query_id) & (query_id < ranges[:, 1])).any())


def _column(attribute: Attribute, table: pa.Table) -> Column:
    array, wanted = table.column(attribute.name), arrow_type(attribute.type)
    array = array if array.type == wanted else array.cast(wanted)
    return column_from_arrow(attribute.name, attribute.type, array)
