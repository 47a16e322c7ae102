"""Texts of clients, made safe for a terminal. It would otherwise obey control characters in keys, labels and values."""

from __future__ import annotations

import re

_TURNS = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Characters that end a line, or change the direction of writing."""

_CONTROLS = re.compile(f"[\x00-\x1f\x7f-\x9f{_TURNS}]")
_BETWEEN_LINES = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_TURNS}]")
_OF_JSON = re.compile(f"[\x7f-\x9f{_TURNS}]")


def legible(text: str) -> str:
    r"""Return the text on one line, with its control characters as \x1b or \u202e."""
    return _CONTROLS.sub(_escape, text)


def legible_lines(text: str) -> str:
    """Return the text with escaped control characters, except ends of lines and tabs."""
    return _BETWEEN_LINES.sub(_escape, text)


def legible_json(text: str) -> str:
    r"""Escape the control characters that JSON leaves unescaped."""
    return _OF_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
