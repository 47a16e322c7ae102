"""The case of an answer: its plan, its reading, and the most rows and bytes of a part of the answer.

`psoup.execution.ways` lists the ways of showing an answer. Each yields parts in order. A part is a message, or the
columns of some rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from psoup.execution.rows.record_batch import Message, row_bytes
from psoup.execution.rows.source_rows import Reading
from psoup.plan.nodes import Node
from psoup.values.columns import Column

AnswerPart = Message | list[Column]
"""Some rows: a message whose size is known but whose bytes are not yet written, or the computed columns."""
AnswerParts = Iterator[Message] | Iterator[list[Column]] | Iterator[AnswerPart]


@dataclass(slots=True)
class AnswerCase:
    """The case of an answer, which a way of the step `answer` shows."""

    plan: Node
    reading: Reading
    max_rows: int
    """The most rows of a part that the caller takes."""
    most_bytes: int
    """The most bytes of a message. A message of a single row may have more."""
    rows_of: Callable[[Node, Reading], Any]
    """The function `psoup.execution.plan.rows_of`, which evaluates the nodes of the plan."""

    @property
    def most_rows(self) -> int:
        """The most rows of a part, so that a message of usual texts has half of `most_bytes`."""
        return min(self.max_rows, max(self.most_bytes // (2 * row_bytes(self.plan.schema)), 1))

    def rows(self) -> Any:
        """The rows of the plan as references to tuples. This reads no tuple yet."""
        return self.rows_of(self.plan, self.reading)
