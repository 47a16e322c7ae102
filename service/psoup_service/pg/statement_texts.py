"""The statements in a text of the simple protocol, and the most bytes of a text.

    INSERT INTO s VALUES (';'); SELECT n FROM s  -- one; two   ──>   two statements

Only quotes, comments and semicolons are read, by one expression, because a text may have 16 MiB. Long texts belong on a
thread. A quote or a comment without an end reaches to the end of the text.
"""

from __future__ import annotations

import re

from psoup.errors import ResourceExhausted

LONG = 16 * 1024
"""The characters above which a text is read on a thread."""

MOST_STATEMENTS = 10_000
"""The most statements in one text."""

_PARTS = re.compile(
    r"""
      (?<![\w$])[eE]'(?:[^'\\]|\\.|'')*+(?:'|\Z)   # a text with escapes
    | '[^']*+(?:'|\Z)                              # a text; a doubled quote is two texts
    | "[^"]*+(?:"|\Z)                              # a name
    | --[^\n]*+                                    # a comment
    | /\*
    | (?<![\w$])(?P<dollar>\$(?:[A-Za-z_]\w*+)?\$)
    | ;
    """,
    re.VERBOSE | re.DOTALL,
)
_SPACE = re.compile(r"(?:\s|--[^\n]*+)*+")
_COMMENT = re.compile(r"/\*|\*/")
_INSERT = re.compile(rb"(?:\s|--[^\n]*+\n|/\*(?:[^*]|\*(?!/))*+\*/)*+INSERT\b", re.IGNORECASE)
_AHEAD = 4_096
"""The bytes in which the first word of a long text must stand."""


def check_size(raw: bytes, limit: int) -> None:
    """Raise ResourceExhausted for a text of more than `limit` bytes, unless it begins with INSERT. O(1)."""
    if len(raw) > limit and _INSERT.match(raw[:_AHEAD]) is None:
        raise ResourceExhausted(
            f"the statement has {len(raw):,} bytes, and {limit:,} is the most; only INSERT may be longer, and COPY"
            " takes any number of rows",
            reason="MESSAGE_TOO_LARGE",
            bytes=len(raw),
            limit=limit,
        )


def statements_of(text: str) -> list[str]:
    """The statements of a text, without semicolons and empty ones. O(characters).

    Raises ResourceExhausted for more than MOST_STATEMENTS.
    """
    at, start, parts = 0, 0, list[str]()
    while (match := _PARTS.search(text, at)) is not None:
        at = match.end()
        if match["dollar"]:
            end = text.find(match["dollar"], at)
            at = len(text) if end < 0 else end + len(match["dollar"])
        elif match.group() == "/*":
            at = _after_comment(text, at)
        elif match.group() == ";":
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
    at = 0
    while at < len(text):
        match = _SPACE.match(text, at)
        assert match is not None, "it matches no characters, too"
        at = match.end()
        if not text.startswith("/*", at):
            return at == len(text)
        at = _after_comment(text, at + 2)
    return True


def _after_comment(text: str, at: int) -> int:
    """The end of a comment whose begin stands before `at`. Comments nest."""
    depth = 1
    for match in _COMMENT.finditer(text, at):
        depth += 1 if match.group() == "/*" else -1
        if not depth:
            return match.end()
    return len(text)
