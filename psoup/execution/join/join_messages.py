"""The way that shows a join as Arrow messages, whose columns it gathers from the chunks of all sides.

    pieces of positions ─ psoup.execution.join.join_batch ─> messages

Threads gather large messages before the caller asks for them. This way serves SELECT lists of columns, without
ORDER BY, DISTINCT or GROUP BY, if all sides are in memory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial

from psoup.execution.join.join_batch import MESSAGES, Blocks, JoinedForm, JoinedMessage, SideColumns, joined_form
from psoup.execution.join.join_rows import JoinRows, Piece
from psoup.execution.join.key_join import SHARED
from psoup.execution.join.located_side import all_in_memory
from psoup.execution.rows.answer_case import AnswerCase
from psoup.execution.rows.leaf_rows import LeafRows
from psoup.plan.nodes import Join, Limit, Node, Project
from psoup.work.runner import serial, threads_of

_LARGE = 400_000
"""The least bytes of a message that is worth a thread of its own. Gathering it takes some 50 us."""


def serves(plan: Node) -> bool:
    """Whether a plan is a join, with or without LIMIT, whose SELECT list has columns only."""
    node = plan.input if isinstance(plan, Limit) else plan
    if not (isinstance(node, Project) and isinstance(node.input, Join) and node.input.joins_streams):
        return False
    return joined_form(plan.schema, len(node.input.inputs)) is not None


def accepts(case: AnswerCase) -> bool:
    """Whether all sides are in memory."""
    return all(map(all_in_memory, case.reading.matches))


def join_messages(case: AnswerCase) -> Iterator[JoinedMessage]:
    """Find the rows of the join, in order, and yield them as messages."""
    rows, form = case.rows(), joined_form(case.plan.schema, len(case.reading.matches))
    assert isinstance(rows, JoinRows) and form is not None
    return early_messages(rows, _messages(rows, form, case.most_rows), case.most_bytes)


def _messages(rows: JoinRows, form: JoinedForm, most: int) -> Generator[JoinedMessage, None, None]:
    columns = list[SideColumns]()
    try:
        for piece in rows.pieces(most):
            columns = columns or _columns(rows, form, piece)
            yield JoinedMessage(form, columns, piece)
    finally:
        for side in columns:
            side.close()
        rows.close()


def _columns(rows: JoinRows, form: JoinedForm, piece: Piece) -> list[SideColumns]:
    """Prepare the columns of all sides. The first `piece` serves to estimate the number of rows of the answer."""
    driving, sides, reading = piece[0], rows.sides, rows.reading
    expected = len(driving) * sides[0].rows / (int(driving[-1]) + 1)
    expected = expected if rows.limit is None else min(expected, rows.limit)
    columns = [SideColumns(side.memory, form, place, reading.budget, expected) for place, side in enumerate(sides)]
    run = reading.run if sum([side.rows for side in sides]) >= SHARED else serial
    run([side.task for side in columns if side.task is not None])
    return columns


def early_messages(
    rows: LeafRows, messages: Generator[JoinedMessage, None, None], most_bytes: int
) -> Iterator[JoinedMessage]:
    """Yield the same messages in order, and gather several large ones at once, on threads.

    Messages of more than `most_bytes` are not gathered here.
    """
    waiting, blocks = list[JoinedMessage](), Blocks(rows.reading.budget)
    most = MESSAGES if threads_of(rows.reading.run) > 1 else 1
    try:
        for message in messages:
            if _LARGE <= message.size <= most_bytes:
                waiting.append(message)
                if len(waiting) < most:
                    continue
                yield from _early(rows, waiting, blocks)
            else:
                if waiting:
                    yield from _early(rows, waiting, blocks)
                yield message
            waiting = []
        if waiting:
            yield from _early(rows, waiting, blocks)
    finally:
        messages.close()
        blocks.close()


def _early(rows: LeafRows, messages: list[JoinedMessage], blocks: Blocks) -> list[JoinedMessage]:
    """Gather the messages on the threads of the read, and return them."""
    work = [partial(message.gather_into, blocks.take(message.size)) for message in messages]
    threads = threads_of(rows.reading.run) if len(work) > 1 else 1
    shares = [work[place::threads] for place in range(threads)]
    run = rows.reading.run if threads > 1 else serial
    run([partial(serial, share) for share in shares])
    return messages
