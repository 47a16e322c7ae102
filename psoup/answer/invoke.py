"""Invocation: the current answer of a registered query, gathered from chunks and kept results.

    window ─> range of IDs ─> matches per chunk ─> gather the columns that are needed ─> SELECT list ─> Arrow

The work up to the matches is done when the answer is made; rows are gathered when they are taken, a record batch at a
time, from the snapshot that the answer holds. Cost: the result, plus the window's length over 64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from psoup.answer.completeness import Completeness, completeness
from psoup.answer.found import Matches, packed
from psoup.answer.gathering import by_ids, groups, ids_of
from psoup.answer.matches import matches_in
from psoup.answer.message import Message, form_of, read, row_bytes
from psoup.answer.outputs import Group, computed
from psoup.answer.sorting import Sorting, over_rows
from psoup.columns import Column
from psoup.config import TextLimits
from psoup.data.archived import Chunk
from psoup.data.chunk import ChunkView
from psoup.data.windows import apply_window, as_of_window, refuse_truncation
from psoup.errors import OutOfRange
from psoup.expressions.tree import Expr
from psoup.kinds import arrow_type
from psoup.model import Kind, WindowClause, time_text
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.reading import ReadBudget

_MAX_ROWS = 65_536
_DISK_ROWS = 16_384
"""Rows that a sorted answer gathers at once from files."""
_BATCH_BYTES = 1 << 30
"""Most bytes of a batch that has more than one row: Arrow counts those of a text column in 31 bits."""


class Answer:
    """The answer of one invocation; holds its snapshot until it is dropped.

    `select_errors`: values of the SELECT list, and keys of ORDER BY, that could not be computed and are NULL, in the
    rows that were given out so far.
    """

    def __init__(
        self,
        record: QueryRecord,
        found: Sequence[Matches],
        completeness: Completeness,
        sort_rows: int,
        budget: ReadBudget,
        texts: TextLimits = TextLimits(),
    ) -> None:
        self.record = record
        self.completeness = completeness
        self.budget = budget
        self.select_errors = 0
        self._found = found
        self._sort_rows = sort_rows
        self._texts = texts

    def lean(self) -> Answer:
        """The same answer in little memory, for one that may wait for its reader: it holds chunks, but no results."""
        found = [packed(match) for match in self._found if match.count]
        return Answer(self.record, found, self.completeness, self._sort_rows, self.budget, self._texts)

    @property
    def chunks(self) -> list[Chunk]:
        """The chunks that the answer holds as long as it is there."""
        return [match.data for match in self._found]

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of every batch."""
        form = form_of(self.record.query.select)
        return form.schema if form else pa.schema([(o.name, arrow_type(o.type)) for o in self.record.query.select])

    @cached_property
    def schema_message(self) -> bytes:
        """The schema as the first message of an Arrow IPC stream."""
        form = form_of(self.record.query.select)
        return form.schema_message if form else self.schema.serialize().to_pybytes()

    @property
    def matched(self) -> int:
        """Tuples of the window that satisfy WHERE: the rows of the answer, before DISTINCT and LIMIT."""
        return sum([match.count for match in self._found])

    @property
    def ends(self) -> tuple[int, int] | None:
        """The tuple IDs of the first and the last match, in stream order; None if nothing matches."""
        found = [match for match in self._found if match.count]
        if not found:
            return None
        first, last = found[0], found[-1]
        return first.data.first_id + int(first.offsets[0]), last.data.first_id + int(last.offsets[-1])

    def batches(self, max_rows: int = _MAX_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows, in order, at most `max_rows` in a batch. Raises ResourceExhausted if a sort is over its budget."""
        for part in self.messages(max_rows):
            yield read(part.gathered(), self.schema) if isinstance(part, Message) else part

    def messages(self, max_rows: int = _MAX_ROWS, max_bytes: int = _BATCH_BYTES) -> Iterator[Message | pa.RecordBatch]:
        """As `batches`; rows for which nothing is to be computed come as messages, gathered when they are asked to.

        A message has at most `max_bytes`, or one row; batches have about half of that, if texts are of usual length.
        """
        query = self.record.query
        max_rows = min(max_rows, max(max_bytes // (2 * row_bytes(query.select)), 1))
        if query.order or query.distinct:
            yield from self._arranged(max_rows)
            return
        form = form_of(query.select)
        for group in groups(self._found, max_rows, query.limit):
            self.budget.check()
            here = [(data, offsets) for data, offsets in group if isinstance(data, ChunkView)]
            if form is not None and len(here) == len(group):
                yield from _cut(Message(form, here), min(max_bytes, _BATCH_BYTES))
            else:
                yield from map(self._batch, self._computed([o.expr for o in query.select], group))

    def to_table(self) -> pa.Table:
        """The whole answer as one Arrow table."""
        batches = list(self.batches())
        return pa.Table.from_batches(batches) if batches else self.schema.empty_table()

    def _arranged(self, max_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows in their order: their IDs are held, and each piece is gathered when it is asked for."""
        query, now, budget = self.record.query, self.completeness.now, self.budget
        outputs = [output.expr for output in query.select]
        sorting = Sorting(query, budget, self._sort_rows)
        if self.matched > self._sort_rows and not sorting.reducible:
            raise over_rows(self.matched, self._sort_rows)
        try:
            for group in groups(self._found, _MAX_ROWS):
                budget.check()
                sorting.add_all(ids_of(group), self._keys(sorting.wanted, group))
            ids = sorting.order()
            if any(not match.data.in_memory for match in self._found):
                max_rows = max(max_rows, _DISK_ROWS)
            for start in range(0, len(ids), max_rows):
                piece = ids[start : start + max_rows]
                yield from map(self._batch, by_ids(outputs, self.chunks, piece, now, self._texts, budget))
        finally:
            sorting.close()

    def _keys(self, wanted: list[Expr], group: Group) -> Iterator[list[Column]]:
        """What is sorted by; values of the SELECT list are counted when they are given out."""
        outputs = {output.expr for output in self.record.query.select}
        for columns in self._computed(wanted, group):
            self._count([column for expr, column in zip(wanted, columns, strict=True) if expr not in outputs])
            yield columns

    def _count(self, columns: Sequence[Column]) -> None:
        self.select_errors += sum(int(np.count_nonzero(c.error)) for c in columns if c.error is not None)

    def _computed(self, outputs: list[Expr], group: Group) -> Iterator[list[Column]]:
        return computed(outputs, group, self.completeness.now, self._texts, self.budget)

    def _batch(self, columns: list[Column]) -> pa.RecordBatch:
        self._count(columns)
        arrays = [
            column.to_arrow().cast(pa.string()) if column.type.kind is Kind.TEXT else column.to_arrow()
            for column in columns
        ]
        return pa.RecordBatch.from_arrays(arrays, [o.name for o in self.record.query.select])


def invoke(
    snapshot: Snapshot,
    query_id: int,
    *,
    tenant: str,
    now: int,
    as_of: int | None = None,
    window: WindowClause | None = None,
    accept_truncation: bool = False,
    budget: ReadBudget | None = None,
) -> Answer:
    """The answer of a query. `now` is the clock; `as_of` replaces NOW; `window` replaces the registered one.

    No tuple after `as_of` is in it: a window that ends later is cut there, and is final once the watermark has passed.

    Raises NotFound; OutOfRange for an `as_of` after NOW, or a window that reaches past what is kept (unless
    `accept_truncation`); ResourceExhausted if too much of it is on disk and not covered.
    """
    record = snapshot.query(query_id, tenant)
    view = snapshot.by_id[record.stream_id]
    window = window or record.query.window
    current = view.now(now)
    instant = _instant(current, as_of)
    reached = window if as_of is None else as_of_window(window, as_of)
    found = apply_window(reached, view.timeline(), view.spec.retention, current, instant)
    if not accept_truncation:
        refuse_truncation(view.spec.name, found)
    clause, config, budget = snapshot.clause(record.sqc_id), snapshot.config, budget or ReadBudget()
    texts = config.texts
    budget.window = found.high - found.low
    budget.check()
    rows = (found.low, found.high)
    matched = matches_in(view, clause, *rows, snapshot.run, config.archive_rows, budget, texts)
    errors = sum([m.errors for m in matched])
    told = completeness(snapshot, view, window, found, current=current, now=instant, errors=errors)
    return Answer(record, matched, told, config.sort_rows, budget, texts)


def _instant(current: int | None, as_of: int | None) -> int | None:
    if as_of is None:
        return current
    if current is None or as_of > current:
        known = "no tuple has come yet" if current is None else f"NOW is {time_text(current)}"
        raise OutOfRange(
            f"as_of {time_text(as_of)} lies after NOW ({known}); ask for a time that has been reached",
            reason="AS_OF_IN_FUTURE",
        )
    return as_of


def _cut(message: Message, most: int) -> Iterator[Message]:
    """The message, or its halves, and so on, until none has more than `most` bytes."""
    if message.size <= most or message.rows == 1:
        yield message
        return
    for half in message.halves():
        yield from _cut(half, most)
