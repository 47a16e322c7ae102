"""The way that shows columns of one source as Arrow messages, gathered from its chunks without expressions or a sort.

    matches ─ groups of chunk and offsets ─ psoup.execution.rows.record_batch ─> messages

A group of rows with a chunk on disk comes as columns instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from psoup.data.chunk import ChunkView
from psoup.execution.rows.answer_case import AnswerCase, AnswerPart
from psoup.execution.rows.record_batch import Message, form_of
from psoup.execution.rows.source_rows import SourceRows
from psoup.plan.nodes import LastRows, Limit, Node, Project, Source


def serves(plan: Node) -> bool:
    """Whether a plan shows columns of one source, with or without LIMIT."""
    node = plan.input if isinstance(plan, Limit) else plan
    return isinstance(node, Project) and isinstance(node.input, Source | LastRows) and form_of(plan.schema) is not None


def source_messages(case: AnswerCase) -> Iterator[AnswerPart]:
    """Yield the rows, in the order of the stream."""
    rows, schema, reading = case.rows(), case.plan.schema, case.reading
    form = form_of(schema)
    assert isinstance(rows, SourceRows) and form is not None
    for group in rows.groups(case.most_rows):
        reading.budget.check()
        here = [(data, offsets) for data, offsets in group if isinstance(data, ChunkView)]
        if len(here) == len(group):
            yield Message(form, here)
        else:
            yield from reading.computed([output.expr for output in schema], group)
