"""Pairs become the rows of an outer join: rows without a partner are added.

    pairs   (0, 4) (0, 7) | (3, 2)       pieces, in the order of FROM
    LEFT    (0, 4) (0, 7) (1, -) (2, -) (3, 2) (4, -)     row 1 is added where it belongs, whatever the pieces are
    RIGHT   … then (-, 0) (-, 1) (-, 3)  a missing left comes after all rows

Rows without a partner are merged in as the pairs come, so they need no sort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from psoup.joins.budget import JoinBudget
from psoup.kernels.join.outer_pairs import merge_missing
from psoup.plan.partners import MISSING, JoinKind
from psoup.values.columns import Array

_ROWS = 65_536
"""The most rows without a partner in one piece, and the most rows with at most one partner."""


def partnered_rows(pairs: Iterator[tuple[Array, Array]], left_rows: int, room: JoinBudget) -> Array:
    """Whether each row of the left has a partner: bool[left_rows]."""
    room.hold(left_rows, "the rows that have partners")
    partnered: Array = np.zeros(left_rows, np.bool_)
    for left, _ in pairs:
        partnered[left] = True
    return partnered


def positions_of(flags: Array) -> Iterator[Array]:
    """Yield the positions of set flags, ascending, in pieces."""
    for start in range(0, len(flags), _ROWS):
        rows = np.flatnonzero(flags[start : start + _ROWS])
        if len(rows):
            yield rows + start


def single_partners(
    partners: Array, *, inner: bool, passed: Callable[[Array, Array], Array] | None = None
) -> Iterator[tuple[Array, Array]]:
    """Yield the rows of a join in which each row of the left has at most one partner: positions in both inputs.

    `partners`: int32[rows of the left], MISSING for none. `inner`: leave rows without a partner out. `passed`: tells
    which pairs stay (bool[k]), from positions in both inputs; the row of another pair has no partner. O(rows).
    """
    for start in range(0, len(partners), _ROWS):
        part = partners[start : start + _ROWS]
        rows = np.arange(start, start + len(part), dtype=np.int32)
        met = np.flatnonzero(part >= 0)
        if passed is not None and len(met):
            stays = passed(rows[met], part[met])
            part[met[~stays]] = MISSING
            met = met[stays]
        if inner:
            rows, part = rows[met], part[met]
        if len(rows):
            yield rows, part


def outer_rows(
    pairs: Iterator[tuple[Array, Array]], kind: JoinKind, left_rows: int, right_rows: int, room: JoinBudget
) -> Iterator[tuple[Array, ...]]:
    """Yield the rows of an outer join in pieces: positions in both inputs.

    `pairs`: all partners, in the order of FROM. `left_rows`, `right_rows`: the rows of the inputs. A row without a
    partner has MISSING for the other input. O(rows of the inputs + pairs).
    """
    partnered = None
    if kind.keeps_right:
        room.hold(right_rows, "the rows that have partners")
        partnered = np.zeros(right_rows, np.bool_)
    next_row = 0
    for left, right in pairs:
        if partnered is not None:
            partnered[right] = True
        if kind.keeps_left:
            yield from _filled(left, right, next_row, int(left[-1]) + 1)
            next_row = int(left[-1]) + 1
        else:
            yield left, right
    if kind.keeps_left:
        none = np.zeros(0, np.int32)
        yield from _filled(none, none, next_row, left_rows)
    if partnered is not None:
        for rows in positions_of(~partnered):
            yield np.full(len(rows), MISSING, np.int32), rows


def _filled(left: Array, right: Array, first: int, stop: int) -> Iterator[tuple[Array, Array]]:
    """Yield pairs, with a missing right for each row of the left in [first, stop) that has no pair.

    `left` ascends, and is less than `stop`. It may begin with the row before `first`, whose other pairs came before.
    """
    begin = 0
    for start in range(first, stop, _ROWS):
        end = min(start + _ROWS, stop)
        upto = len(left) if end == stop else int(np.searchsorted(left, end))
        lefts, rights = (np.ascontiguousarray(part[begin:upto], np.int32) for part in (left, right))
        begin = upto
        rows, partners = (np.empty(end - start + len(lefts), np.int32) for _ in range(2))
        count = merge_missing(np.arange(start, end, dtype=np.int32), lefts, rights, MISSING, rows, partners)
        yield rows[:count], partners[:count]
    if first == stop and len(left):  # all pairs of the last row of an earlier piece
        yield left, right
