"""Answers of invocations: rows, and how complete they are.

Answer         the whole answer in memory
AnswerStream   the same piece by piece, for answers that are too large for memory
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from psoup_client.connection import Connection
from psoup_client.errors import Cancelled, ServerFault
from psoup_client.schema import window_kind
from psoup_client.times import from_proto
from psoup_client.wording import counted, verb
from psoup_proto.v1 import types_pb2

if TYPE_CHECKING:
    import pandas
    import polars


@dataclass(frozen=True, slots=True)
class Completeness:
    """Completeness of an answer: what it contains and what not.

    `sequence`: the last event that the answer reflects. `begin`, `end`: the closed window; None is unbounded or, for a
    window that counts rows, empty. `final`: no tuple can get into the window any more. `late`, `ahead`: tuples of the
    stream that were refused so far, as too late or too far ahead of the clock; `late_in_window`, `ahead_in_window`:
    those whose time lies in the window, so that they are missing here; None if that is not known any more. `pending`:
    tuples of the stream that still wait for the watermark; `pending_in_window`: those in the window. `truncated`: the
    window begins before the oldest tuple that is kept. `errors`: values in WHERE that could not be computed and count
    as false, in all tuples of the chunks that the window touches: a tuple counts for each expression that failed, also
    where another one decides. `select_errors`: values of the SELECT list, and keys of ORDER BY, that could not be
    computed and are NULL; an answer in pieces knows it when all are read.
    """

    sequence: int
    now: dt.datetime | None
    watermark: dt.datetime | None
    begin: dt.datetime | None
    end: dt.datetime | None
    final: bool
    late: int
    ahead: int
    pending: int
    truncated: bool
    errors: int
    window_kind: str
    late_in_window: int | None = None
    ahead_in_window: int | None = None
    pending_in_window: int | None = None
    select_errors: int = 0

    @staticmethod
    def of(message: types_pb2.Completeness) -> Completeness:
        """Make one of the message on the wire."""
        return Completeness(
            sequence=message.sequence,
            now=_optional(message, "now"),
            watermark=_optional(message, "watermark"),
            begin=_optional(message, "begin"),
            end=_optional(message, "end"),
            final=message.final,
            late=message.late,
            ahead=message.ahead,
            pending=message.pending,
            truncated=message.truncated,
            errors=message.errors,
            window_kind=window_kind(message.window_kind),
            late_in_window=_count(message, "late_in_window"),
            ahead_in_window=_count(message, "ahead_in_window"),
            pending_in_window=_count(message, "pending_in_window"),
            select_errors=message.select_errors,
        )

    def sentence(self) -> str:
        """Say the same in words: "May still grow; 3 tuples of the window still wait for the watermark."."""
        parts = ["final: nothing can change it any more" if self.final else "may still grow"]
        parts += self._waiting()
        parts += _refused(self.late, self.late_in_window, "came too late")
        parts += _refused(self.ahead, self.ahead_in_window, "lay too far ahead of the clock")
        if self.truncated:
            parts.append("it begins at the oldest tuple kept, later than was asked for")
        if self.errors:
            values = f"{counted(self.errors, 'value')} of WHERE could not be computed"
            parts.append(f"{values} in the chunks that the window touches, false instead")
        if self.select_errors:
            values = counted(self.select_errors, "value")
            parts.append(f"{values} of the SELECT list could not be computed, NULL instead")
        if len(parts) == 1:
            parts.append("nothing late, nothing pending")
        text = "; ".join(parts) + "."
        return text[0].upper() + text[1:]

    def _waiting(self) -> list[str]:
        """Say how many tuples wait: they can get into a window that is not final, now or when it has moved on."""
        if not self.pending or self.final:
            return []
        if self.pending_in_window:
            count, where = self.pending_in_window, "window"
        else:
            count, where = self.pending, "stream"
        return [f"{counted(count, 'tuple')} of the {where} still {verb(count, 'waits', 'wait')} for the watermark"]


def _refused(count: int, inside: int | None, why: str) -> list[str]:
    """Say how many tuples of the stream were refused, and how many of these are missing in the window."""
    if not count:
        return []
    text = f"{counted(count, 'tuple')} of the stream {why} and {verb(count, 'was', 'were')} refused"
    if inside is None:
        return [f"{text}, in this window or not"]
    if not inside:
        return [f"{text}, {verb(count, 'not', 'none')} in this window"]
    if inside == count:
        return [f"{text}, {verb(count, '', 'all ')}in this window"]
    return [f"{text}, {inside:,} in this window"]


def _count(message: types_pb2.Completeness, field: Any) -> int | None:
    return int(getattr(message, field)) if message.HasField(field) else None


def _optional(message: types_pb2.Completeness, field: Any) -> dt.datetime | None:
    return from_proto(getattr(message, field)) if message.HasField(field) else None


class Answer:
    """A whole answer. `len()` is its rows; iterating gives a dict for each row, in the answer's order.

    Of two columns with one name a dict keeps the last; `rows()` has them all.
    """

    def __init__(self, table: pa.Table, completeness: Completeness | types_pb2.Completeness) -> None:
        self._table = table
        self._completeness = completeness

    @property
    def completeness(self) -> Completeness:
        """How complete the rows are."""
        if not isinstance(self._completeness, Completeness):  # most callers never ask, and times take a while to make
            self._completeness = Completeness.of(self._completeness)
        return self._completeness

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = self.columns
        return (dict(zip(names, row, strict=True)) for row in self._rows())

    def __repr__(self) -> str:
        return f"<Answer: {counted(len(self), 'row')} of {', '.join(self.columns)}; {self.completeness.sentence()}>"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._table.schema.names)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return all rows as tuples of Python values; NULL is None, a TIMESTAMP an aware datetime in UTC."""
        return list(self._rows())

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table. Nothing is copied."""
        return self._table

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a pandas frame; needs pandas."""
        return self._table.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a Polars frame; needs polars."""
        import polars

        frame = polars.from_arrow(self._table)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        if not self._table.num_columns:
            return iter(())
        return zip(*(column.to_pylist() for column in self._table.columns), strict=True)


class AnswerStream:
    """An answer in pieces of about 256 KiB, in bounded memory: iterate over it inside a `with` statement, once.

    All pieces belong to one snapshot. The call is cancelled when the block is left.
    """

    def __init__(self, connection: Connection, call: Any) -> None:
        self._replies = connection.replies(call)
        first = next(self._replies, None)
        if first is None:
            raise ServerFault("the service ended an answer before it began")
        self.completeness = Completeness.of(first.completeness)
        self._file = _ReplyFile(self._noting(), first.arrow_ipc)
        self._reader = pa.ipc.open_stream(self._file)
        self.schema: pa.Schema = self._reader.schema

    def _noting(self) -> Iterator[Any]:
        """The messages after the first; the last one may know more of how complete the answer is."""
        for reply in self._replies:
            if reply.HasField("completeness"):
                self.completeness = Completeness.of(reply.completeness)
            yield reply

    def __enter__(self) -> AnswerStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._reader

    def read_all(self) -> Answer:
        """Read the rest of the answer into memory."""
        return Answer(self._reader.read_all(), self.completeness)

    def close(self) -> None:
        """Cancel the call, if it still runs; what was not read is lost."""
        self._file.abandoned = True
        self._replies.close()  # type: ignore[attr-defined]


class _ReplyFile:
    """The `arrow_ipc` of successive replies, read as one file."""

    closed = False
    abandoned = False

    def __init__(self, replies: Iterator[Any], start: bytes) -> None:
        self._replies = replies
        self._left = memoryview(start)

    def read(self, size: int = -1) -> bytes:
        """Return the next `size` bytes, fewer only at the end."""
        pieces: list[memoryview] = []
        while size:
            if not self._left:
                if self.abandoned:
                    raise Cancelled("the answer was closed before its end")
                reply = next(self._replies, None)
                if reply is None:
                    break
                self._left = memoryview(reply.arrow_ipc)
                continue
            piece = self._left if size < 0 else self._left[:size]
            self._left = self._left[len(piece) :]
            pieces.append(piece)
            size -= len(piece) if size > 0 else 0
        return b"".join(pieces)

    def readable(self) -> bool:
        """True: pyarrow asks before it reads."""
        return True

    def writable(self) -> bool:
        """False: replies come once, in their order."""
        return False

    def seekable(self) -> bool:
        """False: replies come once, in their order."""
        return False

    def close(self) -> None:
        """Do no more than note it: the stream owns the call."""
        self.closed = True
