"""A file of matches: a job writes for one chunk which tuples the queries match.

    head     magic, checksum of the index, checksum of the chunk, sizes            int64
    index    ranges  int64[r, 2]  IDs of the queries that were evaluated, [from, to)
             ids     int64[k]     those with a match, ascending      counts, starts int64[k]   crcs int64[k]
             errors  int64[e, 2]  a query and how often its WHERE failed, where it did
    columns  offsets as uint16, or a bitmap if that is smaller; queries of one clause share a column

If the file is missing or damaged, the reader evaluates the clause itself, and the answer is the same. Query IDs are
never used again, so no reader needs the ID of a gone query.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from psoup.matching.outside import ClauseMatches
from psoup.plan.sides import FIRST_SIDE, MOST_SOURCES
from psoup.values.columns import Array

SUFFIX = ".matches"
_MAGIC = 0x31686374614D5350
_HEAD = 7


@dataclass(frozen=True, slots=True)
class MatchFileIndex:
    """The index of a file; see the module. `base`: the offset of the columns. `rows`: the rows of the chunk."""

    ranges: Array
    ids: Array
    counts: Array
    starts: Array
    crcs: Array
    errors: Mapping[int, int]
    base: int
    rows: int

    @property
    def nbytes(self) -> int:
        """The approximate bytes in memory."""
        return int(self.ranges.nbytes + 4 * self.ids.nbytes + 100 * len(self.errors) + 500)


_NONE: Array = np.zeros(0, np.int64)
NOTHING = MatchFileIndex(_NONE.reshape(0, 2), _NONE, _NONE, _NONE, _NONE, {}, 0, 0)
"""The index of a chunk that has no readable matches."""


def write(path: Path, crc: int, rows: int, matches: Sequence[ClauseMatches]) -> None:
    """Write a file of matches, without a sync. `rows`, `crc`: the rows of the chunk, and the checksum of its file."""
    bitmap = (rows + 7) // 8
    columns, places, start = list[bytes](), dict[int, tuple[int, int, int]](), 0
    for clause in matches:
        if not len(clause.offsets):
            continue
        column = _encode(clause.offsets, rows, bitmap)
        places.update(dict.fromkeys(clause.query_ids, (len(clause.offsets), start, zlib.crc32(column))))
        columns.append(column)
        start += len(column)
    ids = np.array(sorted(places), np.int64)
    table = np.array([places[int(query)] for query in ids], np.int64).reshape(-1, 3)
    failed = [[query, clause.errors] for clause in matches if clause.errors for query in clause.query_ids]
    ranges = ranges_of(np.array(sorted(query for clause in matches for query in clause.query_ids), np.int64))
    parts = [ranges, ids, *table.T, np.array(failed, np.int64)]
    index = b"".join(np.ascontiguousarray(part).astype("<i8").tobytes() for part in parts)
    head = np.array([_MAGIC, zlib.crc32(index), crc, rows, len(ranges), len(ids), len(failed)], "<i8")
    path.write_bytes(b"".join([head.tobytes(), index, *columns]))


def read_index(path: Path, crc: int | None, rows: int) -> MatchFileIndex:
    """The index of a file of matches. Returns NOTHING unless it is sound and belongs to the given chunk. O(queries).

    `crc`, `rows`: the checksum of the chunk's file, and its rows. The index is checked, because a job wrote it.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(8 * _HEAD)
            if len(raw) != 8 * _HEAD:
                return NOTHING
            head = np.frombuffer(raw, "<i8")
            if head[0] != _MAGIC or head[2] != crc or head[3] != rows or (head[4:] < 0).any():
                return NOTHING
            ranges, count, failed = head[4:].tolist()
            size = 8 * (2 * ranges + 4 * count + 2 * failed)
            if size > os.fstat(file.fileno()).st_size:
                return NOTHING
            content = file.read(size)
    except OSError:
        return NOTHING
    if len(content) != size or zlib.crc32(content) != head[1]:
        return NOTHING
    numbers = np.frombuffer(content, "<i8").astype(np.int64)
    ids, counts, starts, crcs = numbers[2 * ranges : 2 * ranges + 4 * count].reshape(4, count)
    errors = {int(query): int(n) for query, n in numbers[len(numbers) - 2 * failed :].reshape(-1, 2)}
    base = 8 * _HEAD + len(content)
    index = MatchFileIndex(numbers[: 2 * ranges].reshape(-1, 2), ids, counts, starts, crcs, errors, base, rows)
    return index if _is_possible(index) else NOTHING


def _is_possible(index: MatchFileIndex) -> bool:
    """Whether these numbers are possible for the chunk's number of rows. Columns are checked when they are read."""
    counts, starts = index.counts, index.starts
    return bool(
        are_ranges(index.ranges)
        and (index.ids[1:] > index.ids[:-1]).all()
        and ((counts > 0) & (counts <= index.rows)).all()
        and ((starts >= 0) & (starts < 2**48)).all()
        and all(0 <= count < 2**31 for count in index.errors.values())
    )


def are_ranges(ranges: Array) -> bool:
    """Whether int64[r, 2] are ranges of IDs, [from, to), ascending and disjoint."""
    edges = ranges.reshape(-1)
    return bool((ranges[:, 0] < ranges[:, 1]).all() and (edges[1:] >= edges[:-1]).all() and (edges[:1] >= 0).all())


def are_known(ranges: Array, end: int) -> bool:
    """Whether all IDs in `ranges` are below `end`, or belong to sides of such queries."""
    first, last = ranges[:, 0], ranges[:, 1] - 1
    places, ends = first // FIRST_SIDE, last % FIRST_SIDE
    return bool((last // FIRST_SIDE == places).all() and (places <= MOST_SOURCES).all() and (ends < end).all())


def read_matches(path: Path, index: MatchFileIndex, query_id: int) -> Array | None:
    """The offsets that an evaluated query matched, int64, ascending; None if they cannot be read."""
    at = int(np.searchsorted(index.ids, query_id))
    if at == len(index.ids) or index.ids[at] != query_id:
        return np.zeros(0, np.int64)
    count = int(index.counts[at])
    bitmap = (index.rows + 7) // 8
    size = min(2 * count, bitmap)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            column = os.pread(handle, size, index.base + int(index.starts[at]))
        finally:
            os.close(handle)
    except OSError:
        return None
    if len(column) != size or zlib.crc32(column) != index.crcs[at]:
        return None
    if size == 2 * count:
        offsets = np.frombuffer(column, "<u2").astype(np.int64)
    else:
        offsets = np.flatnonzero(np.unpackbits(np.frombuffer(column, np.uint8), bitorder="little"))
    possible = len(offsets) == count and int(offsets[-1]) < index.rows and bool((np.diff(offsets) > 0).all())
    return offsets if possible else None  # an offset beyond the chunk would be beyond its arrays


def _encode(offsets: Array, rows: int, bitmap: int) -> bytes:
    if 2 * len(offsets) <= bitmap:
        return bytes(offsets.astype("<u2").tobytes())
    bits: Array = np.zeros(rows, np.uint8)
    bits[offsets] = 1
    return bytes(np.packbits(bits, bitorder="little").tobytes())


def ranges_of(ids: Array) -> Array:
    """Ascending IDs as [from, to), int64[r, 2]."""
    if not len(ids):
        return np.zeros((0, 2), np.int64)
    cuts = np.flatnonzero(np.diff(ids) > 1) + 1
    return np.stack([ids[np.r_[0, cuts]], ids[np.r_[cuts - 1, len(ids) - 1]] + 1], axis=1)
