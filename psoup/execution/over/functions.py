"""The list of window functions: the evaluator of each, which makes a column from rows in order.

    row_number, rank, …               numbers of positions, partitions and peers
    lag, first_value, min, arg_max    the value of another row (`positions`)
    count, sum, avg                   sums over frames (`frame_sums`)
    all other aggregates              a fold of each partition, as GROUP BY folds groups

`psoup.sql.over` refuses frames that a function cannot take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from psoup.aggregates.growth import group_bytes, room_to_add
from psoup.aggregates.measures import folding_of, rows_for
from psoup.aggregates.state import ALL, Rows, size_of
from psoup.execution.over.frame_sums import frame_sums
from psoup.execution.over.gathered_rows import SortBytes
from psoup.execution.over.partitions import Partitions
from psoup.execution.over.positions import NONE, POSITIONS, SHOWING
from psoup.expressions.tree import Expr
from psoup.model import BIGINT, DOUBLE
from psoup.plan.over import WindowFunction
from psoup.values.columns import Array, Column, concat_columns

_WORK = 48
"""Bytes of a row for the temporary arrays of one function."""


@dataclass(frozen=True, slots=True)
class FunctionCase:
    """A window function, the rows in order, and the values that the function reads, in the order of the input.

    `account`: the account for temporary bytes.
    """

    function: WindowFunction
    rows: Partitions
    values: Mapping[Expr, Column]
    account: SortBytes

    @property
    def args(self) -> list[Column]:
        """The columns of the arguments, in the order of the input."""
        return [self.values[arg] for arg in self.function.call.args]

    def ordered(self) -> Rows:
        """The arguments over positions, with a mask of those that count: FILTER is true, no argument is NULL.

        A window function other than an aggregate needs only the mask. NULLs count for it without IGNORE NULLS.
        """
        function, order = self.function, self.rows.rows.astype(np.int64)
        if function.name in SHOWING:
            valid = self.args[0].valid if function.skips_nulls else None
            return Rows(len(order), (), ALL if valid is None else valid.take(order).view(np.uint8))
        args = [column.take(order) for column in self.args]
        condition = function.call.condition
        passed = None if condition is None else self.values[condition].take(order)
        return rows_for(function.call, args, passed, None, len(order))


@dataclass(frozen=True, slots=True)
class Shown:
    """Values, and for each row of the input the place of its value: int64[n].

    `present`: bool[n], False for rows with NULL. None if all rows have a value.
    """

    column: Column
    places: Array
    present: Array | None = None


Evaluator = Callable[[FunctionCase], Shown]
"""Computes the values of a function. Raises ResourceExhausted."""


def evaluated(case: FunctionCase, results: SortBytes) -> Column:
    """Compute the column of a window function in the order of the input, and charge it to `results`.

    Raises ResourceExhausted. O(n), or what GROUP BY takes for a fold.
    """
    case.account.budget.check()
    args = sum(column.nbytes for column in case.args)  # each is copied into the order
    with case.account.while_held(_WORK * len(case.rows) + args):
        values = _evaluator(case.function)(case)
        results.hold(values.column.bytes_at(values.places))  # one text may be the value of a million rows
        column = values.column.take(values.places)
    valid = column.valid
    if values.present is not None and not values.present.all():
        valid = values.present if valid is None else values.present & valid
    return Column(column.type, column.values, valid, column.data, column.error)


def _evaluator(function: WindowFunction) -> Evaluator:
    if function.folds or function.name not in FUNCTIONS:
        return _by_partition
    return FUNCTIONS[function.name]


def _row_numbers(rows: Partitions) -> Array:
    return rows.positions - rows.starts + 1


def _ranks(rows: Partitions) -> Array:
    return rows.peer_starts - rows.starts + 1


def _dense_ranks(rows: Partitions) -> Array:
    groups = np.cumsum(rows.changes)
    return groups - groups[rows.starts] + 1


def _percent_ranks(rows: Partitions) -> Array:
    return (_ranks(rows) - 1) / np.maximum(rows.ends - rows.starts - 1, 1)


def _shares(rows: Partitions) -> Array:
    """The share of rows in the partition that are not after the row."""
    return (rows.peer_ends - rows.starts) / (rows.ends - rows.starts)


def _numbers(number: Callable[[Partitions], Array]) -> Evaluator:
    def shown(case: FunctionCase) -> Shown:
        values = number(case.rows)
        return Shown(Column(BIGINT if values.dtype == np.int64 else DOUBLE, values), case.rows.inverse)

    return shown


def _tiles(case: FunctionCase) -> Shown:
    """Number the n parts of each partition, whose sizes differ by at most one. The larger parts come first."""
    rows, parts = case.rows, case.function.number or 1
    size, larger = np.divmod(rows.ends - rows.starts, parts)
    place, edge = rows.positions - rows.starts, larger * (size + 1)
    tile = np.where(place < edge, place // (size + 1), larger + (place - edge) // np.maximum(size, 1))
    return Shown(Column(BIGINT, tile + 1), rows.inverse)


def _value(case: FunctionCase) -> Shown:
    """Show the first argument at another row. For lag and lead, the second argument is shown if there is none."""
    rows, (column, *default) = case.rows, case.args
    positions = POSITIONS[case.function.name](case.function, rows, case.ordered())[rows.inverse]
    present = positions != NONE
    places = rows.rows[np.where(present, positions, 0)].astype(np.int64)
    if case.function.name not in ("lag", "lead") or not default:
        return Shown(_without_errors(column), places, present)
    case.account.hold(column.nbytes + default[0].nbytes)
    both = _without_errors(concat_columns([column, default[0]]))
    return Shown(both, np.where(present, places, len(rows) + rows.positions))


def _without_errors(column: Column) -> Column:
    """The column, with NULL for values that failed. They are counted where they were computed."""
    return Column(column.type, column.values, column.valid, column.data)


def _sum(case: FunctionCase) -> Shown:
    if case.function.frame.whole:
        return _by_partition(case)
    return Shown(frame_sums(case.function, case.rows, case.ordered(), case.account), case.rows.inverse)


def _by_partition(case: FunctionCase) -> Shown:
    """Fold each partition as GROUP BY folds a group. Each row gets the result of its partition."""
    measure, rows, ordered = case.function.call, case.rows, case.ordered()
    folding, codes = folding_of(measure), rows.numbers
    groups = int(codes[-1]) + 1
    with case.account.while_held(2 * group_bytes(folding) * groups):
        state = folding.empty(groups)
        counted = Rows(len(codes), ordered.args, ordered.mask, codes)
        with case.account.while_held(room_to_add(folding, state, counted)):
            state = folding.add(state, counted)
            with case.account.while_held(size_of(state)):
                column = folding.finish(state, measure, groups)
    return Shown(column, codes[rows.inverse].astype(np.int64))


FUNCTIONS: dict[str, Evaluator] = {
    "row_number": _numbers(_row_numbers),
    "rank": _numbers(_ranks),
    "dense_rank": _numbers(_dense_ranks),
    "percent_rank": _numbers(_percent_ranks),
    "cume_dist": _numbers(_shares),
    "ntile": _tiles,
    **dict.fromkeys(POSITIONS, _value),
    **dict.fromkeys(("count", "sum", "avg"), _sum),
}
"""The evaluator of each window function. An aggregate that is not listed is folded for each partition."""
