"""The statements in a text: the beginning and end of each, and the first word, which shows its kind.

    -- set up; once             a comment ends at its line, and /* these /* may nest */ */
    CREATE STREAM s (x TEXT);   ──> line 2, column 1: "CREATE STREAM s (x TEXT)"
    SELECT ';' FROM s;          ──> line 3, column 1: a ; between quotes ends nothing, nor in E'\\';' and $$;$$

Only the service checks whether a statement is valid, and finds its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_MARK = re.compile(r"(?<![\w$])(?:[eE]'|\$(?:[^\W\d]\w*)?\$)|'|\"|`|--|/\*|;")
_ESCAPED = re.compile(r"(?:[^'\\]|\\.|'')*+'?", re.DOTALL)
_EDGE = re.compile(r"/\*|\*/")
_SOLID = re.compile(r"\S|\Z")
_WORD = re.compile(r"[A-Za-z_]*")
_SELECTING = ("SELECT", "FROM", "WITH", "VALUES")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a text. `line` and `column`, from 1, are the place of its first word; `number` counts from 1."""

    number: int
    text: str
    line: int
    column: int

    @property
    def word(self) -> str:
        """The first word, in capitals."""
        return first_word(self.text)

    @property
    def selects(self) -> bool:
        """Whether it is a SELECT."""
        return selects(self.text)

    def place(self, line: int, column: int) -> tuple[int, int]:
        """Convert a line and a column of the statement to the line and the column of the whole text."""
        return self.line + line - 1, column + (self.column - 1 if line == 1 else 0)


def statements_of(text: str) -> Iterator[Statement]:
    """Yield the statements of a text, separated by a ;. Empty statements and leading comments are left out."""
    start = number = line = counted = 0
    while start < len(text):
        begin, end = _after_space(text, start), _end(text, start)
        if begin < end:
            number += 1
            line += text.count("\n", counted, begin)
            counted = begin
            column = begin - text.rfind("\n", 0, begin)
            yield Statement(number, text[begin:end].rstrip(), line + 1, column)
        start = end + 1


def first_word(text: str) -> str:
    """Return the first word of a statement in capitals; "" if it does not begin with a word."""
    match = _WORD.match(text, _after_space(text, 0))
    assert match is not None, "nothing is a match, too"
    return match.group().upper()


def selects(text: str) -> bool:
    """Whether a statement is a SELECT. It may begin with FROM, WITH, VALUES or a parenthesis."""
    return first_word(text) in _SELECTING or text.startswith("(", _after_space(text, 0))


def _after_space(text: str, at: int) -> int:
    """Return the position of the first character from `at` on that is neither space nor comment."""
    while True:
        solid = _SOLID.search(text, at)
        assert solid is not None, "the end is a match, too"
        at = solid.start()
        if not text.startswith(("--", "/*"), at):
            return at
        at = _after(text, text[at : at + 2], at + 2)


def _end(text: str, at: int) -> int:
    """Return the position of the next ; from `at` on that ends a statement, or the end of the text."""
    while (mark := _MARK.search(text, at)) is not None:
        if mark.group() == ";":
            return mark.start()
        at = _after(text, mark.group(), mark.end())
    return len(text)


def _after(text: str, mark: str, at: int) -> int:
    """Return the position after a quote or a comment. It begins with `mark`, and its content begins at `at`."""
    if mark == "/*":
        depth = 1
        for edge in _EDGE.finditer(text, at):
            depth += 1 if edge.group() == "/*" else -1
            if not depth:
                return edge.end()
        return len(text)
    if mark[0] in "eE":
        escaped = _ESCAPED.match(text, at)
        assert escaped is not None, "nothing is a match, too"
        return escaped.end()
    closing = "\n" if mark == "--" else mark
    end = text.find(closing, at)
    return len(text) if end < 0 else end + len(closing)
