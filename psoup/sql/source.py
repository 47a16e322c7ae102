"""The text of a statement, and errors that point to a place in it.

    line 1, column 8: stream 'trades' has no column 'prise'
    SELECT prise FROM trades
           ^
    hint: did you mean 'price'?

A `StatementText` creates all errors of `psoup.sql`, so every error has a line, a column and an excerpt.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from unicodedata import combining, east_asian_width

from sqlglot import exp

from psoup.errors import InvalidInput, NotSupported, SqlError

Place = int | exp.Expr
"""A place in a statement: an offset in the text, or a node. The offset of a node is computed only for an error."""

_WORD = re.compile(r"\w+")
_WORDS = 40
_SIMILAR, _SIMILAR_OTHERWISE = 0.6, 0.7
"""The least similarity of a suggested name, from 0 to 1: with the same first letter, and with another one."""
_EXCERPT = 96
"""The most characters of the line in an excerpt. The caret always points to one of them."""


class StatementText:
    """The text of a statement. It creates errors that point to a place in the text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def error(self, message: str, at: Place = 0, *, hint: str = "", reason: str | None = None) -> SqlError:
        """A SqlError with the place `at`."""
        line, column, excerpt = self._place(at)
        return SqlError(message, line=line, column=column, excerpt=excerpt, hint=hint, reason=reason)

    def unsupported(self, feature: str, at: Place = 0, *, hint: str = "", yet: bool = False) -> NotSupported:
        """A NotSupported for `feature`, with the place `at`. `yet`: a later version will support it."""
        line, column, excerpt = self._place(at)
        message = f"{feature} is not supported{' yet' * yet}"
        return NotSupported(message, line=line, column=column, excerpt=excerpt, hint=hint)

    def written(self, node: exp.Expr) -> str:
        """The text of a node, cut after 40 characters. If the node's extent is unknown, only its first word."""
        if "span" in node.meta:
            start, stop = node.meta["span"]
        else:
            start = offset_of(node)
            word = _WORD.match(self.text, start)
            stop = start + 1 if word is None else word.end()
        words = " ".join(self.text[start:stop].split())
        return words if len(words) <= _WORDS else words[:_WORDS] + "..."

    @contextmanager
    def placed(self, at: Place) -> Iterator[None]:
        """Add the place `at` to errors without a place."""
        try:
            yield
        except SqlError:
            raise
        except InvalidInput as problem:
            raise self.error(problem.message, at, reason=problem.reason) from problem

    @contextmanager
    def containing(self, part: StatementText, start: int) -> Iterator[None]:
        """Give errors in a part of the text, which begins at the offset `start`, their places in the whole text."""
        try:
            yield
        except SqlError as problem:
            line, column, excerpt = self._place(start + part.offset(problem.line, problem.column))
            facts = {"hint": problem.hint, "reason": problem.reason}
            raise type(problem)(problem.problem, line=line, column=column, excerpt=excerpt, **facts) from problem

    def offset(self, line: int, column: int) -> int:
        """The offset in the text of a line and a column, both counted from 1."""
        start = 0
        for _ in range(line - 1):
            start = self.text.find("\n", start) + 1
        return start + column - 1

    def _place(self, place: Place) -> tuple[int, int, str]:
        at = place if isinstance(place, int) else offset_of(place)
        at = min(max(at, 0), len(self.text))
        start = self.text.rfind("\n", 0, at) + 1
        stop = self.text.find("\n", at)
        line = self.text[start : stop if stop >= 0 else len(self.text)].rstrip("\r")
        column = at - start
        cut = max(0, column - _EXCERPT // 2) if len(line) > _EXCERPT else 0
        shown = "".join(c if c.isprintable() else " " for c in line[cut : cut + _EXCERPT])
        left, right = ("..." if cut else ""), ("..." if cut + _EXCERPT < len(line) else "")
        caret = " " * (len(left) + _cells(shown[: column - cut])) + "^"
        return self.text.count("\n", 0, at) + 1, column + 1, f"{left}{shown}{right}\n{caret}"


def _cells(text: str) -> int:
    """The number of terminal columns that `text` takes. Wide characters take two, combining characters none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def offset_of(node: exp.Expr) -> int:
    """The offset of the first token of `node`, or of its nearest ancestor that has tokens. 0 if none has."""
    at: exp.Expr | None = node
    while at is not None:
        starts = [int(part.meta["start"]) for part in at.walk() if "start" in part.meta]
        if starts:
            return min(starts)
        at = at.parent
    return 0


def nearest(name: str, candidates: Iterable[str]) -> str:
    """A hint `did you mean …?` with the candidate most similar to `name`.

    An empty text if none is similar enough, or if `name` is a candidate itself. Two names with different first letters
    need more letters in common.
    """
    by_folded = {candidate.lower(): candidate for candidate in candidates}
    folded = name.lower()[:128]
    for match in difflib.get_close_matches(folded, by_folded, n=1, cutoff=_SIMILAR):
        alike = match[0] == folded[0] or difflib.SequenceMatcher(a=match, b=folded).ratio() >= _SIMILAR_OTHERWISE
        if match != folded and alike:
            return f"did you mean {by_folded[match]!r}?"
    return ""
