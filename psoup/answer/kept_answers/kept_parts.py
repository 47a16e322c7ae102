"""Messages of kept answers: bytes that several answers share, and new messages that are spliced from them.

    kept      a0 a1 a2 a3 | b0 b1 b2 b3            all columns as int64[columns, rows], if none may have NULL
    came      a4 | b4
    spliced   a1 a2 a3 a4 | b1 b2 b3 b4            the rows that stay are copied column by column, without their chunks

A message has the same bytes as `psoup.execution.rows.record_batch` would write for its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TypeGuard

import numpy as np
import pyarrow as pa

from psoup.execution.rows.record_batch import Form, Message, plain_header, read
from psoup.kernels.rows.batch_body import DECIMAL
from psoup.values.columns import Array, new_array


class KeptPart(Message):
    """Rows of an answer as the bytes of an Arrow message. Several answers may share them, so they never change."""

    def __init__(self, rows: int, message: Array, schema: pa.Schema) -> None:
        """`message`: uint8[n], which becomes read-only. It is copied if it is a small part of a larger block."""
        if isinstance(message.base, np.ndarray) and message.base.nbytes > 2 * message.nbytes:
            message = message.copy()
        message.flags.writeable = False
        self.rows = rows
        self.size = len(message)
        self.schema = schema
        self._message = message

    @staticmethod
    def of_batch(batch: pa.RecordBatch) -> KeptPart:
        """The bytes of a record batch. O(bytes)."""
        message: Array = np.frombuffer(batch.serialize(), np.uint8)
        return KeptPart(batch.num_rows, message, batch.schema)

    @property
    def can_be_cut(self) -> bool:
        """False: use `batch` to cut the rows."""
        return False

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows as a record batch that shares the bytes."""
        return read(self._message, self.schema)

    def gathered(self) -> Array:
        """The message, uint8[size], read-only."""
        return self._message

    def halves(self) -> tuple[Message, Message]:
        """Split the message into its first and second half. It must have at least two rows."""
        batch, middle = self.batch, self.rows // 2
        return KeptPart.of_batch(batch.slice(0, middle)), KeptPart.of_batch(batch.slice(middle))

    def within(self, max_rows: int, max_bytes: int) -> Iterator[Message | pa.RecordBatch]:
        """Yield the rows as this message, or as record batches if it has more than `max_rows` rows or `max_bytes`."""
        if self.rows <= max_rows and self.size <= max_bytes:  # nearly always
            yield self
            return
        batch = self.batch
        at_once = max(min(max_rows, self.rows * max_bytes // self.size), 1)
        for start in range(0, self.rows, at_once):
            yield batch.slice(start, at_once)


class GatheredOnce(Message):
    """A message of an answer that is evaluated. Its bytes are gathered when the reader asks for them, and noted."""

    def __init__(self, message: Message, schema: pa.Schema) -> None:
        self.rows = message.rows
        self.size = message.size
        self._schema = schema
        self._message = message
        self._part: KeptPart | None = None

    @property
    def can_be_cut(self) -> bool:
        """False: the message is sent as it is."""
        return False

    @property
    def part(self) -> KeptPart:
        """The bytes, as other answers may share them. O(rows * columns) at the first call."""
        if self._part is None:
            self._part = KeptPart(self.rows, self._message.gathered(), self._schema)
            self._message = self._part
        return self._part

    def gathered(self) -> Array:
        """The message, uint8[size], read-only."""
        return self.part.gathered()

    def halves(self) -> tuple[Message, Message]:
        """Split the message into its first and second half. It must have at least two rows."""
        return self._message.halves()


def is_plain(form: Form | None) -> TypeGuard[Form]:
    """Whether all columns of a SELECT list have values of 8 bytes, so that messages without NULL can be spliced."""
    return form is not None and form.exact and DECIMAL not in form.kinds.tolist()


def run_of(form: Form, rows: int, message: Array) -> Array | None:
    """The columns of a message, int64[columns, rows], or None if a column may have NULL. `form`: plain. O(1)."""
    start, columns = form.header.nbytes, len(form.kinds)
    if len(message) != start + 8 * columns * rows:  # it has bitmaps of validity
        return None
    return message[start:].view(np.int64).reshape(columns, rows)


def spliced(form: Form, runs: Sequence[Array], most_rows: int) -> Iterator[KeptPart]:
    """Yield the rows of some runs as messages of `most_rows` rows, the last of fewer. `form`: plain. O(bytes)."""
    ends = [0, *accumulate([run.shape[1] for run in runs])]
    for first in range(0, ends[-1], most_rows):
        stop = min(first + most_rows, ends[-1])
        header = plain_header(form, stop - first)
        message = new_array(len(header) + 8 * len(form.kinds) * (stop - first), np.uint8)
        message[: len(header)] = header
        body = message[len(header) :].view(np.int64).reshape(-1, stop - first)
        for run, (start, end) in zip(runs, pairwise(ends), strict=True):
            if start < stop and first < end:
                body[:, max(start - first, 0) : end - first] = run[:, max(first - start, 0) : stop - start]
        yield KeptPart(stop - first, message, form.schema)
