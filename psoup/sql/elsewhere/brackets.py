"""Brackets in a statement: the windows of sources, and lists, which are refused.

    FROM s [RANGE 1 HOUR]   a window; so is [PARTITION BY k ROWS 10]
    FROM s [1]              refused: '1' does not begin a window
    SELECT [1, 2]           refused: a list

A bracket around a name is a name of SQL Server, and is refused, too.
"""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from psoup.errors import SqlError
from psoup.sql.instead import feature_hint
from psoup.sql.source import StatementText

LIST = "a list or a struct"
"""The name of lists and structs in messages."""

_T = TokenType
_WINDOW = (
    "the window of a source is [RANGE 1 HOUR], [ROWS 100], [NOW], [UNBOUNDED], [BEGIN … END …] or"
    " [PARTITION BY k ROWS 10]"
)
_PLACES = frozenset(
    (
        *(_T.SELECT, _T.FROM, _T.JOIN, _T.ON, _T.USING, _T.WHERE, _T.GROUP_BY),
        *(_T.HAVING, _T.ORDER_BY, _T.LIMIT, _T.BEGIN, _T.END),
    )
)
"""Tokens at the beginning of a part of a SELECT."""

_NOT_SOURCES = frozenset({_T.L_PAREN, _T.COMMA})
"""Tokens in FROM after which a bracket cannot begin the window of a source."""


def begins_window(following: list[Token]) -> bool:
    """Whether the token after [, if there is one, may begin the window of a source. WHERE is refused by its name."""
    return any(
        token.token_type in (_T.PARTITION_BY, _T.WHERE)
        or token.text.upper() in ("RANGE", "ROWS", "NOW", "UNBOUNDED", "BEGIN", "END")
        for token in following
    )


def is_name(tokens: list[Token], at: int) -> bool:
    """Whether a bracket begins a name of SQL Server: [name]."""
    inside = tokens[at + 1 : at + 3]
    return len(inside) == 2 and inside[0].token_type is _T.VAR and inside[1].token_type is _T.R_BRACKET


def quoted_name(name: Token) -> str:
    """A hint to write a name in double quotes."""
    return f'a name stands in double quotes: "{name.text[:40]}"'


def bracket_error(source: StatementText, tokens: list[Token], at: int) -> SqlError:
    """The error for a bracket that begins no window. In FROM a window is missing, elsewhere the bracket begins a
    list."""
    words = [token.token_type for token in tokens[:at] if token.token_type in _PLACES]
    before = tokens[at - 1]
    if before.token_type is _T.IN:
        return source.unsupported(LIST, tokens[at].start, hint="write IN (1, 2)")
    if words[-1:] not in ([_T.FROM], [_T.JOIN]) or before.token_type in _NOT_SOURCES or at + 1 == len(tokens):
        return source.unsupported(LIST, tokens[at].start, hint=feature_hint(LIST))
    following = tokens[at + 1]
    if is_name(tokens, at) and before.token_type in (_T.FROM, _T.JOIN):
        return source.unsupported("a name in brackets", tokens[at].start, hint=quoted_name(following))
    return source.error(f"{following.text[:40]!r} does not begin a window", following.start, hint=_WINDOW)
