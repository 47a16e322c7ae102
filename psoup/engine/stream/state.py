"""One stream inside the engine: its Data SteM, its clauses, and the results that join them, chunk by chunk.

    take(push) ─> reorder buffer
    advance()  ─> released tuples ─> pieces ─> probe of the Query SteM ─> open results ─> full: close, next chunk
    expire()   ─> old chunks are dropped, or leave the memory for the archive, and their results with them
    join() ────> new clauses wait ─> cover_new() evaluates them over the open chunk before anything else happens

What raises while it is evaluated stops nothing: the clauses that read it have not met these tuples, which the chunk's
exceptions say (`psoup.results.gaps`). Owned by the engine's writer. `view()` is what readers get.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from psoup.clauses.block import Clauses
from psoup.clauses.factor_table import FactorTable
from psoup.clauses.quarantine import NO_PRECAUTIONS, EvaluationPlace, Precautions
from psoup.clauses.query_stem import Subset
from psoup.columns import Array, Batch, concat_batches
from psoup.config import EngineConfig
from psoup.data.archived import ENTRY_BYTES
from psoup.data.chunk import Keep
from psoup.data.data_stem import DataSteM
from psoup.data.refusals import Refusals
from psoup.data.stored import Stored
from psoup.engine.stream.clauses import OOM, StreamClauses
from psoup.engine.stream.closed_results import ClosedResults
from psoup.events.events import Attached, Pushed, StreamCreated, WatermarkRaised
from psoup.matching.new_tuples import probe
from psoup.matching.old_tuples import cover
from psoup.plan.factors import Factor
from psoup.plan.many import ClauseColumns
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import ChunkEntry, StreamView
from psoup.results.chunk_results import ALL, UNCOVERED, ChunkResults
from psoup.results.open import OpenResults
from psoup.runner import Runner


class StreamState:
    """The mutable state of one stream; see the module."""

    def __init__(
        self,
        event: StreamCreated,
        config: EngineConfig,
        next_sqc: int,
        keep: Keep | None = None,
        held: frozenset[str] = frozenset(),
    ) -> None:
        self.stream_id = event.stream_id
        self.config = config
        self.keep = keep
        self.stored, self.storing, self.store_next = 0, True, False
        """The next chunk to store (0 without a `keep`); False without room for it; whether it goes before a seal."""
        self.data = DataSteM(event.spec, config)
        self.standing = StreamClauses(event.spec.schema, config, next_sqc, held)
        self.clauses, self.slots = self.standing.index, self.standing.slots
        self.live, self.names = self.standing.live, self.standing.names
        self.open = OpenResults(config, 0)
        self.archived: list[ChunkEntry] = []
        """Chunks on disk; the oldest ones. None of their results are kept."""
        self.results = ClosedResults()
        self.queries = 0
        self.changed = True
        self.uncovered = True
        """Whether a closed chunk may lack results of a clause."""
        self.settled = True
        """Whether maintenance looked, found nothing due, and nothing has happened since that could make it due."""
        self._subset: tuple[Array, Subset] | None = None
        self._tenant, self._created, self.sql = event.tenant, event.time, event.sql
        self._watermark: int | None = None
        self._late, self._ahead = Refusals(), Refusals()
        self._ready: list[Batch] = []
        if event.stored is not None:
            self._load(event.stored)

    @property
    def closed(self) -> list[ChunkEntry]:
        """Closed chunks in memory, oldest first."""
        return self.results.entries

    # Data ------------------------------------------------------------------------------------------------

    def take(self, event: Pushed | WatermarkRaised | Attached) -> None:
        """Take the tuples and the watermark of an event; nothing is released yet."""
        self.changed = True
        if not self.storing:
            self.storing, self.settled = True, False
        if isinstance(event, Pushed):
            self._late.add(event.refused.late)
            self._ahead.add(event.refused.ahead)
            if len(event.batch):
                if self.data.spec.event_time:
                    self.data.pending.add(event.batch)
                else:
                    self._ready.append(event.batch)
        self._watermark = event.watermark

    def advance(self, run: Runner, care: Precautions = NO_PRECAUTIONS) -> int:
        """Release what the watermark has passed and join it with all clauses; returns the number of tuples."""
        if self.data.spec.event_time:
            released = self.data.release(self._watermark)
            ready = [] if released is None else [released]
        else:
            ready, self._ready = self._ready, []
        for batch in [concat_batches(ready)] if ready else []:  # a run of small pushes is evaluated set at a time
            rest: Batch | None = batch
            while rest is not None:
                piece, rest = self.data.append(rest)
                self._look(care, "arrival", int(piece.ids[0]), len(piece), piece.start)
                if failed := probe(self.clauses, piece, self.open, run, care.compute):
                    self._raised(failed, self.clauses.readers(failed), piece.start)
                if self.data.full:
                    self.close_open()
        return sum(len(batch) for batch in ready)

    def _load(self, stored: Stored) -> None:
        """Chunks that are given back are covered like those that are older than a query."""
        self.data.load(stored)
        self.archived = [ChunkEntry(chunk, UNCOVERED) for chunk in self.data.archived]
        for chunk in self.data.closed:
            self.results.add(ChunkEntry(chunk, ChunkResults(None, covered_before=0)))
        self.data.leaving.extend(stored.archive[len(self.archived) :])
        self.stored = self.data.open.number
        self._late, self._ahead = Refusals(stored.late, stored.reached), Refusals(stored.ahead)

    def expire(self, clock: int | None = None) -> int:
        """Drop chunks that lie before the retention edge, stored ones if they are kept; returns the bytes given back.

        Stored chunks in the archive's part of the retention leave the memory. Without a clock, in the system domain
        time is that of the last tuple; with one, the open chunk may go too.
        """
        now = self._watermark if self.data.spec.event_time else self.data.last_time
        if clock is not None:
            if now is not None and not self.data.spec.event_time:
                now = max(now, clock)
            if self.data.open_expired(now):
                self.close_open()
        freed, count = 0, self.data.expired(now)
        if self.keep is not None and count:  # what is dropped before it is stored would come back from the log
            count = min(count, self.stored - self.oldest)
        if count:
            freed += self._drop(count)
        return freed + self.archive(self.data.cold(now))

    @property
    def oldest(self) -> int:
        """The number of the oldest chunk."""
        return self.data.open.number - len(self.closed) - len(self.archived)

    def _drop(self, count: int) -> int:
        """Forget the oldest `count` chunks."""
        freed = sum(self.data.drop_oldest().nbytes for _ in range(count))
        del self.archived[:count]
        self.changed = True
        for _ in range(len(self.closed) - len(self.data.closed)):
            self._leave()
        return freed

    def archive(self, count: int) -> int:
        """Let up to `count` of the oldest closed chunks leave the memory, if stored; returns the bytes given back."""
        freed = 0
        for _ in range(min(count, len(self.data.leaving))):
            entry = self.data.leaving[0]
            freed += self.data.archive_oldest(entry)
            self.archived.append(ChunkEntry(entry, UNCOVERED))
            self._leave()
        return freed

    def relieve(self, wanted: int) -> int:
        """Let stored chunks leave the memory for the archive until `wanted` bytes are free; returns how many were."""
        freed = 0
        while freed < wanted and self.data.leaving:
            freed += self.archive(1)
        return freed

    def _leave(self) -> None:
        """The oldest closed chunk is no longer in memory, nor are its results."""
        self.clauses.costs.gone(self.results.leave())
        if self.data.leaving:
            self.data.leaving.popleft()
        self.changed = True

    def close_open(self) -> None:
        """The open chunk is full, or must end: its results stay in the open form until maintenance has sealed them."""
        data = self.data.close()
        view = self.open.view(len(data), self.slots.live_mapping())
        errors = MappingProxyType(self.standing.used(self.open.errors))
        results = ChunkResults(
            view,
            covered_before=self.standing.next_sqc,
            errors=errors,
            compacted=self.results.died,
            charged=self.open.nbytes,
            gaps=self.open.gaps,
        )
        self.results.add(ChunkEntry(data, results))
        self.slots.free_dead()
        self.open = self.open.successor(self.slots.used)
        self.open.gaps = self.standing.gaps()
        self.settled = False

    # Clauses ---------------------------------------------------------------------------------------------

    @property
    def next_sqc(self) -> int:
        """The SQC ID below which are those of all clauses."""
        return self.standing.next_sqc

    def join(self, clauses: Clauses, table: FactorTable | None = None) -> list[tuple[int, ...]]:
        """New clauses (slot, factors) join the Query SteM; `cover_new` applies them to the open chunk.

        Returns the attribute IDs of each. Set at a time where they are many; see `StreamClauses.join`.
        """
        if not clauses:
            return []
        self._make_place(np.array([slot for slot, _ in clauses], np.int64))
        attributes = self.standing.join(clauses, table)
        self._leave_out(self.standing.take_late(), 0)
        return attributes

    def join_columns(
        self, slots: Array, columns: ClauseColumns, factors: Callable[[int], tuple[Factor, ...]]
    ) -> tuple[int, ...]:
        """`join` of clauses of one form; see `StreamClauses.join_columns`."""
        if not len(slots):
            return ()
        self._make_place(slots)
        attributes = self.standing.join_columns(slots, columns, factors)
        self._leave_out(self.standing.take_late(), 0)
        return attributes

    def _make_place(self, slots: Array) -> None:
        self.changed, self.settled, self.uncovered = True, False, True
        self.open.reserve(int(slots.max()) + 1)

    def remove_clause(self, clause: ClauseRecord) -> None:
        """A clause without queries leaves; its columns are reclaimed by maintenance."""
        self.changed, self.settled = True, False
        self.standing.remove(clause)
        self.results.bury(clause.sqc_id)

    def cover_new(self, run: Runner, care: Precautions = NO_PRECAUTIONS) -> None:
        """Evaluate the clauses added since the last call over the open chunk (new queries, old data)."""
        new = self.standing.take_new()
        if len(new) and self.data.open.length:
            chunk = self.data.open.view()
            self._look(care, "registration", chunk.first_id, len(chunk), 0)
            index = self.clauses.subset(new)
            failed = cover(chunk, index, self.open, self.config, run, care.compute)
            if failed:
                self._raised(failed, index.readers(failed), 0)

    # What cannot be evaluated ----------------------------------------------------------------------------

    def _look(self, care: Precautions, what: str, first_id: int, rows: int, start: int) -> None:
        """Tell who watches what is evaluated next; what must not be evaluated goes out before."""
        if care.watch is None or not self.clauses.attributes.derived:
            return
        if not care.watch(EvaluationPlace(self.stream_id, what, first_id, rows)):
            self.put_out_derived(start)

    def put_out_derived(self, start: int | None = None) -> None:
        """Whatever is computed for the clauses of the stream ended a process: these clauses leave the index.

        They have not met the tuples of the open chunk from `start` on; without it, met those that are there.
        """
        slots = self.standing.put_out(dict.fromkeys(self.clauses.attributes.derived, OOM), kept=True)
        self._leave_out(self.slots.sqc_of_slot[slots], self.data.open.length if start is None else start)

    def put_out_by_hand(self, clause: ClauseRecord, why: str) -> None:
        """A clause, and all that read what it computes, leave the index."""
        slots = self.standing.put_out_by_hand(clause, why)
        self._leave_out(self.slots.sqc_of_slot[slots], 0)

    def raised(self, failed: Mapping[int, str]) -> None:
        """Maintenance could not compute some attributes, and says why."""
        slots = self.standing.raised(failed)
        self._leave_out(self.slots.sqc_of_slot[slots], self.data.open.length)

    def _raised(self, failed: Mapping[int, str], readers: Array, start: int) -> None:
        """Some attributes could not be computed for the tuples of the open chunk from offset `start` on."""
        self._leave_out(self.slots.sqc_of_slot[readers], start)
        slots = self.standing.raised(failed)
        self._leave_out(self.slots.sqc_of_slot[slots], self.data.open.length)

    def _leave_out(self, sqc_ids: Array, offset: int) -> None:
        """Clauses were not evaluated over the open chunk from `offset` on."""
        self.open.gaps = self.open.gaps.joined(sqc_ids, offset)
        self.changed = True

    # Maintenance -----------------------------------------------------------------------------------------

    def replace_results(self, number: int, seen: ChunkResults, results: ChunkResults) -> bool:
        """Put `results` in the place of `seen`; False if the chunk is gone or has other results by now."""
        if not self.results.replace(number, seen, results):
            return False
        self.changed, self.settled = True, False
        return True

    def subset(self, sqc_ids: Array, slots: Array) -> Subset:
        """An index of some clauses; the last one is kept, as chunk after chunk is covered with the same clauses."""
        if self._subset is None or not np.array_equal(self._subset[0], sqc_ids):
            self._subset = (sqc_ids, self.clauses.subset(slots))
        return self._subset[1]

    def settle(self) -> None:
        """Nothing is due until something happens."""
        self.settled = True
        self._subset = None

    def tidy(self) -> None:
        """Rebuild the open results without the slots of dead clauses, which become free. O(open results)."""
        dead = self.slots.dead
        self.slots.free_dead()
        self.open = self.open.without(dead, self.slots.used)
        self.open.errors = self.standing.used(self.open.errors)
        self.changed = True

    def view(self) -> StreamView:
        """What readers see. A pointer is copied for each chunk."""
        self.changed = False
        data = self.data
        chunk = data.open.view()
        results = ChunkResults(
            self.open.view(len(chunk), self.slots.share()),
            covered_before=ALL,
            errors=dict(self.open.errors),
            gaps=self.open.gaps,
        )
        return StreamView(
            stream_id=self.stream_id,
            tenant=self._tenant,
            spec=data.spec,
            sql=self.sql,
            created=self._created,
            watermark=self._watermark,
            last_time=data.last_time,
            first_time=data.first_time,
            dropped_time=data.dropped_time,
            chunks=(*self.archived, *self.closed, ChunkEntry(chunk, results)),
            archived=len(self.archived),
            archived_bytes=data.archived_bytes,
            waiting=data.pending.times(),
            late=self._late.view(),
            ahead=self._ahead.view(),
            nbytes=data.nbytes,
            queries=self.queries,
            index=self.clauses,
            outside=self.standing.quarantine.outside,
        )

    @property
    def results_bytes(self) -> int:
        """Bytes of results in all forms. O(runs of the open chunk)."""
        return self.open.nbytes + self.open.room.nbytes + self.results.nbytes

    @property
    def tuple_bytes(self) -> int:
        """Bytes charged for all tuples taken."""
        return self.data.nbytes + sum(batch.nbytes for batch in self._ready)

    def give_up(self, wanted: int) -> int:
        """Evict results of the oldest sealed chunks until `wanted` bytes are free; returns how many were."""
        freed, gone = self.results.give_up(wanted)
        self.clauses.costs.gone(gone)
        self.changed |= freed > 0
        return freed

    def bill(self) -> dict[str, int]:
        """Bytes by structure; `reclaimable` belongs to clauses that are gone."""
        bill = {
            "tuples_bytes": self.tuple_bytes,
            "archive_bytes": ENTRY_BYTES * len(self.archived),
            "open_results_bytes": self.open.nbytes + self.open.room.nbytes,
            "sealed_results_bytes": self.results.nbytes,
            "reclaimable_slots": self.slots.dead_count,
        }
        bill["clause_names_bytes"] = self.names.nbytes + self.live.nbytes + self.slots.nbytes
        return {**bill, **self.clauses.bill()}
