"""The shelf of one stream: its closed chunks, oldest first, each with its results and its file if it is stored.

    put ─> [ 3 ] [ 4 ] [ 5 ] [ 6 ]          3: archived: only on disk, no results in memory
                                            4: stored: it may leave memory for the archive
                   5 is next to be stored   6: not sealed yet

Readers share the immutable entries. Maintenance computes new entries, and the writer puts them in place of old ones.
`deaths` lists the clauses that were removed since the first compaction that a chunk lacks. Chunks are stored or passed,
and then archived, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from psoup.aggregates.turns import NO_TURNS, Turns, next_turns, turns_at_start, turns_from
from psoup.config import EngineConfig
from psoup.data.archived_chunk import ArchivedChunk, Chunk
from psoup.data.chunk import ChunkView
from psoup.data.chunk_versions import ChunkVersions
from psoup.data.schema_growth import widen_chunk
from psoup.data.stored_chunk import Stored
from psoup.data.thinning import newest_time
from psoup.engine.stream.attention import Attention
from psoup.engine.stream.deaths import Deaths
from psoup.engine.stream.expiry import Edge, Pins
from psoup.engine.stream.shelf_checks import check_chunks
from psoup.engine.stream.store_delay import may_wait
from psoup.invariants import ensure
from psoup.model import StreamSpec
from psoup.published.snapshot import ChunkEntry
from psoup.results.chunk_results import UNCOVERED, ChunkResults
from psoup.values.columns import Array

Packed = list[tuple[Array, Array]]
"""The SQC IDs of each dropped pack, and the number of matches of each, for the counters of query costs."""


@dataclass(frozen=True, slots=True)
class Shelved(ChunkEntry):
    """A closed chunk. `file` reads it from disk. None if it is not stored, or its stream has no archive."""

    file: ArchivedChunk | None = None


class Shelf:
    """The closed chunks of one stream; see the module. Only the writer calls it."""

    def __init__(self, attention: Attention, count_gone: Callable[[Packed], None], config: EngineConfig | None) -> None:
        """`count_gone`: is called with dropped results. `config`: None if the engine stores no chunks."""
        self._attention = attention
        self._count_gone = count_gone
        self._config = config
        self._disk_is_full = self._store_first = False
        self._covered_to = 0
        """Each clause below this SQC ID covers all chunks in memory, except evicted ones and exceptions."""
        self.entries: list[Shelved] = []
        self.archived = 0
        """The number of chunks that are only on disk. They are the oldest."""
        self.folds_since: int | None = None
        """The number of the first chunk on disk whose folds may be only in memory. None if there is none."""
        self.next_to_store = 0
        """The number of the first chunk that is neither stored nor passed. Stays 0 if the engine stores no chunks."""
        self._passed_before = -(2**62)
        """The number after the last passed chunk. Chunks with smaller numbers must be dropped, not stored."""
        self.overdue = 0
        """The number of oldest chunks that are past their retention, but must stay until they are stored or passed."""
        self.dropped_time: int | None = None
        """The greatest physical ID of a dropped chunk."""
        self.tuple_bytes, self.disk_bytes, self.result_bytes = 0, 0, 0
        """Bytes charged for tuples in memory, bytes on disk of archived chunks, and bytes of results."""
        self.turns: Turns = NO_TURNS
        """The thinnings of chunks since the start. Replaced, never changed in place, as readers share it."""
        self.deaths, self.pins = Deaths(), Pins(attention)
        """The tuples that derived streams need."""

    # Chunks come and go ----------------------------------------------------------------------------------

    def load(self, stored: Stored, *, versioned: bool = False) -> None:
        """Load the chunks of a store at a start. No clause covers them; maintenance will. `versioned`: of a table."""
        first = stored.chunks[0].number if stored.chunks else 2**62
        self.follow([file for file in stored.archive if file.number < first])
        files = {file.number: file for file in stored.archive}
        for chunk in stored.chunks:
            batch = chunk.batch
            versions = ChunkVersions(len(batch)) if versioned else None
            parts = batch.times, batch.columns, batch.nbytes
            data = ChunkView(chunk.number, chunk.places, *parts, span=chunk.span, versions=versions)
            self.put(data, ChunkResults(None, covered_before=0), files.get(chunk.number))
        self.dropped_time = stored.dropped_time
        newest = self.entries[-1].data if self.entries else stored.passed
        if newest is not None:
            self.next_to_store = newest.number + 1
        self.turns = turns_at_start([entry.data for entry in self.entries])

    def put(self, data: ChunkView, results: ChunkResults, file: ArchivedChunk | None = None) -> None:
        """Add the newest closed chunk."""
        self.entries.append(Shelved(data, results, file))
        self.tuple_bytes += data.nbytes
        self.result_bytes += results.nbytes
        self._tell()

    def precede(self, chunks: Sequence[ArchivedChunk]) -> None:
        """Insert chunks on disk, oldest first, before all other chunks."""
        self.entries[:0] = [Shelved(chunk, UNCOVERED) for chunk in chunks]
        self._add_archived(chunks)

    def follow(self, chunks: Sequence[ArchivedChunk]) -> None:
        """Append chunks on disk, oldest first, after all other chunks, which must not be in memory."""
        hot = len(self.entries) - self.archived
        ensure(not hot, self, "chunks on disk would come after tuples in memory", chunks=hot)
        self.entries += [Shelved(chunk, UNCOVERED) for chunk in chunks]
        self._add_archived(chunks)
        if chunks:
            self.next_to_store = chunks[-1].number + 1

    def _add_archived(self, chunks: Sequence[ArchivedChunk]) -> None:
        self.archived += len(chunks)
        self.disk_bytes += sum(chunk.source.nbytes for chunk in chunks)
        self._attention.changed()

    def expired(self, spec: StreamSpec, now: int | None, next_id: int) -> int:
        """The number of oldest chunks that are wholly past the retention at `now`, not pinned, and need no storing."""
        past = count = min(self._before_edge(0, spec, now, next_id, 0), self.pins.first(self.entries))
        if self.entries and self._config is not None:  # a chunk dropped before it is stored would come back at a start
            first = self.entries[0].data.number
            count = max(min(count, self.next_to_store - first), self._passed_before - first)
        self.overdue = max(past - count, 0)
        if self.overdue:
            self._attention.look_after()
        return count

    @property
    def waiting_bytes(self) -> int:
        """The bytes that maintenance will free: results that are not sealed yet, and tuples of overdue chunks."""
        unsealed = 0
        for entry in reversed(self.entries):
            if entry.results.open is None:
                break
            unsealed += entry.results.charged
        return unsealed + sum(entry.data.nbytes for entry in self.entries[: self.overdue])

    def cold(self, spec: StreamSpec, now: int | None, next_id: int) -> int:
        """The number of chunks in memory with all their tuples in the archive's part of the retention at `now`."""
        archive = spec.retention.archive
        return self._before_edge(self.archived, spec, now, next_id, archive) if archive else 0

    def _before_edge(self, first: int, spec: StreamSpec, now: int | None, next_id: int, archive: int) -> int:
        chunks = [entry.data for entry in self.entries] if self.turns[1] else []
        edge = Edge.of(spec, now, next_id, archive, chunks)
        places = range(first, len(self.entries))
        return next((at - first for at in places if not edge.outlived(self.entries[at].data)), len(places))

    def drop(self, count: int) -> int:
        """Drop the oldest `count` chunks. Returns the bytes of memory freed."""
        if not count:
            return 0
        gone = self.entries[:count]
        on_disk, in_memory = gone[: self.archived], gone[self.archived :]
        del self.entries[:count]
        self.archived -= len(on_disk)
        self.disk_bytes -= sum(_disk_bytes(entry.data) for entry in on_disk)
        self.dropped_time = newest_time([entry.data for entry in gone], self.dropped_time)
        self.turns = turns_from(self.turns, gone[-1].data.number + 1)
        self._leave_memory(in_memory)
        return sum(entry.data.nbytes for entry in in_memory)

    @property
    def can_leave(self) -> bool:
        """Whether the oldest chunk in memory may leave it for the archive. O(1)."""
        return self.archived < len(self.entries) and self.entries[self.archived].file is not None

    def archive(self, count: int) -> int:
        """Move at most `count` of the oldest chunks from memory to the archive. Returns the bytes freed."""
        freed = 0
        while count and self.can_leave:
            freed += self._archive_oldest()
            count -= 1
        return freed

    def relieve(self, wanted: int) -> int:
        """Move the oldest chunks to the archive until `wanted` bytes are free, or no chunk may leave. Returns the bytes
        freed."""
        freed = 0
        while freed < wanted and self.can_leave:
            freed += self._archive_oldest()
        return freed

    def _archive_oldest(self) -> int:
        entry = self.entries[self.archived]
        assert entry.file is not None
        self.entries[self.archived] = Shelved(entry.file, UNCOVERED)
        self.folds_since = entry.data.number if self.folds_since is None else self.folds_since
        self.archived += 1
        self.disk_bytes += entry.file.source.nbytes
        self._leave_memory([entry])
        return entry.data.nbytes

    def folds_left(self, stop: int) -> None:
        """Record that the folds of chunks with a number below `stop` are on disk."""
        on_disk = self.first_number + self.archived
        self.folds_since = stop if stop < on_disk else None

    def _leave_memory(self, entries: Sequence[Shelved]) -> None:
        """Update the counters for entries that leave the shelf, or leave memory."""
        for entry in entries:
            self.tuple_bytes -= entry.data.nbytes
            self.result_bytes -= entry.results.nbytes
            self._count_gone(_packed(entry.results))
        self._forget_deaths()
        self._tell()

    def widen(self, spec: StreamSpec) -> None:
        """Add the stream's new columns to all chunks, with NULL in their tuples. O(chunks)."""
        for at, entry in enumerate(self.entries):
            file = None if entry.file is None else widen_chunk(entry.file, spec)
            self.entries[at] = Shelved(_widened(entry.data, spec), entry.results, file)
        self._attention.changed()

    # Storing ---------------------------------------------------------------------------------------------

    def to_store(self, spec: StreamSpec) -> ChunkView | None:
        """The next chunk to store, or to pass if it is overdue. None if no chunk is due, or the disk is full."""
        at = self.next_to_store - self.first_number
        if self._config is None or self._disk_is_full or at >= len(self.entries):
            return None
        data = self.entries[at].data
        assert isinstance(data, ChunkView)
        waits = at >= self.overdue and may_wait(self._config, spec.retention, self.entries[at:])
        return None if waits else data

    def stored(self, number: int, file: ArchivedChunk | None) -> None:
        """Record that the next chunk is on disk. `file` reads it. It is None if the chunk must stay in memory."""
        entry = self._leave_log(number)
        self.entries[number - self.first_number] = Shelved(entry.data, entry.results, file)
        self._tell()  # readers share the entries

    def passed(self, number: int) -> None:
        """Record that the log has dropped the next chunk, which was overdue. The chunk is now only in memory."""
        self._leave_log(number)
        self._passed_before = number + 1
        self._tell()

    def _leave_log(self, number: int) -> Shelved:
        ensure(number == self.next_to_store, self, "another chunk was next", stored=number, next=self.next_to_store)
        self.next_to_store = number + 1
        return self.entries[number - self.first_number]

    def take_turn(self) -> bool:
        """Whether storing goes before sealing this time, if both are due. The answer alternates."""
        before, self._store_first = self._store_first, not self._store_first
        return before

    def disk_is_full(self) -> None:
        """Stop storing until `disk_may_have_room`. The next chunk stays in memory and in the log."""
        self._disk_is_full = True

    def disk_may_have_room(self) -> None:
        """Try storing again, after a new event of the stream."""
        if self._disk_is_full:
            self._disk_is_full = False
            self._attention.look_after()

    def to_thin(self, number: int) -> Chunk | None:
        """A closed chunk that may be thinned: it is sealed, and on disk if the engine stores chunks. Else None."""
        at = number - self.first_number
        if not 0 <= at < len(self.entries) or self.entries[at].results.open is not None:
            return None
        may_leave = self._config is None or self._passed_before <= number < self.next_to_store
        return self.entries[at].data if may_leave else None

    def thin(self, seen: Chunk, data: ChunkView, file: ArchivedChunk | None) -> int | None:
        """Put a copy with fewer rows in place of the chunk `seen`. Returns the bytes freed; None if `seen` is gone."""
        at = data.number - self.first_number
        if not 0 <= at < len(self.entries) or self.entries[at].data.places != seen.places:
            return None
        entry, freed = self.entries[at], 0
        if at < self.archived:
            if file is None:
                return None
            self.disk_bytes += file.source.nbytes - _disk_bytes(entry.data)
            self.entries[at] = Shelved(file, UNCOVERED)
        else:
            freed = entry.data.nbytes - data.nbytes
            self.tuple_bytes -= freed
            self._count_gone(_packed(entry.results))
            self._set_results(at, entry.results.thinned())
            self.entries[at] = Shelved(data, self.entries[at].results, file)
            self._covered_to = 0
        self.turns = next_turns(self.turns, data.number)
        self._tell()
        return freed

    # Results ---------------------------------------------------------------------------------------------

    @property
    def in_memory(self) -> Iterator[Shelved]:
        """The chunks in memory, oldest first."""
        return (self.entries[at] for at in range(self.archived, len(self.entries)))

    @property
    def first_number(self) -> int:
        """The number of the oldest chunk, or 0 if there is none."""
        return self.entries[0].data.number if self.entries else 0

    def replace(self, number: int, seen: ChunkResults, results: ChunkResults) -> bool:
        """Replace a chunk's results `seen` by `results`. Returns False if it was dropped or has other results."""
        at = number - self.first_number
        if not self.archived <= at < len(self.entries) or self.entries[at].results is not seen:
            return False
        self._set_results(at, results)
        if results.compacted != seen.compacted:
            self._forget_deaths()
        return True

    def give_up(self, wanted: int) -> int:
        """Evict results of the oldest sealed chunks until `wanted` bytes are free. Returns the bytes freed."""
        freed = 0
        for at in range(self.archived, len(self.entries)):
            if freed >= wanted:
                break
            results = self.entries[at].results
            if results.open is None and results.nbytes:
                freed += results.nbytes
                self._count_gone(_packed(results))
                self._set_results(at, results.give_up())
        return freed

    def forget_search_codes(self) -> None:
        """Drop the search codes of all chunks. The next search of a chunk makes them again."""
        for entry in self.in_memory:
            if isinstance(entry.data, ChunkView):
                entry.data.caches.forget_codes()

    def lacking(self, next_sqc: int) -> list[Shelved]:
        """The chunks that may lack results of a clause below `next_sqc`, the least covered ones first. O(chunks)."""
        if self._covered_to == next_sqc:
            return []
        lacking = [e for e in self.in_memory if e.results.covered_before < next_sqc and not e.results.evicted]
        lacking.sort(key=lambda entry: entry.results.covered_before)
        return lacking

    def covered(self, next_sqc: int) -> None:
        """Record that maintenance has nothing to cover for clauses below `next_sqc`."""
        self._covered_to = next_sqc

    def bury(self, sqc_ids: Array) -> None:
        """Record removed clauses (int64[k]), as chunks may still have columns of them."""
        if self.archived < len(self.entries):
            self.deaths.bury(sqc_ids)
            self._attention.look_after()

    def _set_results(self, at: int, results: ChunkResults) -> None:
        entry = self.entries[at]
        self.result_bytes += results.nbytes - entry.results.nbytes
        self.entries[at] = Shelved(entry.data, results, entry.file)
        self._tell()

    def _forget_deaths(self) -> None:
        if len(self.deaths):
            self.deaths.forget(min((entry.results.compacted for entry in self.in_memory), default=self.deaths.mark))

    def _tell(self) -> None:
        self._attention.changed()
        self._attention.look_after()

    # Invariants ------------------------------------------------------------------------------------------

    def check(self, list_limit: int) -> None:
        """Check that each chunk is in its place and in one form, and that results and counters are right."""
        check_chunks(self, list_limit)
        self.deaths.check([entry.results.compacted for entry in self.in_memory])
        self.check_counts()

    def check_counts(self) -> None:
        """Check that the counters agree with the chunks. O(chunks)."""
        hot = self.entries[self.archived :]
        tuples, results = sum(entry.data.nbytes for entry in hot), sum(entry.results.nbytes for entry in hot)
        ensure(self.tuple_bytes == tuples, self, "tuples are miscounted", counted=self.tuple_bytes, held=tuples)
        ensure(self.result_bytes == results, self, "results are miscounted", counted=self.result_bytes, held=results)
        last = self.entries[-1].data.number if self.entries else self.next_to_store
        in_reach = self.next_to_store <= last + 1
        ensure(
            in_reach, self, "a chunk is next to be stored that is not there yet", chunk=self.next_to_store, last=last
        )


def _widened(data: Chunk, spec: StreamSpec) -> Chunk:
    if isinstance(data, ArchivedChunk):
        return widen_chunk(data, spec)
    return widen_chunk(data, spec) if isinstance(data, ChunkView) else data


def _disk_bytes(chunk: Chunk) -> int:
    return chunk.source.nbytes if isinstance(chunk, ArchivedChunk) else 0


def _packed(results: ChunkResults) -> Packed:
    return [(pack.ids, pack.counts) for pack in results.packs]
