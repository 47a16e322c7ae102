"""The SELECT list computed over the matches of an answer.

    matches, a group at a time ─> gather the columns that are read ─> expressions ─> a column for each output

A group whose values would take too much memory is split into halves, until each part fits. If an expression raises,
its rows are split into halves, down to the row that raises. The value of this row is an error. This module knows no
windows, order or Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import numpy as np

from psoup.budgets import ROW_BYTES
from psoup.config import TextLimits
from psoup.data.archived_chunk import ArchivedChunk, Chunk
from psoup.errors import ResourceExhausted
from psoup.expressions.error_guard import every_value
from psoup.expressions.evaluate import Scope, TooMuchText
from psoup.expressions.frame import text_bytes
from psoup.expressions.tree import ID_INDEX, TIME_INDEX, AttributeRef, Expr, attributes_of
from psoup.model import BIGINT, Kind
from psoup.values.columns import Array, Column, concat_columns, empty_column, value_bytes
from psoup.work.read_budget import ReadBudget
from psoup.work.runner import Runner, serial, threads_of

_NOT_READ = empty_column(BIGINT)
_SHARED = 4_096
"""The least number of consecutive rows whose column shares the memory of its chunk. Fewer rows are copied."""

_AHEAD = 32
"""The number of chunks that are prefetched from disk."""
_SHARED_FROM = 8
"""The least number of chunks on disk that several threads read."""

_FEW_ROWS = 1_024
"""The most rows whose computed values other than texts are always small, for any number of expressions."""

Group = list[tuple[Chunk, Array]]
"""Matches in order: chunks, and offsets of rows in each."""

_Part = tuple[Chunk, Array, int, int]
"""A chunk, offsets in it, and the range [start, stop) of these rows in their group."""


def computed(
    outputs: list[Expr],
    group: Group,
    now: int | None,
    texts: TextLimits,
    budget: ReadBudget,
    run: Runner = serial,
) -> Iterator[list[Column]]:
    """Compute the output expressions over a group of matches, in one part or several, in order.

    `run`: the threads that may read chunks on disk.

    Raises ResourceExhausted if the computed texts of one row are more than `texts` allows, and what `budget` raises.
    """
    columns: list[Column] | None = None
    with suppress(TooMuchText):
        columns = computed_at_once(outputs, group, now, texts, budget, run)
    if columns is not None:
        yield columns
        return
    for half in _halves(group):  # not in the handler: its exception would keep the values of the whole group alive
        yield from computed(outputs, half, now, texts, budget, run)


def _halves(group: Group) -> tuple[Group, Group]:
    """Split a group into the first half of its rows, and the second half."""
    room = sum(len(offsets) for _, offsets in group) // 2
    first: Group = []
    rest: Group = []
    for data, offsets in group:
        if room:
            first.append((data, offsets[:room]))
        if len(offsets) > room:
            rest.append((data, offsets[room:]))
        room = max(room - len(offsets), 0)
    return first, rest


def computed_at_once(
    outputs: list[Expr],
    group: Group,
    now: int | None,
    texts: TextLimits,
    budget: ReadBudget,
    run: Runner = serial,
) -> list[Column]:
    """Compute the output expressions over one group of matches. Gathers only the columns that they read.

    Raises TooMuchText if the texts of several rows are more than `texts` allows. Raises ResourceExhausted if the
    computed texts of one row are. Raises the errors of `budget`.
    """
    columns, rows = gathered(frozenset().union(*map(attributes_of, outputs)), group, texts, run)
    return shown(outputs, columns, rows, now, texts, budget)


def gathered(
    indices: frozenset[int], group: Group, texts: TextLimits, run: Runner = serial
) -> tuple[dict[int, Column], int]:
    """Gather columns, by their places in the schema, over a group of matches. Also returns the number of rows.

    Raises TooMuchText, before it gathers, if the sum of the texts of several rows is more than `texts` allows.
    """
    parts, rows = [], 0
    for data, offsets in group:
        parts.append((data, offsets, rows, rows + len(offsets)))
        rows += len(offsets)
    fetched = _fetch(indices, parts, run)
    if rows > 1 and sum(_stored_text(index, parts, fetched) for index in indices) > texts.of(rows):
        raise TooMuchText(2)
    return {index: _gather(index, parts, rows, fetched) for index in indices}, rows


def shown(
    outputs: list[Expr],
    columns: dict[int, Column],
    rows: int,
    now: int | None,
    texts: TextLimits,
    budget: ReadBudget,
) -> list[Column]:
    """Compute the output expressions over gathered `columns`, given by place. Raises as `computed_at_once`."""
    memo: dict[Expr, Column] = {}
    made = 0
    if rows > _FEW_ROWS and rows * _bytes_each(outputs) > texts.of(rows):
        raise TooMuchText(2)
    for expr in outputs:
        if isinstance(expr, AttributeRef):
            memo[expr] = columns[expr.index]
        elif expr not in memo:
            memo[expr] = every_value(expr, _scope(columns, rows, now, texts), budget)
            made += text_bytes(memo[expr]) if expr.type.kind is Kind.TEXT else 0
            if made > texts.of(rows):
                raise TooMuchText(2) if rows > 1 else _row_too_large(made, texts)
    return [memo[expr] for expr in outputs]


def _bytes_each(outputs: list[Expr]) -> int:
    """Bytes of the computed values of a row, without its texts."""
    return sum([value_bytes(expr.type) for expr in set(outputs) if not isinstance(expr, AttributeRef)])


def _row_too_large(size: int, texts: TextLimits) -> ResourceExhausted:
    return ResourceExhausted(
        f"the SELECT list makes {size:,} bytes of text of one row, and {texts.together:,} is the most; select less",
        reason="ROW_BUDGET",
        **ROW_BYTES.over(size, texts.together),
    )


def _stored_text(index: int, parts: list[_Part], fetched: dict[int, dict[int, Column]]) -> int:
    """The bytes of the texts of a column in the matches. 0 if the column is not TEXT."""
    if index < 0:
        return 0
    size = 0
    for place, (data, offsets, _, _) in enumerate(parts):
        on_disk = fetched.get(place, {}).get(index)
        column = data.columns[index] if on_disk is None else on_disk
        if column.type.kind is not Kind.TEXT:
            return 0
        size += text_bytes(column) if on_disk is not None else int(np.diff(column.values)[offsets].sum())
    return size


def _fetch(indices: frozenset[int], parts: list[_Part], run: Runner) -> dict[int, dict[int, Column]]:
    """Read the columns of the parts on disk. The result has them by place of the part, then by place in the schema."""
    archived = [(place, own[0], own[1]) for place, own in enumerate(parts) if isinstance(own[0], ArchivedChunk)]
    if not archived:
        return {}
    used = indices - {ID_INDEX}
    fetched, waiting, later = dict[int, dict[int, Column]](), iter(archived), iter(archived[_AHEAD:])
    for _, data, offsets in archived[:_AHEAD]:
        data.expect(used, offsets)

    def task() -> None:
        for place, data, offsets in waiting:  # a list's iterator gives each element to one thread
            for _, soon, rows in islice(later, 1):
                soon.expect(used, rows)
            fetched[place] = data.take_all(used, offsets)

    run([task] * (threads_of(run) if len(archived) >= _SHARED_FROM else 1))
    return fetched


def _gather(index: int, parts: list[_Part], rows: int, fetched: dict[int, dict[int, Column]]) -> Column:
    """Gather one column over the matches. `fetched`: the result of `_fetch`."""
    if index == ID_INDEX:
        return Column(BIGINT, np.concatenate([data.places.ids(offsets) for data, offsets, _, _ in parts]))
    if index == TIME_INDEX or fetched:
        pieces = [
            fetched[k][index] if k in fetched else parts[k][0].take(index, parts[k][1]) for k in range(len(parts))
        ]
        return concat_columns(pieces)
    first = parts[0][0].columns[index]
    if len(parts) == 1 and (span := _consecutive(parts[0][1])) is not None:
        return first.slice(*span)
    values = np.empty(rows, first.values.dtype)
    text = first.type.kind is Kind.TEXT
    for data, offsets, start, stop in parts:
        column = data.columns[index]
        if text or column.valid is not None or column.error is not None:
            return concat_columns([data.columns[index].take(offsets) for data, offsets, _, _ in parts])
        column.values.take(offsets, None, values[start:stop], "clip")  # "raise" would copy through a buffer
    return Column(first.type, values)


def _consecutive(offsets: Array) -> tuple[int, int] | None:
    """The range [start, stop) of the offsets, if they are consecutive and at least `_SHARED`. Else None."""
    start, stop = int(offsets[0]), int(offsets[-1]) + 1
    return (start, stop) if stop - start == len(offsets) >= _SHARED else None


def _scope(gathered: dict[int, Column], rows: int, now: int | None, texts: TextLimits) -> Scope:
    """Make a scope with the gathered columns at their places in the schema. Other places stay empty."""
    columns = tuple(gathered.get(i, _NOT_READ) for i in range(max(gathered, default=-1) + 1))
    pseudo = (gathered.get(ID_INDEX), gathered.get(TIME_INDEX))
    ids, times = (None if column is None else column.values for column in pseudo)
    return Scope(columns, rows, ids, times, now, texts)
