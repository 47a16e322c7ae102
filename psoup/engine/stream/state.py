"""A stream inside the engine: its parts, and the steps of events that concern several parts.

    take(push) ─> feed ──advance──> pieces of the open chunk ─> probe of the Query SteM ─> open results
                                         └─ full: close ─> shelf, with its results
    admit() ────> clauses ─────────> cover_new: evaluates them over the open chunk before any other step
                     └─ too much work: the chunk is closed first; maintenance covers it, or a reader evaluates
    expire() ───> chunks leave the shelf, or the memory for the archive, and their results with them
    a change ───> attention ───────> publication: the readers' view;   maintenance: due work

Each part writes only its own fields. If an expression raises, the stream goes on. The clauses that read it are then not
evaluated over these tuples; the chunk's exceptions record this (`psoup.results.chunk_results`). Only the engine's
writer calls this module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

import numpy as np

from psoup.clauses.block import Clauses
from psoup.clauses.factor_table import FactorTable
from psoup.clauses.quarantine import NO_PRECAUTIONS, EvaluationPlace, Precautions
from psoup.config import EngineConfig
from psoup.data.archived_chunk import ENTRY_BYTES, ArchivedChunk, Chunk
from psoup.data.chunk import ChunkView, Keep, Thin
from psoup.data.data_stem import DataSteM, Piece
from psoup.data.newest_versions import TableVersions
from psoup.data.schema_growth import widen_chunk
from psoup.data.stored_chunk import Stored
from psoup.data.stored_versions import load_versions
from psoup.engine.stream.allowance import SEVERAL
from psoup.engine.stream.attention import Attention
from psoup.engine.stream.clauses import OOM, GoneClauses, StreamClauses
from psoup.engine.stream.expiry import outlived
from psoup.engine.stream.feed import StreamFeed
from psoup.engine.stream.pins import SourcePins
from psoup.engine.stream.publication import Publication
from psoup.engine.stream.shared_rooms import SharedRooms
from psoup.engine.stream.shelf import Shelf
from psoup.events.events import Attached, Pushed, StreamCreated, WatermarkRaised
from psoup.expressions.tree import Expr
from psoup.matching.new_tuples import pieces_of, probe
from psoup.matching.old_tuples import cover
from psoup.matching.old_work import OldTuples, work_of, work_of_columns
from psoup.model import DELETED_AT, StreamSpec
from psoup.plan.factors import Factor
from psoup.plan.standing_query import ClauseColumns
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import StreamView
from psoup.results.chunk_results import ChunkResults
from psoup.results.open import OpenResults
from psoup.values.columns import Array
from psoup.work.runner import Runner


class StreamState:
    """The mutable state of one stream; see the module."""

    def __init__(
        self,
        event: StreamCreated,
        config: EngineConfig,
        attention: Attention,
        next_sqc: int,
        rooms: SharedRooms,
        keep: Keep | None = None,
        digests: frozenset[str] = frozenset(),
        replace_file: Thin | None = None,
        *,
        pins: SourcePins,
    ) -> None:
        """`keep`, `replace_file`: the ports that store a chunk, and that replace the file of a thinned one."""
        self.stream_id = event.stream_id
        self.tenant = event.tenant
        self.config = config
        self.keep, self.replace_file = keep, replace_file
        self.folds = rooms.folds
        self.freed_bytes = 0
        """The bytes of tuples that thinning has freed since the last `expire`, less the bytes that patches keep."""
        self.pins = pins
        self.feed = StreamFeed(attention, spec=event.spec, stored=event.stored, shape=config.shape)
        self.data = DataSteM(event.spec, config)
        self.clauses = StreamClauses(event.spec.schema, config, attention, next_sqc, digests)
        self.open = OpenResults(config, 0)
        """Results of the open chunk."""
        self._allowance = rooms.allowance
        self._followed = rooms.followed
        self._open_work = 0
        """The work for new clauses over the present open chunk, as `psoup.matching.old_work` counts it."""
        self.shelf = Shelf(attention, self.clauses.index.costs.gone, config if keep is not None else None)
        self.matches: int | None = None
        """The number of matches of new tuples since `count_matches`. None if they are not counted."""
        self._attention = attention
        self.versions = TableVersions(event.spec, self._chunks) if event.spec.table is not None else None
        """The versions of a table. None for a stream."""
        self._publication = Publication(event, rooms, None if self.versions is None else self.versions.newest)
        if event.stored is not None:
            self._load(event.stored)
        attention.changed()
        attention.look_after()

    def _load(self, stored: Stored) -> None:
        self.shelf.load(stored, versioned=self.versions is not None)
        newest = self.shelf.entries[-1].data if self.shelf.entries else stored.passed
        self.data.load(stored.first_time, newest)
        if self.versions is not None:
            load_versions(self.versions, [entry.data for entry in self.shelf.entries])

    def _chunks(self) -> list[Chunk]:
        """All chunks in memory, oldest first, the last one open."""
        return [*(entry.data for entry in self.shelf.in_memory), self.data.open.view()]

    # Data ------------------------------------------------------------------------------------------------

    def take(self, event: Pushed | WatermarkRaised | Attached) -> None:
        """Take the tuples and the watermark of an event, without releasing tuples."""
        self.feed.take(event)
        self.pins.move(event.watermark)
        self.shelf.disk_may_have_room()
        if self.versions is not None:
            self._attention.look_after()

    def advance(self, run: Runner, care: Precautions = NO_PRECAUTIONS, timer: Callable[[], float] = float) -> int:
        """Release the tuples up to the watermark and join them with all clauses. Returns the number of tuples.

        `timer`: returns the thread's time in seconds, to measure the costs of clauses.
        """
        costs = self.clauses.index.costs
        compute = costs.timed(care.compute, timer)
        released = self.feed.release(self.data.next_id)
        if released is not None and self.versions is not None:
            before = released.nbytes
            released, entries = self.versions.release(released, self.data.next_id, self.feed.patches)
            self.freed_bytes += self.feed.take_freed() - (released.nbytes - before)
        rest = released
        while rest is not None:
            taken, rest = self.data.append(rest)
            for piece in pieces_of(taken, self.clauses.index, self.config.piece_rows):
                self._look(care, "arrival", int(piece.ids[0]), len(piece), piece.start)
                began = timer()
                failed = probe(self.clauses.index, piece, self.open, run, compute)
                costs.spent(timer() - began)
                if failed:
                    self._raised(failed, self.clauses.index.readers(failed), piece.start)
                if self.matches is not None:
                    self.matches += self._matched(piece)
            if self.data.full:
                self.close_open()
        if released is not None and self.versions is not None:
            self.versions.enter(entries)
        return 0 if released is None else len(released)

    def _matched(self, piece: Piece) -> int:
        """The number of matches of the newest tuples. Deletions of a table do not count, as they are not tuples."""
        deleted = None if self.versions is None else piece.start + np.flatnonzero(piece.columns[DELETED_AT].values)
        left_out = deleted if deleted is not None and len(deleted) else None
        return self.open.matched(piece.start, piece.start + len(piece), left_out)

    def count_matches(self, *, wanted: bool) -> None:
        """Start to count the matches of new tuples at 0, or stop counting."""
        self.matches = 0 if wanted else None

    def expire(self, clock: int | None = None, edge: int | None = None) -> int:
        """Drop chunks past the retention, if they are stored or need no storing. Returns the bytes freed.

        Stored chunks in the archive's part of the retention leave memory. `clock`: the present time. Without it, a
        stream in system time takes the time of its last tuple. With it, the open chunk may be dropped, too. `edge`: an
        upper bound of the time for streams in system time.
        """
        data, shelf, now = self.data, self.shelf, self.now
        if now is not None and not data.spec.event_time:
            now = now if clock is None else max(now, clock)
            now = now if edge is None else min(now, edge)
        last = None if clock is None or not data.open.length else data.last_time
        if last is not None and outlived(data.spec, last, now):
            self.close_open()
        thinned, self.freed_bytes = self.freed_bytes, 0
        freed = shelf.drop(shelf.expired(data.spec, now, data.next_id))
        freed += shelf.archive(shelf.cold(data.spec, now, data.next_id))
        if freed:
            oldest = next((entry.data.first_id for entry in shelf.in_memory), data.open.first_id)
            self.feed.forget_before(oldest)
        return freed + thinned

    def thin(self, seen: Chunk, data: ChunkView, file: ArchivedChunk | None) -> bool:
        """Put a copy with fewer rows in place of a closed chunk. Returns False if it was dropped or thinned meanwhile.

        `file`: the chunk's new file. The next `expire` returns the bytes freed.
        """
        spec = self.data.spec
        file = None if file is None else widen_chunk(file, spec)
        freed = self.shelf.thin(seen, widen_chunk(data, spec), file)
        self.freed_bytes += freed or 0
        if freed is not None and self.versions is not None:
            self.versions.chunks_changed()
            self.versions.leave(seen, np.flatnonzero(~data.places.has(seen.ids_of(0, len(seen)))))
        return freed is not None

    @property
    def now(self) -> int | None:
        """The time that the stream has reached by its events."""
        return self.feed.watermark if self.data.spec.event_time else self.data.last_time

    @property
    def settled_id(self) -> int:
        """The tuple ID below which all followers got all tuples. With a store, these tuples are on disk as well."""
        floor = self._followed.floor(self.stream_id)
        if self.keep is None:
            return floor
        at = self.shelf.next_to_store - self.shelf.first_number
        entries = self.shelf.entries
        return min(floor, entries[at].data.first_id if at < len(entries) else self.data.open.first_id)

    def close_open(self) -> None:
        """Close the open chunk, which is full or must end. Its results keep the open form until they are sealed.

        The results do not cover clauses that were not evaluated over the chunk yet.
        """
        data, met = self.data.close(), self.clauses.met
        results = ChunkResults(
            self.open.view(len(data), self.clauses.table.live_mapping()),
            covered_before=met,
            errors=MappingProxyType(self.clauses.used(self.open.errors)),
            failures=self.open.failures.renamed(self.clauses.table.live_mapping()),
            compacted=self.shelf.deaths.mark,
            charged=self.open.nbytes,
            gaps=self.open.gaps.below(met),
        )
        self._open_work = 0
        self.shelf.put(data, results)
        if self.versions is not None:
            self.versions.chunks_changed()
        self.clauses.table.free_dead()
        self.open = self.open.successor(self.clauses.table.used, self.clauses.gaps())

    def alter(self, spec: StreamSpec, sql: str, run: Runner) -> int:
        """Change the stream's definition. The caller has released earlier tuples. Returns the additional bytes charged
        for tuples."""
        self._publication.alter(sql)
        self._attention.changed()
        self.pins.alter(spec)
        if not spec.by_clock:
            self.feed.leave_clock()
        wider = spec.schema != self.data.spec.schema
        if wider:
            self.cover_new(run)
            if self.data.open.length:
                self.close_open()
            self.shelf.widen(spec)
        self.data.alter(spec)
        if self.versions is not None:
            self.versions.alter(spec)
            self._attention.look_after()
        return self.feed.widen(spec.schema) if wider else 0

    # Clauses ---------------------------------------------------------------------------------------------

    def admit(self, clauses: Clauses, table: FactorTable | None = None) -> list[tuple[int, ...]]:
        """Add new clauses (slot, factors) to the Query SteM; `cover_new` applies them to the open chunk.

        Returns the attribute IDs of each. See `StreamClauses.admit`.
        """
        if not clauses:
            return []
        self._spend(work_of(clauses, self._old_tuples))
        self.open.reserve(max(slot for slot, _ in clauses) + 1)
        attributes = self.clauses.admit(clauses, table)
        self._leave_out(self.clauses.take_late(), 0)
        return attributes

    def admit_columns(
        self, slots: Array, columns: ClauseColumns, factors: Callable[[int], tuple[Factor, ...]]
    ) -> tuple[int, ...]:
        """Add the new clauses of a template's block, as `admit` does. See `StreamClauses.admit_columns`."""
        if not len(slots):
            return ()
        self._spend(work_of_columns(columns, self._old_tuples))
        self.open.reserve(int(slots.max()) + 1)
        attributes = self.clauses.admit_columns(slots, columns, factors)
        self._leave_out(self.clauses.take_late(), 0)
        return attributes

    @property
    def _old_tuples(self) -> OldTuples:
        return OldTuples(self.data.open.length, self.data.open.text_bytes)

    def _spend(self, work: int) -> None:
        """Count the work of new clauses over the open chunk. If it is above a limit, close the chunk instead, as all
        tenants wait for the writer."""
        self._open_work += work
        if work and not (self._open_work <= SEVERAL * self._allowance.most and self._allowance.allows(work)):
            self.close_open()

    def remove_clauses(self, gone: GoneClauses) -> None:
        """Remove clauses without queries, and their folds. Maintenance drops their columns later."""
        self.clauses.remove(gone)
        self.shelf.bury(gone.sqc_ids)
        self.folds.bury(gone.sqc_ids)

    def cover_new(self, run: Runner, care: Precautions = NO_PRECAUTIONS) -> None:
        """Evaluate the clauses added since the last call over the open chunk (new queries, old data)."""
        new = self.clauses.take_new()
        if len(new) and self.data.open.length:
            chunk = self.data.open.view()
            self._look(care, "registration", chunk.first_id, len(chunk), 0)
            index = self.clauses.index.subset(new)
            failed = cover(chunk, index, self.open, self.config, run, care.compute)
            if failed:
                self._raised(failed, index.readers(failed), 0)

    # What cannot be evaluated ----------------------------------------------------------------------------

    def _look(self, care: Precautions, kind: str, first_id: int, rows: int, start: int) -> None:
        """Report the next evaluation to the host's watch. If it forbids the evaluation, all clauses with computed
        attributes leave the index."""
        if care.watch is None or not self.clauses.index.attributes.derived:
            return
        if not care.watch(EvaluationPlace(self.stream_id, kind, first_id, rows)):
            self.put_out_derived(start)

    def put_out_derived(self, start: int | None = None) -> None:
        """Take all clauses that read computed attributes out of the index, as evaluating them ended a process.

        The clauses were not evaluated over the tuples of the open chunk from offset `start` on. Without `start` they
        were evaluated over all its tuples.
        """
        slots = self.clauses.put_out(dict.fromkeys(self.clauses.index.attributes.derived, OOM), persistent=True)
        self._leave_out(self.clauses.table.sqc_of_slot[slots], self.data.open.length if start is None else start)

    def put_out_by_hand(self, clause: ClauseRecord, why: str) -> None:
        """Take a clause, and all clauses that read its expressions, out of the index."""
        slots = self.clauses.put_out_by_hand(clause, why)
        self._leave_out(self.clauses.table.sqc_of_slot[slots], 0)

    def put_out_dear(self, clause: ClauseRecord, exprs: Collection[Expr], why: str) -> bool:
        """Take a clause out of the index until the next start, as it takes too much time.

        The other clauses that compute its expressions among `exprs` leave, too. All of them were evaluated over all
        present tuples. Returns False if the clause was removed, or is in quarantine.
        """
        slots = self.clauses.put_out_dear(clause, exprs, why)
        self._leave_out(self.clauses.table.sqc_of_slot[slots], self.data.open.length)
        return len(slots) > 0

    def raised(self, failed: Mapping[int, str]) -> None:
        """Count failures of attributes that maintenance could not compute. The argument has the reasons."""
        slots = self.clauses.raised(failed)
        self._leave_out(self.clauses.table.sqc_of_slot[slots], self.data.open.length)

    def _raised(self, failed: Mapping[int, str], readers: Array, start: int) -> None:
        """Count the failures of attributes over tuples of the open chunk. `readers`: the slots of the clauses that read
        them; these were not evaluated from offset `start` on."""
        self._leave_out(self.clauses.table.sqc_of_slot[readers], start)
        self.raised(failed)

    def _leave_out(self, sqc_ids: Array, offset: int) -> None:
        """Record that clauses were not evaluated over the open chunk from `offset` on."""
        if len(sqc_ids):
            self.open.leave_out(sqc_ids, offset)
            self._attention.changed()

    # Maintenance, the readers' view and bytes --------------------------------------------------------------

    def tidy(self) -> None:
        """Rebuild the open results without the slots of removed clauses, and free these slots. O(open results)."""
        dead = self.clauses.table.free_dead()
        self.open = self.open.without(dead, self.clauses.table.used, self.clauses.used(self.open.errors))
        self._attention.changed()

    def view(self) -> StreamView:
        """The view of the stream for readers. Copies one pointer for each chunk."""
        return self._publication.view(self.feed, self.data, self.clauses, self.open, self.shelf)

    @property
    def results_bytes(self) -> int:
        """Bytes of the results of the open chunk and of all closed chunks. O(runs of the open chunk)."""
        return self.open.nbytes + self.open.room.nbytes + self.shelf.result_bytes

    @property
    def tuple_bytes(self) -> int:
        """Bytes charged for all tuples in memory, released or not."""
        return self.shelf.tuple_bytes + self.data.open.nbytes + self.feed.waiting_bytes + self.feed.ready_bytes

    def bill(self) -> dict[str, int]:
        """The bytes of each structure by name. `reclaimable_slots`: the number of slots of removed clauses."""
        bill = {
            "tuples_bytes": self.tuple_bytes,
            "archive_bytes": ENTRY_BYTES * self.shelf.archived,
            "open_results_bytes": self.open.nbytes + self.open.room.nbytes,
            "sealed_results_bytes": self.shelf.result_bytes,
        }
        return {**bill, **self.clauses.bill()}
