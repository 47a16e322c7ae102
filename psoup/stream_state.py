"""One stream inside the engine: its Data SteM, its clauses, and the results that join them, chunk by chunk.

    take(push) ─> reorder buffer
    advance()  ─> released tuples ─> pieces ─> Query SteM.probe ─> open results ─> full: close, next chunk
    expire()   ─> old chunks are dropped, or leave the memory for the archive, and their results with them
    add_clause ─> new clauses wait ─> cover_new() evaluates them over the open chunk before anything else happens

Owned by the engine's writer. `view()` is what readers get.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from psoup.answer.records import ClauseRecord
from psoup.answer.snapshot import ChunkEntry, StreamView
from psoup.archive import ENTRY_BYTES
from psoup.columns import Array, Batch, concat_batches
from psoup.config import EngineConfig
from psoup.covering import cover
from psoup.events import Pushed, Stored, StreamCreated, WatermarkRaised
from psoup.history import Attached
from psoup.query import ClauseColumns, Factor
from psoup.results.chunk_results import ALL, UNCOVERED, ChunkResults
from psoup.results.open import OpenResults
from psoup.stems.chunk import Keep
from psoup.stems.data_stem import DataSteM
from psoup.stems.live import LiveClauses
from psoup.stems.names import ClauseNames
from psoup.stems.piece import Runner
from psoup.stems.query_stem import QuerySteM, Subset
from psoup.stems.slots import SlotTable


class StreamState:
    """The mutable state of one stream; see the module."""

    def __init__(self, event: StreamCreated, config: EngineConfig, next_sqc: int, keep: Keep | None = None) -> None:
        self.stream_id = event.stream_id
        self.config = config
        self.keep = keep
        self.stored, self.storing, self.store_next = 0, True, False
        """The next chunk to store (0 without a `keep`); False without room for it; whether it goes before a seal."""
        self.data = DataSteM(event.spec, config)
        self.clauses = QuerySteM(event.spec.schema, config)
        self.slots = SlotTable()
        self.open = OpenResults(config, 0)
        self.archived: list[ChunkEntry] = []
        """Chunks on disk; the oldest ones. None of their results are kept."""
        self.closed: list[ChunkEntry] = []
        self.closed_bytes = 0
        """Bytes of the results of closed chunks."""
        self.deaths: list[int] = []
        """SQC IDs unregistered since the stream began; a chunk's `compacted` counts into it."""
        self.deaths_before = 0
        self.live = LiveClauses()
        self.names = ClauseNames()
        self._uses: Counter[int] = Counter()
        """How many clauses use each attribute of the Query SteM."""
        self.queries, self.next_sqc = 0, next_sqc
        self.changed = True
        self.uncovered = True
        """Whether a closed chunk may lack results of a clause."""
        self.settled = True
        """Whether maintenance looked, found nothing due, and nothing has happened since that could make it due."""
        self._subset: tuple[Array, Subset] | None = None
        self._tenant, self._created, self.sql = event.tenant, event.time, event.sql
        self._watermark: int | None = None
        self._late, self._ahead = 0, 0
        self._new: list[Array] = []
        """Slots of clauses not yet applied to the open chunk; some may be gone."""
        self._ready: list[Batch] = []
        if event.stored is not None:
            self._load(event.stored)

    # Data ------------------------------------------------------------------------------------------------

    def take(self, event: Pushed | WatermarkRaised | Attached) -> None:
        """Take the tuples and the watermark of an event; nothing is released yet."""
        self.changed = True
        if not self.storing:
            self.storing, self.settled = True, False
        if isinstance(event, Pushed):
            self._late += len(event.refused.late)
            self._ahead += len(event.refused.ahead)
            if len(event.batch):
                if self.data.spec.event_time:
                    self.data.pending.add(event.batch)
                else:
                    self._ready.append(event.batch)
        self._watermark = event.watermark

    def advance(self, run: Runner) -> int:
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
                self.clauses.probe(piece, self.open, run)
                if self.data.full:
                    self.close_open()
        return sum(len(batch) for batch in ready)

    def _load(self, stored: Stored) -> None:
        """Chunks that are given back are covered like those that are older than a query."""
        self.data.load(stored)
        self.archived = [ChunkEntry(chunk, UNCOVERED) for chunk in self.data.archived]
        self.closed = [ChunkEntry(chunk, ChunkResults(None, covered_before=0)) for chunk in self.data.closed]
        self.data.leaving.extend(stored.archive[len(self.archived) :])
        self.stored = self.data.open.number
        self._late, self._ahead = stored.late, stored.ahead

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
        results = self.closed.pop(0).results
        self.closed_bytes -= results.nbytes
        self.clauses.costs.gone((pack.ids, pack.counts) for pack in results.packs)
        if self.data.leaving:
            self.data.leaving.popleft()
        self._trim_deaths()
        self.changed = True

    def close_open(self) -> None:
        """The open chunk is full, or must end: its results stay in the open form until maintenance has sealed them."""
        data = self.data.close()
        view = self.open.view(len(data), self.slots.live_mapping())
        errors = MappingProxyType(self.used_errors(self.open.errors))
        results = ChunkResults(
            view,
            covered_before=self.next_sqc,
            errors=errors,
            compacted=self.deaths_before + len(self.deaths),
            charged=self.open.nbytes,
        )
        self.closed.append(ChunkEntry(data, results))
        self.closed_bytes += results.nbytes
        self.slots.free_dead()
        self.open = self.open.successor(self.slots.used)
        self.settled = False

    # Clauses ---------------------------------------------------------------------------------------------

    def place(self, names: Array, first_sqc: int) -> tuple[Array, Array]:
        """The slots of clauses by their names (int64[n]), and the rows of new ones, to be joined (int64[m]).

        These have the SQC IDs from `first_sqc` on, in order.
        """
        slots, fresh = self.names.assign(names, lambda count: self.slots.allocate(first_sqc + np.arange(count)))
        if len(fresh):
            self.next_sqc = first_sqc + len(fresh)
            self.live.add(first_sqc + np.arange(len(fresh)), slots[fresh])
        return slots, fresh

    def join(self, clauses: Sequence[tuple[int, tuple[Factor, ...]]]) -> list[tuple[int, ...]]:
        """New clauses (slot, factors) join the Query SteM; `cover_new` applies them to the open chunk.

        Returns the attribute IDs of each. Set at a time where they are many.
        """
        if not clauses:
            return []
        self._joined(np.array([slot for slot, _ in clauses], np.int64))
        attributes = self.clauses.add_many(clauses)
        for used, count in Counter(attributes).items():
            self._uses.update(dict.fromkeys(used, count))
        return attributes

    def join_columns(
        self, slots: Array, columns: ClauseColumns, factors: Callable[[int], tuple[Factor, ...]]
    ) -> tuple[int, ...]:
        """`join` of clauses of one form; returns the attribute IDs of each that a tuple can satisfy.

        `factors` is asked for those of single rows, which are few.
        """
        rows = np.arange(len(slots))
        possible = rows if columns.never is None else np.flatnonzero(~columns.never)
        if len(possible) <= self.config.delta_queries // 8:
            attributes = self.join([(int(slots[row]), factors(row)) for row in rows.tolist()])
            return attributes[possible[0]] if len(possible) else ()
        self._joined(slots[possible])
        used = self.clauses.add_columns(slots[possible], columns.take(possible))
        self._uses.update(dict.fromkeys(used, len(possible)))
        self.join([(int(slots[row]), factors(row)) for row in np.setdiff1d(rows, possible).tolist()])
        return used

    def _joined(self, slots: Array) -> None:
        self.changed, self.settled, self.uncovered = True, False, True
        self.open.reserve(int(slots.max()) + 1)
        self._new.append(slots)

    def remove_clause(self, clause: ClauseRecord) -> None:
        """A clause without queries leaves; its columns are reclaimed by maintenance."""
        self.changed, self.settled = True, False
        for part in (self.clauses.remove, self.names.forget, self.slots.release):
            part(clause.slot)
        self.live.remove(clause.sqc_id)
        for attribute in clause.attributes:
            self._uses[attribute] -= 1
            if not self._uses[attribute]:
                del self._uses[attribute]
        if self.closed:
            self.deaths.append(clause.sqc_id)

    def cover_new(self, run: Runner) -> None:
        """Evaluate the clauses added since the last call over the open chunk (new queries, old data)."""
        new, self._new = self._new, []
        if new and self.data.open.length:
            index = self.clauses.subset(np.concatenate(new))
            cover(self.data.open.view(), index, self.open, self.config, run)

    # Maintenance -----------------------------------------------------------------------------------------

    def replace_results(self, number: int, seen: ChunkResults, results: ChunkResults) -> bool:
        """Put `results` in the place of `seen`; False if the chunk is gone or has other results by now."""
        at = number - self.closed[0].data.number if self.closed else -1
        if not 0 <= at < len(self.closed) or self.closed[at].results is not seen:
            return False
        self._put(at, results)
        if results.compacted != seen.compacted:
            self._trim_deaths()
        self.settled = False
        return True

    def _put(self, at: int, results: ChunkResults) -> None:
        entry = self.closed[at]
        self.closed_bytes += results.nbytes - entry.results.nbytes
        self.closed[at] = ChunkEntry(entry.data, results)
        self.changed = True

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
        self.open.errors = self.used_errors(self.open.errors)
        self.changed = True

    def used_errors(self, errors: Mapping[int, int]) -> dict[int, int]:
        """Without those of expressions that no clause uses any more."""
        return {attribute: count for attribute, count in errors.items() if attribute in self._uses}

    def _trim_deaths(self) -> None:
        upto = min((entry.results.compacted for entry in self.closed), default=self.deaths_before + len(self.deaths))
        del self.deaths[: upto - self.deaths_before]
        self.deaths_before = upto

    def view(self) -> StreamView:
        """What readers see. A pointer is copied for each chunk."""
        self.changed = False
        data = self.data
        chunk = data.open.view()
        results = ChunkResults(
            self.open.view(len(chunk), self.slots.share()), covered_before=ALL, errors=dict(self.open.errors)
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
            pending=len(data.pending),
            late=self._late,
            ahead=self._ahead,
            nbytes=data.nbytes,
            queries=self.queries,
            index=self.clauses,
        )

    @property
    def results_bytes(self) -> int:
        """Bytes of results in all forms. O(runs of the open chunk)."""
        return self.open.nbytes + self.open.room.nbytes + self.closed_bytes

    @property
    def tuple_bytes(self) -> int:
        """Bytes charged for all tuples taken."""
        return self.data.nbytes + sum(batch.nbytes for batch in self._ready)

    def give_up(self, wanted: int) -> int:
        """Evict results of the oldest sealed chunks until `wanted` bytes are free; returns how many were."""
        freed = 0
        for at, entry in enumerate(self.closed):
            if freed >= wanted:
                break
            if entry.results.open is None and entry.results.nbytes:
                freed += entry.results.nbytes
                self.clauses.costs.gone((pack.ids, pack.counts) for pack in entry.results.packs)
                self._put(at, entry.results.give_up())
        return freed

    def bill(self) -> dict[str, int]:
        """Bytes by structure; `reclaimable` belongs to clauses that are gone."""
        bill = {
            "tuples_bytes": self.tuple_bytes,
            "archive_bytes": ENTRY_BYTES * len(self.archived),
            "open_results_bytes": self.open.nbytes + self.open.room.nbytes,
            "sealed_results_bytes": self.closed_bytes,
            "reclaimable_slots": self.slots.dead_count,
        }
        bill["clause_names_bytes"] = self.names.nbytes + self.live.nbytes + self.slots.nbytes
        bill.update(self.clauses.bill())
        return bill

    def check(self, clauses: Sequence[ClauseRecord]) -> None:
        """The structures agree with each other."""
        self.data.check()
        self.slots.check()
        self.clauses.check()
        self.names.check(np.array([clause.slot for clause in clauses], np.int64))
        self.open.check(self.data.open.length)
        assert [e.data.number for e in self.closed] == [c.number for c in self.data.closed], "results and chunks differ"
        assert [e.data for e in self.archived] == [*self.data.archived], "the archive is not what readers see"
        ready = [entry.number for entry in self.data.leaving]
        assert ready == [e.data.number for e in self.closed[: len(ready)]], f"chunks {ready} are not the oldest"
        assert self.stored <= self.data.open.number, f"chunk {self.stored} is next to be stored, and not there yet"
        assert self.closed_bytes == sum(e.results.nbytes for e in self.closed), "results are miscounted"
        used = Counter(attribute for clause in clauses for attribute in clause.attributes)
        assert self._uses == used, "the uses of attributes are miscounted"
        for clause in clauses:
            assert self.slots.sqc_of_slot[clause.slot] == clause.sqc_id, f"clause {clause.sqc_id} lost its slot"
            assert self.live.slot(clause.sqc_id) == clause.slot, f"clause {clause.sqc_id} has two slots"
        for entry in self.closed:
            for pack in entry.results.packs:
                pack.check(len(entry.data), self.config.list_limit)
