"""Folding ahead: aggregates that stand are folded over chunks that are about to leave the memory, or came to the disk.

    chunks    on disk ─┬─ sealed, in memory ──┬─ open         each is looked at once, when it is sealed or attached
    queries   their aggregates, each pair of a clause and a recipe once       folded where matches are known already

So an aggregate over years needs no tuple, though nobody has asked for it while its chunks were in memory. It is work of
no urgency, done in steps beside readers; what it does not do, the reader does who asks. Only for streams with an
archive, or with history. Where very many aggregates stand, the oldest of them are folded ahead, and all of them as
packs (`psoup.execution.ahead.packs_ahead`) if they were asked for as a table. Each fold has a budget of bytes and
time; a
refused one is remembered (`psoup.execution.ahead.attempts`).

Tenants take turns, of some folds or a tenth of a second: slow folds of one tenant delay another tenant's by a turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from psoup.aggregates.folds import Folds
from psoup.aggregates.recipes import Fold, Recipe, recipe_of
from psoup.aggregates.stored_folds import shelf_of
from psoup.execution.aggregate.fold_rows import fold_of
from psoup.execution.aggregate.single_row import aggregate_of
from psoup.execution.aggregate.window_folds import named_folds
from psoup.execution.ahead.attempts import Attempts, Spare, Turn, Work
from psoup.execution.ahead.packs_ahead import PacksAhead
from psoup.execution.many.query_sets import plan_of
from psoup.execution.select.clause_matches import ChunkMatches, known_matches
from psoup.plan.nodes import Aggregate, Node
from psoup.published.records import ClauseRecord, QueryBlock
from psoup.published.snapshot import ChunkEntry, Snapshot, StreamView
from psoup.results.chunk_results import ALL
from psoup.work.read_budget import GroupBytes, ReadBudget

_MOST = 1_024
"""Aggregates of a stream that are folded ahead."""


class ClauseAggregate(NamedTuple):
    """An aggregate of a clause, and the first query that has it."""

    query_id: int
    sqc_id: int
    node: Aggregate
    recipe: Recipe


Wanted = tuple[ClauseRecord, ClauseAggregate]


class FoldingAhead:
    """What has been folded ahead. One thread at a time."""

    def __init__(self, spare: Spare, *, shelves: bool = True) -> None:
        """`spare`: the host's means. `shelves`: folds of chunks on disk go to the disk; False: nothing is written."""
        self._attempts = Attempts(spare)
        self._shelves = shelves
        self._looked: dict[int, tuple[int, int]] = {}
        """The numbers [first, stop) of chunks that were looked at, by stream."""
        self._begun: dict[int, tuple[int, set[object]]] = {}
        """The chunk of each stream where a turn ended, and the aggregates that were looked at there."""
        self._tenant = ""
        """The tenant that had the latest turn."""
        self._queries: object = None
        self._standing: dict[int, list[ClauseAggregate]] = {}
        self._packs = PacksAhead(self._attempts, shelves)

    def step(self, snapshot: Snapshot) -> int:
        """Fold some of what stands for one tenant, the next one in turn; returns 0 if there is nothing to do.

        Otherwise the number of folds, or 1 if none was made and some are left.
        """
        try:
            return self._step(snapshot)
        finally:
            self._attempts.end()

    def _step(self, snapshot: Snapshot) -> int:
        self._looked = {stream: looked for stream, looked in self._looked.items() if stream in snapshot.by_id}
        self._begun = {stream: begun for stream, begun in self._begun.items() if stream in snapshot.by_id}
        views = defaultdict[str, list[StreamView]](list)
        for view in snapshot.by_id.values():
            if (view.archived or view.spec.retention.archive) and view.folds.fan > 1:
                views[view.tenant].append(view)
        for tenant in sorted(views, key=lambda tenant: (tenant <= self._tenant, tenant)):
            self._tenant, made, turn = tenant, 0, self._attempts.turn()
            for view in views[tenant]:
                made += 0 if turn.is_over else self._fold(snapshot, view, turn)
                made += 0 if turn.is_over else self._packs.step(snapshot, view, turn)
            if made or turn.is_over:
                return max(made, 1)
        return 0

    def _fold(self, snapshot: Snapshot, view: StreamView, turn: Turn) -> int:
        """Look at the chunks of a stream that are new, until the turn is over; returns how many folds were made."""
        base, made = view.chunks[0].data.number, 0
        first, stop = self._looked.get(view.stream_id, (base, base + view.archived))
        wanted = list(_known(snapshot, view, self._wanted(snapshot).get(view.stream_id, [])))
        stop = self._again_from(view, wanted, stop)
        touched = list[Folds]()
        for number in range(first - 1, base - 1, -1):  # history that came since
            made += self._of_chunk(snapshot, view, view.chunks[number - base], wanted, touched, turn)
            if view.stream_id in self._begun:
                break
            first = number
        for number in range(max(stop, base), base + len(view.chunks) - 1):
            entry = view.chunks[number - base]
            if turn.is_over or not _is_ready(entry, wanted):
                break
            made += self._of_chunk(snapshot, view, entry, wanted, touched, turn)
            if view.stream_id in self._begun:
                break
            stop = number + 1
        self._looked[view.stream_id] = max(min(first, stop), base), max(stop, base)
        shelf = shelf_of(view.stream_id, view.chunks, view.archived) if self._shelves else None
        if shelf is not None and touched:
            shelf.shelve(dict.fromkeys(touched), view.folds.fan)
        return made

    def _again_from(self, view: StreamView, wanted: list[Wanted], stop: int) -> int:
        """The number of the next chunk: an earlier one than `stop` if a refusal is over that began there."""
        refusals, most = view.folds.refusals, view.folds.work_bytes(view.tenant)
        for clause, asked in wanted if len(refusals) else ():
            refusal = refusals.of((clause.sqc_id, asked.recipe))
            if refusal is not None and self._attempts.is_open(_work(view, asked, refusal.since), refusals, most):
                stop = min(stop, refusal.since)
        return stop

    def _of_chunk(
        self,
        snapshot: Snapshot,
        view: StreamView,
        entry: ChunkEntry,
        wanted: list[Wanted],
        touched: list[Folds],
        turn: Turn,
    ) -> int:
        """Fold what stands over a chunk, where the matches are known; after a turn it goes on where that ended."""
        made, number, most = 0, entry.data.number, view.folds.work_bytes(view.tenant)
        begun, looked = self._begun.pop(view.stream_id, (number, set[object]()))
        if begun != number:
            looked = set()
        for clause, asked in wanted:
            if (key := (asked.sqc_id, asked.recipe)) in looked:
                continue
            if turn.is_over:
                self._begun[view.stream_id] = number, looked
                break
            looked.add(key)
            folds = named_folds(view, clause, asked.recipe, snapshot.config)
            if folds.name is None or any((level, number // view.folds.fan**level) in folds.spans for level in range(8)):
                continue
            match = known_matches(entry, clause, 0, len(entry.data))
            if match is not None:
                matches = [match] if match.count or match.errors else []
                make = partial(_folded, asked.node, matches, snapshot)
                fold = self._attempts.make(_work(view, asked, number), view.folds.refusals, most, make)
                if fold is not None:
                    view.folds.put(folds, (0, number), fold)
                    touched.append(folds)
                    made += 1
        return made

    def _wanted(self, snapshot: Snapshot) -> dict[int, list[ClauseAggregate]]:
        """The aggregates that stand, by stream. O(queries that are in no block), once these have changed."""
        if snapshot.queries is not self._queries:
            found: dict[int, dict[tuple[int, Recipe], ClauseAggregate]] = {}
            for stream_id, query_id, sqc_id, plan in _plans(snapshot):
                node = aggregate_of(plan)
                recipe = None if node is None or sqc_id >= ALL else recipe_of(node.measures, node.keys)
                own = found.setdefault(stream_id, {})
                if node is not None and recipe is not None and len(own) < _MOST:
                    own.setdefault((sqc_id, recipe), ClauseAggregate(query_id, sqc_id, node, recipe))
            self._standing = {stream_id: list(own.values()) for stream_id, own in found.items()}
            self._queries = snapshot.queries
            keys = {key for own in found.values() for key in own}
            for view in snapshot.by_id.values():
                view.folds.refusals.keep(keys)
        return self._standing


def _folded(node: Aggregate, matches: Sequence[ChunkMatches], snapshot: Snapshot, budget: ReadBudget) -> Fold:
    """The fold of matches of a chunk; its budget has room for the groups that are folded, and for the fold."""
    return fold_of(node, matches, snapshot, budget, keep=GroupBytes(budget).hold)


def _work(view: StreamView, asked: ClauseAggregate, number: int) -> Work:
    """The fold of an aggregate over a chunk."""
    return Work(view, (asked.sqc_id, asked.recipe), asked.query_id, number)


def _known(snapshot: Snapshot, view: StreamView, standing: list[ClauseAggregate]) -> Iterator[Wanted]:
    """The aggregates whose clauses can be evaluated."""
    for asked in standing:
        clause = snapshot.clauses.get(asked.sqc_id)
        if clause is not None and not view.outside.reasons(asked.sqc_id, clause.attributes):
            yield clause, asked


def _is_ready(entry: ChunkEntry, wanted: list[Wanted]) -> bool:
    """Whether a closed chunk is sealed, and covered as far as it ever will be."""
    results = entry.results
    if entry.data.in_memory and results.open is None and not results.evicted:
        return all(not clause.factors or results.covers(clause.sqc_id) for clause, _ in wanted)
    return results.open is None


def _plans(snapshot: Snapshot) -> Iterator[tuple[int, int, int, Node]]:
    """The stream, the ID, the clause and the plan of each query; of a block of equal plans only the first ones."""
    for record in snapshot.queries.single():
        yield record.stream_id, record.query_id, record.sqc_id, record.query.plan
    for block in snapshot.queries.blocks:
        if isinstance(block, QueryBlock) and aggregate_of(plan := plan_of(block)) is not None:
            for at in block.standing()[:_MOST].tolist():
                yield block.stream_id, int(block.ids[at]), int(block.sqc_ids[at]), plan
