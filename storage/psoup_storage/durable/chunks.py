"""Stored chunks: one Parquet file each (zstd), and a row of the table `chunks` that makes it part of the data.

    keep     write chunks/3-17.parquet.new ─> fsync ─> rename ─> fsync the folder ─> manifest row, in a transaction
                                                                                    └ before it: an orphan, removed at
                                                                                      the next start
    load     manifest rows in order ─> files, each verified by the checksum of all its bytes
    archived a manifest row as the entry of a chunk that stays on disk; see `archive`

A row also says where the stored part of the stream ends in stream order: at `last_time`, after `ties` tuples of just
that time. Nothing here writes to the database; `store` does that.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary, finalize

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from psoup.columns import Array, Batch, arrow_type, column_from_arrow
from psoup.data.archived import ArchivedChunk, Zone
from psoup.data.chunk import ChunkView
from psoup.data.stored import StoredChunk
from psoup.data.widening import null_column
from psoup.data.zones import Zones
from psoup.errors import PSoupError
from psoup.expressions.tree import ID_INDEX, TIME_INDEX
from psoup.model import TIME_COLUMN, Kind, StreamSpec
from psoup.wording import counted
from psoup_storage.durable.archive import GROUP_ROWS, ColumnCache, StoredColumns, changed, damaged
from psoup_storage.durable.directory import NO_ROOM, disk_full, sync_directory
from psoup_storage.matches import SUFFIX

if TYPE_CHECKING:  # which reads manifests of jobs, and these are written with what is here
    from psoup_storage.durable.covering import Covers

FOLDER = "chunks"
_NEW = ".new"
_ENCODINGS = {
    Kind.BIGINT: "DELTA_BINARY_PACKED",
    Kind.DECIMAL: "DELTA_BINARY_PACKED",
    Kind.TIMESTAMP: "DELTA_BINARY_PACKED",
    Kind.DATE: "DELTA_BINARY_PACKED",
    Kind.DOUBLE: "BYTE_STREAM_SPLIT",
}
"""Eight columns of random integers: half the bytes of dictionaries, a fifth of the time to write, a third to read."""


class ChunkRow(NamedTuple):
    """A row of the manifest. `ties`: stored tuples of the stream with exactly `last_time`, over all its chunks.

    Of chunks that are read in parts, those of an archive and attached ones (`ties` 0), also: `memory`, what the
    tuples are charged there; `footer`, the bytes at the end of the file that describe it, and their checksum; `zones`,
    JSON: schema position to [least, greatest, has NULL], and under "ranges" for each column of the file and each row
    group where it begins and how many bytes it has.
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

    @property
    def attached(self) -> bool:
        """Whether somebody else wrote it. Such chunks come before those of the log, and stay on disk."""
        return not self.ties


class ChunkFolder:
    """The files of all chunks of a data directory. `cache`: of columns that were read from archived ones.

    `covers`: what jobs found in them.
    """

    def __init__(self, directory: Path, cache: ColumnCache, covers: Covers) -> None:
        self.path = directory / FOLDER
        self.cache = cache
        self.covers = covers
        self._in_use: WeakValueDictionary[str, StoredColumns] = WeakValueDictionary()
        if not self.path.is_dir():
            self.path.mkdir(mode=0o700)
            sync_directory(directory)

    def write(self, stream: int, spec: StreamSpec, chunk: ChunkView, before: ChunkRow | None) -> ChunkRow:
        """Make the file of a chunk, durable under its name when this returns; `before`: the row of the last one.

        Raises ResourceExhausted, reason DISK_FULL, without room for it, and OSError for any other failure.
        """
        content = encode_chunk(spec, chunk, archived=spec.retention.archive > 0)
        name = f"{stream}-{chunk.number}.parquet"
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

    def archived(self, spec: StreamSpec, row: ChunkRow) -> ArchivedChunk:
        """How the chunk of a row of an archived stream is read. O(attributes)."""
        assert row.first_time is not None and row.footer is not None and row.footer_crc is not None
        footer = row.footer, row.footer_crc
        facts = json.loads(row.zones or "{}")
        ranges = np.array(facts.pop("ranges", []), np.uint32)
        path = self.path / row.file
        source = self._in_use[row.file] = StoredColumns(
            path, row.rows, row.bytes, footer, ranges, self.cache, row.crc, row.attached, self.covers
        )
        zones = {int(index): Zone(*zone) for index, zone in facts.items()}
        zones[ID_INDEX] = Zone(row.first_id, row.first_id + row.rows - 1, False)
        zones[TIME_INDEX] = Zone(row.first_time, row.last_time, False)
        return ArchivedChunk(spec, row.number, row.first_id, row.rows, row.first_time, row.last_time, zones, source)

    def load(self, spec: StreamSpec, row: ChunkRow) -> StoredChunk:
        """The chunk of a row; raises Internal, reason DATA_DAMAGED, that names the file. Any thread; O(bytes)."""
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
            raise damaged(path, f"it has {counted(len(batch), 'row')}, and not {row.rows:,}")
        return StoredChunk(row.number, row.first_id, batch)

    def remove(self, names: Iterable[str], *, read: bool = True) -> int:
        """Remove files that the manifest does not name any more; returns their bytes. O(files).

        A file that a snapshot can still ask for goes with the last such snapshot, unless nothing is `read` any more.
        """
        removed, names = 0, list(names)
        self.covers.forget(names)
        for path in (self.path / one for name in names for one in (name, name + SUFFIX)):
            if path.exists():
                removed += 0 if path.name.endswith(SUFFIX) else path.stat().st_size
                source = self._in_use.get(path.name.removesuffix(SUFFIX))
                if source is None or not read:
                    path.unlink()
                else:
                    finalize(source, path.unlink, missing_ok=True).atexit = False
        return removed

    def remove_orphans(self, known: set[str], *, read: bool = True) -> list[str]:
        """Remove what a crash has left, or `remove` for the sake of readers: what is not `known`; returns the names."""
        orphans = sorted(set(os.listdir(self.path)) - known - {name + SUFFIX for name in known})
        self.remove(orphans, read=read)
        return orphans


def encode_chunk(spec: StreamSpec, chunk: ChunkView, *, archived: bool) -> pa.Buffer:
    """A Parquet file: the columns of the stream, and `_time` where no column is the time.

    `archived`: parts of it will be read.
    """
    attributes = spec.schema.attributes
    arrays = [column.to_arrow() for column in chunk.columns]
    fields = [pa.field(a.name, array.type, a.nullable) for a, array in zip(attributes, arrays, strict=True)]
    kinds = {attribute.name: attribute.type.kind for attribute in attributes}
    if not spec.event_time:
        arrays.append(pa.array(chunk.times).view(pa.timestamp("us", "UTC")))
        fields.append(pa.field(TIME_COLUMN, arrays[-1].type, False))
        kinds[TIME_COLUMN] = Kind.TIMESTAMP
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=pa.schema(fields)),
        sink,
        compression="zstd",
        row_group_size=GROUP_ROWS if archived else len(chunk),
        write_page_checksum=archived,
        store_decimal_as_integer=True,
        use_dictionary=[name for name, kind in kinds.items() if kind is Kind.TEXT],
        column_encoding={name: _ENCODINGS[kind] for name, kind in kinds.items() if kind in _ENCODINGS},
    )
    return sink.getvalue()


def decode_chunk(spec: StreamSpec, content: pa.Buffer) -> Batch:
    """The tuples of `encode_chunk`, without a second copy."""
    return batch_of(spec, pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False))


def batch_of(spec: StreamSpec, table: pa.Table) -> Batch:
    """The tuples of a chunk's file, once it is read."""
    there = set(table.column_names)
    columns = tuple(
        column_from_arrow(attribute.name, attribute.type, table.column(attribute.name).cast(arrow_type(attribute.type)))
        if attribute.name in there
        else null_column(attribute.type, table.num_rows)  # the stream got it later
        for attribute in spec.schema.attributes
    )
    if spec.time_attribute is not None:
        return Batch(columns, columns[spec.time_attribute].values)
    times = table.column(TIME_COLUMN).combine_chunks().view(pa.int64()).to_numpy()
    return Batch(columns, np.ascontiguousarray(times))


def _ties(times: Array, before: ChunkRow | None) -> int:
    last = int(times[-1])
    first = int(np.searchsorted(times, last))
    earlier = before.ties if before is not None and before.last_time == last else 0
    return len(times) - first + earlier


def _write_synced(path: Path, content: memoryview) -> None:
    """Make a file and wait until the disk has it; a file system may notice only then that it has no room."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        _write_all(handle, content)
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_all(handle: int, content: memoryview) -> None:
    while content:
        content = content[os.write(handle, content) :]


def archive_facts(chunk: ChunkView, content: pa.Buffer) -> tuple[int, int, int, int, str]:
    """The last columns of a row of the manifest."""
    size = int.from_bytes(content.slice(content.size - 8, 4).to_pybytes(), "little") + 8
    facts: dict[str, Any] = {str(i): [z.least, z.greatest, z.has_null] for i, z in Zones(chunk).items() if i >= 0}
    meta = pq.read_metadata(pa.BufferReader(content))
    groups = [meta.row_group(group) for group in range(meta.num_row_groups)]
    facts["ranges"] = [[_range(group.column(place)) for group in groups] for place in range(meta.num_columns)]
    footer = zlib.crc32(content.slice(content.size - size))
    return chunk.first_time, chunk.nbytes, size, footer, json.dumps(facts, separators=(",", ":"))


def _range(column: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Where the pages of a column of a row group begin, and their bytes."""
    first = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
    return first, column.total_compressed_size
