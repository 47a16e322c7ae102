"""Ends of quotes and comments, and searches in long texts.

An expression holds the interpreter until it has matched. So each call of one here reads at most some thousand quotes,
or `STEP` characters.
"""

from __future__ import annotations

import re

STEP = 1 << 20
"""The characters that one call of a search reads."""

_QUOTES = 10_000
"""The quotes that one call of an expression reads."""

_INSIDE = {quote: re.compile(rf"[^{quote}]*+(?:{quote}{quote}[^{quote}]*+){{0,{_QUOTES}}}+") for quote in "'\""}
_ESCAPED = re.compile(rf"[^'\\]*+(?:(?:\\.|'')[^'\\]*+){{0,{_QUOTES}}}+", re.DOTALL)
_SPACE = re.compile(r"\s{1,100000}+|--[^\n]*+")
_EDGE = re.compile(r"/\*|\*/")


def searched(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str] | None:
    """The first match from an offset on, as `re.Pattern.search` finds it. Matches have at most two characters."""
    for start in range(at, len(text), STEP):
        match = pattern.search(text, start, start + STEP + 1)
        if match is not None:
            return match
    return None


def end_of_quoted(text: str, at: int, *, escapes: bool = False) -> int:
    """The offset after a text or name whose first quote stands at `at`; -1 if it has no end.

    `escapes`: a backslash takes the meaning of the character after it. Two quotes are one.
    """
    quote = text[at]
    inside, at = _ESCAPED if escapes else _INSIDE[quote], at + 1
    while (match := inside.match(text, at)) is not None:
        at = match.end()
        if text.startswith(quote, at) and not text.startswith(quote, at + 1):
            return at + 1
        if len(text) - at < 2:  # nothing is left, or a backslash alone
            break
    return -1


def end_of_comment(text: str, at: int) -> int:
    """The offset after a comment whose inside begins at `at`; -1 if it has no end. Comments nest."""
    depth = 1
    while depth:
        edge = searched(_EDGE, text, at)
        if edge is None:
            return -1
        depth += 1 if edge.group() == "/*" else -1
        at = edge.end()
    return at


def after_space(text: str, at: int) -> int:
    """The offset after spaces and comments. A comment without an end reaches to the end of the text."""
    while True:
        match = _SPACE.match(text, at)
        if match is not None:
            at = match.end()
        elif text.startswith("/*", at):
            at = end_of_comment(text, at + 2)
            if at < 0:
                return len(text)
        else:
            return at
