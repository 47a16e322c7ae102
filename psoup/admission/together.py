"""Group commit of small pushes: pushes that wait at the same time become one event, and one row of the log.

    push  1 row ┐
    push  2 rows├──> push of 4 rows, whole ──> one event, one sequence ──> each caller gets the answer for its rows
    push  1 row ┘

Each push must have the same result as if it were prepared alone. Pushes of producers have numbers, and are not joined.
If a row would be refused or replaced, or a column has an error, the sequencer prepares each push alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import pyarrow as pa

from psoup.errors import InvalidBatch
from psoup.events.acknowledgements import PushAcknowledgement
from psoup.events.commands import Command, Push

SMALL_ROWS = 64
"""The most rows of a push that shares an event. For larger pushes the saved work is small against the copy."""

MOST = 256
"""The most pushes in one event."""
MOST_BYTES = 4 * 1024 * 1024
"""The most bytes in one event. Few rows may have long texts, and the log stores an event as one row."""


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
    """Whether a command is a small push without a producer, which can share an event."""
    if not isinstance(command, Push) or command.producer or command.epoch or command.number:
        return False
    if command.source or command.after is not None:  # an error without a producer, which the push gets alone
        return False
    return isinstance(command.table, pa.RecordBatch) and 0 < command.table.num_rows <= SMALL_ROWS


def join(pushes: Sequence[Push]) -> Push:
    """Join `pushes` to one push of all rows, in their order. Raises InvalidBatch if rows cannot be read. O(bytes)."""
    try:
        table = pa.Table.from_batches([push.table for push in pushes])
        table.validate(full=True)  # before the copy, as offsets may point outside the table's memory
        return Push(pushes[0].stream, table.combine_chunks(), tenant=pushes[0].tenant, whole=True)
    except pa.ArrowException as problem:
        raise InvalidBatch(f"the pushes cannot be joined: {problem}", reason="CORRUPT_BATCH") from problem


def share(answer: PushAcknowledgement, pushes: Sequence[Push]) -> list[PushAcknowledgement]:
    """Make the answer to each of `pushes` from the answer to the joined push."""
    answers, first = list[PushAcknowledgement](), 0
    for push in pushes:
        rows = push.table.num_rows
        answers.append(PushAcknowledgement(answer.sequence, False, rows, watermark=answer.watermark, first_row=first))
        first += rows
    return answers
