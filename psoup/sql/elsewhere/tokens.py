"""Features of other systems that a token and its neighbours reveal, each refused by its name before the parser runs.

    x -> x + 1     a lambda        c -> '$.a'   a JSON operator        lambda x: x    a lambda
    X'AB'          binary          a ** 2       the operator **        b: a + 1       a name before its expression

The parser would refuse most of them, but at another place and without their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from psoup.errors import NotSupported
from psoup.sql.source import StatementText

_T = TokenType
_NO_LIST = "a value is not a list: push a row for each item"
_TYPES = "the types are BOOLEAN, BIGINT, DOUBLE, DECIMAL(p, s), TEXT, TIMESTAMP and DATE"
_CONSTANTS = {
    "X": ("a binary constant (X'…')", _TYPES),
    "B": ("a constant of bits (B'…')", "write the number: 5 for B'101'"),
}
_AT = {
    "@>": f"contains(x, 'part') is for texts; {_NO_LIST}",
    "<@": f"contains(x, 'part') is for texts; {_NO_LIST}",
    "^@": "write starts_with(x, 'part')",
}

Rule = Callable[[StatementText, Sequence[Token], int], NotSupported | None]
"""A function that returns the error for a token, given all tokens and its number, or None."""


def token_error(source: StatementText, tokens: Sequence[Token], at: int) -> NotSupported | None:
    """The error for token number `at`, if the token and its neighbours reveal a feature of other systems. O(1)."""
    rule = _RULES.get(tokens[at].token_type)
    return None if rule is None else rule(source, tokens, at)


def _adjacent(tokens: Sequence[Token], at: int) -> bool:
    """Whether nothing stands between a token and the token before it."""
    return at > 0 and tokens[at - 1].end + 1 == tokens[at].start


def _follows(tokens: Sequence[Token], at: int, kind: TokenType) -> bool:
    """Whether the next token is of a kind."""
    return at + 1 < len(tokens) and tokens[at + 1].token_type is kind


def _constant(source: StatementText, tokens: Sequence[Token], at: int) -> NotSupported | None:
    """The error for a text with a letter before it."""
    if not _adjacent(tokens, at):
        return None
    before, first = tokens[at - 1], tokens[max(at - 2, 0)]
    if before.token_type is _T.VAR and before.text.upper() in _CONSTANTS:
        feature, hint = _CONSTANTS[before.text.upper()]
        return source.unsupported(feature, before.start, hint=hint)
    if before.token_type is _T.AMP and first.text.upper() == "U" and _adjacent(tokens, at - 1):
        hint = "write the letters themselves, or the bytes of their UTF-8: E'\\xC3\\xA9'"
        return source.unsupported("a text of Unicode escapes (U&'…')", first.start, hint=hint)
    return None


def _power(source: StatementText, tokens: Sequence[Token], at: int) -> NotSupported | None:
    if at and tokens[at - 1].token_type is _T.STAR and _adjacent(tokens, at):
        return source.unsupported("the operator **", tokens[at - 1].start, hint="write power(a, b)")
    return None


def _at_sign(source: StatementText, tokens: Sequence[Token], at: int) -> NotSupported | None:
    """The error for an operator with @, which else begins a parameter."""
    text, start = source.text, tokens[at].start
    for sign, first in ((text[start : start + 2], start), (text[max(start - 1, 0) : start + 1], start - 1)):
        if sign in _AT:
            return source.unsupported(f"the operator {sign}", first, hint=_AT[sign])
    return None


def _arrow(source: StatementText, tokens: Sequence[Token], at: int) -> NotSupported:
    """The error for ->, which other systems have for JSON and for lambdas."""
    if _follows(tokens, at, _T.STRING) or _follows(tokens, at, _T.NUMBER):
        hint = "a column of its own for each field; regexp_extract(x, 'pattern') takes a part of a text"
        return source.unsupported("a JSON operator", tokens[at].start, hint=hint)
    return source.unsupported("a lambda (x -> …)", tokens[at].start, hint=_NO_LIST)


def _distance(source: StatementText, tokens: Sequence[Token], at: int) -> NotSupported:
    return source.unsupported("the operator <->", tokens[at].start, hint="write abs(a - b)")


def _colon(source: StatementText, tokens: Sequence[Token], at: int) -> NotSupported | None:
    """The error for a colon that does not begin a parameter."""
    near = tokens[max(at - 6, 0) : at]
    for before, following in pairwise(near):
        if before.text.upper() == "LAMBDA" and following.token_type in (_T.VAR, _T.L_PAREN):
            return source.unsupported("a lambda (lambda x: …)", before.start, hint=_NO_LIST)
    if near and near[-1].token_type in (_T.VAR, _T.IDENTIFIER) and _adjacent(tokens, at):
        return source.unsupported("a name before its expression (name: x)", near[-1].start, hint="write x AS name")
    return None


def _columns(source: StatementText, tokens: Sequence[Token], at: int) -> NotSupported | None:
    if tokens[at].text.upper() == "COLUMNS" and _follows(tokens, at, _T.L_PAREN):
        return source.unsupported("COLUMNS(…)", tokens[at].start, hint="list the columns, or write * EXCLUDE (a, b)")
    return None


def _any_join(source: StatementText, tokens: Sequence[Token], at: int) -> NotSupported | None:
    if _follows(tokens, at, _T.JOIN):
        return source.unsupported("ANY JOIN", tokens[at].start, hint="a JOIN has all pairs; write SELECT DISTINCT")
    return None


_RULES: dict[TokenType, Rule] = {
    _T.STRING: _constant,
    _T.STAR: _power,
    _T.PARAMETER: _at_sign,
    _T.ARROW: _arrow,
    _T.LR_ARROW: _distance,
    _T.COLON: _colon,
    _T.VAR: _columns,
    _T.ANY: _any_join,
}
"""The rule for each type of token."""
