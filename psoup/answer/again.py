"""An answer that a client holds, computed again, and how it becomes the present one: by positions of rows.

    held     a b c d e     the answer of some tuple IDs at some NOW, or its first rows, and a digest of them
    now      a c x e f
    removed  1 3           positions in what is held
    places   2 4           positions, in the answer of now, of the rows that come: x and f

Tuples never change, so the answer of some tuple IDs at one NOW is the same whenever it is computed, and nothing need be
kept of a client. This works for every answer, at the cost of two: DISTINCT, groups, ORDER BY with LIMIT, joins. Where
it cannot be computed again, as tuples are gone or the digest differs, the client begins anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.answer.intervals import Intervals, without
from psoup.answer.invoke import Answer, Matched, answer_over, join_answer
from psoup.answer.window import Ranges, Reach, WindowChoice, reach, windows_of
from psoup.columns import Array
from psoup.data.windows import WindowRange, refuse_truncation
from psoup.errors import ResourceExhausted
from psoup.kernels.rising import longest_rising
from psoup.published.records import NO_CLAUSE, QueryRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup.reading import ReadBudget

MOST_BYTES = 64 * 1024 * 1024
"""Bytes of an answer, as Arrow, that is compared with the one before."""
DIGEST_BYTES = 16
_INTERVAL_BYTES = 4
"""What the ends of an interval of positions take on the wire, about."""
_WHAT = "a copy whose answer of before is computed again"


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a client holds: the first `rows` rows of the answer that the tuples of `ranges` had at `now`."""

    ranges: Ranges
    now: int | None
    rows: int
    digest: bytes


NOTHING = Earlier((), None, 0, b"")


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a change: afterwards the client holds the first `held` rows of the answer of now.

    `left`: rows that are to come after it.
    """

    removed: Intervals
    places: Intervals
    rows: pa.Table
    held: Earlier
    left: int


@dataclass(frozen=True, slots=True)
class Compared:
    """The answer of now beside what a client holds. `table`: all of its rows; `ranges`: the tuples that it was made of.

    The rows at the positions `stay` of what is held are those at the positions `at` of the answer; both ascend. `anew`:
    what is held cannot be computed, and nothing of it stays. `behind`: it will not be possible much longer.
    """

    answer: Answer
    table: pa.Table
    ranges: Ranges
    held: Earlier
    stay: Array
    at: Array
    anew: bool
    behind: bool

    @property
    def unchanged(self) -> bool:
        """Whether the client holds all of the answer, and nothing else."""
        return not self.anew and len(self.at) == self.held.rows == self.table.num_rows

    @property
    def came(self) -> int:
        """How many rows are new."""
        return self.table.num_rows - len(self.at)

    @property
    def bytes_coming(self) -> int:
        """About how many bytes the new rows take, as Arrow."""
        return self.table.nbytes * self.came // max(self.table.num_rows, 1)

    def page(self, rows: int) -> Page:
        """The change up to its first `rows` new rows: those that stay behind them leave, and come again later."""
        new = np.ones(self.table.num_rows, bool)
        new[self.at] = False
        places = np.flatnonzero(new)
        end = len(new) if len(places) <= rows else int(places[rows])
        kept = int(np.searchsorted(self.at, end))
        return Page(
            without(0, 0 if self.anew else self.held.rows, _runs(self.stay[:kept])),
            without(0, end, _runs(self.at[:kept])),
            self.table.slice(0, end).filter(pa.array(new[:end])),
            Earlier(self.ranges, self.answer.completeness.now, end, digest_of(self.table.slice(0, end))),
            len(places) - (end - kept),
        )


def again(
    snapshot: Snapshot,
    record: QueryRecord,
    held: Earlier,
    *,
    now: int,
    window: WindowChoice | None = None,
    accept_truncation: bool = False,
    budget: ReadBudget | None = None,
) -> Compared:
    """Compare the answer of now with what a client holds. `now` is the clock.

    Raises as `psoup.answer.invoke.invoke`; ResourceExhausted (ANSWER_TOO_LARGE) if the answer has more than MOST_BYTES.
    """
    budget = budget or ReadBudget()
    answer, ranges = _present(snapshot, record, now, window, budget, accept_truncation=accept_truncation)
    table = _gathered(answer, budget)
    rows, anew = held.rows, False
    stay = at = np.arange(rows)
    if rows and (rows > table.num_rows or digest_of(table.slice(0, rows)) != held.digest):
        stay = at = np.arange(0)
        if max(rows, table.num_rows) > 1:  # one row for another needs no comparison
            before = _computed(snapshot, record, held, now, budget)
            anew = before is None
            if before is not None:
                stay, at = _worth(*common(before, table, budget.check), table)
    views = _views(snapshot, record)
    pairs = zip(held.ranges, ranges, views, strict=False)
    behind = any(2 * of[0] < view.first_id + present[0] for of, present, view in pairs)
    return Compared(answer, table, ranges, held, stay, at, anew, behind)


def _views(snapshot: Snapshot, record: QueryRecord) -> list[StreamView]:
    """The stream of each source."""
    return [snapshot.by_id[side.stream_id] for side in snapshot.sides_of(record)]


def _sides(snapshot: Snapshot, record: QueryRecord) -> list[Matched]:
    """Stream and clause of each source."""
    sides = snapshot.sides_of(record)
    return [(snapshot.by_id[side.stream_id], snapshot.clause(side.sqc_id)) for side in sides]


def _present(
    snapshot: Snapshot,
    record: QueryRecord,
    now: int,
    window: WindowChoice | None,
    budget: ReadBudget,
    *,
    accept_truncation: bool,
) -> tuple[Answer, Ranges]:
    """The answer of now, and the tuples that it is made of."""
    if record.sqc_id == NO_CLAUSE:
        answer = join_answer(
            snapshot,
            record,
            _sides(snapshot, record),
            now=now,
            as_of=None,
            window=window,
            accept_truncation=accept_truncation,
            budget=budget,
        )
        return answer, tuple(answer.ranges)
    (view,), (own,) = _views(snapshot, record), windows_of(record.query, window)
    current = view.now(now)
    seen = reach(view, own, current, current)
    if not accept_truncation:
        refuse_truncation(view.spec.name, seen.range)
    answer = answer_over(snapshot, record, snapshot.clause(record.sqc_id), seen, budget)
    return answer, ((seen.range.low, seen.range.high),)


def _computed(snapshot: Snapshot, record: QueryRecord, held: Earlier, now: int, budget: ReadBudget) -> pa.Table | None:
    """The rows that a client holds; None if they cannot be computed any more, or are others."""
    views = _views(snapshot, record)
    parts = list(zip(views, held.ranges, strict=False))
    if len(held.ranges) != len(views) or any(low < min(view.first_id, high) for view, (low, high) in parts):
        return None
    try:
        if record.sqc_id == NO_CLAUSE:
            answer = join_answer(
                snapshot,
                record,
                _sides(snapshot, record),
                now=now,
                as_of=held.now,
                window=None,
                accept_truncation=True,
                budget=budget,
                ranges=held.ranges,
            )
        else:
            ((view, (low, high)),) = parts
            extent = WindowRange(low, high, held.now, held.now, False)
            seen = Reach(view, record.query.window, extent, view.now(now), held.now)
            answer = answer_over(snapshot, record, snapshot.clause(record.sqc_id), seen, budget)
        table = _gathered(answer, budget, held.rows)
    except ResourceExhausted:  # the answer of now could be had: it comes whole
        return None
    return table if table.num_rows == held.rows and digest_of(table) == held.digest else None


def _gathered(answer: Answer, budget: ReadBudget, rows: int | None = None) -> pa.Table:
    """All rows of an answer, or the first, in one piece."""
    batches, size, left = list[pa.RecordBatch](), 0, rows
    try:
        for batch in answer.batches():
            part = batch if left is None else batch.slice(0, left)
            batches.append(part)
            budget.hold_joined(part.nbytes, _WHAT)
            size += part.nbytes
            if size > MOST_BYTES:
                raise _too_large()
            left = None if left is None else left - part.num_rows
            if left == 0:
                break
        return pa.Table.from_batches(batches, answer.schema).combine_chunks()
    finally:
        budget.give_back_joined(size)


def common(before: pa.Table, after: pa.Table, check: Callable[[], None]) -> tuple[Array, Array]:
    """The positions of rows that two tables have in common, in the same order: in the first, and in the second.

    As many as there are, if rows do not come twice. Rows are equal that look the same: NULL as NULL and NaN as NaN, but
    0.0 is not -0.0. O(n log n).
    """
    first, second = _numbered(before, after, check)
    _, stay, at = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    order = np.argsort(at)
    stay, at = stay[order], at[order]
    if len(stay) > 1 and not bool((stay[1:] > stay[:-1]).all()):
        out = np.empty(len(stay), np.int64)
        rising = out[: longest_rising(stay, np.empty_like(out), np.empty_like(out), out)]
        stay, at = stay[rising], at[rising]
    return stay, at


def compile_kernels() -> None:
    """Compile what finds the rows that stay, so that the first client does not wait."""
    rows = pa.table({"row": [1, 2]})
    common(rows, rows.take([1, 0]), lambda: None)


def _numbered(before: pa.Table, after: pa.Table, check: Callable[[], None]) -> tuple[Array, Array]:
    """A number for each row of two tables: equal rows have equal numbers, but in one table the first, the second … of
    them have different ones."""
    numbers, span = np.zeros(before.num_rows + after.num_rows, np.int64), 1
    for one, other in zip(before.columns, after.columns, strict=True):
        check()
        both = pa.chunked_array([*one.chunks, *other.chunks], one.type).combine_chunks()
        coded = both.dictionary_encode(null_encoding="encode")
        size = max(len(coded.dictionary), 1)
        if span > 2**62 // size:
            numbers, span = np.unique(numbers, return_inverse=True)[1], len(numbers)
        numbers, span = numbers * size + coded.indices.to_numpy(), span * size
    check()
    numbers = np.unique(numbers, return_inverse=True)[1]
    first, second = numbers[: before.num_rows], numbers[before.num_rows :]
    which = _which(first), _which(second)
    most = 1 + max([int(of.max()) for of in which if len(of)], default=0)
    return first * most + which[0], second * most + which[1]


def _which(numbers: Array) -> Array:
    """Of each number how often it has come before."""
    order = np.argsort(numbers, kind="stable")
    places, starts = np.arange(len(numbers)), np.flatnonzero(np.diff(numbers[order], prepend=-1))
    out = np.empty_like(places)
    out[order] = places - np.repeat(starts, np.diff(starts, append=len(numbers)))
    return out


def _worth(stay: Array, at: Array, after: pa.Table) -> tuple[Array, Array]:
    """The rows that stay: none if to say where they are takes more than they do."""
    told = _INTERVAL_BYTES * (len(_runs(stay)) + len(_runs(at)))
    if told * max(after.num_rows, 1) > after.nbytes * len(stay):
        return stay[:0], at[:0]
    return stay, at


def _runs(positions: Array) -> Intervals:
    """Ascending positions as intervals."""
    ends = np.flatnonzero(np.diff(positions, prepend=-2, append=-2) != 1)
    pairs = zip(positions[ends[:-1]].tolist(), positions[ends[1:] - 1].tolist(), strict=True)
    return tuple((low, last + 1) for low, last in pairs)


def digest_of(table: pa.Table) -> bytes:
    """A digest of rows: of what they show, not of how they lie in memory."""
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
    told = hashlib.blake2b(batch.serialize(), digest_size=DIGEST_BYTES)
    told.update(bytes(nulls))
    return told.digest()


def _too_large() -> ResourceExhausted:
    return ResourceExhausted(
        "copies of this answer are kept by comparing it with the one before, and it has more than"
        f" {MOST_BYTES:,} bytes; select fewer columns or rows, or invoke the query instead",
        reason="ANSWER_TOO_LARGE",
        limit=MOST_BYTES,
    )
