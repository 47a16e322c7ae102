"""Text of clients, made safe for a terminal, which would obey control characters in keys, labels and values."""

from __future__ import annotations

import re

_TURNS = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Characters that end a line or turn its direction."""

_CONTROLS = re.compile(f"[\x00-\x1f\x7f-\x9f{_TURNS}]")
_BETWEEN_LINES = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_TURNS}]")
_OF_JSON = re.compile(f"[\x7f-\x9f{_TURNS}]")


def legible(text: str) -> str:
    r"""Give the text on one line, its control characters as \x1b or \u202e."""
    return _CONTROLS.sub(_escape, text)


def legible_lines(text: str) -> str:
    """Give the text with the ends of its lines and its tabs as they are."""
    return _BETWEEN_LINES.sub(_escape, text)


def legible_json(text: str) -> str:
    r"""Escape the control characters that JSON leaves unescaped."""
    return _OF_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
