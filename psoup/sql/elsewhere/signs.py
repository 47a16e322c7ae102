"""Signs of word processors and other languages, each with the sign of SQL to write instead."""

from __future__ import annotations

_NAMES = "write straight quotes: \"k\" for a name, 'k' for a text"
_SPACE = "put a plain space there"

SIGNS: dict[str, str] = {
    **dict.fromkeys("“”„‟«»″", _NAMES),
    **dict.fromkeys("‘’‚‛′´", _NAMES),
    "≥": "write >=",
    "≤": "write <=",
    "≠": "write <>",
    "×": "write *",
    "·": "write *",
    "÷": "write /",
    **dict.fromkeys("−–—", "write the minus of the keyboard: -"),
    **dict.fromkeys("，、", "write a plain comma: ,"),
    "；": "write a plain semicolon: ;",
    **dict.fromkeys("（）", "write plain parentheses: ( )"),
    "＝": "write a plain =",
    "∧": "write AND",
    "∨": "write OR",
    "¬": "write NOT",
    "∞": "CAST('inf' AS DOUBLE) is infinity",
    **dict.fromkeys("\u200b\u2060\ufeff", _SPACE),
}
"""The advice for each sign."""
