"""The fold of a sealed chunk for many clauses, directly from the clauses' lists of matching offsets.

    lists    5: 3 9 12    9: 1 9     column values at these offsets ─> a sum and a maximum for each list

This way is quick, as it makes no pairs of a clause and an offset. It serves counts, sums and extremes of integer
columns without NULL, for clauses whose matches are stored as lists. In other cases `psoup.execution.many.many_folds`
makes the same states from pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.aggregates.measures import states_for
from psoup.aggregates.packs import FoldPack, pack_of
from psoup.aggregates.picks import Extreme
from psoup.aggregates.state import Folding, State
from psoup.aggregates.sums import Count, IntegerSum
from psoup.expressions.tree import AttributeRef
from psoup.kernels.fold import group_states
from psoup.plan.nodes import Measure
from psoup.plan.way import TryNext
from psoup.results.chunk_results import ChunkResults
from psoup.results.failures import NO_FAILURES
from psoup.results.sets import WantedClauses, in_both
from psoup.values.columns import Array, Column


def leaf_of(
    results: ChunkResults, columns: Sequence[Column], wanted: WantedClauses, ids: Array, measures: Sequence[Measure]
) -> FoldPack:
    """The fold pack of a sealed chunk for the `wanted` clauses, which must cover the chunk.

    `columns`: the columns of the chunk. `ids`: the wanted SQC IDs. O(clauses + matches). Raises TryNext if the chunk
    has errors, or a clause has another form than a list. It also raises TryNext for a measure that is not served here.
    """
    if results.open is not None or len(results.packs) != 1 or results.errors or results.failures is not NO_FAILURES:
        raise TryNext
    made = [(folding, _values(folding, measure, columns)) for (folding, *_), measure in states_for(measures).items()]
    (pack,) = results.packs
    names, at = in_both(wanted, pack.ids)
    begins, lengths = pack.place[at], pack.counts[at].astype(np.int64)
    if len(begins) and int(begins.min()) < 0:
        raise TryNext
    states = [_state(folding, values, pack.lists, begins, lengths) for folding, values in made]
    return pack_of(ids, None if len(names) == len(ids) else names, lengths, None, states)


def _values(folding: Folding, measure: Measure, columns: Sequence[Column]) -> Array:
    """The values that a measure reads, int64. Raises TryNext unless they are an integer column without NULL."""
    if not isinstance(folding, Count | IntegerSum | Extreme) or measure.condition is not None:
        raise TryNext
    (arg,) = measure.args
    if not isinstance(arg, AttributeRef) or arg.index < 0:
        raise TryNext
    column = columns[arg.index]
    if column.valid is not None or column.values.dtype != np.int64 or not column.values.flags.writeable:
        raise TryNext
    return column.values


def _state(folding: Folding, values: Array, lists: Array, begins: Array, lengths: Array) -> State:
    if isinstance(folding, Extreme):
        best = np.empty(len(begins), np.int64)
        group_states.extreme_lists(lists, begins, lengths, values, folding.greatest, best)
        return np.ones(len(begins), np.uint8), best
    if isinstance(folding, Count):
        return (lengths,)
    sums = np.empty((len(begins), 2), np.int64)
    group_states.sum_lists(lists, begins, lengths, values, sums)
    return lengths, sums
