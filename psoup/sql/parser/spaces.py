"""Spaces and comments between the words of a statement.

    /* a /* nested */ one */ -- and a line
    SELECT                                    after_space(text, 0): the offset of SELECT

A regular expression holds the interpreter's lock until it has matched, and a text may have 16 MiB. So `searched`
reads STEP characters at a time. Other threads run in between.
"""

from __future__ import annotations

import re

STEP = 1 << 20
"""The characters that one call of a regular expression searches."""

_SPACE = re.compile(r"\s{1,100000}+|--[^\n]*+")
_EDGE = re.compile(r"/\*|\*/")


def searched(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str] | None:
    """The first match from an offset on; None if there is none. The pattern's matches have at most two characters."""
    for start in range(at, len(text), STEP):
        match = pattern.search(text, start, start + STEP + 1)
        if match is not None:
            return match
    return None


def after_comment(text: str, at: int) -> int:
    """The offset after a comment whose inside begins at `at`; -1 if the comment is never closed. Comments nest."""
    depth = 1
    while depth:
        edge = searched(_EDGE, text, at)
        if edge is None:
            return -1
        depth += 1 if edge.group() == "/*" else -1
        at = edge.end()
    return at


def after_space(text: str, at: int) -> int:
    """The offset of the first character from `at` on that is neither space nor comment.

    The length of the text if there is none, or if a comment is never closed.
    """
    while True:
        match = _SPACE.match(text, at)
        if match is not None:
            at = match.end()
        elif text.startswith("/*", at):
            at = after_comment(text, at + 2)
            if at < 0:
                return len(text)
        else:
            return at
