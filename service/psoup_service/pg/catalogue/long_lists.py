"""Long lists in IN, replaced by one parameter each before the statement is parsed.

    oid IN (16384, 16388, ...)             ─>  oid IN ($1000000)      the parser reads one parameter
    oid IN ($2::OID, $3::OID, ...)         ─>  oid IN ($1000001)

SQLAlchemy sends lists of 3,000 OIDs. As one array, such a list is parsed and compared much faster.
"""

from __future__ import annotations

import re

FIRST = 1_000_000
"""The number of the first parameter that stands for a list."""

_ITEM = r"(?:\d{1,18}|\$\d{1,5}(?:\s*::\s*(?:oid|int[248]?|integer|bigint))?)"
_LIST = re.compile(rf"\bIN\s*\(\s*({_ITEM}(?:\s*,\s*{_ITEM}){{49,}})\s*\)", re.IGNORECASE)
_RESERVED = re.compile(r"\$\d{7}")
_WORD = re.compile(r"\$?\d+(?=\s*(?:,|::|$))")


def shortened(text: str) -> tuple[str, list[list[str]]]:
    """The text with a parameter in the place of each long list, and the lists: digits, or "$" and a number.

    A text that has a parameter of seven digits is not changed, and neither is a list within quotes.
    """
    if len(text) < 200 or _RESERVED.search(text):
        return text, []
    lists = list[list[str]]()

    def replaced(match: re.Match[str]) -> str:
        if text.count("'", 0, match.start()) % 2 or text.count('"', 0, match.start()) % 2:
            return match.group()
        lists.append(_WORD.findall(match.group(1)))
        return f"IN (${FIRST + len(lists) - 1})"

    return _LIST.sub(replaced, text), lists
