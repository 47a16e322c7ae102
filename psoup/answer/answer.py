"""The answer of one invocation: completeness, schema, and rows, which are gathered when the reader takes them.

    Reading: the matches of each source ─ the ways of `psoup.execution.ways` ─> messages and record batches of Arrow

An answer holds the chunks of its rows as long as it exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod

import pyarrow as pa

from psoup.answer.completeness import Completeness
from psoup.data.archived_chunk import Chunk
from psoup.execution.join.located_side import chunks_of, count_of
from psoup.execution.plan import Reading, rows_of
from psoup.execution.rows.answer_case import AnswerCase, AnswerPart
from psoup.execution.rows.record_batch import Message, form_of, read
from psoup.execution.select.match_forms import Matches, packed
from psoup.execution.select.window import Ranges
from psoup.execution.ways import ANSWER
from psoup.model import Kind
from psoup.plan.nodes import Node
from psoup.published.records import ClauseRecord, QueryRecord
from psoup.published.snapshot import StreamView
from psoup.values.columns import Column
from psoup.values.kinds import arrow_type

MAX_ROWS = 65_536
"""The most rows of a batch, unless the caller gives another number."""
BATCH_BYTES = 1 << 30
"""The most bytes of a batch with several rows. The offsets of an Arrow text column have 31 bits."""

Matched = tuple[StreamView, ClauseRecord]
"""A source of a join: its stream, and the clause of its side."""


class Answer:
    """The answer of one invocation. It holds its snapshot as long as it exists."""

    def __init__(
        self,
        record: QueryRecord,
        completeness: Completeness | Callable[[], Completeness],
        reading: Reading,
        streams: Sequence[int],
        ranges: Ranges = (),
        plan: Node | None = None,
    ) -> None:
        """`completeness`: the value, or a function that computes it at first use.

        `streams`: the stream ID of each source. `ranges`: for a join, the range of tuple IDs of each source. `plan`:
        a plan over the same source that replaces the plan of the query.
        """
        self.record = record
        self._completeness = completeness
        self.budget = reading.budget
        self._plan = plan or record.query.plan
        self._select = self._plan.schema
        self._reading = reading
        self._streams = streams
        self.ranges = ranges

    @property
    def completeness(self) -> Completeness:
        """The completeness of the answer: which events it reflects, and which tuples it lacks."""
        if not isinstance(self._completeness, Completeness):
            self._completeness = self._completeness()
        return self._completeness

    def lean(self) -> Answer:
        """A copy of the answer for the time until its reader comes. It holds the chunks but no results, so it takes
        less memory.
        """
        reading = self._reading
        matches = [[packed(match) for match in source if match.count] for source in reading.matches]
        lean = replace(reading, matches=matches)
        return Answer(self.record, self.completeness, lean, self._streams, self.ranges, self._plan)

    @property
    def errors(self) -> int:
        """Tuples that are missing because a value in WHERE could not be computed; see Completeness.

        For a join, a combination of tuples also counts if a condition over several sources could not be computed. For
        groups, keys, arguments of aggregates and their FILTERs also count if they could not be computed. These two
        counts cover only the rows that were read so far.
        """
        return self.completeness.errors + self._reading.join_errors + self._reading.folded_errors

    @property
    def select_errors(self) -> int:
        """Values of the SELECT list, and keys of ORDER BY, that are NULL because they could not be computed.

        Counted over the rows that the latest pass over `batches` or `messages` has taken so far.
        """
        return self._reading.errors

    @property
    def unknown(self) -> int:
        """Rows of a join AS OF without a version that are older than the table's HISTORY.

        A version may have held at their times, and is lost. Counted as `select_errors`.
        """
        return self._reading.unknown

    @property
    def chunks(self) -> list[tuple[int, list[Chunk]]]:
        """The stream ID of each source, and the chunks of it that the answer holds as long as it exists."""
        sources = zip(self._streams, self._reading.matches, strict=True)
        return [(stream_id, chunks_of(matches)) for stream_id, matches in sources]

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
        """Tuples of the windows that satisfy WHERE. Over one stream: the rows before GROUP BY, DISTINCT and LIMIT."""
        between = self._reading.between
        ends = sum([count_of(matches) for matches in self._reading.matches])
        return ends + (0 if between is None or between.fold is None else between.fold.matched)

    @property
    def share(self) -> float:
        """The product of the shares of tuples that match, of all windows of a join. 0 if it is not known."""
        sources = zip(self.ranges, self._reading.matches, strict=False)
        shares = [count_of(matches) / max(high - low, 1) for (low, high), matches in sources]
        return prod(shares) if len(shares) == len(self.ranges) else 0.0

    @property
    def likeness(self) -> str:
        """A fingerprint of the answer at one NOW: equal texts mean equal answers.

        The text holds the number of matches, and the IDs of the first and last. These suffice: at one NOW, matches are
        only added at the end and removed at the start. If matches may be folded, the text has the ends of the window
        instead of the IDs.
        """
        if (between := self._reading.between) is not None:
            return f"{between.window}/{self.matched}"
        return ", ".join([f"{_ends(matches)}/{count_of(matches)}" for matches in self._reading.matches])

    def batches(self, max_rows: int = MAX_ROWS, max_bytes: int = BATCH_BYTES) -> Iterator[pa.RecordBatch]:
        """The rows, in order, at most `max_rows` in a batch. Raises ResourceExhausted if a sort is over its budget.

        Rows of plain columns are gathered in batches of at most `max_bytes`, or of one row.
        """
        schema: pa.Schema | None = None
        for part in self.messages(max_rows, max_bytes):
            if isinstance(part, Message):
                schema = self.schema if schema is None else schema
                yield read(part.gathered(), schema)
            else:
                yield part

    def messages(self, max_rows: int = MAX_ROWS, max_bytes: int = BATCH_BYTES) -> Iterator[Message | pa.RecordBatch]:
        """Yield the rows as `batches` does, but rows of plain columns as messages, which are gathered on demand.

        A message has at most `max_bytes`, or one row. A batch has about half of that, if texts have usual lengths.
        """
        self._reading.begin()
        max_bytes = min(max_bytes, BATCH_BYTES)
        for part in ANSWER.take(self._plan, self._case(max_rows, max_bytes)):
            if not isinstance(part, Message):
                yield self._batch(part)
            elif part.size <= max_bytes:  # nearly always
                yield part
            else:
                yield from _cut(part, max_bytes)

    def _case(self, max_rows: int, max_bytes: int) -> AnswerCase:
        return AnswerCase(self._plan, self._reading, max_rows, max_bytes, rows_of)

    def to_table(self) -> pa.Table:
        """The whole answer as one Arrow table."""
        batches = list(self.batches())
        return pa.Table.from_batches(batches) if batches else self.schema.empty_table()

    def _batch(self, columns: list[Column]) -> pa.RecordBatch:
        self._reading.count(columns)
        arrays = [
            column.to_arrow().cast(pa.string()) if column.type.kind is Kind.TEXT else column.to_arrow()
            for column in columns
        ]
        return pa.RecordBatch.from_arrays(arrays, [o.name for o in self._select])


def by_way(answer: Answer, name: str) -> Iterator[AnswerPart]:
    """The rows of an answer by the named way, even if a quicker way accepts the answer. Raises what the way raises."""
    (way,) = [way for way in ANSWER.ways if way.name == name]
    return iter(way.run(answer._case(MAX_ROWS, BATCH_BYTES)))


def _ends(matches: Sequence[Matches]) -> tuple[int, int] | None:
    """The tuple IDs of the first and the last match, in stream order. Returns None if nothing matches."""
    some = [match for match in matches if match.count]
    if not some:
        return None
    first, last = some[0], some[-1]
    return first.data.places.id_of(int(first.offsets[0])), last.data.places.id_of(int(last.offsets[-1]))


def _cut(message: Message, max_bytes: int) -> Iterator[Message]:
    """Yield the message, halved again and again until each part has at most `max_bytes` bytes, or one row."""
    if message.size <= max_bytes or message.rows == 1:
        yield message
        return
    for half in message.halves():
        yield from _cut(half, max_bytes)
