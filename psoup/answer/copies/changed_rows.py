"""The rows that came into an answer since a copy, and the rows that left it, both with their values.

    held     [3, 9)      window now  [5, 12)        came: matches in [9, 12)      left: matches in [3, 5)

A copy alone tells which of its rows leave. A receiver without a copy needs their values, so they are read again. If the
streams have dropped the tuples, or the former answer cannot be computed, the change is the whole answer.

`Holding` describes the rows of the receiver: the tuple IDs of a range, the box of a join, or a former answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from psoup.answer.completeness import Completeness
from psoup.answer.copies.answer_again import NOTHING, Compared, Earlier, again, common, former_rows
from psoup.answer.copies.id_intervals import Intervals
from psoup.answer.copies.join_since import HeldBox, boxed, joined_since, paired
from psoup.answer.copies.range_plans import Ranged, ranged
from psoup.answer.copies.rows_since import Most, Since, Travel, since, travel_of
from psoup.answer.copies.versions_since import ended_since
from psoup.answer.invoke import Answer, answer_to
from psoup.answer.question import Question
from psoup.execution.plan import Reading
from psoup.execution.select.match_forms import ChunkMatches
from psoup.execution.select.version_entries import located
from psoup.published.records import NO_CLAUSE, QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.values.columns import Array
from psoup.work.read_budget import NO_LIMIT

_STEP_ROWS = 1_024
_STEP_BYTES = 256 * 1024


class HeldRange(NamedTuple):
    """The rows of some tuple IDs. `next_id`: of a table, the next tuple ID when the receiver got them."""

    intervals: Intervals
    next_id: int | None


Holding: TypeAlias = HeldRange | HeldBox | Earlier
"""The rows that a receiver holds, as the token of a copy describes them."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of the query's columns. `count`: their number, None if only reading tells it. `read`: once."""

    read: Iterator[pa.RecordBatch]
    count: int | None = None


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """A change of an answer. `whole`: `came` is the whole answer, and the former rows are all to be forgotten.

    `holding`: the rows of the receiver after the change; None for an answer that shows NOW, which always comes whole.
    """

    completeness: Completeness
    came: Rows
    left: Rows
    holding: Holding | None
    whole: bool


def changed_rows(snapshot: Snapshot, record: QueryRecord, holding: Holding | None, question: Question) -> ChangedRows:
    """The change of an answer for a receiver that holds some rows; None for a receiver that holds nothing.

    Raises the errors of `psoup.answer.invoke.invoke`. Some of them arise only when the caller reads the rows.
    """
    snapshot.automatic.note_copied(record.query_id)
    plan = record.query.plan
    if record.sqc_id == NO_CLAUSE:
        if paired(plan) is not None and boxed(snapshot, record, question):
            return _of_join(snapshot, record, holding if isinstance(holding, HeldBox) else None, question)
    elif (how := ranged(plan)) is not None:
        return _of_range(snapshot, record, how, holding if isinstance(holding, HeldRange) else None, question)
    if travel_of(plan) is Travel.ALWAYS:
        answer = answer_to(snapshot, record.query_id, record.tenant, question)
        return ChangedRows(answer.completeness, Rows(_steps(answer)), _none(), None, True)
    return _of_former(snapshot, record, holding if isinstance(holding, Earlier) else None, question)


# Ranges -----------------------------------------------------------------------------------------------------


def _of_range(
    snapshot: Snapshot, record: QueryRecord, how: Ranged, holding: HeldRange | None, question: Question
) -> ChangedRows:
    ids, next_id = ((), None) if holding is None else holding
    changes = since(snapshot, record, how, ids, Most(NO_LIMIT, NO_LIMIT), question, next_id=next_id)
    leaving = None if holding is None else _leaving(snapshot, record, changes, holding)
    if holding is not None and leaving is None:
        changes = since(snapshot, record, how, (), Most(NO_LIMIT, NO_LIMIT), question)
    shown = slice(2, 2 + len(record.query.plan.schema))
    came = Rows(_columns(_steps(changes.answer), shown), changes.rows)
    left = _none()
    if leaving is not None:
        reading = Reading([leaving], None, snapshot.config.texts, question.budget, snapshot.config.sort_rows)
        answer = Answer(record, changes.answer.completeness, reading, (record.stream_id,), plan=how.plan)
        left = Rows(_columns(_steps(answer), shown), sum(match.count for match in leaving))
    view = changes.search.view
    after = HeldRange(changes.have, None if view.spec.table is None else view.next_id)
    return ChangedRows(changes.answer.completeness, came, left, after, leaving is None)


def _leaving(
    snapshot: Snapshot, record: QueryRecord, changes: Since, holding: HeldRange
) -> Sequence[ChunkMatches] | None:
    """The rows that leave a receiver. Returns None if they are not known any more."""
    search, lost = changes.search, changes.lost
    view = search.view
    if not lost:
        return []
    if lost[0][0] < view.first_id:
        return None
    matches = [match for interval in lost for match in search.matches(*interval) if match.count]
    if view.spec.table is None:
        return matches
    next_id = view.next_id if holding.next_id is None else holding.next_id
    ended = ended_since(snapshot, view, record.sqc_id, lost, next_id, search.budget)
    if ended is None:
        return None
    ended_rows = [ChunkMatches(entry, np.asarray(rows, np.int64), 0, False) for entry, _, rows in located(view, ended)]
    if sum(match.count for match in ended_rows) < len(ended):
        return None
    return _in_order([*matches, *ended_rows])


def _in_order(matches: Sequence[ChunkMatches]) -> list[ChunkMatches]:
    """Matches with one part for each chunk, oldest first."""
    of_chunks = dict[int, ChunkMatches]()
    for match in sorted(matches, key=lambda match: match.data.first_id):
        before = of_chunks.get(match.data.first_id)
        if before is not None:
            match = replace(match, offsets=np.union1d(before.offsets, match.offsets))
        of_chunks[match.data.first_id] = match
    return list(of_chunks.values())


# Joins ------------------------------------------------------------------------------------------------------


def _of_join(snapshot: Snapshot, record: QueryRecord, holding: HeldBox | None, question: Question) -> ChangedRows:
    changes = joined_since(snapshot, record, holding, question)
    whole = holding is None or not changes.knows_leaving
    if holding is not None and whole:
        changes = joined_since(snapshot, record, None, question)
    shown = slice(changes.hidden, changes.hidden + len(record.query.plan.schema))
    came = Rows(_columns((piece.rows for piece in changes.pieces(_STEP_ROWS, _STEP_BYTES)), shown))
    left = _none() if whole else Rows(_columns(changes.leaving(_STEP_ROWS, _STEP_BYTES), changes.shown))
    return ChangedRows(changes.completeness, came, left, changes.all_held, whole)


# Former answers ---------------------------------------------------------------------------------------------


def _of_former(snapshot: Snapshot, record: QueryRecord, holding: Earlier | None, question: Question) -> ChangedRows:
    comparison = again(snapshot, record, holding or NOTHING, question)
    if not isinstance(comparison, Compared):
        return ChangedRows(comparison.completeness, _none(), _none(), comparison.held, False)
    table, before = comparison.table, None
    if holding is not None:
        before = former_rows(snapshot, record, holding, question)
    after = comparison.first(table.num_rows)
    completeness = comparison.answer.completeness
    if before is None:
        return ChangedRows(completeness, _of_table(table), _none(), after, True)
    stay, at = common(before, table, question.budget)
    came, left = _of_table(_other_rows(table, at)), _of_table(_other_rows(before, stay))
    return ChangedRows(completeness, came, left, after, False)


def _other_rows(table: pa.Table, places: Array) -> pa.Table:
    """The rows of a table except those at some places."""
    marks = np.ones(table.num_rows, np.bool_)
    marks[places] = False
    return table.filter(pa.array(marks))


# Rows -------------------------------------------------------------------------------------------------------


def _none() -> Rows:
    return Rows(iter(()), 0)


def _of_table(table: pa.Table) -> Rows:
    return Rows(iter(table.to_batches(max_chunksize=_STEP_ROWS)), table.num_rows)


def _steps(answer: Answer) -> Iterator[pa.RecordBatch]:
    return answer.batches(_STEP_ROWS, _STEP_BYTES)


def _columns(batches: Iterator[pa.RecordBatch], shown: slice) -> Iterator[pa.RecordBatch]:
    """The batches with the columns of the query only."""
    cut = partial(_cut, shown=shown)
    return map(cut, batches)


def _cut(batch: pa.RecordBatch, shown: slice) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(batch.columns[shown], names=batch.schema.names[shown])
