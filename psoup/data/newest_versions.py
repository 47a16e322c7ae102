"""The versions of a table as the writer keeps them: the newest entry of each key, and the links between entries.

    released rows ──release──> rows with hidden columns ──append──> chunks ──enter──> successors and ends of versions
                     └─ hash table: key ─> newest entry

`psoup.data.versions` says which versions hold at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from psoup.data.archived_chunk import Chunk
from psoup.data.chunk_versions import ChunkVersions, bits_of
from psoup.data.patches import PatchRows, resolved
from psoup.data.versions import times_of, versions_of
from psoup.invariants import ensure
from psoup.kernels.names import clause_names, newest_versions, version_links
from psoup.model import DELETED_AT, DELETION, FIRST_VERSION, Kind, StreamSpec
from psoup.values.columns import Array, Batch, Column, address_of, plain, vast_array

_FIRST_PLACES = 1_024
_FULL = 0.6
"""The share of places in use at which the hash table grows."""
_MASK = 2**64 - 1
_SEEDS: Array = np.array([hash(("psoup", lane)) & _MASK for lane in ("one version", "two versions")], np.uint64)
"""The secrets of the hash. Python draws them for each process, and nothing keeps the hashes."""


@dataclass(frozen=True, slots=True)
class Entries:
    """New entries of a table, with the tuple IDs from `first_id` on. `times`, `before`: int64[n], as in
    `psoup.data.versions.times_of`, and as in `ChunkVersions`."""

    first_id: int
    times: Array
    before: Array


class NewestVersions:
    """The newest entry of each key of one table. Only the writer changes it. Readers may call `newest_of`."""

    def __init__(self, spec: StreamSpec) -> None:
        assert spec.table is not None
        self._key = spec.table.key
        self._places = _FIRST_PLACES
        self._slots: Array = np.zeros(newest_versions.SLOT * self._places, np.uint64)
        self.keys = 0
        """The number of keys, with those that have no entry any more until the table is moved."""

    @property
    def nbytes(self) -> int:
        """The bytes of the hash table."""
        return int(self._slots.nbytes)

    def put(self, columns: Sequence[Column], first_id: int) -> Array:
        """Put rows with the IDs from `first_id` on, each as the newest entry of its key. O(rows) expected.

        Returns the ID of the entry before each, or -1: int64[n].
        """
        lanes = self.lanes(columns)
        self._reserve(len(lanes))
        before: Array = np.empty(len(lanes), np.int64)
        self.keys += newest_versions.put_newest(lanes, first_id, self._slots, before)
        return before

    def find(self, columns: Sequence[Column]) -> Array:
        """The newest entry of the key of each row, or -1: int64[n]."""
        return self._find(self.lanes(columns))[0]

    def newest_of(self, lanes: Array) -> Array:
        """As `find`, for `lanes` (uint64[n, 2]). Any thread may call it.

        The writer may put entries meanwhile. Each key that was there before the call is found. Its entry may be newer.
        """
        return self._find(lanes)[0]

    def count(self, columns: Sequence[Column]) -> Array:
        """The number of entries of the key of each row: int64[n]."""
        return self._find(self.lanes(columns))[1]

    def _find(self, lanes: Array) -> tuple[Array, Array]:
        newest: Array = np.empty(len(lanes), np.int64)
        counts: Array = np.empty(len(lanes), np.int64)
        newest_versions.find_newest(lanes, self._slots, newest, counts)
        return newest, counts

    def leave(self, columns: Sequence[Column]) -> None:
        """Forget an entry of the key of each row. A key without entries is new again. O(rows) expected."""
        newest_versions.leave_newest(self.lanes(columns), self._slots)

    @property
    def entries(self) -> int:
        """The number of entries of all keys. O(keys)."""
        return int(self._slots[3 :: newest_versions.SLOT].sum())

    def lanes(self, columns: Sequence[Column]) -> Array:
        """Two hashes of the key of each row: uint64[n, 2]."""
        return key_lanes([columns[place] for place in self._key])

    def expect(self, keys: int) -> None:
        """Make room for so many keys at once, instead of step by step. O(keys)."""
        self._reserve(keys)

    def number_by(self, ids: Array) -> None:
        """Replace each entry, which is a position in `ids` so far, by the tuple ID there. O(keys)."""
        entries = self._slots[2 :: newest_versions.SLOT]
        used = np.flatnonzero(entries)
        entries[used] = (ids[entries[used].view(np.int64) - 1] + 1).view(np.uint64)

    def _reserve(self, more: int) -> None:
        places = self._places
        while self.keys + more > _FULL * places:
            places *= 2
        if places > self._places:
            present = int(np.count_nonzero(self._slots[3 :: newest_versions.SLOT]))
            places = self._places if 2 * present < self.keys else places
            wider = vast_array(newest_versions.SLOT * places, np.uint64)
            wider.fill(0)
            self.keys = int(newest_versions.move_newest(self._slots, wider))
            self._places, self._slots = places, wider
            self._reserve(more)


class TableKeys(NamedTuple):
    """The keys of a table for readers and for admission. `newest`: the writer's table, perhaps newer than a snapshot.
    `waiting`: the tuples that wait for the watermark, in runs."""

    newest: NewestVersions
    waiting: tuple[Batch, ...]


def key_lanes(columns: Sequence[Column]) -> Array:
    """Two hashes of the key of each row: uint64[n, 2]. For a key of one number they are different for each number."""
    rows = len(columns[0])
    lanes: Array = np.zeros((rows, 2), np.uint64)
    if len(columns) == 1 and columns[0].type.kind is Kind.TEXT:
        clause_names.mix_texts(*_text(columns[0]), _SEEDS, lanes)
        return lanes
    words = list[Array]()
    for column in columns:
        if column.type.kind is Kind.TEXT:
            part: Array = np.zeros((rows, 2), np.uint64)
            clause_names.mix_texts(*_text(column), _SEEDS, part)
            words += [part[:, 0], part[:, 1]]
        else:
            words.append(column.values.astype(np.int64).view(np.uint64))
    clause_names.mix_words(np.ascontiguousarray(np.stack(words, axis=1)), _SEEDS, lanes)
    return lanes


def _text(column: Column) -> tuple[Array, Array]:
    assert column.data is not None
    return plain(column.values), plain(column.data)


_Links = tuple[Array, Array, list[ChunkVersions]]
"""The first IDs of chunks, `places` of the kernel `link_versions`, and the arrays that it writes."""


def _links(chunks: Sequence[Chunk]) -> _Links:
    first_ids: Array = np.array([chunk.first_id for chunk in chunks], np.int64)
    places, versions = np.zeros((len(chunks), version_links.LINK_PARTS), np.int64), [versions_of(c) for c in chunks]
    for part, chunk, links in zip(places, chunks, versions, strict=True):
        left = chunk.places.left
        part[:3] = address_of(links.successors), address_of(links.ends), address_of(links.before)
        part[3] = address_of(links.ended_bits)
        if left is not None:
            part[4:] = address_of(left), len(left)
    return first_ids, places, versions


class TableVersions:
    """The versions of one table, for the writer."""

    def __init__(self, spec: StreamSpec, chunks: Callable[[], Sequence[Chunk]]) -> None:
        """`chunks`: returns all chunks in memory, oldest first, the last one open."""
        assert spec.table is not None
        self.table = spec.table
        self._chunks = chunks
        self._has_deletions = False
        self._links: _Links | None = None
        self.newest = NewestVersions(spec)

    def alter(self, spec: StreamSpec) -> None:
        """Use the options of `spec` from now on."""
        assert spec.table is not None
        self.table = spec.table

    def release(self, batch: Batch, first_id: int, patches: Sequence[PatchRows] = ()) -> tuple[Batch, Entries]:
        """Put the released rows of a batch, which get the IDs from `first_id` on. Returns the rows with hidden columns.

        Patches get the values that they keep. The caller appends the rows, and then calls `enter`. O(rows).
        """
        before = self.newest.put(batch.columns, first_id)
        if patches:
            batch = resolved(batch, first_id, before, patches, self._located)
        given = batch.columns[DELETED_AT]
        deleted: Array = given.values.copy() if given.valid is None else given.values & given.valid
        self.note_deletions(deleted)
        first = (before < 0) & ~deleted
        times = batch.times if self.table.timed is None else batch.columns[self.table.timed].values
        if self._has_deletions:
            edges = batch.times - self.table.remembered  # by stream order, also for a row that comes late
            forgotten = np.maximum(edges, self.table.forgotten_before)
            self._mark_forgotten(Batch((Column(DELETION.type, deleted),), times), before, first_id, forgotten, first)
        hidden = [Column(DELETION.type, deleted), Column(FIRST_VERSION.type, first)]
        rest = batch.columns[len(hidden) :]
        return Batch((*hidden, *rest), batch.times), Entries(first_id, times, before)

    def note_deletions(self, deleted: Array) -> None:
        """Note whether some entries are deletions: bool[n]."""
        self._has_deletions = self._has_deletions or bool(deleted.any())

    def _mark_forgotten(self, batch: Batch, before: Array, first_id: int, forgotten: Array, first: Array) -> None:
        """Mark rows as first versions if the entry before them is a forgotten deletion (`TableSpec.remembered`).

        `batch`: has the own times of the rows, and whether each is a deletion. `forgotten`: int64[n], the time before
        which a deletion is forgotten. `first`: bool[n], written.
        """
        gone, since = np.zeros(len(before), np.bool_), np.zeros(len(before), np.int64)
        here = np.flatnonzero(before >= first_id)
        gone[here], since[here] = batch.columns[0].values[before[here] - first_id], batch.times[before[here] - first_id]
        earlier = np.flatnonzero((before >= 0) & (before < first_id))
        for chunk, at, rows in self._located(before[earlier]):
            places = earlier[at]
            gone[places] = chunk.columns[DELETED_AT].values[rows]
            since[places] = times_of(chunk, self.table)[rows]
        first |= gone & ~batch.columns[0].values & (since < forgotten)

    def enter(self, entries: Entries) -> None:
        """Write the successors and ends of the versions that the entries end. All entries must be in their chunks.

        O(entries log chunks), and O(chunks) after `chunks_changed`.
        """
        if self._links is None:
            self._links = _links(self._chunks())
        first_ids, places, versions = self._links
        ended: Array = np.empty(len(versions), np.int64)
        times, before = plain(entries.times), plain(entries.before)
        version_links.link_versions(entries.first_id, times, before, first_ids, places, ended)
        touched = np.flatnonzero(ended)
        for chunk, count in zip(touched.tolist(), ended[touched].tolist(), strict=True):
            versions[chunk].ended += count

    def chunks_changed(self) -> None:
        """Note that a chunk was closed, or that another one is in its place."""
        self._links = None

    def leave(self, chunk: Chunk, rows: Array) -> None:
        """Forget the entries at `rows` (int64[k]) of a chunk in memory, which leave it. O(rows)."""
        key = self.table.key
        self.newest.leave([c.take(rows) if place in key else c for place, c in enumerate(chunk.columns)])

    def check(self) -> None:
        """Check the number of entries, and the links of each chunk. O(rows)."""
        chunks = self._chunks()
        rows, entries = sum(map(len, chunks)), self.newest.entries
        ensure(rows == entries, self, "entries are miscounted", counted=entries, rows=rows)
        for chunk in chunks:
            versions = versions_of(chunk)
            ended = int(np.count_nonzero(versions.successors[: len(chunk)]))
            ensure(versions.ended == ended, self, "ended versions are miscounted", chunk=chunk.number, ended=ended)
            same = np.array_equal(versions.ended_bits, bits_of(versions.successors != 0))
            ensure(same, self, "a bit of an ended version is wrong", chunk=chunk.number)

    def _located(self, ids: Array) -> Iterator[tuple[Chunk, Array, Array]]:
        """The chunks of entries, each with the positions of its entries in `ids`, and their rows. O(ids + chunks)."""
        if not len(ids):
            return
        chunks = self._chunks()
        numbers = np.searchsorted(np.array([chunk.first_id for chunk in chunks], np.int64), ids, "right") - 1
        order = np.argsort(numbers.astype(np.int32), kind="stable")
        numbers = numbers[order]
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(ids)], strict=True):
            chunk, at = chunks[int(numbers[start])], order[start:stop]
            yield chunk, at, chunk.places.rows(ids[at])

    @property
    def nbytes(self) -> int:
        """The bytes of the hash table, and of the successors and ends of all versions in memory. O(chunks)."""
        return self.newest.nbytes + sum(versions_of(chunk).nbytes for chunk in self._chunks())
