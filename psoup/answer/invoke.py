"""Invocation: the current answer of a query, gathered from chunks and kept results.

    window ─> range of IDs of each source ─> matches per chunk ─> the plan, over references ─> columns ─> Arrow

The work up to the matches is done when the answer is made; rows are gathered when they are taken, a record batch at a
time, from the snapshot that the answer holds. Cost: the result, plus the window's length over 64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa

from psoup.answer.completeness import Completeness, part_of
from psoup.answer.matches import Matches, matches_in, packed
from psoup.answer.message import Message, form_of, read, row_bytes
from psoup.answer.rows import Arrivals, Reading, rows_of
from psoup.answer.window import instant, reach
from psoup.columns import Column
from psoup.config import TextLimits
from psoup.data.archived import Chunk
from psoup.data.chunk import ChunkView
from psoup.data.windows import refuse_truncation
from psoup.kinds import arrow_type
from psoup.model import Kind, WindowClause
from psoup.published.records import ClauseRecord, QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.reading import ReadBudget

_MAX_ROWS = 65_536
_BATCH_BYTES = 1 << 30
"""Most bytes of a batch that has more than one row: Arrow counts those of a text column in 31 bits."""


class Answer:
    """The answer of one invocation; holds its snapshot until it is dropped."""

    def __init__(
        self,
        record: QueryRecord,
        found: Sequence[Sequence[Matches]],
        completeness: Completeness,
        sort_rows: int,
        budget: ReadBudget,
        texts: TextLimits = TextLimits(),
    ) -> None:
        self.record = record
        self.completeness = completeness
        self.budget = budget
        self._plan = record.query.plan
        self._select = self._plan.schema
        self._reading = Reading(found, completeness.now, texts, budget, sort_rows)

    def lean(self) -> Answer:
        """The same answer in little memory, if it may wait for its reader: it holds chunks, but no results."""
        reading = self._reading
        matches_by_source = [[packed(match) for match in matches if match.count] for matches in reading.matches]
        return Answer(self.record, matches_by_source, self.completeness, reading.sort_rows, self.budget, reading.texts)

    @property
    def select_errors(self) -> int:
        """Values of the SELECT list, and keys of ORDER BY, that are NULL as they cannot be computed.

        Of the rows that the latest reading has taken so far.
        """
        return self._reading.errors

    @property
    def chunks(self) -> list[Chunk]:
        """The chunks that the answer holds as long as it exists."""
        return [match.data for match in chain.from_iterable(self._reading.matches)]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of every batch."""
        form = form_of(self._select)
        return form.schema if form else pa.schema([(o.name, arrow_type(o.type)) for o in self._select])

    @property
    def schema_message(self) -> bytes:
        """The schema as the first message of an Arrow IPC stream."""
        form = form_of(self._select)
        return form.schema_message if form else self.schema.serialize().to_pybytes()

    @property
    def matched(self) -> int:
        """Tuples of the window that satisfy WHERE: the rows of the answer, before DISTINCT and LIMIT."""
        return sum([match.count for match in self._matches])

    @property
    def ends(self) -> tuple[int, int] | None:
        """The tuple IDs of the first and the last match, in stream order; None if nothing matches."""
        matches = [match for match in self._matches if match.count]
        if not matches:
            return None
        first, last = matches[0], matches[-1]
        return first.data.first_id + int(first.offsets[0]), last.data.first_id + int(last.offsets[-1])

    def batches(self, max_rows: int = _MAX_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows, in order, at most `max_rows` in a batch. Raises ResourceExhausted if a sort is over its budget."""
        for part in self.messages(max_rows):
            yield read(part.gathered(), self.schema) if isinstance(part, Message) else part

    def messages(self, max_rows: int = _MAX_ROWS, max_bytes: int = _BATCH_BYTES) -> Iterator[Message | pa.RecordBatch]:
        """Yield the rows as `batches` does; rows without anything to compute come as messages, gathered on demand.

        A message has at most `max_bytes`, or one row; batches have about half of that, if texts are of usual length.
        """
        self._reading.errors = 0
        select = self._select
        max_rows = min(max_rows, max(max_bytes // (2 * row_bytes(select)), 1))
        rows, form = rows_of(self._plan, self._reading), form_of(select)
        if form is None or not isinstance(rows, Arrivals):
            yield from map(self._batch, rows.columns([output.expr for output in select], max_rows))
            return
        for group in rows.groups(max_rows):  # nothing is computed, and nothing has another order than the chunks
            self.budget.check()
            here = [(data, offsets) for data, offsets in group if isinstance(data, ChunkView)]
            if len(here) == len(group):
                yield from _cut(Message(form, here), min(max_bytes, _BATCH_BYTES))
            else:
                yield from map(self._batch, self._reading.computed([output.expr for output in select], group))

    def to_table(self) -> pa.Table:
        """The whole answer as one Arrow table."""
        batches = list(self.batches())
        return pa.Table.from_batches(batches) if batches else self.schema.empty_table()

    @property
    def _matches(self) -> Sequence[Matches]:
        """The matches of the only source."""
        (matches,) = self._reading.matches
        return matches

    def _batch(self, columns: list[Column]) -> pa.RecordBatch:
        self._reading.count(columns)
        arrays = [
            column.to_arrow().cast(pa.string()) if column.type.kind is Kind.TEXT else column.to_arrow()
            for column in columns
        ]
        return pa.RecordBatch.from_arrays(arrays, [o.name for o in self._select])


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
    """Answer a query. `now` is the clock; `as_of` replaces NOW; `window` replaces the registered one.

    No tuple after `as_of` is in it: a window that ends later is cut there, and is final once the watermark has passed.

    Raises NotFound; OutOfRange for an `as_of` after NOW, or a window that reaches past what is kept (unless
    `accept_truncation`); ResourceExhausted if too much of it is on disk and not covered.
    """
    record = snapshot.query(query_id, tenant)
    clause = snapshot.clause(record.sqc_id)
    return answer_of(
        snapshot,
        record,
        clause,
        now=now,
        as_of=as_of,
        window=window,
        accept_truncation=accept_truncation,
        budget=budget,
    )


def answer_of(
    snapshot: Snapshot,
    record: QueryRecord,
    clause: ClauseRecord,
    *,
    now: int,
    as_of: int | None,
    window: WindowClause | None,
    accept_truncation: bool,
    budget: ReadBudget | None,
) -> Answer:
    """Answer a query whose WHERE is `clause`; arguments and errors are those of `invoke`."""
    view = snapshot.by_id[record.stream_id]
    current = view.now(now)
    seen = reach(view, window or record.query.window, current, instant((current,), as_of), as_of)
    if not accept_truncation:
        refuse_truncation(view.spec.name, seen.range)
    config, budget = snapshot.config, budget or ReadBudget()
    low, high = seen.range.low, seen.range.high
    budget.window = high - low
    budget.check()
    texts = config.texts
    matched = matches_in(view, clause, low, high, snapshot.run, config.archive_rows, budget, texts)
    told = Completeness(snapshot.sequence, seen.now, sum([m.errors for m in matched]), (part_of(seen),))
    return Answer(record, [matched], told, config.sort_rows, budget, texts)


def _cut(message: Message, most: int) -> Iterator[Message]:
    """Yield the message, or its halves, and so on, until none has more than `most` bytes."""
    if message.size <= most or message.rows == 1:
        yield message
        return
    for half in message.halves():
        yield from _cut(half, most)
