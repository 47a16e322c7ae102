"""The folds of chunks outside of an engine, by the job that writes the chunks: the same states, in another process.

    statements ──bound──> aggregates, each once ──with the matches of a chunk──> a fold of each, as the engine stores it

The job stores the folds with the chunk. So a service that attaches the chunk reads no tuple of it for these aggregates.
An aggregate that reads tuple IDs has no such fold, as attaching assigns the IDs. A fold that does not pay, needs too
much memory or calls a function of the operator is left out: the service computes it when it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from psoup.aggregates.measures import read_by
from psoup.aggregates.recipes import Fold, Recipe, recipe_of
from psoup.aggregates.stored_folds import encoded, name_of
from psoup.config import EngineConfig
from psoup.data.chunk import ChunkView
from psoup.errors import InvalidInput, NotFound, PSoupError
from psoup.execution.aggregate.fold_rows import fold_of
from psoup.execution.aggregate.single_row import aggregate_of
from psoup.execution.select.match_forms import ChunkMatches
from psoup.expressions.tree import ID_INDEX, attributes_of, reads_now
from psoup.matching.outside import ClauseMatches
from psoup.model import StreamSpec
from psoup.plan.factors import Factor
from psoup.plan.nodes import Aggregate
from psoup.published.snapshot import ChunkEntry
from psoup.results.chunk_results import ChunkResults
from psoup.sql.templates.forms import Forms
from psoup.work.read_budget import ReadBudget

_MOST_BYTES = 16 << 20
"""The most bytes that one fold may hold while it is computed. A sidecar has room for one of at most 1 MiB."""


@dataclass(frozen=True, slots=True)
class ClauseAggregate:
    """An aggregate over one stream, and the queries `query_ids` that have it over the clause of `factors`."""

    query_ids: tuple[int, ...]
    factors: tuple[Factor, ...]
    node: Aggregate
    recipe: Recipe

    def name(self, stream: int, config: EngineConfig = EngineConfig()) -> bytes | None:
        """The name of its folds in a service where the stream has the number `stream`."""
        return name_of(stream, self.factors, self.recipe, config.texts.value)


class FoldsOutside:
    """The aggregates of some queries of one stream, given as (ID, statement). One user at a time.

    Other queries are left out, and so are queries that do not fit `spec`.
    """

    def __init__(
        self, spec: StreamSpec, queries: Sequence[tuple[int, str]], config: EngineConfig = EngineConfig()
    ) -> None:
        self._config = config
        forms, aggregates = Forms(), dict[tuple[str, Recipe], tuple[ClauseAggregate, list[int]]]()
        for query_id, statement in queries:
            aggregate = _bound(forms, spec, query_id, statement)
            if aggregate is not None:
                clause, bound = aggregate
                aggregates.setdefault((clause, bound.recipe), (bound, []))[1].append(query_id)
        self.aggregates = tuple([replace(bound, query_ids=tuple(ids)) for bound, ids in aggregates.values()])

    def find(self, chunk: ChunkView, matches: Sequence[ClauseMatches]) -> list[tuple[ClauseAggregate, bytes]]:
        """Fold a chunk. Returns the encoded fold of each aggregate that has one. O(matches).

        `matches`: of the queries' clauses in that chunk (`psoup.matching.outside`).
        """
        by_id = {query_id: clause for clause in matches for query_id in clause.query_ids}
        entry, every = ChunkEntry(chunk, ChunkResults(None)), np.arange(len(chunk))
        folds = list[tuple[ClauseAggregate, bytes]]()
        for aggregate in self.aggregates:
            clause = by_id.get(aggregate.query_ids[0])
            if clause is None and aggregate.factors:
                continue
            offsets, errors = (every, 0) if clause is None else (clause.offsets, clause.errors)
            fold = self._fold(aggregate.node, ChunkMatches(entry, offsets, errors, True))
            if fold is not None and fold.pays:
                folds.append((aggregate, encoded(fold)))
        return folds

    def _fold(self, node: Aggregate, match: ChunkMatches) -> Fold | None:
        """The fold of the matches in a chunk. None if it needs too much memory."""
        budget = ReadBudget(sort_bytes=_MOST_BYTES)
        matches = [match] if match.count or match.errors else []
        try:
            return fold_of(node, matches, self._config, budget)
        except (PSoupError, MemoryError):
            return None
        finally:
            budget.close()


def _bound(forms: Forms, spec: StreamSpec, query_id: int, statement: str) -> tuple[str, ClauseAggregate] | None:
    """Bind a statement. Returns its clause and aggregate, or None if it has no folds that a job can compute."""
    try:
        query = forms.query(statement, lambda name: spec if name.lower() == spec.name.lower() else None)
    except (InvalidInput, NotFound):
        return None
    node = None if query.sides or spec.table is not None else aggregate_of(query.plan)
    recipe = None if node is None else recipe_of(node.measures, node.keys)
    if node is None or recipe is None:
        return None
    exprs = [*recipe.keys, *(expr for measure in recipe.firsts for expr in read_by(measure))]
    of_tuple = any(reads_now(expr) or ID_INDEX in attributes_of(expr) for expr in exprs)
    aggregate = ClauseAggregate((query_id,), query.factors, node, recipe)
    return None if of_tuple or aggregate.name(0) is None else (query.clause, aggregate)
