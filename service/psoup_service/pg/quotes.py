"""Ends of quoted texts and names.

    'it''s' AND …          end_of_quoted(text, 0): the offset after the last quote

A regular expression holds the interpreter's lock until it has matched. So one call reads at most 10,000 quotes within
a text, and other threads run between two calls.
"""

from __future__ import annotations

import re

_QUOTES = 10_000
"""The quotes that one call of a regular expression reads."""

_INSIDE = {quote: re.compile(rf"[^{quote}]*+(?:{quote}{quote}[^{quote}]*+){{0,{_QUOTES}}}+") for quote in "'\""}
_ESCAPED = re.compile(rf"[^'\\]*+(?:(?:\\.|'')[^'\\]*+){{0,{_QUOTES}}}+", re.DOTALL)


def end_of_quoted(text: str, at: int, *, escapes: bool = False) -> int:
    """The offset after a quoted text or name that begins at `at`; -1 if the quote is never closed.

    Two quotes in a row are one quote of the content. `escapes`: a backslash escapes the character after it (E'…').
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
