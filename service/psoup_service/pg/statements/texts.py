"""Statements with some parts replaced, and errors at the places of the statement as the client wrote it.

SELECT * FROM queries.hot h   ─>   SELECT * FROM (SELECT … FROM trades) [UNBOUNDED] h
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from psoup.errors import SqlError
from psoup.sql.source import StatementText

OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)
"""The tokens of brackets, by their kinds."""


@dataclass(frozen=True, slots=True)
class Edit:
    """The replacement of text[start:stop] by `new`."""

    start: int
    stop: int
    new: str


class Edited:
    """A text after some edits, which must not overlap."""

    def __init__(self, text: str, edits: Iterable[Edit]) -> None:
        self._edits = sorted(edits, key=lambda edit: (edit.start, edit.stop))
        self._starts = list[int]()
        parts, at, size = list[str](), 0, 0
        for edit in self._edits:
            parts += (text[at : edit.start], edit.new)
            size += edit.start - at
            self._starts.append(size)
            size += len(edit.new)
            at = edit.stop
        self.text = "".join((*parts, text[at:]))

    def origin(self, offset: int) -> int:
        """The offset in the original text for an offset in the edited one. A replacement maps to its beginning."""
        at = bisect_right(self._starts, offset) - 1
        if at < 0:
            return offset
        edit, start = self._edits[at], self._starts[at]
        if offset < start + len(edit.new):
            return edit.start
        return offset - start - len(edit.new) + edit.stop


def located(problem: SqlError, written: str, texts: Sequence[Edited]) -> SqlError:
    """The error, at its place in the statement as the client wrote it. `texts`: the edits, the first one first."""
    if not texts:
        return problem
    offset = StatementText(texts[-1].text).offset(problem.line, problem.column)
    for edited in reversed(texts):
        offset = edited.origin(offset)
    placed = StatementText(written).error(problem.problem, offset, hint=problem.hint, reason=problem.reason)
    moved = type(problem)(
        placed.problem,
        line=placed.line,
        column=placed.column,
        excerpt=placed.excerpt,
        hint=placed.hint,
        reason=placed.reason,
    )
    moved.facts = {**problem.facts, "line": str(placed.line), "column": str(placed.column)}
    return moved
