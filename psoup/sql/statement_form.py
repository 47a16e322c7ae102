"""The form of a statement: its text without the values, for logs.

    SELECT x FROM s WHERE name = 'Ann' AND age IN (1, 2, 3)  -- for Bob
    SELECT x FROM s WHERE name = ? AND age IN (?, …)

Statements that differ only in constants, comments and line breaks have one form. The form is made of tokens, so that
a statement that cannot be parsed has a form, too.
"""

from __future__ import annotations

import re

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from psoup.errors import SqlError
from psoup.sql.parser.dialect import PSoup
from psoup.sql.parser.texts import plain
from psoup.sql.source import StatementText

UNREADABLE = "(cannot be read)"
"""The form of a text without tokens, such as one with a quote that is never closed."""
MOST_CHARACTERS = 1_000
"""The most characters of a form; the rest is cut off."""

_VALUE = "?"
_NAME = '"…"'
_LIST = re.compile(r"\?(?:\s*,\s*\?)+")
_ROWS = re.compile(r"\(\?(?:, …)?\)(?:\s*,\s*\(\?(?:, …)?\))+")


def statement_form(text: str, *, refused: bool = False) -> str:
    """The form of a statement, in at most `MOST_CHARACTERS` and a mark. O(length): 60,000 characters take 50 ms.

    `refused`: the statement was refused. Names in quotes may then be values, as in MySQL, and are left out.
    """
    try:
        read, _ = plain(StatementText(text))
        tokens: list[Token] = PSoup().tokenize(read)
    except (SqlError, TokenError):
        return UNREADABLE
    parts, end = list[str](), 0
    for token in tokens:
        written = read[token.start : token.end + 1]
        if parts and token.start > end:
            parts.append(" ")
        elif parts and parts[-1] == _VALUE and (written[0].isalnum() or written[0] == "_"):
            written = ""  # of a number such as 0x10, which is two tokens
        if refused and token.token_type is TokenType.IDENTIFIER:
            written = _NAME
        if written:
            parts.append(_VALUE if _is_value(token) else written)
        end = token.end + 1
    form = _ROWS.sub("(?, …), …", _LIST.sub("?, …", "".join(parts)))
    return form if len(form) <= MOST_CHARACTERS else form[:MOST_CHARACTERS] + "…"


def _is_value(token: Token) -> bool:
    """Whether a token is a constant: a number, or a text in any spelling."""
    return token.token_type is TokenType.NUMBER or token.token_type.name.endswith("STRING")
