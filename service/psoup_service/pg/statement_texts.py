"""The statements in a text of the simple protocol, and the most bytes of a text.

    INSERT INTO s VALUES (';'); SELECT n FROM s  -- one; two   ──>   two statements

Only quotes, comments and semicolons are read, because a text may have 16 MiB. Split long texts on a thread. A quote or
a comment that is never closed ends with the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from psoup.errors import ResourceExhausted
from psoup.sql import first_word
from psoup.sql.parser.spaces import after_comment, after_space, searched
from psoup_service.pg.quotes import end_of_quoted

LONG = 16 * 1024
"""The characters above which a text is read on a thread."""

MOST_STATEMENTS = 10_000
"""The most statements in one text."""

QUERY_WORDS = frozenset({"SELECT", "WITH", "VALUES", "FROM", ""})
"""The first words of queries, as `psoup.sql.first_word` returns them: "" for a query that begins with a parenthesis."""

_MARK = re.compile(r"['\"$;/-]")
"""The first characters of quotes and comments, and the semicolon."""
_ESCAPES = re.compile(r"(?<=[eE])(?<![\w$][eE])'")
_DOLLARS = re.compile(r"(?<![\w$])\$(?:[A-Za-z_]\w*+)?\$")
_AHEAD = 4_096
"""The bytes of a long text in which its first word is looked for."""


def check_size(raw: bytes, limit: int) -> None:
    """Raise ResourceExhausted for a text of more than `limit` bytes, unless it begins with INSERT. O(1)."""
    if len(raw) > limit and not _is_insert(raw[:_AHEAD].decode(errors="replace")):
        raise ResourceExhausted(
            f"the statement has {len(raw):,} bytes, and {limit:,} is the most; only INSERT may be longer, and COPY"
            " takes any number of rows",
            reason="MESSAGE_TOO_LARGE",
            bytes=len(raw),
            limit=limit,
        )


def check_sizes(parts: Sequence[str], limit: int) -> None:
    """Raise ResourceExhausted for a statement of more than `limit` bytes that is not an INSERT. O(characters)."""
    for part in parts:
        if len(part) > limit // 4 and not _is_insert(part[:_AHEAD]):
            check_size(part.encode(), limit)


def statements_of(text: str) -> list[str]:
    """The statements of a text, without semicolons and empty ones. O(characters).

    Raises ResourceExhausted for more than MOST_STATEMENTS.
    """
    start, parts, at = 0, list[str](), 0
    while (match := searched(_MARK, text, at)) is not None:
        at, mark = match.end(), match.group()
        if mark != ";":
            at = _after(text, mark, match.start())
            continue
        parts.append(text[start : match.start()])
        start = at
        if len(parts) > MOST_STATEMENTS:
            raise ResourceExhausted(
                f"the text has more than {MOST_STATEMENTS:,} statements; send some of them in another text",
                reason="MESSAGE_TOO_LARGE",
                limit=MOST_STATEMENTS,
            )
    return [part for part in (*parts, text[start:]) if not is_empty(part)]


def is_empty(text: str) -> bool:
    """Whether a text has only spaces and comments. O(characters)."""
    return after_space(text, 0) == len(text)


def _is_insert(begin: str) -> bool:
    """Whether a text that begins so is an INSERT. The session reads the first word in the same way."""
    return first_word(begin) == "INSERT"


def _after(text: str, mark: str, at: int) -> int:
    """The offset after the quote or comment that begins with `mark` at `at`; after the mark if neither begins there."""
    if mark == "'" and _ESCAPES.match(text, at) is not None:
        end = end_of_quoted(text, at, escapes=True)
    elif mark in "'\"":
        end = text.find(mark, at + 1) + 1 or -1  # a doubled quote is two texts
    elif text.startswith("--", at):
        end = text.find("\n", at)
    elif text.startswith("/*", at):
        end = after_comment(text, at + 2)
    elif mark == "$" and (opening := _DOLLARS.match(text, at)) is not None:
        closing = text.find(opening.group(), opening.end())
        end = closing if closing < 0 else closing + len(opening.group())
    else:
        return at + 1
    return len(text) if end < 0 else end
