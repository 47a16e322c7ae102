"""Better errors for refused statements whose author wrote them for another system.

    problem: line 1, column 27: 'CHANGES' is not expected here        SELECT * FROM trades EMIT CHANGES
    better:  line 1, column 22: EMIT CHANGES is not supported         hint: register the SELECT without …

This module searches first for a sign that SQL lacks. Then it searches near the place of the error for a phrase of
`phrases`. Last it searches for a word of SQL that is the name of a column. Any other error stays unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from psoup.errors import NotSupported, SqlError
from psoup.model import StreamSpec
from psoup.sql.elsewhere.functions import ARGUMENTS
from psoup.sql.elsewhere.phrases import OF_CREATE, OF_SELECT, OF_TABLE, Phrase
from psoup.sql.elsewhere.signs import SIGNS
from psoup.sql.source import StatementText

Lookup = Callable[[str], StreamSpec | None]

_WRITTEN = frozenset({TokenType.STRING, TokenType.IDENTIFIER})
"""Tokens in quotes."""

_NAMES = _WRITTEN | {TokenType.VAR, TokenType.NUMBER}
_SYNTAX = frozenset({"SQL", "NOT_SUPPORTED"})
_ANY = _SYNTAX | {"UNKNOWN_COLUMN", "UNKNOWN_STREAM", "UNKNOWN_FUNCTION"}
_BEFORE = 3
"""The most tokens between the place of an error and a later phrase that explains it."""
_BEHIND = 4
"""The most tokens between a phrase that explains an error and the later place of that error."""

_LONGEST = 5
"""The number of tokens of the longest phrase."""


@contextmanager
def advised(source: StatementText, tokens: Sequence[Token], lookup: Lookup | None = None) -> Iterator[None]:
    """Replace a SqlError of the `with` block by a better error, if there is one. `lookup`: None for CREATE STREAM."""
    try:
        yield
    except SqlError as problem:
        better = _better(source, tokens, lookup, problem)
        if better is None:
            raise
        raise better from problem


@contextmanager
def advised_arguments(name: str, node: exp.Expr) -> Iterator[None]:
    """Add a hint, if there is one, to an error of the `with` block about a function's number of arguments."""
    try:
        yield
    except SqlError as problem:
        first = node.expressions[0] if node.expressions else None
        count = len(first.expressions if isinstance(first, exp.Distinct) else node.expressions)
        advice = ARGUMENTS.get((name, count), "") if problem.reason == "WRONG_ARGUMENTS" else ""
        if not advice or problem.hint:
            raise
        raise _hinted(problem, advice) from problem


def phrase_error(source: StatementText, tokens: Sequence[Token], at: int) -> SqlError | None:
    """The error for a phrase of another system in a SELECT near token number `at`. None if there is no phrase."""
    return _of_phrase(source, tokens, OF_SELECT, at)


def _better(
    source: StatementText, tokens: Sequence[Token], lookup: Lookup | None, problem: SqlError
) -> SqlError | None:
    if problem.reason not in _ANY:
        return None
    offset = source.offset(problem.line, problem.column)
    at = sum(token.end < offset for token in tokens)
    better = _of_sign(source, tokens)
    if better is None and problem.reason != "UNKNOWN_COLUMN":
        named = problem.problem if isinstance(problem, NotSupported) and problem.hint else ""
        phrases = OF_SELECT if lookup is not None else OF_TABLE if _is_table(tokens) else OF_CREATE
        better = _of_phrase(source, tokens, phrases, at, named)
    if better is None and problem.reason in _SYNTAX:
        better = _of_word(source, tokens, lookup, problem, at)
    return better


def _is_table(tokens: Sequence[Token]) -> bool:
    """Whether a statement begins with CREATE TABLE."""
    return [token.text.upper() for token in tokens[:2]] == ["CREATE", "TABLE"]


def _of_sign(source: StatementText, tokens: Sequence[Token]) -> SqlError | None:
    """The error for the first sign in the statement that SQL lacks."""
    for token in tokens:
        if token.token_type in _WRITTEN:
            continue
        for place in range(token.start, token.end + 1):
            sign = source.text[place]
            if sign in SIGNS:
                shown = repr(sign) if sign.isprintable() else f"the invisible character U+{ord(sign):04X}"
                return source.error(f"{shown} is not a sign of SQL", place, hint=SIGNS[sign])
    return None


def _of_phrase(
    source: StatementText, tokens: Sequence[Token], phrases: Mapping[str, Phrase], at: int, named: str = ""
) -> SqlError | None:
    """The error for the first phrase near token number `at`. O(phrases).

    `named`: the text of a message. A phrase that it mentions is skipped.
    """
    first = max(at - _BEHIND - _LONGEST, 0)
    near = tokens[first : at + _BEFORE + _LONGEST + 1]
    words = [(number, word) for number, token in enumerate(near, first) for word in _words(token)]
    for place, (begin, word) in enumerate(words):
        for written, phrase in phrases.items():
            pattern = written.split()
            met = words[place : place + len(pattern)]
            if word != pattern[0] or [other for _, other in met] != pattern or pattern[0] in named:
                continue
            if any(token.text.upper() in phrase.unless for token in tokens[:begin]):
                continue
            single, end = len(pattern) == 1, met[-1][0]
            if begin - (1 if single else _BEFORE) <= at <= end + (1 if single else _BEHIND):
                return source.unsupported(phrase.feature, tokens[begin].start, hint=phrase.advice)
    return None


def _words(token: Token) -> list[str]:
    """The words of a token in capitals, or # for a number. For a token in quotes, a word that is in no phrase."""
    if token.token_type is TokenType.NUMBER:
        return ["#"]
    return ["'"] if token.token_type in _WRITTEN else token.text.upper().split()


def _of_word(
    source: StatementText, tokens: Sequence[Token], lookup: Lookup | None, problem: SqlError, at: int
) -> SqlError | None:
    """The error with the hint to quote a word of SQL near its place, if a column has that name."""
    columns = None if lookup is None else _columns(tokens, lookup)
    for token in tokens[max(at - 1, 0) : at + 1]:
        if token.token_type in _NAMES or not token.text.isidentifier():
            continue
        if columns is None:
            before = tokens[tokens.index(token) - 1].text
            named = before in ("(", ",") and not problem.hint
        else:
            named = token.text.lower() in columns
        if named:
            return _hinted(problem, f'it is a word of SQL; quote it if it is a name: "{token.text}"')
    return None


def _hinted(problem: SqlError, hint: str) -> SqlError:
    """A copy of the error with this hint."""
    line, column, excerpt = problem.line, problem.column, problem.excerpt
    reason = problem.reason
    return type(problem)(problem.problem, line=line, column=column, excerpt=excerpt, hint=hint, reason=reason)


def _columns(tokens: Sequence[Token], lookup: Lookup) -> set[str]:
    """The names of the columns of all streams after FROM, JOIN or a comma, in lower case."""
    named = {
        token.text
        for before, token in pairwise(tokens)
        if before.token_type in (TokenType.FROM, TokenType.JOIN, TokenType.COMMA)
    }
    specs = [lookup(name) for name in named]
    return {name.lower() for spec in specs if spec is not None for name in spec.schema.names}
