"""Joins AS OF: each row of the left gets the version of a table that held at its time.

    left   k 1, time 7     versions of k 1    begin -  end 3 │ 3  5 │ 5  9 │ 9  -       the version from 5 to 9
                                              └ the first one holds from the beginning

The versions of one key hold in intervals that do not overlap: [begin, end). So a condition on the version may be tested
before the search, by the table's side, or after it. A deletion is not a version: it only ends the version before.

Rows whose version is not certain are counted as `unknown` (`psoup.execution.partners.unknown_versions`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from psoup.execution.join.sides import MatchedSide
from psoup.execution.partners.conditions import Conditions
from psoup.execution.partners.evaluation import Evaluation
from psoup.execution.partners.input_numbers import numbered
from psoup.execution.partners.join_inputs import JoinInput
from psoup.execution.partners.key_order import ROW_BYTES, key_groups
from psoup.execution.partners.pairs import FailedOperands
from psoup.execution.partners.partner_rows import single_partners
from psoup.execution.partners.unknown_versions import count_missing, count_without_versions
from psoup.joins.budget import JoinBudget
from psoup.joins.key_columns import keyed
from psoup.joins.versions_met import Spans, versions_met
from psoup.plan.nodes import JoinKind, PartnerJoin, Source
from psoup.plan.partners import MISSING
from psoup.values.columns import Array

_BYTES = 64
"""Bytes of a row of an input while the versions are searched: keys, times and the hash tables."""


def version_rows(
    evaluation: Evaluation, node: PartnerJoin, left: JoinInput, right: JoinInput
) -> Iterator[tuple[Array, ...]]:
    """Yield the rows of a join AS OF in pieces: positions in both inputs. Of SEMI and ANTI, of the left only.

    O(n log n).
    """
    partners: Array = np.full(left.rows, MISSING, np.int32)
    if left.rows and right.rows:
        evaluation.room.hold(4 * left.rows, "the versions of rows")
        _find(evaluation, node, left, right, partners)
    elif left.rows:
        count_without_versions(evaluation, node, left)
    passed = None
    if node.rest:
        facts, leaves = left.facts.beside(right.facts), [*left.leaves, *right.leaves]
        conditions = Conditions(node.rest, facts, leaves, evaluation.reading)
        evaluation.add(conditions)
        passed = partial(_passed, conditions, left, right)
    inner = node.kind in (JoinKind.AS_OF, JoinKind.AS_OF_SEMI)
    for rows, versions in single_partners(partners, inner=inner, passed=passed):
        if not node.kind.filters:
            yield rows, versions
        elif inner:
            yield (rows,)
        elif len(without := rows[versions == MISSING]):
            yield (without,)


def _passed(conditions: Conditions, left: JoinInput, right: JoinInput, rows: Array, versions: Array) -> Array:
    """Whether the other conditions hold for pairs of positions in both inputs: bool[k]."""
    return conditions.passed([*left.at(rows), *right.at(versions)])


def _find(evaluation: Evaluation, node: PartnerJoin, left: JoinInput, right: JoinInput, partners: Array) -> None:
    """Write the version of each row of the left."""
    form, reading, room = numbered(node), evaluation.reading, evaluation.room
    side = right.leaf
    assert isinstance(node.right, Source) and node.right.spec.table is not None and isinstance(side, MatchedSide)
    begins, ends = side.versions(node.right.spec.table)
    sides = [part.side(reads, reading, room) for part, reads in zip((left, right), form.reads, strict=True)]
    keys = keyed(form.join, sides, room)
    evaluation.add(FailedOperands(keys.errors))
    *equal, band = [edge.towards(1) for edge in keys.edges]
    with _held(room, _BYTES * (left.rows + right.rows)):
        rows, versions = (None if flags is None else np.flatnonzero(flags) for flags in keys.alive)
        if len(equal) == 1:
            row_keys, version_keys = _of(equal[0].left_keys, rows), _of(equal[0].right_keys, versions)
        else:
            with _held(room, ROW_BYTES * (left.rows + right.rows)):
                groups = key_groups(keys, equal, (left.rows, right.rows))
            row_keys, version_keys = groups.left_groups, groups.right_groups
        times = _of(band.left_keys, rows)
        spans = Spans(version_keys, _of(begins, versions), _of(ends, versions))
        met = versions_met(row_keys, times, spans, reading.run)
        if versions is not None:
            met = np.where(met >= 0, versions[met].astype(np.int32), met) if len(versions) else met
        partners[slice(None) if rows is None else rows] = met
        count_missing(evaluation, node, left, rows, times, met, (row_keys, version_keys))


def _of(values: Array, rows: Array | None) -> Array:
    """The values of some rows. None: of all rows."""
    return values if rows is None else values[rows]


@contextmanager
def _held(room: JoinBudget, size: int) -> Iterator[None]:
    """Charge bytes for the time of the `with` block."""
    room.hold(size, "versions by key and time")
    try:
        yield
    finally:
        room.give_back(size)
