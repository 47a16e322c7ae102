"""Names as SQL text."""

from __future__ import annotations

import re

from psoup.phrases import quoted
from psoup.sql.parser.dialect import PSoup

_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def name_text(name: str) -> str:
    """A name as SQL text. It is in quotes unless it is plain and not a reserved word."""
    plain = _PLAIN.fullmatch(name) and name.upper() not in PSoup.Tokenizer.KEYWORDS
    return name if plain else quoted(name)
