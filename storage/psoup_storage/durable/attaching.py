"""History becomes part of a data directory: checked, given a name beside the stored chunks, then a row for each chunk.

    job directory ──link, or copy──> chunks/3-a7f21c-0.parquet ──checked, synced──> rows, in the transaction of the
                                     (an orphan until then)                          event

Every byte is read before anything is decided, as a damaged chunk would be a wrong answer later. Zones are taken as the
manifest has them: whoever writes chunks answers for those.
"""

from __future__ import annotations

import os
import secrets
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from psoup.archive import TIME, ArchivedChunk
from psoup.columns import arrow_type
from psoup.history import Attached, Extent
from psoup.model import Retention, StreamSpec
from psoup_storage.durable.archive import GROUP_ROWS
from psoup_storage.durable.chunks import ChunkFolder, ChunkRow
from psoup_storage.durable.directory import NO_ROOM, disk_full, second_name, sync_directory
from psoup_storage.history import HistoryChunk, Manifest, bad_history, suffix_of
from psoup_storage.matches import SUFFIX

MAX_ROWS = 65_536
"""Tuples of a chunk, at most."""


class Adopted(NamedTuple):
    """Chunks that are in the folder and not yet part of the data. `chunks` have numbers and IDs from 0 on."""

    extent: Extent
    chunks: tuple[ArchivedChunk, ...]
    rows: tuple[ChunkRow, ...]
    retention: Retention

    @property
    def files(self) -> list[str]:
        """Their files."""
        return [row.file for row in self.rows]


def adopt(
    folder: ChunkFolder, directory: Path, manifest: Manifest, stream: int, spec: StreamSpec, incarnation: str
) -> Adopted:
    """Take the chunks of a job directory into the folder of all chunks. O(their bytes).

    Matches are taken along if the job knew the queries of this `incarnation`; they are read when somebody asks.

    Raises InvalidInput, reason BAD_HISTORY, if they are not what the manifest or the stream says, and ResourceExhausted
    if a copy finds no room. Nothing is left in the folder then.
    """
    token, rows = secrets.token_hex(4), list[ChunkRow]()
    try:
        for number, chunk in enumerate(manifest.chunks):
            before = rows[-1] if rows else None
            row = _row(chunk, stream, number, f"{stream}-a{token}-{number}.parquet", before)
            rows.append(row)
            if Path(chunk.file).name != chunk.file:
                raise bad_history(directory, f"{chunk.file!r} is no name of a file in it")
            _take(directory / chunk.file, folder.path / row.file)
            suffix = SUFFIX if manifest.incarnation == incarnation else suffix_of(incarnation)
            beside = directory / (chunk.file + suffix)
            if beside.exists():
                _take(beside, folder.path / (row.file + SUFFIX))
            for wrong in _wrong_with(folder.path / row.file, spec, row, before):
                raise bad_history(directory, f"{chunk.file}: {wrong}")
        sync_directory(folder.path)
    except FileNotFoundError as problem:
        folder.remove(row.file for row in rows)
        raise bad_history(directory, f"{problem.filename} is missing") from problem
    except OSError as problem:
        folder.remove(row.file for row in rows)
        if problem.errno not in NO_ROOM:
            raise
        raise disk_full(folder.path, "the history finds no room") from problem
    except BaseException:
        folder.remove(row.file for row in rows)
        raise
    return Adopted(manifest.extent, tuple(folder.archived(spec, row) for row in rows), tuple(rows), spec.retention)


def placed(event: Attached, adopted: Adopted) -> list[ChunkRow]:
    """The rows of the manifest, with the numbers and IDs that the event gives them."""
    return [
        row._replace(number=chunk.number, first_id=chunk.first_id)
        for row, chunk in zip(adopted.rows, event.chunks, strict=True)
    ]


def _row(chunk: HistoryChunk, stream: int, number: int, file: str, before: ChunkRow | None) -> ChunkRow:
    first_id = 0 if before is None else before.first_id + before.rows
    return ChunkRow(
        stream,
        number,
        first_id,
        chunk.rows,
        file,
        chunk.bytes,
        chunk.crc,
        chunk.last_time,
        0,  # ties are counted of what follows in the log
        chunk.first_time,
        chunk.memory,
        chunk.footer,
        chunk.footer_crc,
        chunk.zones,
    )


def _take(source: Path, target: Path) -> None:
    """The same file under a second name; a copy where that cannot be. Durable but for its name."""
    second_name(source, target)
    handle = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _wrong_with(path: Path, spec: StreamSpec, row: ChunkRow, before: ChunkRow | None) -> Iterator[str]:
    """What is not as the manifest says, or as the stream needs it."""
    content = path.read_bytes()
    if len(content) != row.bytes or zlib.crc32(content) != row.crc:
        yield "it is not as it was written"
        return
    if not 0 < row.rows <= MAX_ROWS or zlib.crc32(content[-(row.footer or 0) :]) != row.footer_crc:
        yield f"it has {row.rows:,} rows, and 1 to {MAX_ROWS:,} are a chunk; or its footer is another one"
        return
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        yield from _wrong_columns(file.schema_arrow, spec)
        name = TIME.name if spec.time_attribute is None else spec.schema.attributes[spec.time_attribute].name
        times = file.read([name], use_threads=False).column(0).combine_chunks().cast(pa.int64()).to_numpy()
    except (pa.ArrowException, KeyError, OSError) as problem:
        yield str(problem).splitlines()[0]
        return
    groups = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
    if len(times) != row.rows or any(group != GROUP_ROWS for group in groups[:-1]) or groups[-1] > GROUP_ROWS:
        yield f"it has {len(times):,} rows in groups of {groups[0]:,}, and not {row.rows:,} in groups of {GROUP_ROWS:,}"
    elif (np.diff(times) < 0).any() or (before is not None and int(times[0]) < before.last_time):
        yield "its tuples are not in the order of their times"
    elif (int(times[0]), int(times[-1])) != (row.first_time, row.last_time):
        yield "its first and last time are not those of the manifest"


def _wrong_columns(found: pa.Schema, spec: StreamSpec) -> Iterator[str]:
    """The first columns of the stream, in its order; those that it was given later may be missing."""
    fields = [field for field in found if field.name != TIME.name]
    known = spec.schema.attributes
    if spec.event_time == (len(fields) < len(found)):
        yield f"a column {TIME.name} is for streams in system time, and only for them"
    for attribute, field in zip(known, fields, strict=False):
        wanted = arrow_type(attribute.type)
        alike = field.type == wanted or (pa.types.is_string(field.type) and pa.types.is_large_string(wanted))
        if field.name != attribute.name or not alike or (field.nullable and not attribute.nullable):
            want = f"{attribute.name} {attribute.type}{'' if attribute.nullable else ' NOT NULL'}"
            yield f"its column {field.name} is {field.type}, and the stream has {want} there"
            return
    if len(fields) > len(known):
        yield f"it has a column {fields[len(known)].name}, and the stream has not"
    for attribute in known[len(fields) :]:
        if not attribute.nullable:
            yield f"the column {attribute.name}, which is never NULL, is missing"
