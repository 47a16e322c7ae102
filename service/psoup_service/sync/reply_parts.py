"""The first rows of an answer that fit into a reply: measured before they are gathered.

    messages  |100 rows, 0.2 MB|100 rows, 0.2 MB|100 rows, 80 MB|…      most 1 MB
    taken      ────────────────  ────────────────  stop: 200 rows fit

Computed rows are measured in Arrow, one piece at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from psoup.execution.rows.record_batch import Message
from psoup_proto.v1 import sync_pb2

Part: TypeAlias = Message | pa.RecordBatch


class FirstParts(NamedTuple):
    """The parts that fit and their rows; `all`: whether no part is missing."""

    parts: list[Part]
    rows: int
    all: bool


def rows_in(part: Part) -> int:
    """The number of rows of a part."""
    return part.rows if isinstance(part, Message) else int(part.num_rows)


def bytes_in(part: Part) -> int:
    """The bytes of a part in Arrow. A message is measured before it is gathered."""
    return part.size if isinstance(part, Message) else int(part.nbytes)


def first_parts(parts: Iterable[Part], limit: int) -> FirstParts:
    """The first parts with at most `limit` bytes together. A larger first part is taken if it is a single row."""
    taken, rows, size = list[Part](), 0, 0
    for part in parts:
        size += bytes_in(part)
        if size > limit and not (not taken and rows_in(part) == 1):
            return FirstParts(taken, rows, False)
        taken.append(part)
        rows += rows_in(part)
    return FirstParts(taken, rows, True)


def raw_of(part: Part) -> bytes:
    """A part as bytes in Arrow."""
    return bytes(part.gathered()) if isinstance(part, Message) else part.serialize().to_pybytes()


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Rows as they are sent, in one of two encodings."""

    batches: Sequence[bytes] = ()
    columns: bytes = b""

    @property
    def size(self) -> int:
        """The bytes of the rows before compression."""
        return sum(map(len, self.batches)) + len(self.columns)

    def put(self, change: sync_pb2.Change) -> None:
        """Put the rows into a change."""
        change.batches.extend(self.batches)
        change.columns_json = self.columns
