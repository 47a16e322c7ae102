"""Group commit of small pushes: pushes that wait at the same time become one event, and one row of the log.

    push  1 row ┐
    push  2 rows├──> push of 4 rows, whole ──> one event, one sequence ──> each caller gets the answer for its rows
    push  1 row ┘

    message of a producer: 7 8 9 ──> one push, `shared` ──> one event that has the numbers 7 to 9
                                          └ refused ──> 7, 8, 9, each alone: 7 taken, 8 refused, 9 not prepared

Each push must have the same result as if it were prepared alone. Pushes of different calls are joined (`join`) only if
they have no numbers. If a row would be refused or replaced, or a column has an error, each push is prepared alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeGuard

import pyarrow as pa

from psoup.errors import InvalidBatch, PSoupError
from psoup.events.acknowledgements import Prepared, PushAcknowledgement, SharedAcknowledgement
from psoup.events.commands import Command, Push
from psoup.events.events import Event

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
    return _shares(answer, (push.table.num_rows for push in pushes))


def _shares(answer: PushAcknowledgement, sizes: Iterable[int]) -> list[PushAcknowledgement]:
    answers, first = list[PushAcknowledgement](), 0
    for rows in sizes:
        answers.append(PushAcknowledgement(answer.sequence, False, rows, watermark=answer.watermark, first_row=first))
        first += rows
    return answers


def prepare_shared(command: Command, prepare: Callable[[Command], Prepared]) -> Prepared:
    """Prepare a command by `prepare`. A push that several batches share is one event, or each batch is prepared alone.

    Then the batches before the first refused one are accepted, and the acknowledgement has its error. Raises the errors
    of `prepare`. For a shared push these are the errors of its first batch.
    """
    if not (isinstance(command, Push) and command.shared):
        return prepare(command)
    try:
        prepared = prepare(command)
    except PSoupError:  # the batch at fault is found when each is prepared alone
        return _each_alone(command, prepare)
    assert isinstance(prepared.acknowledgement, PushAcknowledgement)
    answers = _shares(prepared.acknowledgement, (batch.rows for batch in command.shared))
    return replace(prepared, acknowledgement=SharedAcknowledgement(answers[0].sequence, False, tuple(answers)))


def _each_alone(command: Push, prepare: Callable[[Command], Prepared]) -> Prepared:
    """Prepare the batches of a shared push one after the other, up to the first that is refused."""
    answers, events, first = list[PushAcknowledgement](), list[Event](), 0
    refusal: PSoupError | None = None
    for number, (digest, rows) in enumerate(command.shared, command.number):
        alone = replace(command, number=number, digest=digest, shared=(), whole=False)
        try:
            prepared = prepare(replace(alone, table=command.table.slice(first, rows)))
        except PSoupError as problem:
            if not answers:
                raise
            refusal = problem
            break
        assert isinstance(prepared.acknowledgement, PushAcknowledgement)
        answers.append(prepared.acknowledgement)
        events += prepared.events
        first += rows
    answer = SharedAcknowledgement(answers[-1].sequence, False, tuple(answers), refusal)
    return Prepared(answer, events[-1] if events else None, first=tuple(events[:-1]))
