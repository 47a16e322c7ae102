r"""A piece of new tuples joined with all clauses of a Query SteM, on the threads of a runner.

    piece --values, once for all--> |shard 0   |shard 1   |    each with every part of the index: `psoup.matching.shard`
                                     match      match          at the same time
                                     `--- rows for slots that turned out to match often ---.
                                     match_rest match_rest     rare
                                     `--> runs, in the order of the tuples --> open results

Two shards never write to the same place. Each has some of the tuples, cut at whole words of bits, or all tuples and
some of the clauses. A piece is one shard if one thread can join it before a second thread would wake up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

import numpy as np

from psoup.clauses.costs import ClauseCosts
from psoup.clauses.index.predicate_index import Part
from psoup.clauses.query_stem import QuerySteM
from psoup.clauses.sides import Side, Subset
from psoup.data.data_stem import Piece
from psoup.data.values import AllValues
from psoup.expressions.error_guard import Compute, guarded
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.tree import Call
from psoup.matching.deferred_tuples import needed_by_texts
from psoup.matching.failures import count_failures
from psoup.matching.shard import ShardJoin
from psoup.matching.survivors import may_wait, survivors
from psoup.matching.texts import attributes_read, join_texts
from psoup.results.open import OpenResults
from psoup.results.runs import together
from psoup.values.columns import Array
from psoup.work.runner import Runner, Task, handover_of, serial, threads_of

_ONE_RUN = 8_192
"""If all runs of a probe have at most this many pairs, they are merged into one run."""
_CLAUSE_NS = 0.05
"""The approximate nanoseconds of a tuple for each clause that is in no posting list."""
_TUPLE_NS = 60.0
"""The approximate nanoseconds in which a tuple is looked up in all posting lists."""
_TEST_NS = 1.0
"""The approximate nanoseconds of a tuple for each clause in its posting list."""


def pieces_of(tuples: Piece, clauses: QuerySteM, rows: int) -> list[Piece]:
    """Cut tuples into pieces of `rows` rows, which the caller joins one after the other. O(pieces + parts).

    If no clause has a condition, the tuples stay one piece.
    """
    if len(tuples) <= rows:
        return [tuples]
    side = clauses.side(0)
    if _match_everything(side, side.parts):
        return [tuples]
    return [tuples.slice(start, min(start + rows, len(tuples))) for start in range(0, len(tuples), rows)]


def probe(
    clauses: QuerySteM | Subset,
    piece: Piece,
    results: OpenResults,
    run: Runner = serial,
    compute: Compute = guarded,
    barred: Collection[int] = (),
) -> dict[int, str]:
    """Join a piece with all clauses and write the matches to `results`.

    Each attribute is computed once. If the texts would take too much memory, the piece is joined in parts. Attributes
    that are `barred` are not computed. Returns the attributes that could not be computed, with the reasons. The results
    of clauses that read these are invalid. O(tuples * attributes + clauses + matches), see
    `psoup.kernels.arrive.index_probe`.
    """
    side = clauses.side(len(piece))
    return _probe(side, piece, results, run, compute, {*side.barred, *barred}) if len(piece) else {}


def _probe(
    side: Side, piece: Piece, results: OpenResults, run: Runner, compute: Compute, barred: Collection[int]
) -> dict[int, str]:
    searched = attributes_read(side) if side.searched else set()
    used = sorted(searched.union(*(part.index.attributes.tolist() for part in side.parts)))
    exprs, tuples = {a: side.attributes[a] for a in used}, (piece.columns, piece.ids, piece.times)
    derived = {a: expr for a, expr in exprs.items() if isinstance(expr, Call)}
    waits, needed = may_wait(side, derived, piece) if derived else set[int](), dict[int, Array]()
    try:
        now = {a: expr for a, expr in exprs.items() if a not in waits} if waits else exprs
        values = AllValues(now, tuples, side.config.texts, compute, barred)
        if waits:
            needed = survivors(side, waits, values, needed_by_texts(side, waits, values, piece))
            values.wait({a: exprs[a] for a in sorted(waits)}, needed)
    except TooMuchText as problem:
        cuts = min(problem.parts, len(piece))
    else:
        for attribute in derived:
            side.waits.count(attribute, len(piece), len(needed.get(attribute, piece.ids)))
        _join(side, values, piece, results, run)
        if side.searched:
            join_texts(side, values, piece, results)
        if values.errors:
            count_failures(side, values, piece, results)
        return values.failed
    failed = dict[int, str]()
    for start, stop in pairwise(len(piece) * cut // cuts for cut in range(cuts + 1)):
        failed |= _probe(side, piece.slice(start, stop), results, run, compute, {*barred, *failed})
    return failed


def _join(side: Side, values: AllValues, piece: Piece, results: OpenResults, run: Runner) -> None:
    """Join the piece after its attributes are computed."""
    live = [part for part in side.parts if part.live]
    if _match_all(side, live, piece, results):
        return
    shards = []
    cuts, shares = _cut(piece, live, run)
    for number, (start, stop) in enumerate(cuts):
        whole = stop - start == len(piece)
        mine = values if whole else {a: column.slice(start, stop) for a, column in values.items()}
        first, size = piece.start + start, stop - start
        rooms = [(part, [side.scratch.of(number + share, k) for share in range(shares)]) for k, part in enumerate(live)]
        shards.append([ShardJoin(part, mine, first, size, side.config, scratches) for part, scratches in rooms])
    joins = [join for shard in shards for join in shard]
    for join in joins:
        join.encode()
        if shares > 1:
            join.plan(results)
    _each(shards, shares, lambda join, share: join.match(results, share), run)
    if side.costs is not None:
        _count(side.costs, joins)
    needs = [slots for join in joins if len(slots := join.needs())]
    if needs:
        results.ensure_rows(_each_once(needs))
        _each(shards, shares, lambda join, share: join.match_rest(results, share), run)
    runs = [matched for join in joins for matched in join.runs]
    if results.grouped and len(runs) > 1 and sum(len(matched.slots) for matched in runs) <= _ONE_RUN:
        runs = [together(runs)]
    for matched in runs:
        results.append_run(matched)


def _match_all(side: Side, parts: Sequence[Part], piece: Piece, results: OpenResults) -> bool:
    """Set the bits of all tuples, if no clause has a condition and the piece is not small."""
    config, size = side.config, len(piece)
    if not results.grouped or size <= max(size // config.dense_share, config.sparse_floor):
        return False
    if not _match_everything(side, parts):
        return False
    for part in parts:
        clauses = np.flatnonzero(part.alive).astype(np.int32)
        results.add_range(part.index.slots[clauses].astype(np.int64), piece.start, piece.start + size)
        if side.costs is not None:
            bits = np.full(len(clauses), -1, np.int32), np.zeros(len(clauses) + 1, np.int64)
            side.costs.planned(part.index, clauses, *bits, size)
    return True


def _match_everything(side: Side, parts: Sequence[Part]) -> bool:
    """Whether no clause has a condition. O(parts)."""
    return not side.searched and all(len(part.index.factor_ptr) == 1 for part in parts)


def _each_once(slots: Sequence[Array]) -> Array:
    """All slots, int64, each once, ascending. O(greatest slot)."""
    every = np.concatenate(slots)
    present: Array = np.zeros(int(every.max()) + 1, np.bool_)
    present[every] = True
    return np.flatnonzero(present)


def _count(costs: ClauseCosts, joins: Sequence[ShardJoin]) -> None:
    """Count the tests made for each clause, in all shards."""
    for join in joins:
        if join.emission is not None:
            work = join.emission.work
            costs.planned(join.part.index, work.clauses, work.walked, work.room, join.size)
        if join.reached is not None and len(join.reached.cells):
            costs.reached(join.part, join.reached.cells)


def _cut(piece: Piece, parts: Sequence[Part], run: Runner) -> tuple[list[tuple[int, int]], int]:
    """Choose the first and the end tuple of each shard, and the number of shares of the clauses.

    If every clause is tested for every piece, the clauses are cut into shares, not the tuples. Then a plan is made
    once, not for each shard.
    """
    n, threads, cost = len(piece), threads_of(run), 0.0
    if threads > 1:
        for index in (part.index for part in parts):
            cost += _CLAUSE_NS * len(index.rest)
            if len(index.lists):
                cost += _TUPLE_NS + _TEST_NS * len(index.lists) / len(index.lists.cell_ptr)
        threads = max(1, min(threads, int(n * cost / max(handover_of(run), 1))))
    if not any(len(part.index.lists) or any(bounds.text for bounds in part.index.bounds) for part in parts):
        return [(0, n)], threads
    inner = {((piece.start + n * k // threads) & ~63) - piece.start for k in range(1, threads)}
    ends = [0, *sorted(place for place in inner if 0 < place < n), n]
    return list(pairwise(ends)), 1


def _each(
    shards: Sequence[Sequence[ShardJoin]], shares: int, step: Callable[[ShardJoin, int], None], run: Runner
) -> None:
    """Run a step of all joins: joins of a shard in sequence, shards and shares in parallel."""

    def task(joins: Sequence[ShardJoin], share: int) -> Task:
        def do() -> None:
            for join in joins:
                step(join, share)

        return do

    tasks = [task(joins, share) for joins in shards for share in range(shares) if joins]
    if len(tasks) > 1:
        run(tasks)
    else:
        for only in tasks:
            only()
