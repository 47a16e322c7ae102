"""The evaluation of queries outside an engine, by the job that writes chunks: the same join, in another process.

    statements ──bound──> clauses, each once ──index──> over chunk after chunk ──> matches and errors of each clause

The job stores the matches with the chunk; see `psoup.data.archived_chunk.ChunkSource.matches`. It applies no windows,
as matches do not depend on them. If the evaluation of rows raises, the job repeats it for halves of the rows. In the
end only single rows have an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from psoup.clauses.query_stem import QuerySteM
from psoup.config import EngineConfig
from psoup.data.chunk import ChunkView
from psoup.errors import InvalidInput, NotFound
from psoup.expressions.error_guard import EVERY_ROW
from psoup.matching.old_tuples import cover
from psoup.model import StreamSpec
from psoup.plan.factors import Factor
from psoup.plan.standing_query import StandingQuery
from psoup.results.failures import is_lone
from psoup.results.open import OpenResults
from psoup.results.pack import seal
from psoup.sql.templates.forms import Forms
from psoup.values.columns import Array
from psoup.work.runner import serial

_NOTHING: Array = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class ClauseMatches:
    """The matches in a chunk of one clause, which the queries `query_ids` share. `offsets`: int64, ascending.

    `errors`: the number of tuples for which only an error prevented a match.
    """

    query_ids: tuple[int, ...]
    offsets: Array
    errors: int


class Beforehand:
    """The clauses of some queries of one stream, given as (ID, statement), in an index. One user at a time.

    Queries without WHERE match all tuples, and need no evaluation. The caller gives the sides of a join as queries, and
    a join itself is left out. A query that does not fit `spec` is left out too: it names columns that were added later.
    Readers evaluate it on demand.
    """

    def __init__(
        self, spec: StreamSpec, queries: Sequence[tuple[int, str]], config: EngineConfig = EngineConfig()
    ) -> None:
        self._config = config
        forms, clauses = Forms(), dict[str, tuple[tuple[Factor, ...], list[int]]]()
        for query_id, statement in queries:
            query = _bind(forms, spec, statement)
            if query is not None and not query.sides and query.factors:
                clauses.setdefault(query.clause, (query.factors, []))[1].append(query_id)
        self._members = [tuple(query_ids) for _, query_ids in clauses.values()]
        self._lone = [is_lone(factors) for factors, _ in clauses.values()]
        index = QuerySteM(spec.schema, config)
        self._attributes = index.add_many([(slot, factors) for slot, (factors, _) in enumerate(clauses.values())])
        self._index = index.subset(np.arange(len(clauses), dtype=np.int64)) if clauses else None

    def find(self, chunk: ChunkView) -> list[ClauseMatches]:
        """Evaluate all clauses over a chunk. Clauses without a match are returned too."""
        if self._index is None:
            return []
        results = OpenResults(self._config, len(self._members))
        cover(chunk, self._index, results, self._config, serial, EVERY_ROW)
        slots: Array = np.arange(len(self._members), dtype=np.int64)
        pack = seal(results.view(len(chunk), slots), slots, self._config.list_limit)
        matched = {slot: pack.offsets(at, 0, len(chunk)) for at, slot in enumerate(pack.ids.tolist())}
        return [
            ClauseMatches(
                query_ids,
                matched.get(slot, _NOTHING),
                self._failed(slot, results),
            )
            for slot, query_ids in enumerate(self._members)
        ]

    def _failed(self, slot: int, results: OpenResults) -> int:
        if self._lone[slot]:
            return sum(results.errors.get(attribute, 0) for attribute in self._attributes[slot])
        return results.failures.of(slot)


def _bind(forms: Forms, spec: StreamSpec, statement: str) -> StandingQuery | None:
    """Bind a statement. None if it does not fit the stream."""
    try:
        return forms.query(statement, lambda name: spec if name.lower() == spec.name.lower() else None)
    except (InvalidInput, NotFound):
        return None
