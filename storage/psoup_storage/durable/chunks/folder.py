"""Stored chunks: one Parquet file each (zstd), and a row of the table `chunks` that makes it part of the data.

    keep     write chunks/3-17.parquet.new ─> fsync ─> rename ─> fsync the folder ─> manifest row, in a transaction
                                                                                    └ before it: an orphan, removed at
                                                                                      the next start
    load     manifest rows in order ─> files, each verified by the checksum of all its bytes
    archived a manifest row as the entry of a chunk that stays on disk; see `archive`

A row also has the end of the stored part in stream order: `last_time`, after `ties` tuples of exactly that time. A
chunk that expires before it is stored is *passed*: it has a row, which says where the stream goes on, but no file. Its
stream has no other row until the next chunk is stored. `store` writes to the database, not this module.
"""

from __future__ import annotations

import json
import os
import secrets
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary, finalize

import numpy as np
import pyarrow as pa

from psoup.data.archived_chunk import ArchivedChunk
from psoup.data.chunk import ChunkView
from psoup.data.chunk_caches import Zone
from psoup.data.places import Places
from psoup.data.stored_chunk import StoredChunk
from psoup.errors import PSoupError
from psoup.expressions.tree import ID_INDEX, TIME_INDEX
from psoup.invariants import ensure
from psoup.model import TIME_COLUMN, StreamSpec
from psoup.phrases import counted
from psoup.values.columns import Array
from psoup_proto.file_names import is_chunk
from psoup_storage.durable.chunks.archive import ChunkFileFacts, ColumnPlaces, StoredColumns
from psoup_storage.durable.chunks.column_cache import ColumnCache
from psoup_storage.durable.chunks.covers import Covers
from psoup_storage.durable.chunks.place_list import WrongPlaces, decode_places, encode_places
from psoup_storage.durable.chunks.sidecars import SidecarFolder
from psoup_storage.durable.directory import CHUNKS
from psoup_storage.formats.chunk_file import archive_facts, changed, damaged, decode_chunk, encode_chunk
from psoup_storage.formats.files import NO_ROOM, disk_full, sync_directory
from psoup_storage.formats.matches import SUFFIX

FOLDER = CHUNKS
_NEW = ".new"
_SHOWN = 200
"""Characters of a name that a message shows."""


_PlaceList = bytes
"""`ChunkRow` has a field of the name of this type."""


class ChunkRow(NamedTuple):
    """A row of the manifest. `rows`: of the file. `ties`: stored tuples of the stream with exactly `last_time`, over
    all its chunks.

    `file` is empty for a passed chunk. Archived and attached chunks (`ties` 0) are read in parts and have more fields.
    `memory`: bytes of their tuples in memory. `footer`: the footer's bytes, and their checksum. `zones`: JSON, from
    schema position to [least, greatest, has NULL]; its entry "ranges" has the place and bytes of each column in each
    row group. `places`, `places_left`: the number of places of a thinned chunk, and the list of those that are left
    (`place_list`). Its times and ties are of all tuples that it had.
    """

    stream: int
    number: int
    first_id: int
    rows: int
    file: str
    bytes: int
    crc: int
    last_time: int
    ties: int
    first_time: int | None = None
    memory: int | None = None
    footer: int | None = None
    footer_crc: int | None = None
    zones: str | None = None
    places: int | None = None
    places_left: _PlaceList | None = None

    @property
    def end_id(self) -> int:
        """The tuple ID after the last place."""
        return self.first_id + (self.rows if self.places is None else self.places)

    @property
    def thinned(self) -> bool:
        """Whether some of the chunk's tuples have left."""
        return self.places is not None

    @property
    def attached(self) -> bool:
        """Whether a job wrote the chunk. Such chunks come before the chunks of the log, and stay on disk."""
        return not self.ties

    @property
    def passed(self) -> bool:
        """Whether the chunk was past its retention before it was stored: it has no file, and its tuples are gone."""
        return not self.file


def checked_row(values: Iterable[Any]) -> ChunkRow:
    """A row of the manifest from its values. Raises Internal (DATA_DAMAGED) if the file is not named like a chunk.

    A restored database may come from an untrusted source, so its names must not lead out of the folder.
    """
    row = ChunkRow(*values)
    if not row.passed and not is_chunk(row.file):
        place = Path(FOLDER) / f"{row.stream}-{row.number}.parquet"
        raise damaged(place, f"the manifest names its file {row.file[:_SHOWN]!r}, and no chunk's file has such a name")
    return row


def columns_of(query: Callable[[str, Sequence[Any]], Iterable[tuple[Any, ...]]]) -> str:
    """The fields of `ChunkRow` for a SELECT from `chunks`. A field that a directory's format lacks is NULL."""
    present = {row[1] for row in query("PRAGMA table_info(chunks)", ())}
    return ", ".join(name if name in present else f"NULL AS {name}" for name in ChunkRow._fields)


def places_of(row: ChunkRow, folder: Path) -> Places:
    """The places of the chunk of a manifest row. Raises Internal, reason DATA_DAMAGED, for a wrong list."""
    try:
        return decode_places(row.first_id, row.rows, row.places, row.places_left)
    except WrongPlaces as problem:
        raise damaged(folder / row.file, str(problem)) from problem


def files_of(rows: Iterable[ChunkRow]) -> list[str]:
    """The names of the files of `rows`. Passed chunks have none."""
    return [row.file for row in rows if not row.passed]


def passed_row(stream: int, chunk: ChunkView, before: ChunkRow | None) -> ChunkRow:
    """The manifest row of a passed chunk. `before`: the row of the chunk before."""
    facts = stream, chunk.number, chunk.first_id, len(chunk)
    return ChunkRow(*facts, file="", bytes=0, crc=0, last_time=chunk.last_time, ties=_ties(chunk.times, before))


class ChunkFolder:
    """The files of all chunks of a data directory.

    `cache`: columns that were read from archived chunks. `covers`: matches that jobs found in chunks. `sidecars`: folds
    of chunks.
    """

    def __init__(self, directory: Path, cache: ColumnCache, covers: Covers, sidecars: SidecarFolder) -> None:
        self.path = directory / FOLDER
        self.cache = cache
        self.covers = covers
        self.sidecars = sidecars
        self._in_use: WeakValueDictionary[str, StoredColumns] = WeakValueDictionary()
        if not self.path.is_dir():
            self.path.mkdir(mode=0o700)
            sync_directory(directory)

    def write(self, stream: int, spec: StreamSpec, chunk: ChunkView, before: ChunkRow | None) -> ChunkRow:
        """Write the file of a chunk, durable under its name when this returns; `before`: the row of the chunk before.

        Raises ResourceExhausted, reason DISK_FULL, without room for it, and OSError for any other failure. The chunk
        must not be thinned: its row has the end of the stored part in stream order, which may have left.
        """
        ensure(chunk.places.left is None, chunk, "a chunk was thinned before it was stored", chunk=chunk.number)
        content = encode_chunk(spec, chunk, archived=spec.retention.archive > 0)
        name = f"{stream}-{chunk.number}.parquet"
        self._write(name, content)
        return ChunkRow(
            stream,
            chunk.number,
            chunk.first_id,
            len(chunk),
            name,
            content.size,
            zlib.crc32(content),
            int(chunk.times[-1]),
            _ties(chunk.times, before),
            *(archive_facts(chunk, content) if spec.retention.archive else ()),
        )

    def write_thinned(self, spec: StreamSpec, chunk: ChunkView, before: ChunkRow) -> ChunkRow:
        """Write the file of a thinned chunk, under a new name; `before`: the manifest row of its present file.

        Raises as `write`. The row that is returned has the places, and the end in stream order of `before`.
        """
        places = chunk.places
        same = (before.number, before.first_id, before.end_id) == (chunk.number, places.first_id, places.end_id)
        ensure(same, chunk, "a chunk was thinned that is another one on disk", chunk=chunk.number, disk=before.number)
        partly_read = before.footer is not None
        content = encode_chunk(spec, chunk, archived=partly_read)
        name = f"{before.stream}-t{secrets.token_hex(4)}-{abs(before.number)}.parquet"
        self._write(name, content)
        row = before._replace(
            rows=len(chunk),
            file=name,
            bytes=content.size,
            crc=zlib.crc32(content),
            first_time=chunk.first_time,
            places=places.count,
            places_left=encode_places(places),
        )
        if not partly_read:
            return row
        first, memory, footer, footer_crc, zones = archive_facts(chunk, content)
        return row._replace(first_time=first, memory=memory, footer=footer, footer_crc=footer_crc, zones=zones)

    def _write(self, name: str, content: pa.Buffer) -> None:
        """Write a file that is durable under its name when this returns. Raises as `write`."""
        new = self.path / (name + _NEW)
        try:
            _write_synced(new, memoryview(content))
            os.rename(new, self.path / name)
        except OSError as problem:
            if problem.errno not in NO_ROOM:
                raise
            new.unlink(missing_ok=True)
            raise disk_full(self.path, f"a chunk of {content.size:,} bytes finds no room") from problem
        sync_directory(self.path)

    def archived(self, spec: StreamSpec, row: ChunkRow) -> ArchivedChunk:
        """The chunk of a manifest row. Its columns stay on disk, and readers read them on demand. O(attributes)."""
        assert row.first_time is not None and row.footer is not None and row.footer_crc is not None
        footer = row.footer, row.footer_crc
        facts = json.loads(row.zones or "{}")
        ranges = np.array(facts.pop("ranges", []), np.uint32)
        path = self.path / row.file
        source = self._in_use[row.file] = StoredColumns(
            ChunkFileFacts(path, row.rows, row.bytes, row.crc, footer, ranges, row.attached),
            None if row.attached else _places(spec, len(ranges)),
            self.cache,
            self.covers,
            self.sidecars,
        )
        places = places_of(row, self.path)
        zones = {int(index): Zone(*zone) for index, zone in facts.items()}
        zones[ID_INDEX] = Zone(row.first_id, row.end_id - 1, False)
        zones[TIME_INDEX] = Zone(row.first_time, row.last_time, False)
        return ArchivedChunk(spec, row.number, places, row.first_time, row.last_time, zones, source)

    def load(self, spec: StreamSpec, row: ChunkRow) -> StoredChunk:
        """Read the chunk of a manifest row into memory. Any thread; O(bytes).

        Raises Internal, reason DATA_DAMAGED, that names the file.
        """
        path = self.path / row.file
        try:
            content = path.read_bytes()
        except OSError as problem:
            raise damaged(path, problem.strerror or str(problem)) from problem
        if (wrong := changed(content, row.bytes, row.crc)) is not None:
            raise damaged(path, wrong)
        try:
            batch = decode_chunk(spec, pa.py_buffer(content))
        except (pa.ArrowException, PSoupError) as problem:
            raise damaged(path, str(problem)) from problem
        if len(batch) != row.rows:
            raise damaged(path, f"it has {counted(len(batch), 'row')}, not {row.rows:,}")
        places = places_of(row, self.path)
        span = None if row.first_time is None or not row.thinned else (row.first_time, row.last_time)
        return StoredChunk(row.number, places, batch, span)

    def remove(self, names: Iterable[str], *, read: bool = True) -> int:
        """Remove files that the manifest does not name any more; returns their bytes. O(files).

        If a snapshot can still read a file, it is deleted after the last such snapshot. `read`: False without readers.
        """
        removed, names = 0, list(names)
        self.covers.forget(names)
        for path in (self.path / file for name in names for file in (name, name + SUFFIX)):
            if path.exists():
                removed += 0 if path.name.endswith(SUFFIX) else path.stat().st_size
                source = self._in_use.get(path.name.removesuffix(SUFFIX))
                if source is None or not read:
                    path.unlink()
                else:
                    finalize(source, path.unlink, missing_ok=True).atexit = False
        return removed

    def remove_orphans(self, files: set[str], *, read: bool = True) -> list[str]:
        """Remove all files of the folder except `files`. Returns the names of the removed files.

        A crash has left such files, or `remove` has left them for readers.
        """
        orphans = sorted(set(os.listdir(self.path)) - files - {name + SUFFIX for name in files})
        self.remove(orphans, read=read)
        return orphans


@lru_cache(1_024)
def _places(spec: StreamSpec, columns: int) -> ColumnPlaces:
    """The places of the columns in a file that the service wrote with `columns` columns; see `encode_chunk`."""
    present = max(columns if spec.event_time else columns - 1, 0)
    places = {(a.name, a.nullable): place for place, a in enumerate(spec.schema.attributes[:present])}
    return places if spec.event_time or columns < 1 else places | {(TIME_COLUMN, False): present}


def _ties(times: Array, before: ChunkRow | None) -> int:
    last = int(times[-1])
    first = int(np.searchsorted(times, last))
    earlier = before.ties if before is not None and before.last_time == last else 0
    return len(times) - first + earlier


def _write_synced(path: Path, content: memoryview) -> None:
    """Write a file and wait until the disk has it: some file systems notice only then that they have no room."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        _write_all(handle, content)
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_all(handle: int, content: memoryview) -> None:
    while content:
        content = content[os.write(handle, content) :]
