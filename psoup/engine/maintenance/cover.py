"""Covering as maintenance: a task evaluates clauses over chunks that were closed before the clauses were added.

    chunk 3   lacks 8 9 12 ─┐                      12 is in quarantine (`psoup.clauses.quarantine`): it stays uncovered
    chunk 4   lacks 8 9 12 ─┴─> one task ─> Covered: new results for both, each if its chunk has not changed
    chunk 5   lacks 12

The maintenance thread computes the task. A clause whose evaluation raises becomes an exception of the chunk's coverage,
and the writer counts the failure at installation. If an evaluation has ended the process before, the host refuses the
task, and its clauses leave the index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from psoup.clauses.quarantine import EvaluationPlace
from psoup.clauses.sides import Subset
from psoup.config import EngineConfig
from psoup.engine.maintenance.replace import Replace
from psoup.engine.maintenance.task import Begin
from psoup.engine.stream.state import StreamState
from psoup.expressions.tree import AttributeRef
from psoup.matching.old_tuples import cover
from psoup.published.snapshot import ChunkEntry
from psoup.results.chunk_results import ChunkResults
from psoup.results.open import OpenResults
from psoup.results.pack import seal
from psoup.values.columns import Array
from psoup.work.runner import Runner, serial, threads_of

Resting = Callable[[], Callable[[], object]]
"""A function of the host that each thread calls at its start. The thread calls the returned function before each chunk;
that function may sleep, to leave the processor to other threads."""


def _never() -> Callable[[], object]:
    return lambda: None


@dataclass(frozen=True, slots=True)
class Covered:
    """New results for some chunks of a stream. `failed`: the attributes that raised, with the reasons.

    The writer installs each part whose chunk has not changed.
    """

    stream_id: int
    parts: tuple[Replace, ...]
    failed: tuple[dict[int, str], ...] = ()

    def install(self, state: StreamState) -> bool:
        """Install the results, and count failures. Returns False if neither has changed anything."""
        for failed in self.failed:
            state.raised(failed)
        installed = [part.install(state) for part in self.parts]
        return any(installed) or bool(self.failed)


@dataclass(frozen=True, slots=True)
class RefusedTask:
    """The result of a task that must not be computed, as its evaluation has ended the process before."""

    stream_id: int

    def install(self, state: StreamState) -> bool:
        """Take all clauses of the stream that compute expressions out of the index."""
        state.put_out_derived()
        return True


@dataclass(frozen=True, slots=True)
class CoverTask:
    """Chunks to cover, which lack the same clauses. If a clause is removed meanwhile, a compaction drops its columns.

    Each of n threads takes every n-th chunk, and writes only to its own arrays.
    """

    stream_id: int
    entries: tuple[ChunkEntry, ...]
    sqc_ids: Array
    index: Subset
    config: EngineConfig
    sqc_of_slot: Array
    before: int
    outside: Array
    """SQC IDs below `before` of clauses that neither this task nor an earlier one evaluates."""
    tenant: str
    name: str = "cover"

    @property
    def place(self) -> EvaluationPlace | None:
        """The evaluation, as the host's watch knows it. None if the clauses read only columns, and compute nothing."""
        if not any(not isinstance(expr, AttributeRef) for expr in self.index.attributes.values()):
            return None
        first, last = self.entries[0].data, self.entries[-1].data
        return EvaluationPlace(self.stream_id, "cover", first.first_id, last.end_id - first.first_id)

    def refused(self) -> RefusedTask:
        """The result to install if the task must not be computed."""
        return RefusedTask(self.stream_id)

    def compute(self, run: Runner = serial, resting: Resting = _never) -> Covered:
        """Evaluate the clauses over the chunks. `resting`: gives each thread a function that pauses between chunks.

        Each thread holds the results of one chunk (for `cover_at_once` clauses), and a piece's bitmaps (at most
        128 MiB). It also holds the texts of an expression (`TextLimits.together`). The packs of all chunks take at most
        256 MiB (`cover_pairs`).
        """
        lanes = min(threads_of(run), len(self.entries))
        by_lane: list[tuple[Replace, ...]] = [()] * lanes
        failures: list[dict[int, str]] = []
        ids = frozenset(self.sqc_ids.tolist())

        def cover_lane(lane: int) -> None:
            index = self.index if not lane else self.index.twin()
            fresh = OpenResults(self.config, len(self.sqc_of_slot))
            replacements, rest = [], resting()
            for entry in self.entries[lane::lanes]:
                rest()
                data, seen = entry.data, entry.results
                failed = cover(data, index, fresh, self.config, serial)
                outside = self.outside
                if failed:
                    failures.append(failed)
                    outside = np.concatenate([outside, self.sqc_of_slot[index.readers(failed)]])
                pack = seal(fresh.view(len(data), self.sqc_of_slot), self.sqc_of_slot, self.config.list_limit)
                pack, packs = pack.without(np.sort(outside)), self.config.shape.most_packs
                kept_out = fresh.failures.renamed(self.sqc_of_slot)
                results = seen.covered(pack, ids, self.before, fresh.errors, kept_out, outside, packs)
                replacements.append(Replace(self.stream_id, data.number, seen, results))
                fresh.clear()
            by_lane[lane] = tuple(replacements)

        run([partial(cover_lane, lane) for lane in range(lanes)])
        return Covered(self.stream_id, tuple(chain.from_iterable(by_lane)), tuple(failures))


def due(state: StreamState, everything: bool) -> Begin | None:
    """Find the chunk whose coverage ends at the least SQC ID, and the following chunks that lack the same clauses."""
    lacking = state.shelf.lacking(state.clauses.table.next_sqc)
    for place, entry in enumerate(lacking):
        missing, slots, before, outside = _missing(state, entry.results)
        if len(missing):
            others = lacking[place : place + max(1, state.config.shape.cover_pairs // len(missing))]
            alike = tuple(e for e in others if _coverage(e) == _coverage(entry))
            return partial(_task, state, alike, missing, slots, before, outside)
    state.shelf.covered(state.clauses.table.next_sqc)
    return None


def _task(
    state: StreamState, entries: tuple[ChunkEntry, ...], ids: Array, slots: Array, before: int, outside: Array
) -> CoverTask:
    index, owners = state.clauses.subset(ids, slots), state.clauses.table.share()
    return CoverTask(state.stream_id, entries, ids, index, state.config, owners, before, outside, state.tenant)


def _missing(state: StreamState, seen: ChunkResults) -> tuple[Array, Array, int, Array]:
    """The work over a chunk: SQC IDs and slots of at most `cover_at_once` clauses, an SQC ID, and exceptions.

    Every clause below that SQC ID is covered after the task, except the exceptions, which are in quarantine.
    """
    out, limit = state.clauses.quarantine, state.config.shape.cover_at_once
    ids, slots = state.clauses.table.since(seen.covered_before, limit + 1 + len(seen.late) + len(out))
    if seen.late:
        lacking = ~np.isin(ids, np.fromiter(seen.late, np.int64, len(seen.late)))
        ids, slots = ids[lacking], slots[lacking]
    left = ids[:0]
    if len(out):
        is_out = np.isin(ids, out.ids)
        ids, slots, left = ids[~is_out], slots[~is_out], ids[is_out]
    before = int(ids[limit]) if len(ids) > limit else state.clauses.table.next_sqc
    return ids[:limit], slots[:limit], before, left[left < before]


def _coverage(entry: ChunkEntry) -> tuple[int, frozenset[int]]:
    return entry.results.covered_before, entry.results.late


def evaluating(task: object) -> tuple[CoverTask, EvaluationPlace] | None:
    """The task and its place, if it computes expressions, else None. Only such tasks may need much memory."""
    place = task.place if isinstance(task, CoverTask) else None
    return None if place is None else (task, place)  # type: ignore[return-value]
