"""GROUP BY of many queries at once: one pass over all matches, and one sort.

    clause   0  0  0  0  1  1      matches, and the keys of their groups, numbered over all clauses
    key      7  3  7  3  3  3
    sorted   (0 3) (0 3) (0 7) (0 7) (1 3) (1 3)
    groups    2           2           2              in the order of keys; count(*) of each group

The result is a table with a row for each clause and group, ordered by clause. This module also serves queries without
GROUP BY, if `psoup.execution.many.many_folds` does not fold their measures. The states of such measures have no fixed
size (quantiles, DISTINCT, estimates), or depend on how rows are cut into parts (variance). Then all matches of a clause
are one group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from psoup.aggregates.growth import group_bytes, room_to_add
from psoup.aggregates.keys import Keys
from psoup.aggregates.list_states import DistinctValues
from psoup.aggregates.list_states import GroupValues as Values
from psoup.aggregates.measures import counts_rows, folding_of, read_by, rows_for, state_of
from psoup.aggregates.ordered_rows import OrderedRows
from psoup.aggregates.state import State
from psoup.errors import ResourceExhausted
from psoup.execution.many.many_folds import computed
from psoup.execution.many.many_joins import PairsOfQueries
from psoup.execution.many.many_shapes import (
    MatchBuffer,
    PlanShape,
    ShownRows,
    arranging_bytes,
    count_within,
    refuse_many,
    starts_of_kept,
)
from psoup.execution.rows.source_rows import Reading
from psoup.expressions.tree import Expr
from psoup.kernels.fold.segments import group_within
from psoup.model import BIGINT, Kind
from psoup.plan.nodes import Aggregate
from psoup.results.sets import TooManyPairs
from psoup.values.columns import Array, Column, empty_column, plain, value_bytes
from psoup.work.read_budget import NO_LIMIT, HeldBytes

_NUMBER_BYTES = 64
"""The bytes that grouping takes for each match."""

Table = dict[int, Column]
"""The columns of a table of groups, by place: keys, then measures."""


def read_of(node: Aggregate) -> list[Expr]:
    """The distinct expressions that GROUP BY computes over matches: keys, arguments and FILTER conditions."""
    return list(dict.fromkeys([*node.keys, *(expr for measure in node.measures for expr in read_by(measure))]))


def ranked(shape: PlanShape, node: Aggregate, gathered: MatchBuffer | PairsOfQueries, reading: Reading) -> ShownRows:
    """Group the gathered matches, or rows of joins, and compute the rows of all answers.

    Raises TooManyPairs if an answer has more groups, rows to sort, or rows than the limits of `reading` allow.
    """
    errors, hidden, room = gathered.errors, np.zeros_like(gathered.errors), reading.charged()
    if not gathered.count and node.keys:
        return ShownRows(hidden, None, (), errors, hidden)
    refuse_many(gathered.starts, _most(node, reading))
    read = read_of(node)
    columns = gathered.columns(read) if gathered.count else {expr: empty_column(expr.type) for expr in read}
    count_within(list(columns.values()), gathered.starts, errors)
    starts, table = _groups(node, gathered.starts, columns, reading)
    if shape.having is not None:
        (condition,) = computed([shape.having], table, reading)
        count_within([condition], starts, hidden)
        passed = condition.values if condition.valid is None else condition.values & condition.valid
        passing_groups = np.flatnonzero(passed)
        room.hold(_bytes_at(table, passing_groups))
        starts, table = starts_of_kept(starts, passing_groups), _taken(table, passing_groups)
    if not shape.plain:
        if shape.distinct or shape.order:
            refuse_many(starts, reading.sort_rows)
        wanted = shape.arranged_by
        keys = dict(zip(wanted, computed(wanted, table, reading), strict=True))
        count_within([column for expr, column in keys.items() if expr not in shape.outputs], starts, hidden)
        room.hold(arranging_bytes(keys.values()))
        starts, rows = shape.arranged(starts, keys, reading.budget)
        room.hold(_bytes_at(table, rows))
        table = _taken(table, rows)
    refuse_many(starts, reading.groups.rows)
    shown = computed(shape.outputs, table, reading) if starts[-1] else ()
    return ShownRows(np.diff(starts), None, shown, errors, hidden)


def _most(node: Aggregate, reading: Reading) -> int:
    """The most matches that a clause may have. States that list values or rows have a limit."""
    foldings = list(map(folding_of, node.measures))
    limit = reading.sort_rows if any(isinstance(folding, Values | OrderedRows) for folding in foldings) else NO_LIMIT
    return (
        min(limit, reading.groups.keys) if any(isinstance(folding, DistinctValues) for folding in foldings) else limit
    )


def _bytes_at(table: Table, rows: Array) -> int:
    return sum([column.bytes_at(rows) for column in table.values()])


def _taken(table: Table, rows: Array) -> Table:
    return {place: column.take(rows) for place, column in table.items()}


def _groups(node: Aggregate, starts: Array, columns: dict[Expr, Column], reading: Reading) -> tuple[Array, Table]:
    """Make the table of groups, ordered by clause, then by key.

    Returns the first group of each clause, int64[k + 1], and the table.
    """
    room = reading.charged()
    if not node.keys:
        clauses, counts = np.arange(len(starts)), np.diff(starts)
        room.hold(_NUMBER_BYTES * int(counts.sum()))
        groups = np.repeat(clauses[:-1].astype(np.int32), counts)
        return clauses, dict(enumerate(_measures(node, columns, groups, counts, room)))
    room.hold(_NUMBER_BYTES * int(starts[-1]))
    codes, keys_of = _codes([columns[key] for key in node.keys], reading.groups.keys, room)
    only_counts = all(map(counts_rows, node.measures))
    groups = np.empty(0 if only_counts else len(codes), np.int32)
    codes_of_groups, counts, after = np.empty_like(codes), np.empty_like(codes), np.empty_like(starts)
    made = group_within(codes, starts, groups, codes_of_groups, counts, after)
    refuse_many(after, reading.groups.keys)
    keys = keys_of(codes_of_groups[:made])
    return after, dict(enumerate([*keys, *_measures(node, columns, groups, counts[:made], room)]))


def _codes(columns: Sequence[Column], max_keys: int, room: HeldBytes) -> tuple[Array, Callable[[Array], list[Column]]]:
    """Encode the keys of each row as an int64 with the order of the keys. Also returns the decoder.

    Raises TooManyPairs if there are more than `max_keys` distinct keys.
    """
    first = columns[0]
    whole = first.values.dtype == np.int64 and first.type.kind is not Kind.TEXT
    if len(columns) == 1 and first.valid is None and whole:
        return plain(first.values), lambda codes: [Column(first.type, codes)]
    keys = Keys([column.type for column in columns], max_keys, room.hold)
    try:
        numbers = keys.number(columns)
    except ResourceExhausted as problem:
        raise TooManyPairs from problem
    order = keys.order()
    rank: Array = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))

    def keys_of(codes: Array) -> list[Column]:
        room.hold(_shown_bytes(keys, columns, order[codes]))
        return keys.columns(order[codes])

    return rank[numbers], keys_of


def _shown_bytes(keys: Keys, columns: Sequence[Column], groups: Array) -> int:
    """The bytes of the keys of `groups`, to be charged before they are copied. A group may come several times."""
    size = len(groups) * sum([value_bytes(column.type) for column in columns])
    return size + keys.text_bytes(groups)


def _measures(
    node: Aggregate, columns: dict[Expr, Column], groups: Array, counts: Array, room: HeldBytes
) -> Iterator[Column]:
    """Compute the measures of all groups. `groups`: the group of each match, int32. `counts`: the sizes of groups."""
    states = dict[object, State]()
    for measure in node.measures:
        if counts_rows(measure):
            yield Column(BIGINT, counts)
            continue
        folding, state = folding_of(measure), state_of(measure)
        if state not in states:
            condition = None if measure.condition is None else columns[measure.condition]
            values = rows_for(measure, [columns[arg] for arg in measure.args], condition, groups, len(groups))
            room.hold(group_bytes(folding) * len(counts))
            empty = folding.empty(len(counts))
            room.hold(room_to_add(folding, empty, values))
            states[state] = folding.add(empty, values)
        room.hold(value_bytes(measure.type) * len(counts))
        yield folding.finish(states[state], measure, len(counts))
