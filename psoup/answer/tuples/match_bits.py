"""The Results Structure of a window as bits: a row for each query, in it a bit for each tuple that satisfies WHERE.

    tuple        70 71 72 73 74 75 76 77   78 …
    query 7       1  0  0  1  0  0  0  0    1       a row of bytes: the first tuple has the lowest bit of the first byte
    query 9       1  1  0  0  0  0  0  0    0       overlap, union, difference: `&`, `|`, `& ~` of two rows

Matches are found as for an invocation (`psoup.execution.select.clause_matches`): read from stored results in covered
chunks, and evaluated in all other chunks. So the bits are always exact. The windows of the queries are not applied. A
request for too many bits is refused before any tuple is read. In a table, only versions that hold now have bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from bitarray import frozenbitarray

from psoup.answer.completeness import Completeness, part_of
from psoup.answer.describe import QueryFilter, list_queries
from psoup.answer.tuples.queries_of_tuple import check_there
from psoup.budgets import RESULTS_BYTES
from psoup.data.windows import refuse_truncation
from psoup.errors import InvalidInput, NotFound, ResourceExhausted
from psoup.events.tags import Labels
from psoup.execution.select.clause_matches import matches_in
from psoup.execution.select.window import reach
from psoup.model import NOW, START, Anchor, Bound, WindowClause, time_text
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array
from psoup.work.read_budget import UNBOUNDED, ReadBudget

MOST_BYTES = 1 << 30
"""The most bytes of bits in one call."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of queries by IDs and keys. Without IDs and keys: queries with IDs above `after` and with all of the
    `labels`.

    A choice by labels leaves joins out. `records` refuses a join that is named by ID or key, because its matches are
    not tuples of one stream.
    """

    ids: Sequence[int] = ()
    keys: Sequence[str] = ()
    labels: Labels = ()
    after: int = -1

    @property
    def named(self) -> int:
        """The number of queries chosen by ID or key."""
        return len(self.ids) + len(self.keys)

    def refuse_empty(self) -> None:
        """Raise InvalidInput if no query is named: an empty list would mean all queries."""
        if not self.named:
            raise InvalidInput("queries is empty; name some, or leave it out for all on the stream", field="queries")

    def count(self, snapshot: Snapshot, view: StreamView, tenant: str) -> int:
        """An upper bound of the number of queries in the choice. O(k)."""
        if self.named:
            return self.named
        if not self.labels:
            return view.queries
        return min(sum(1 for _ in snapshot.tags.queries_of(tenant, self.labels, -1)), view.queries)

    def records(
        self, snapshot: Snapshot, view: StreamView, tenant: str, limit: int, budget: ReadBudget = UNBOUNDED
    ) -> list[QueryRecord]:
        """The first `limit` queries. Raises NotFound, and InvalidInput for a query on another stream."""
        if not self.named:
            return list_queries(
                snapshot,
                tenant=tenant,
                after=self.after,
                limit=limit,
                only=QueryFilter(view.spec.name, self.labels, joins=False),
                budget=budget,
            )
        by_id = [snapshot.selection(query_id, tenant) for query_id in self.ids[:limit]]
        by_key = [snapshot.selection_with(key, tenant) for key in self.keys[: limit - len(by_id)]]
        for record, name in zip([*by_id, *by_key], [*self.ids, *self.keys], strict=False):
            if record.stream_id != view.stream_id:
                other = snapshot.by_id[record.stream_id].spec.name
                raise InvalidInput(
                    f"query {name!r} is on stream {other!r}, not on {view.spec.name!r}; ask for queries on one stream",
                    reason="OTHER_STREAM",
                    stream=other,
                )
        return [*by_id, *by_key]


@dataclass(frozen=True, slots=True)
class Stretch:
    """The tuples with IDs in [low, high), and the completeness of the range."""

    low: int
    high: int
    told: Completeness

    def first(self, view: StreamView, size: int) -> Stretch:
        """The tuples of the range whose bits for one query fit into `size` bytes: all of them, or the tuples of the
        first chunks.

        The result has at least one chunk. It has whole chunks, so that the errors of a chunk are counted once.
        """
        if self.high - self.low <= 8 * size:
            return self
        last = view.chunk_of(self.low + 8 * size).data.first_id
        return replace(self, high=last if last > self.low else min(view.chunk_of(self.low).data.end_id, self.high))

    def refuse_too_large(self, queries: int, max_bytes: int = MOST_BYTES) -> None:
        """Raise ResourceExhausted if the bits of `queries` queries take more than `max_bytes` bytes."""
        size = queries * -(-(self.high - self.low) // 8)
        if size > max_bytes:
            raise ResourceExhausted(
                f"the results of {queries:,} queries over {self.high - self.low:,} tuples are {size:,} bytes, and one"
                f" call may ask for {max_bytes:,}; narrow the window, or ask for fewer queries",
                reason="RESULTS_TOO_LARGE",
                **RESULTS_BYTES.over(size, max_bytes),
            )


@dataclass(frozen=True, slots=True)
class Bits:
    """Rows of bits, uint8[queries, bytes], read-only. `told.errors`: the tuples whose WHERE could not be computed."""

    low: int
    high: int
    queries: tuple[QueryRecord, ...]
    rows: Array
    told: Completeness

    def of(self, query_id: int) -> frozenbitarray:
        """The bits of a query. Whole bytes share the memory of the rows. Raises NotFound."""
        for at, record in enumerate(self.queries):
            if record.query_id == query_id:
                bits = frozenbitarray(buffer=self.rows[at].data, endian="little")
                return bits if (self.high - self.low) % 8 == 0 else bits[: self.high - self.low]
        raise NotFound(f"query {query_id} was not asked for", reason="UNKNOWN_QUERY", query=query_id)

    def to_arrow(self) -> pa.Table:
        """A table: `tuple_id`, and a column of booleans for each query, named by its ID. Shares the memory."""
        count = self.high - self.low
        columns = [pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(row)]) for row in self.rows]
        ids = pa.array(np.arange(self.low, self.high))
        return pa.table([ids, *columns], ["tuple_id", *(str(record.query_id) for record in self.queries)])


def stretch(
    snapshot: Snapshot,
    view: StreamView,
    *,
    now: int,
    begin: int | None = None,
    end: int | None = None,
    ids: tuple[int | None, int | None] = (None, None),
    last: int | None = None,
    accept_truncation: bool = False,
) -> Stretch:
    """The tuples with times in [begin, end], microseconds, and IDs in [ids[0], ids[1]).

    `last`: at most this number of tuples, the newest of them. None stands for no bound. Raises OutOfRange for a window
    that begins before the oldest kept tuple, or for IDs that are not stored. Raises InvalidInput for a window that ends
    before it begins.
    """
    if view.spec.table is not None and (begin, end) != (None, None):
        raise InvalidInput(
            f"{view.spec.name!r} is a table, which has no window: its results are those of the rows that hold now;"
            " bound them by tuple IDs, or leave the times out",
            reason="WINDOW_OF_TABLE",
            field="begin" if begin is not None else "end",
        )
    if begin is not None and end is not None and begin > end:
        raise InvalidInput(f"the window ends at {time_text(end)}, before it begins at {time_text(begin)}", field="end")
    first, stop = ids
    if first is not None and stop is not None and first > stop:
        raise InvalidInput(f"the tuples end before ID {stop}, and begin at {first}", field="end_id")
    none = first in (stop, view.next_id) and stop in (None, first)
    tuple_ids = (
        [] if none else [tuple_id for tuple_id in (first, None if stop is None else stop - 1) if tuple_id is not None]
    )
    check_there(view, view.spec.name, tuple_ids, now)
    window = WindowClause(
        START if begin is None else Bound(Anchor.ABSOLUTE, at=begin),
        NOW if end is None else Bound(Anchor.ABSOLUTE, at=end),
    )
    current = view.now(now)
    seen = reach(view, window, current, current)
    if not accept_truncation:
        refuse_truncation(view.spec.name, seen.range)
    low, high = seen.range.low, seen.range.high
    low = low if first is None else max(low, first)
    high = max(high if stop is None else min(high, stop), low)
    low = low if last is None else max(low, view.left.back(high, last))
    return Stretch(low, high, Completeness(snapshot.sequence, current, 0, (part_of(snapshot, seen),)))


def bits_of(
    snapshot: Snapshot, view: StreamView, queries: Sequence[QueryRecord], where: Stretch, budget: ReadBudget = UNBOUNDED
) -> Bits:
    """The bits of some queries. Raises the errors of an invocation. O(chunks + matches) for each query."""
    config, count = snapshot.config, where.high - where.low
    rows: Array = np.zeros((len(queries), -(-count // 8)), np.uint8)
    by_clause: dict[int, tuple[int, int]] = {}
    """By clause: the row of its bits, and its errors."""
    for at, record in enumerate(queries):
        budget.check()
        if record.sqc_id not in by_clause:
            clause = snapshot.clause(record.sqc_id)
            matches = matches_in(
                view, clause, where.low, where.high, snapshot.run, config.archive_rows, budget, config.texts
            )
            for match in matches:
                _mark(rows[at], match.data.places.ids(match.offsets) - where.low)
            by_clause[record.sqc_id] = at, sum(match.errors for match in matches)
        else:
            rows[at] = rows[by_clause[record.sqc_id][0]]
    rows.flags.writeable = False
    errors = sum(by_clause[record.sqc_id][1] for record in queries)
    return Bits(where.low, where.high, tuple(queries), rows, where.told._replace(errors=errors))


def _mark(row: Array, places: Array) -> None:
    """Set the bits at `places`, ascending; other bits stay."""
    if not len(places):
        return
    begin = int(places[0]) & ~7
    marks: Array = np.zeros(int(places[-1]) + 1 - begin, np.bool_)
    marks[places - begin] = True
    packed = np.packbits(marks, bitorder="little")
    row[begin >> 3 : (begin >> 3) + len(packed)] |= packed
