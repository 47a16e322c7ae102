"""Change of a copy by comparison: the client's former answer is computed again, and compared with the current one.

    held     a b c d e     the former answer: tuple IDs, NOW, number of its first rows, and a digest of them
    now      a c x e f     the current answer
    removed  1 3           positions in the former answer of the rows to remove: b and d
    places   2 4           positions in the current answer of the rows to add: x and f
    moved                  both positions of each row that stays, but changes its order

Tuples never change. So the answer of given tuple IDs at a given NOW can be computed again at any time. In a table, no
entry after the given tuple IDs ends a version of that answer. The service
stores nothing for a client. This works for every answer, also with DISTINCT, groups, ORDER BY with LIMIT, and joins. A
comparison costs two answers. The client gets the whole answer if tuples of the former one were dropped, or if the
digest differs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.answer.completeness import Completeness, parts_of
from psoup.answer.copies.id_intervals import Intervals, without
from psoup.answer.copies.moved_tuples import any_moved, is_behind
from psoup.answer.invoke import Answer, Matched, answer_over, join_answer
from psoup.answer.question import Question
from psoup.budgets import COPIED_BYTES
from psoup.data.windows import WindowRange
from psoup.errors import ResourceExhausted
from psoup.execution.select.window import Ranges, Reach
from psoup.kernels.rows.increasing_subsequence import longest_rising
from psoup.plan.node_exprs import plan_reads_now
from psoup.published.records import NO_CLAUSE, QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.values.columns import Array
from psoup.work.read_budget import ReadBudget

_STEP_BYTES = 8 * 1024 * 1024
"""The most bytes of a batch of rows. A comparison gathers one batch, then charges its bytes to the read."""
MOST_BYTES = 64 * 1024 * 1024
"""The most bytes, as Arrow, of an answer that can be compared with the former one."""
DIGEST_BYTES = 16
_INTERVAL_BYTES = 4
"""Approximate bytes of two positions on the wire: the ends of an interval, or the two positions of a moved row."""
_ROW_BYTES = 64
"""Bytes that a comparison holds for each row: its number, the code of a value, and its position."""
_WHAT = "a copy whose answer of before is computed again"


@dataclass(frozen=True, slots=True)
class Earlier:
    """The former answer of a client: the first `rows` rows of the answer at `now` over the tuples of `ranges`.

    `whole`: whether that answer had no further rows.
    """

    ranges: Ranges
    now: int | None
    rows: int
    digest: bytes
    whole: bool = False


NOTHING = Earlier((), None, 0, b"")


@dataclass(frozen=True, slots=True)
class ChangePage:
    """A page of a change. After this page the client holds the first `end` rows of the current answer.

    `left`: the number of rows of the current answer after `end`. `dropped`: the number of these that the client held.
    The client drops them now, and gets them again with a later page.
    """

    removed: Intervals
    moved: Sequence[tuple[int, int]]
    places: Intervals
    rows: pa.Table
    end: int
    left: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The result for a client that holds exactly the current answer. `held`: the description of that answer as of now.

    `behind`: True if the client must get a new token. The answer that its token describes soon cannot be computed
    again.
    """

    completeness: Completeness
    held: Earlier
    behind: bool


@dataclass(frozen=True, slots=True)
class Compared:
    """The current answer, compared with the former one. `table`: all current rows. `ranges`: the tuple IDs of its
    sources.

    `stay`, `at`: the positions of the common rows in the former and in the current answer; `at` ascends. `anew`: True
    if the former answer cannot be computed any more. Then the client drops all of its rows.
    """

    answer: Answer
    table: pa.Table
    ranges: Ranges
    former: Earlier
    stay: Array
    at: Array
    anew: bool

    @property
    def came(self) -> int:
        """The number of rows that are new."""
        return self.table.num_rows - len(self.at)

    @property
    def bytes_coming(self) -> int:
        """Approximate bytes of the new rows, as Arrow."""
        return self.table.nbytes * self.came // max(self.table.num_rows, 1)

    def page(self, rows: int) -> ChangePage:
        """The change up to its first `rows` new rows.

        Common rows after them are dropped, and come again with a later page.
        """
        new = np.ones(self.table.num_rows, bool)
        new[self.at] = False
        places = np.flatnonzero(new)
        end = len(new) if len(places) <= rows else int(places[rows])
        common_rows = int(np.searchsorted(self.at, end))
        stay, at, moves = self.stay[:common_rows], self.at[:common_rows], _moves(self.stay[:common_rows])
        return ChangePage(
            without(0, 0 if self.anew else self.former.rows, _runs(np.sort(stay))),
            list(zip(stay[moves].tolist(), at[moves].tolist(), strict=True)),
            without(0, end, _runs(at)),
            self.table.slice(0, end).filter(pa.array(new[:end])),
            end,
            len(new) - end,
            len(self.at) - common_rows,
        )

    def first(self, rows: int) -> Earlier:
        """A description of the client after it holds the first `rows` rows of the answer. O(bytes of these rows)."""
        digest = digest_of(self.table.slice(0, rows))
        return Earlier(self.ranges, self.answer.completeness.now, rows, digest, rows == self.table.num_rows)


def again(
    snapshot: Snapshot,
    record: QueryRecord,
    former: Earlier,
    question: Question,
) -> Compared | Unchanged:
    """Compare the current answer with the former one, which a client holds.

    Raises the errors of `psoup.answer.invoke.invoke`. Raises ResourceExhausted (ANSWER_TOO_LARGE) if the answer has
    more than MOST_BYTES. If no tuple that arrived or left satisfies WHERE, neither answer is computed.
    """
    budget, sides = question.budget, _sides(snapshot, record)
    seen = question.seen([view for view, _ in sides], question.windows(record.query))
    ranges = [(part.range.low, part.range.high) for part in seen]
    if (
        former.whole
        and not plan_reads_now(record.query.plan)
        and not any_moved(snapshot, record, sides, former.ranges, ranges, budget)
    ):
        completeness = Completeness(snapshot.sequence, seen[0].now, 0, parts_of(snapshot, record.query.plan, seen))
        return Unchanged(
            completeness, replace(former, ranges=ranges, now=seen[0].now), is_behind(sides, former.ranges, ranges)
        )
    if record.sqc_id == NO_CLAUSE:
        answer = join_answer(snapshot, record, sides, replace(question, accept_truncation=True))
    else:
        answer = answer_over(snapshot, record, sides[0][1], seen[0], budget)
    table, rows, anew = _gathered(answer, budget), former.rows, False
    if not rows or (rows <= table.num_rows and digest_of(table.slice(0, rows)) == former.digest):
        stay = at = np.arange(rows)
        if former.whole and rows == table.num_rows:
            now_held = replace(former, ranges=ranges, now=seen[0].now)
            return Unchanged(answer.completeness, now_held, is_behind(sides, former.ranges, ranges))
    else:
        stay = at = np.arange(0)
        if max(rows, table.num_rows) > 1:  # one row for another needs no comparison
            before = _computed(snapshot, record, sides, former, question.now, budget)
            anew = before is None
            if before is not None:
                stay, at = _worth(*common(before, table, budget), table)
    return Compared(answer, table, ranges, former, stay, at, anew)


def _sides(snapshot: Snapshot, record: QueryRecord) -> list[Matched]:
    """Stream and clause of each source."""
    return snapshot.sources_of(record)


def former_rows(snapshot: Snapshot, record: QueryRecord, former: Earlier, question: Question) -> pa.Table | None:
    """The former answer, computed again. Returns None if its tuples were dropped, or if its digest differs."""
    sides, budget = _sides(snapshot, record), question.budget
    return _computed(snapshot, record, sides, former, question.now, budget)


def _computed(
    snapshot: Snapshot, record: QueryRecord, sides: Sequence[Matched], former: Earlier, now: int, budget: ReadBudget
) -> pa.Table | None:
    """The former answer, computed again. Returns None if its tuples were dropped, or if its digest differs."""
    parts = list(zip(sides, former.ranges, strict=False))
    if len(former.ranges) != len(sides) or any(low < min(view.first_id, high) for (view, _), (low, high) in parts):
        return None
    try:
        if record.sqc_id == NO_CLAUSE:
            answer = join_answer(snapshot, record, sides, _at_former(now, former, budget), former.ranges)
        else:
            (((view, clause), (low, high)),) = parts
            extent = WindowRange(low, high, former.now, former.now, False)
            seen = Reach(view, record.query.window, extent, view.now(now), former.now)
            answer = answer_over(snapshot, record, clause, seen, budget)
        table = _gathered(answer, budget, former.rows)
    except ResourceExhausted:  # the current answer was within the budget: it is sent whole
        return None
    return table if table.num_rows == former.rows and digest_of(table) == former.digest else None


def _at_former(now: int, former: Earlier, budget: ReadBudget) -> Question:
    """The question for the former answer. The ranges tell which versions of a table it saw."""
    return Question(now, former.now, None, accept_truncation=True, budget=budget, latest=True)


def _gathered(answer: Answer, budget: ReadBudget, rows: int | None = None) -> pa.Table:
    """All rows of an answer, or the first `rows`, in one chunk."""
    batches, size, left = list[pa.RecordBatch](), 0, rows
    try:
        for batch in answer.batches(max_bytes=_STEP_BYTES):
            part = batch if left is None else batch.slice(0, left)
            batches.append(part)
            budget.hold_joined(part.nbytes, _WHAT)
            size += part.nbytes
            if size > MOST_BYTES:
                raise _too_large(size)
            left = None if left is None else left - part.num_rows
            if left == 0:
                break
        return pa.Table.from_batches(batches, answer.schema).combine_chunks()
    finally:
        budget.give_back_joined(size)


def common(before: pa.Table, after: pa.Table, budget: ReadBudget) -> tuple[Array, Array]:
    """The positions of the rows that two tables have in common, in the first and in the second table.

    The positions in the second ascend. NULL equals NULL, and NaN equals NaN, but 0.0 does not equal -0.0. O(n log n).
    """
    size = _ROW_BYTES * (before.num_rows + after.num_rows)
    budget.hold_joined(size, _WHAT)
    try:
        numbers = _numbered(before, after, budget.check)
        place = np.full(len(numbers), -1)
        place[numbers[: before.num_rows]] = np.arange(before.num_rows)
        stay = place[numbers[before.num_rows :]]
    finally:
        budget.give_back_joined(size)
    at = np.flatnonzero(stay >= 0)
    return stay[at], at


def _moves(stay: Array) -> Array:
    """For each common row: whether it must move. The rows that do not move keep their former order. bool[n]."""
    moves = np.zeros(len(stay), bool)
    if len(stay) > 1 and not bool((stay[1:] > stay[:-1]).all()):
        out = np.empty(len(stay), np.int64)
        moves[:] = True
        moves[out[: longest_rising(stay, np.empty_like(out), np.empty_like(out), out)]] = False
    return moves


def _numbered(before: pa.Table, after: pa.Table, check: Callable[[], None]) -> Array:
    """Dictionary-encode the rows of two tables: a code from 0 on for each row, equal for equal rows. int64[n].

    Within a table, each duplicate of a row gets a code of its own. The k-th duplicate has the same code in both tables.
    """
    numbers, span, middle = np.zeros(before.num_rows + after.num_rows, np.int64), 1, before.num_rows
    for column, other in zip(before.columns, after.columns, strict=True):
        check()
        both = pa.chunked_array([*column.chunks, *other.chunks], column.type).combine_chunks()
        codes, size = _coded(both)
        if span > 2**62 // size:
            numbers, span = _coded(pa.array(numbers))
        numbers, span = numbers * size + codes, span * size
    numbers, _ = _coded(pa.array(numbers))
    which = np.concatenate([_which(numbers[:middle]), _which(numbers[middle:])])
    if which.any():
        numbers, _ = _coded(pa.array(numbers * (int(which.max()) + 1) + which))
    return numbers


def _coded(values: pa.Array) -> tuple[Array, int]:
    """Dictionary-encode values. Returns a code from 0 on for each value, and the number of distinct values, at
    least 1.
    """
    coded = values.dictionary_encode(null_encoding="encode")
    return coded.indices.to_numpy().astype(np.int64), max(len(coded.dictionary), 1)


def _which(numbers: Array) -> Array:
    """For each code, the number of its earlier occurrences. int64[n]."""
    out: Array = np.zeros(len(numbers), np.int64)
    counts = np.bincount(numbers)
    if counts.max(initial=0) > 1:
        order = np.argsort(numbers, kind="stable")
        counts = counts[counts > 0]
        out[order] = np.arange(len(numbers)) - np.repeat(np.cumsum(counts) - counts, counts)
    return out


def _worth(stay: Array, at: Array, after: pa.Table) -> tuple[Array, Array]:
    """The common rows, or no rows if their positions take more bytes on the wire than the rows themselves."""
    bytes_of_positions = _INTERVAL_BYTES * (len(_runs(np.sort(stay))) + len(_runs(at)) + int(_moves(stay).sum()))
    if bytes_of_positions * max(after.num_rows, 1) > after.nbytes * len(stay):
        return stay[:0], at[:0]
    return stay, at


def _runs(positions: Array) -> Intervals:
    """The intervals of ascending positions."""
    if not len(positions):
        return ()
    cuts = np.flatnonzero(positions[1:] != positions[:-1] + 1)
    lows = [int(positions[0]), *positions[cuts + 1].tolist()]
    return tuple(zip(lows, [*(positions[cuts] + 1).tolist(), int(positions[-1]) + 1], strict=True))


def digest_of(table: pa.Table) -> bytes:
    """A digest of the values of rows, independent of their layout in memory."""
    columns, nulls = list[pa.Array](), bytearray()
    for column in table.columns:
        values = column.combine_chunks()
        if pa.types.is_boolean(values.type):
            values = values.cast(pa.uint8())
        nulls.append(values.null_count > 0)
        if values.null_count:
            columns.append(values.is_null().cast(pa.uint8()))
            zero = "" if pa.types.is_string(values.type) else 0
            values = pc.fill_null(values, pa.scalar(zero, values.type))
        columns.append(values)
    batch = pa.RecordBatch.from_arrays(columns, [""] * len(columns))
    digest = hashlib.blake2b(batch.serialize(), digest_size=DIGEST_BYTES)
    digest.update(bytes(nulls))
    return digest.digest()


def _too_large(size: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"copies of this answer are kept by comparing it with the one before; it has {size:,} bytes or more, and may"
        f" have {MOST_BYTES:,}; select fewer columns or rows, or invoke the query instead",
        reason="ANSWER_TOO_LARGE",
        bytes=size,
        **COPIED_BYTES.over(size, MOST_BYTES),
    )
