"""A job directory: history that a job has written, for the service to attach to one of its streams.

    history-7f3a/
      00000.parquet        a chunk, in the form of stored chunks
      00000.parquet.matches  the matches of the service's queries in that chunk; may be missing
      00000.parquet.matches-1a2b3c  the matches of another service's queries; 1a2b3c is its incarnation
      00000.parquet.folds           the folds of the service's aggregates over that chunk; may be missing
      00000.parquet.folds-1a2b3c    the folds of another service's aggregates
      manifest.json        last, by a rename: one line of facts for each chunk, oldest first, under a checksum

A directory without a manifest is not history: a dead job left it. Chunks get their numbers and IDs when they are
attached. Any program may write such a directory; a Spark job does so on many machines.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from psoup.data.chunk import ChunkView
from psoup.data.places import Places
from psoup.data.sidecars import checksum_of
from psoup.events.commands import Extent
from psoup.execution.ahead.folds_outside import ClauseAggregate, FoldsOutside
from psoup.matching.outside import Beforehand, ClauseMatches
from psoup.model import StreamSpec
from psoup.values.columns import Batch
from psoup_storage.formats import sidecar_file
from psoup_storage.formats.chunk_file import archive_facts, encode_chunk
from psoup_storage.formats.facts import MANIFEST, read_facts, write_facts, write_file
from psoup_storage.formats.job_folder import bad_history
from psoup_storage.formats.matches import SUFFIX
from psoup_storage.formats.matches import write as write_matches

SERVICE_IDS = 2**48
"""An upper bound of query IDs. A job adds multiples of it to query IDs, so that queries of several services differ."""


class HistoryChunk(NamedTuple):
    """A chunk of a job directory: times in microseconds, the rest as in `ChunkRow` of the data directory."""

    file: str
    rows: int
    bytes: int
    crc: int
    first_time: int
    last_time: int
    memory: int
    footer: int
    footer_crc: int
    zones: str


class FoldsToWrite(NamedTuple):
    """The aggregates whose folds a job writes. `streams`: the stream's number in each service, in their order.

    The ID of a query in `aggregates` tells its service, as in `write_chunk`. A greater ID is for all services.
    """

    aggregates: FoldsOutside
    streams: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a job directory. `incarnation`: the incarnation of the service whose queries were evaluated."""

    stream: str
    chunks: tuple[HistoryChunk, ...]
    incarnation: str = ""

    @property
    def extent(self) -> Extent:
        """The number of chunks and tuples, and the first and last time; there must be a chunk."""
        rows = sum(chunk.rows for chunk in self.chunks)
        return Extent(len(self.chunks), rows, self.chunks[0].first_time, self.chunks[-1].last_time)


def write_chunk(
    directory: Path,
    name: str,
    spec: StreamSpec,
    batch: Batch,
    queries: Beforehand | None = None,
    others: Sequence[str] = (),
    folds: FoldsToWrite | None = None,
) -> HistoryChunk:
    """Write tuples in the order of their times, at most as many as a chunk has, as `name`.parquet; durable.

    Replaces a file of that name. Writes the matches of `queries` into further files: one for the manifest's service,
    and one for each incarnation in `others`. The queries of the n-th of these have n times SERVICE_IDS added to their
    IDs. Writes the folds of the aggregates in `folds` likewise. Raises OSError.
    """
    chunk = ChunkView(0, Places(0, len(batch)), batch.times, batch.columns, batch.nbytes)
    content = encode_chunk(spec, chunk, archived=True)
    file = f"{name}.parquet"
    write_file(directory / file, content)
    facts = archive_facts(chunk, content)
    first, last, crc = int(batch.times[0]), int(batch.times[-1]), zlib.crc32(content)
    matches = queries.find(chunk) if queries is not None else []
    for place, suffix in enumerate((SUFFIX, *map(suffix_of, others)) if queries is not None else ()):
        write_matches(directory / (file + suffix), crc, len(chunk), list(_of_service(matches, place)))
    if folds is not None:
        _write_folds(directory / file, (crc, content.size), folds, folds.aggregates.find(chunk, matches), others)
    return HistoryChunk(file, len(chunk), content.size, crc, first, last, *facts[1:])


def suffix_of(incarnation: str, suffix: str = SUFFIX) -> str:
    """The suffix of a file for another service than the manifest's. `suffix`: for the manifest's service."""
    return f"{suffix}-{incarnation}"


def _write_folds(
    chunk: Path,
    facts: tuple[int, int],
    folds: FoldsToWrite,
    encoded: Sequence[tuple[ClauseAggregate, bytes]],
    incarnations: Sequence[str],
) -> None:
    """Write the sidecar of a chunk for each service, without a sync. `facts`: the checksum and bytes of its file.

    A service without such aggregates gets no file. Like the service's own sidecars, it has the folds that fit.
    """
    crc, size = facts
    suffixes = [sidecar_file.SUFFIX, *(suffix_of(each, sidecar_file.SUFFIX) for each in incarnations)]
    for place, (stream, suffix) in enumerate(zip(folds.streams, suffixes, strict=True)):
        services = place, len(suffixes)  # a greater ID is for each service
        named = {
            name: content
            for aggregate, content in encoded
            if any(min(number // SERVICE_IDS, services[1]) in services for number in aggregate.query_ids)
            and (name := aggregate.name(stream)) is not None
        }
        fitting = sidecar_file.newest(named, sidecar_file.room_of(size))
        if fitting:
            content = sidecar_file.written(checksum_of([crc]), fitting)
            chunk.with_name(chunk.name + suffix).write_bytes(content)


def _of_service(matches: Sequence[ClauseMatches], place: int) -> Iterator[ClauseMatches]:
    """The matches of the service at `place`, with the query IDs that it knows."""
    start, end = place * SERVICE_IDS, (place + 1) * SERVICE_IDS
    for clause in matches:
        ids = tuple(number - start for number in clause.query_ids if start <= number < end)
        if ids:
            yield ClauseMatches(ids, clause.offsets, clause.errors)


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest, which makes the directory whole; durable. Raises OSError."""
    facts = {"stream": manifest.stream, "incarnation": manifest.incarnation, "chunks": manifest.chunks}
    write_facts(directory, facts)


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a job directory; raises InvalidInput, reason BAD_HISTORY, if it has none of this form."""
    facts = read_facts(directory)
    try:
        chunks = tuple(_checked(HistoryChunk(*chunk)) for chunk in facts["chunks"])
        stream, incarnation = str(facts["stream"]), str(facts["incarnation"])
    except (KeyError, TypeError, ValueError) as problem:
        raise bad_history(directory, f"its {MANIFEST} cannot be read: {problem}") from problem
    if not chunks:
        raise bad_history(directory, "there is no chunk in it")
    return Manifest(stream, chunks, incarnation)


def _checked(chunk: HistoryChunk) -> HistoryChunk:
    """Return `chunk`, or raise ValueError for facts that no chunk can have."""
    numbers = chunk[1:-1]
    if not (isinstance(chunk.file, str) and isinstance(chunk.zones, str) and all(type(n) is int for n in numbers)):
        raise ValueError("the facts of a chunk have other types")
    if not all(-(2**63) <= number < 2**63 for number in numbers) or min(chunk.rows, chunk.bytes) < 1:
        raise ValueError("the numbers of a chunk cannot be")
    return chunk
