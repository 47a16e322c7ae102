"""Limits of a statement's text, before the parser reads it."""

from __future__ import annotations

from sqlglot import exp, tokenize
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from psoup.errors import ResourceExhausted, SqlError

MOST_BYTES = 64 * 1024
"""The longest statement, in bytes of UTF-8, without long lists of numbers."""

MOST_DEPTH = 50
"""The deepest nesting of brackets, CASE and prefix operators."""

MOST_WORDS = 10_000
"""The most words and signs of a statement."""

MOST_COLUMNS = 1_664
"""The most columns of a SELECT, as in PostgreSQL."""

MOST_NODES = 100_000
"""The most nodes of a translated statement. An argument of a macro counts three times, as DuckDB copies it."""

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END})
_PREFIX = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE})


def checked(text: str) -> None:
    """Raise SqlError or ResourceExhausted for a text that the parser should not see. O(length)."""
    if len(text.encode(errors="replace")) > MOST_BYTES:
        raise ResourceExhausted(f"a statement over the catalogue has at most {MOST_BYTES:,} bytes", reason="TOO_LONG")
    try:
        tokens = tokenize(text, read="postgres")
    except TokenError:
        raise SqlError("this cannot be read as SQL: a quote or comment has no end") from None
    depth = run = 0
    for token in tokens:
        kind = token.token_type
        run = run + 1 if kind in _PREFIX else 0
        depth = depth + 1 if kind in _OPENING else max(0, depth - 1) if kind in _CLOSING else depth
        if depth + run > MOST_DEPTH or len(tokens) > MOST_WORDS:
            raise ResourceExhausted(
                f"a statement over the catalogue has at most {MOST_DEPTH} nested brackets and {MOST_WORDS:,} words;"
                " divide it into several statements",
                reason="TOO_DEEP",
            )


def check_columns(count: int) -> None:
    """Raise ResourceExhausted for a SELECT list that is too long."""
    if count > MOST_COLUMNS:
        raise ResourceExhausted(
            f"a SELECT over the catalogue has at most {MOST_COLUMNS:,} columns, and this one has {count:,}",
            reason="TOO_MANY_COLUMNS",
        )


def check_size(tree: exp.Expression) -> None:
    """Raise ResourceExhausted for a translated statement that grows too large as DuckDB expands its macros."""
    size = _size(tree)
    if size > MOST_NODES:
        raise ResourceExhausted(
            "a statement over the catalogue nests too many functions; simplify it", reason="TOO_DEEP"
        )


def _size(node: exp.Expression) -> int:
    inner = 1 + sum(map(_size, node.iter_expressions()))
    repeats = isinstance(node, exp.Anonymous) and node.name.startswith("f_") and node.name != "f_joined"
    return inner * 3 if repeats else inner
