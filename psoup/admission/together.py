"""Group commit of small pushes: pushes that wait at the same time become one event, and one row of the log.

    push  1 row ┐
    push  2 rows├──> push of 4 rows, whole ──> one event, one sequence ──> each caller gets the answer for its rows
    push  1 row ┘

Each push must have the same result as without joining. Pushes of producers have numbers, and are not joined. If a row
would be refused, or a column has an error, each push is prepared separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import pyarrow as pa

from psoup.errors import InvalidBatch
from psoup.events.acknowledgements import PushAcknowledgement
from psoup.events.commands import Command, Push

SMALL_ROWS = 64
"""The most rows of a push that is joined: for larger ones preparing a row takes longer than copying it."""

MOST = 256
"""The most pushes in one event."""
MOST_BYTES = 4 * 1024 * 1024
"""The most bytes in one event: few rows may have long texts, and an event is one row of the log."""


def may_join(first: Command, other: Command) -> bool:
    """Whether `other` can be in one event with `first`: small pushes to one stream, without producers. O(columns)."""
    return (
        is_small(first)
        and is_small(other)
        and first.stream == other.stream
        and first.tenant == other.tenant
        and first.table.schema.equals(other.table.schema)
    )


def is_small(command: Command) -> TypeGuard[Push]:
    """Whether a command can share an event."""
    if not isinstance(command, Push) or command.producer or command.epoch or command.number:
        return False
    return isinstance(command.table, pa.RecordBatch) and 0 < command.table.num_rows <= SMALL_ROWS


def join(pushes: Sequence[Push]) -> Push:
    """The rows of all `pushes`, in their order. Raises InvalidBatch if the rows of one cannot be read. O(bytes)."""
    try:
        table = pa.Table.from_batches([push.table for push in pushes])
        table.validate(full=True)  # before it is copied: offsets may point outside its memory
        return Push(pushes[0].stream, table.combine_chunks(), tenant=pushes[0].tenant, whole=True)
    except pa.ArrowException as problem:
        raise InvalidBatch(f"the pushes cannot be joined: {problem}", reason="CORRUPT_BATCH") from problem


def share(answer: PushAcknowledgement, pushes: Sequence[Push]) -> list[PushAcknowledgement]:
    """Split the answer to the joined push into answers to each of `pushes`."""
    answers, first = list[PushAcknowledgement](), 0
    for push in pushes:
        rows = push.table.num_rows
        answers.append(PushAcknowledgement(answer.sequence, False, rows, watermark=answer.watermark, first_row=first))
        first += rows
    return answers
