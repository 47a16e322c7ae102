"""Groups of many queries at once: rankings of all users are one pass over their matches, and one sort.

    clause   0  0  0  0  1  1      matches, and the keys of their groups: numbered for all clauses
    key      7  3  7  3  3  3
    sorted   (0 3) (0 3) (0 7) (0 7) (1 3) (1 3)
    groups    2           2           2              in the order of keys; other measures are folded as anywhere

What comes is a table with a row for each clause and group, by clause, where `psoup.answer.grouped` makes one for a
query. Measures are those of `psoup.answer.folded`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from psoup.aggregates.keys import Keys
from psoup.aggregates.measures import counts_rows, folding_of, rows_for, state_of
from psoup.aggregates.state import State
from psoup.answer.folded import can_be_folded, computed, read_by
from psoup.answer.shaped import Gathered, Shape, Shown, count_errors, refuse_many
from psoup.answer.source_rows import Reading
from psoup.columns import Array, Column
from psoup.errors import ResourceExhausted
from psoup.expressions.tree import Expr
from psoup.model import BIGINT
from psoup.plan.nodes import Aggregate
from psoup.results.runs import order_of
from psoup.results.sets import TooManyPairs

Table = dict[int, Column]
"""The columns of groups, by their places."""


def can_be_ranked(node: Aggregate) -> bool:
    """Whether the groups of a plan are made for many queries at once."""
    return bool(node.keys) and all(map(can_be_folded, node.measures))


def read_of(node: Aggregate) -> list[Expr]:
    """The expressions over matches that groups are made of: keys, arguments, conditions."""
    return list(dict.fromkeys([*node.keys, *(expr for measure in node.measures for expr in read_by(measure))]))


def ranked(shape: Shape, node: Aggregate, gathered: Gathered, reading: Reading) -> Shown:
    """The rows of groups that are shown; `gathered` has `read_of(node)`.

    Raises TooManyPairs if there are more groups, or rows to be sorted or shown, than one answer may have.
    """
    errors, hidden = gathered.errors, np.zeros_like(gathered.errors)
    matched = gathered.of
    if not len(matched):
        return Shown(matched, None, (), errors, hidden)
    columns = gathered.columns()
    count_errors(columns.values(), matched, errors)
    of, table = _groups(node, matched, columns, reading)
    if shape.having is not None:
        (condition,) = computed([shape.having], table, reading)
        count_errors([condition], of, hidden)
        passed = condition.values if condition.valid is None else condition.values & condition.valid
        of, table = _taken(of, table, np.flatnonzero(passed))
    if not shape.plain:
        if shape.distinct or shape.order:
            refuse_many(of, reading.sort_rows)
        wanted = shape.arranged_by
        keys = dict(zip(wanted, computed(wanted, table, reading), strict=True))
        count_errors([column for expr, column in keys.items() if expr not in shape.outputs], of, hidden)
        of, table = _taken(of, table, shape.arranged(of, keys, reading.budget))
    refuse_many(of, reading.groups.rows)
    shown = computed(shape.outputs, table, reading) if len(of) else ()
    return Shown(of, None, shown, errors, hidden)


def _taken(of: Array, table: Table, rows: Array) -> tuple[Array, Table]:
    return of[rows], {place: column.take(rows) for place, column in table.items()}


def _groups(node: Aggregate, of: Array, columns: dict[Expr, Column], reading: Reading) -> tuple[Array, Table]:
    """The clause of each group, and the table of groups: by clause, then in the order of the keys."""
    keys = Keys([key.type for key in node.keys], reading.groups.keys, lambda size: None)
    try:
        numbers = keys.number([columns[key] for key in node.keys])
    except ResourceExhausted as problem:
        raise TooManyPairs from problem
    order = keys.order()
    rank: Array = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    names = of * len(order) + rank[numbers]
    rows = order_of(names)
    names = names[rows]
    starts = np.flatnonzero(np.append(True, names[1:] != names[:-1]))
    names, counts = names[starts], np.diff(np.append(starts, len(names)))
    table = dict(enumerate([*keys.columns(order[names % len(order)]), *_measures(node, columns, rows, counts)]))
    return names // len(order), table


def _measures(node: Aggregate, columns: dict[Expr, Column], rows: Array, counts: Array) -> Iterator[Column]:
    """The measures of all groups; rows: int64[m], the matches, group after group; counts: how many each group has."""
    states, groups = dict[object, State](), np.zeros(0, np.int32)
    for measure in node.measures:
        if counts_rows(measure):
            yield Column(BIGINT, counts)
            continue
        if not len(groups):
            groups = np.empty(len(rows), np.int32)
            groups[rows] = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        folding, state = folding_of(measure), state_of(measure)
        if state not in states:
            condition = None if measure.condition is None else columns[measure.condition]
            own = rows_for(measure, [columns[arg] for arg in measure.args], condition, groups, len(groups))
            states[state] = folding.add(folding.empty(len(counts)), own)
        yield folding.finish(states[state], measure, len(counts))
