"""An answer to be shown: its plan, what its rows are read with, and the most rows and bytes of a part of it.

The ways of showing an answer are listed in `psoup.execution.ways`. Each gives parts in order: a message, or the columns
of some rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from psoup.execution.rows.record_batch import Message
from psoup.execution.rows.source_rows import Reading
from psoup.plan.nodes import Node
from psoup.values.columns import Column

AnswerPart = Message | list[Column]
"""Some rows: measured but not yet gathered, or their columns."""
AnswerParts = Iterator[Message] | Iterator[list[Column]] | Iterator[AnswerPart]


@dataclass(slots=True)
class AnswerCase:
    """A reading of an answer."""

    plan: Node
    reading: Reading
    most_rows: int
    """Most rows of a part."""
    most_bytes: int
    """Most bytes of a message, or one row."""
    rows_of: Callable[[Node, Reading], Any]
    """`psoup.execution.plan.rows_of`, which evaluates the nodes."""

    def rows(self) -> Any:
        """The rows of the plan as references; nothing is read yet."""
        return self.rows_of(self.plan, self.reading)
