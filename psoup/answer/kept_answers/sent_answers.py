"""Answers of COMPLETE queries: an answer whose rows are kept as the reader takes them, and an answer of kept rows.

    KeepingAnswer   evaluated as any other; after the last row, `keep` gets all its messages
    SentAnswer      messages that are kept, or spliced from kept ones; it holds no chunk

If the reader stops before the last row, nothing is kept. The bytes that readers hold for that are limited
(`AnswerRoom.take`): a reader that gets no more holds nothing, and its answer is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from psoup.answer.answer import BATCH_BYTES, MAX_ROWS, Answer
from psoup.answer.completeness import Completeness
from psoup.answer.kept_answers.kept_parts import GatheredOnce, KeptPart
from psoup.answer.kept_answers.kept_values import AnswerFigures
from psoup.execution.plan import Reading
from psoup.execution.rows.record_batch import Message
from psoup.execution.select.window import Ranges
from psoup.published.answer_room import AnswerRoom
from psoup.published.records import QueryRecord

Keep = Callable[[Answer, tuple[KeptPart, ...], int], None]
"""Keeps the messages of an answer that was read to its end, with their bytes. If these are too many, it gets no
messages."""


class KeepingAnswer(Answer):
    """An answer that is evaluated, and then kept."""

    def __init__(self, answer: Answer, keep: Keep, room: AnswerRoom) -> None:
        """`room`: limits the bytes of messages that are noted for `keep`."""
        super().__init__(
            answer.record, answer._completeness, answer._reading, answer._streams, answer.ranges, answer._plan
        )
        self._keep = keep
        self._room = room

    def lean(self) -> Answer:
        """See Answer."""
        return KeepingAnswer(super().lean(), self._keep, self._room)

    def messages(self, max_rows: int = MAX_ROWS, max_bytes: int = BATCH_BYTES) -> Iterator[Message | pa.RecordBatch]:
        """See Answer. The bytes of messages are read-only."""
        noted, size, schema, reader, holds = list[GatheredOnce | KeptPart](), 0, self.schema, object(), True
        try:
            for part in super().messages(max_rows, max_bytes):
                size += part.size if isinstance(part, Message) else part.nbytes
                holds = holds and self._room.take(reader, self.record.tenant, size)
                if not holds:
                    noted.clear()
                    yield part
                elif isinstance(part, Message):
                    noted.append(GatheredOnce(part, schema))
                    yield noted[-1]
                else:
                    noted.append(KeptPart.of_batch(part))
                    yield part
            if holds:
                self._keep(self, tuple([part.part if isinstance(part, GatheredOnce) else part for part in noted]), size)
            elif size > self._room.most_of_one:
                self._keep(self, (), self._room.refused_size(size))  # the limit may rise before it is refused
        finally:
            self._room.release(reader)


class RowRange(NamedTuple):
    """The facts of a SentAnswer about its sources. `streams`, `ranges`: as in Answer."""

    streams: Sequence[int]
    ranges: Ranges


class SentAnswer(Answer):
    """An answer whose messages are kept, or are spliced from kept messages."""

    def __init__(
        self,
        record: QueryRecord,
        completeness: Callable[[], Completeness],
        reading: Reading,
        extent: RowRange,
        figures: AnswerFigures,
        parts: Callable[[int], Iterable[KeptPart]],
        keep: Callable[[tuple[KeptPart, ...]], None] | None = None,
        room: AnswerRoom | None = None,
    ) -> None:
        """`reading`: without matches. `parts`: returns the messages, by the most rows of a message. `keep`: gets them
        after the last one. `room`: limits the bytes of messages that are noted for it.
        """
        super().__init__(record, completeness, reading, extent.streams, extent.ranges)
        self._figures = figures
        self._parts = parts
        self._keep = keep
        self._room = room

    def lean(self) -> Answer:
        """The answer itself: it holds no results."""
        return self

    @property
    def errors(self) -> int:
        """See Answer."""
        return self._figures.errors + self._figures.more_errors

    @property
    def select_errors(self) -> int:
        """See Answer."""
        return self._figures.select_errors

    @property
    def unknown(self) -> int:
        """See Answer."""
        return self._figures.unknown

    @property
    def matched(self) -> int:
        """See Answer."""
        return self._figures.matched

    @property
    def likeness(self) -> str:
        """See Answer."""
        return self._figures.likeness

    def messages(self, max_rows: int = MAX_ROWS, max_bytes: int = BATCH_BYTES) -> Iterator[Message | pa.RecordBatch]:
        """See Answer. The bytes of messages are read-only."""
        keep, room, sent, size, reader = self._keep, self._room, list[KeptPart](), 0, object()
        try:
            for part in self._parts(self._case(max_rows, max_bytes).most_rows):
                self.budget.check()
                if keep is not None and room is not None:
                    size += part.size
                    if room.take(reader, self.record.tenant, size):
                        sent.append(part)
                    else:
                        keep, sent = None, []
                yield from part.within(max_rows, max_bytes)
            if keep is not None:
                keep(tuple(sent))
        finally:
            if room is not None:
                room.release(reader)
