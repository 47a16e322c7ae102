"""Background work that folds registered aggregates over sealed chunks and chunks of history.

    chunks    on disk ─┬─ sealed, in memory ──┬─ open         each is visited once, when it is sealed or attached
    queries   each pair of a clause and a recipe once         folded only where the matches are stored already

So an aggregate over years reads no tuple, even at a first invocation after its chunks left memory. An invocation
computes the folds that are still missing. The work serves streams with an archive or with history. Of a stream's
aggregates only the oldest 1,024 are folded here. `psoup.execution.ahead.packs_ahead` folds any number of aggregates
that were invoked as a table. Each fold has a budget of bytes and time (`psoup.execution.ahead.attempts`).

Tenants take turns. A turn ends after 256 folds or a tenth of a second. So slow folds of one tenant delay other tenants
by one turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from psoup.aggregates.folds import Folds
from psoup.aggregates.recipes import Fold, Recipe, recipe_of
from psoup.aggregates.stored_folds import ShelfOnDisk, shelf_of
from psoup.config import EngineConfig
from psoup.execution.aggregate.fold_rows import fold_of
from psoup.execution.aggregate.single_row import aggregate_of
from psoup.execution.aggregate.window_folds import named_folds
from psoup.execution.ahead.attempts import Attempts, Spare, Turn, Work
from psoup.execution.ahead.packs_ahead import PacksAhead
from psoup.execution.many.query_sets import plan_of
from psoup.execution.select.clause_matches import known_matches
from psoup.execution.select.match_forms import ChunkMatches
from psoup.plan.amounts import parked_codes
from psoup.plan.nodes import Aggregate, Node
from psoup.published.parked_queries import ParkedQueries
from psoup.published.records import ClauseRecord, QueryBlock
from psoup.published.snapshot import ChunkEntry, Snapshot, StreamView
from psoup.results.chunk_results import ALL
from psoup.work.read_budget import GroupBytes, ReadBudget

_MOST = 1_024
"""The most aggregates of a stream that this module folds."""


class ClauseAggregate(NamedTuple):
    """A registered aggregate, its clause, and the first query that has both."""

    query_id: int
    sqc_id: int
    node: Aggregate
    recipe: Recipe


Wanted = tuple[ClauseRecord, ClauseAggregate]


class FoldingAhead:
    """The background work of all streams, and its progress. One thread at a time may use it."""

    def __init__(self, spare: Spare, *, shelves: bool = True) -> None:
        """`spare`: resources of the host. `shelves`: whether this work writes folds of chunks on disk to disk."""
        self._attempts, self._shelves = Attempts(spare), shelves
        self._looked: dict[int, tuple[int, int]] = {}
        """The numbers [first, stop) of the chunks that were visited, by stream ID."""
        self._begun: dict[int, tuple[int, set[object]]] = {}
        """The chunk in which the last turn ended, and the aggregates visited in it, by stream ID."""
        self._tenant = ""
        """The tenant that had the latest turn."""
        self._queries: object = None
        self._standing: dict[int, list[ClauseAggregate]] = {}
        self._packs = PacksAhead(self._attempts, shelves)

    def step(self, snapshot: Snapshot) -> int:
        """Make some folds and packs for the next tenant in turn.

        Returns their number, or 0 if nothing is left to do. Returns 1 if all attempts of the turn were refused.
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
        """Visit the new chunks of a stream until the turn is over. Returns the number of folds made."""
        base, made = view.chunks[0].data.number, 0
        first, stop = self._looked.get(view.stream_id, (base, base + view.archived))
        wanted = list(_known(snapshot, view, self._wanted(snapshot).get(view.stream_id, [])))
        stop = self._again_from(view, wanted, stop)
        shelf = shelf_of(view.stream_id, view.chunks, view.archived)
        touched = list[Folds]()
        for number in range(first - 1, base - 1, -1):  # history attached since the last visit
            made += self._of_chunk(snapshot, view, view.chunks[number - base], wanted, touched, turn, shelf)
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
        if shelf is not None and touched and self._shelves:
            shelf.shelve(dict.fromkeys(touched), view.folds.fan)
        return made

    def _again_from(self, view: StreamView, wanted: list[Wanted], stop: int) -> int:
        """The number of the next chunk to visit. It is below `stop` if the refusal of an earlier chunk is over."""
        refusals, work_bytes = view.folds.refusals, view.folds.work_bytes(view.tenant)
        for clause, aggregate in wanted if len(refusals) else ():
            refusal = refusals.of((clause.sqc_id, aggregate.recipe))
            if refusal is not None and self._attempts.is_open(
                _work(view, aggregate, refusal.since), refusals, work_bytes
            ):
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
        shelf: ShelfOnDisk | None = None,
    ) -> int:
        """Fold the aggregates whose matches in a chunk are stored. Continues where the last turn ended.

        Leaves out folds that are on the `shelf` already: the job that wrote the chunk has made them.
        Appends to `touched` the folds that grew. Returns the number of new folds.
        """
        made, number, work_bytes = 0, entry.data.number, view.folds.work_bytes(view.tenant)
        begun, looked = self._begun.pop(view.stream_id, (number, set[object]()))
        if begun != number:
            looked = set()
        for clause, aggregate in wanted:
            if (key := (aggregate.sqc_id, aggregate.recipe)) in looked:
                continue
            if turn.is_over:
                self._begun[view.stream_id] = number, looked
                break
            looked.add(key)
            folds = named_folds(view, clause, aggregate.recipe, snapshot.config)
            if folds.name is None or any((level, number // view.folds.fan**level) in folds.spans for level in range(8)):
                continue
            if shelf is not None and shelf.spans(folds.name, folds.spans.keys(), number, number + 1, view.folds.fan):
                continue
            match = known_matches(entry, clause, 0, len(entry.data))
            if match is not None:
                matches = [match] if match.count or match.errors else []
                make = partial(_folded, aggregate.node, matches, snapshot.config)
                fold = self._attempts.make(_work(view, aggregate, number), view.folds.refusals, work_bytes, make)
                if fold is not None:
                    view.folds.put(folds, (0, number), fold)
                    touched.append(folds)
                    made += 1
        return made

    def _wanted(self, snapshot: Snapshot) -> dict[int, list[ClauseAggregate]]:
        """The registered aggregates, by stream ID.

        O(queries outside of blocks) after a change of the queries, else O(1).
        """
        if snapshot.queries is not self._queries:
            by_stream: dict[int, dict[tuple[int, Recipe], ClauseAggregate]] = {}
            for stream_id, query_id, sqc_id, plan in _plans(snapshot):
                node = aggregate_of(plan)
                recipe = None if node is None or sqc_id >= ALL else recipe_of(node.measures, node.keys)
                aggregates = by_stream.setdefault(stream_id, {})
                if node is not None and recipe is not None and len(aggregates) < _MOST:
                    aggregates.setdefault((sqc_id, recipe), ClauseAggregate(query_id, sqc_id, node, recipe))
            self._standing = {stream_id: list(aggregates.values()) for stream_id, aggregates in by_stream.items()}
            self._queries = snapshot.queries
            keys = {key for aggregates in by_stream.values() for key in aggregates}
            for view in snapshot.by_id.values():
                view.folds.refusals.keep(keys)
        return self._standing


def _folded(node: Aggregate, matches: Sequence[ChunkMatches], config: EngineConfig, budget: ReadBudget) -> Fold:
    """Fold the matches of a chunk. The bytes of the groups and of the fold are charged to `budget`."""
    return fold_of(node, matches, config, budget, keep=GroupBytes(budget).hold)


def _work(view: StreamView, aggregate: ClauseAggregate, number: int) -> Work:
    """Describe the fold of an aggregate over the chunk `number`, for an attempt."""
    return Work(view, (aggregate.sqc_id, aggregate.recipe), aggregate.query_id, number)


def _known(snapshot: Snapshot, view: StreamView, standing: list[ClauseAggregate]) -> Iterator[Wanted]:
    """The aggregates whose clauses are still registered, and in the predicate index."""
    for aggregate in standing:
        clause = snapshot.clauses.get(aggregate.sqc_id)
        if clause is not None and not view.outside.reasons(aggregate.sqc_id, clause.attributes):
            yield clause, aggregate


def _is_ready(entry: ChunkEntry, wanted: list[Wanted]) -> bool:
    """Whether a closed chunk is sealed and covered for all wanted clauses. Evicted chunks are ready, too."""
    results = entry.results
    if entry.data.in_memory and results.open is None and not results.evicted:
        return all(not clause.factors or results.covers(clause.sqc_id) for clause, _ in wanted)
    return results.open is None


def _plans(snapshot: Snapshot) -> Iterator[tuple[int, int, int, Node]]:
    """The stream ID, query ID, SQC ID and plan of each query. A block yields at most its first 1,024 queries."""
    for record in snapshot.queries.single():
        if not record.keeping.parked:
            yield record.stream_id, record.query_id, record.sqc_id, record.query.plan
    for block in snapshot.queries.blocks:
        if not isinstance(block, QueryBlock) or block.is_parked or aggregate_of(plan := plan_of(block)) is None:
            continue
        bound = block.standing()
        if isinstance(block.queries, ParkedQueries):
            bound = bound[~parked_codes(block.codes_at(bound))]
        for at in bound[:_MOST].tolist():
            yield block.stream_id, int(block.ids[at]), int(block.sqc_ids[at]), plan
