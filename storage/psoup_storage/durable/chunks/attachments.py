"""Attaching history to a data directory: the service takes over a job's files, checks them, and adds manifest rows.

    job directory ──link, or copy──> chunks/3-a7f21c-0.parquet ──checked, synced──> rows, in the transaction of the
                                     (an orphan until then)                          event

Every byte is read before the decision, because a damaged chunk would give wrong answers later; see `foreign`. The
service trusts the matches that a job reports; computing them is the job's task.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from psoup.data.archived_chunk import ArchivedChunk
from psoup.data.sidecars import checksum_of
from psoup.events.commands import Extent
from psoup.events.events import Attached
from psoup.model import Retention, StreamSpec
from psoup_storage.durable.chunks.folder import ChunkFolder, ChunkRow
from psoup_storage.durable.chunks.foreign import WrongChunk, facts_of
from psoup_storage.durable.chunks.sidecars import ChunkRange, SidecarFolder, StagedSidecar
from psoup_storage.formats.files import NO_ROOM, disk_full, sync_directory
from psoup_storage.formats.history import HistoryChunk, Manifest, suffix_of
from psoup_storage.formats.job_folder import JobFolder, bad_history
from psoup_storage.formats.matches import SUFFIX, are_known, read_index
from psoup_storage.formats.sidecar_file import MOST_BYTES, room_of
from psoup_storage.formats.sidecar_file import SUFFIX as FOLDS


class Adopted(NamedTuple):
    """Chunks that are in the folder and not yet part of the data; their numbers and IDs begin with 0."""

    extent: Extent
    chunks: tuple[ArchivedChunk, ...]
    rows: tuple[ChunkRow, ...]
    retention: Retention
    sidecars: tuple[StagedSidecar | None, ...]
    """The folds that the job wrote for each chunk. None without sound ones."""

    @property
    def files(self) -> list[str]:
        """The names of the chunks' files."""
        return [row.file for row in self.rows]


def adopt(
    folder: ChunkFolder,
    directory: Path,
    manifest: Manifest,
    stream: int,
    spec: StreamSpec,
    incarnation: str,
    queries_end: int,
) -> Adopted:
    """Take the chunks of a job directory into the folder of all chunks. O(their bytes).

    Matches are taken along if the job knew the queries of this `incarnation`, all with IDs below `queries_end`. They
    are read when a reader needs them. Sound folds are taken along, too; `place_sidecars` makes them part of the data.

    Raises InvalidInput, reason BAD_HISTORY, if the chunks contradict the manifest or the stream, and ResourceExhausted
    without room for a copy. The folder is unchanged then.
    """
    token, taken, rows = secrets.token_hex(4), list[str](), list[ChunkRow]()
    staged = list[StagedSidecar | None]()
    try:
        with JobFolder(directory) as job:
            for number, chunk in enumerate(manifest.chunks):
                taken.append(f"{stream}-a{token}-{number}.parquet")
                job.take(chunk.file, folder.path / taken[-1], chunk.bytes)
                _take_matches(
                    job, chunk, folder.path / (taken[-1] + SUFFIX), _beside(manifest, incarnation), queries_end
                )
                before = rows[-1] if rows else None
                rows.append(_row(folder.path / taken[-1], chunk, (stream, number), spec, before))
                staged.append(_stage_folds(job, chunk, _beside(manifest, incarnation, FOLDS), folder.sidecars))
        sync_directory(folder.path)
    except WrongChunk as problem:
        give_up(folder, taken, staged)
        raise bad_history(directory, f"{chunk.file}: {problem}") from problem
    except FileNotFoundError as problem:
        give_up(folder, taken, staged)
        raise bad_history(directory, f"{Path(problem.filename or directory).name} is missing") from problem
    except OSError as problem:
        give_up(folder, taken, staged)
        if problem.errno not in NO_ROOM:
            raise
        raise disk_full(folder.path, "the history finds no room") from problem
    except BaseException:
        give_up(folder, taken, staged)
        raise
    chunks = tuple(folder.archived(spec, row) for row in rows)
    return Adopted(manifest.extent, chunks, tuple(rows), spec.retention, tuple(staged))


def give_up(folder: ChunkFolder, files: Sequence[str], sidecars: Sequence[StagedSidecar | None]) -> None:
    """Remove the files and staged sidecars of chunks that are not attached."""
    folder.remove(files)
    for staged in sidecars:
        if staged is not None:
            folder.sidecars.discard(staged)


def place_sidecars(folder: SidecarFolder, event: Attached, adopted: Adopted) -> None:
    """Give the sidecars of chunks that are attached now their names. O(chunks)."""
    for chunk, staged in zip(event.chunks, adopted.sidecars, strict=True):
        if staged is not None:
            folder.place(staged, ChunkRange(event.stream_id, chunk.number, chunk.number + 1))


def placed(event: Attached, adopted: Adopted) -> list[ChunkRow]:
    """The manifest rows of adopted chunks, with the chunk numbers and tuple IDs that the event assigns."""
    return [
        row._replace(number=chunk.number, first_id=chunk.first_id)
        for row, chunk in zip(adopted.rows, event.chunks, strict=True)
    ]


def _row(
    path: Path, chunk: HistoryChunk, place: tuple[int, int], spec: StreamSpec, before: ChunkRow | None
) -> ChunkRow:
    """The manifest row of the file at `path`; `place`: the stream, and the number of the chunk."""
    after = None if before is None else before.last_time
    facts = facts_of(pa.py_buffer(path.read_bytes()), chunk, spec, after)
    stream, number = place
    first_id = 0 if before is None else before.end_id
    ties = 0  # only chunks of the log count ties
    return ChunkRow(
        stream, number, first_id, chunk.rows, path.name, chunk.bytes, chunk.crc, chunk.last_time, ties, *facts
    )


def _beside(manifest: Manifest, incarnation: str, suffix: str = SUFFIX) -> str:
    """The suffix of a file with the matches, or the folds, of this service's queries."""
    return suffix if manifest.incarnation == incarnation else suffix_of(incarnation, suffix)


def _stage_folds(job: JobFolder, chunk: HistoryChunk, suffix: str, folder: SidecarFolder) -> StagedSidecar | None:
    """Take over the folds of a chunk, if the job has written sound ones. Raises as `JobFolder.read`."""
    name = chunk.file + suffix
    if not job.has(name):
        return None
    return folder.stage(job.read(name, MOST_BYTES), checksum_of([chunk.crc]), room_of(chunk.bytes))


def _take_matches(job: JobFolder, chunk: HistoryChunk, target: Path, suffix: str, queries_end: int) -> None:
    """Take over the file of matches in a chunk, if the job has written one.

    Refuses matches of queries that are not registered yet: a later query with such an ID would be answered from them.
    """
    name = chunk.file + suffix
    if not job.has(name):
        return
    job.take(name, target)
    ranges = read_index(target, chunk.crc, chunk.rows).ranges
    if not are_known(ranges, queries_end):
        target.unlink()
        raise bad_history(job.path, f"{name} is of queries that are not known")
