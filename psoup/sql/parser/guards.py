"""Guards before the parser: they refuse texts that could cost the parser much time or stack, at low cost.

    text -> size, NUL, surrogates -> unclosed quotes and comments -> tokens -> one statement, nesting -> parser
                                                                        └─> points: an estimate of the work of binding

    SELECT x FROM s WHERE x = 1 OR x = 2 OR …      a point for each word and sign
    … WHERE x IN (1, 2, 3, …)                      a third of a point for constants of a list and their commas
    … WHERE x = '1'::DECIMAL OR …                  twenty points for a text constant in a CAST

Each check is one linear pass, and none knows the meaning of a statement. In all statements measured, a point took 20 to
40 microseconds. So a statement of `MOST_POINTS` takes about 200 ms of one core. The engine needs no clock to limit it.
A replay does not count the points of logged statements: they were accepted once, and must be accepted again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from psoup.budgets import STATEMENT_BYTES, STATEMENT_DEPTH, STATEMENT_WORDS
from psoup.errors import SqlError
from psoup.sql.elsewhere.advice import phrase_error
from psoup.sql.parser.dialect import PSoup
from psoup.sql.parser.texts import plain, said
from psoup.sql.source import StatementText

MOST_POINTS = 7_000
"""The most points of a statement. They are enough for a list of 10,000 constants, or for 1,700 comparisons joined by
OR."""

DEFINITION_POINTS = 16_384
"""The most words of a statement that creates or alters a stream: 16 for each of its 1,000 columns."""

_SIMPLER = "use IN or BETWEEN instead of OR, or make several queries of it"
_FEWER_COLUMNS = "a stream has at most 1,000 columns; add some later, by ALTER STREAM"

_WORD = re.compile(
    r"(,\s*(?:-?[\d.]+|'(?:[^']|'')*+')\s*(?=[,)]))"  # a constant of a list, with the comma before it
    r"|[\w.]+|'[^']*'|\"[^\"]*\"|[^\s\w]"
)
_CONVERTED = re.compile(r"'\s*::|\bCAST\s*\(\s*'", re.IGNORECASE)
_CONVERSION = 20
"""The points of a text constant in a CAST, unless its spelling is plain. The conversion runs code for whole columns."""


def check_budget(text: str, *, defines: bool = False) -> None:
    """Raise SqlError, reason STATEMENT_BUDGET, for a statement with too many points. O(length), some milliseconds.

    `defines`: whether the statement creates or alters a stream. A statement longer than MAX_BYTES passes, because
    `tokens_of` refuses it.
    """
    if len(text) > MAX_BYTES:
        return
    limit, hint = (DEFINITION_POINTS, _FEWER_COLUMNS) if defines else (MOST_POINTS, _SIMPLER)
    source, conversions = StatementText(text), _CONVERSION * _converted(text)
    if len(text) + conversions <= limit and "$" not in text:
        return
    with suppress(SqlError):  # the tokenizer refuses quotes that are never closed
        text, _ = plain(source)
        conversions = _CONVERSION * _converted(text)
    words = _WORD.findall(text)
    items = sum(map(bool, words))
    points = len(words) - items + items * 2 // 3 + conversions
    if points > limit:
        problem = source.error(
            f"the statement has {points:,} words and signs, and {limit:,} is the most: it would take too long to"
            f" read (a constant of a list counts a third, a text that is converted {_CONVERSION})",
            hint=hint,
        )
        raise _over(problem, STATEMENT_WORDS.over(points, limit))


def _converted(text: str) -> int:
    """The number of text constants in casts.

    The search keeps the interpreter for 0.7 ms for 60,000 characters, and no other thread can interrupt it. The test
    for `::` and CAST takes 0.05 ms.
    """
    if "::" not in text and "CAST" not in text.upper():
        return 0
    return len(_CONVERTED.findall(text))


MAX_BYTES = 64 * 1024
"""The longest statement, in bytes of UTF-8."""

MAX_DEPTH = 50
"""The deepest nesting of brackets, CASE and prefix operators. The parser takes about ten stack frames for each
level."""

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_PREFIX = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE, TokenType.INTERVAL})
_UNUSUAL = re.compile(r"\btop\b|\bn'", re.IGNORECASE)
_BEFORE_TOP = frozenset({TokenType.SELECT, TokenType.DISTINCT, TokenType.ALL})
_BAD_CHARACTER = re.compile("[\0\ud800-\udfff]")
_RUN_ON = "put a space between, or write a number in decimal digits alone: 16 for 0x10"
_AFTER_NUMBER = re.compile(r"\w")


def tokens_of(source: StatementText) -> list[Token]:
    """The tokens of one statement without semicolons around it, at least one. O(length). Raises SqlError."""
    _check_characters(source)
    text, written = plain(source)
    try:
        tokens: list[Token] = PSoup().tokenize(text)
    except TokenError as problem:
        raise source.error("this cannot be read as SQL", problem.start or 0) from problem
    if written:
        tokens = [_said(source, token, written) for token in tokens]
    if "?::" in text:
        tokens = list(chain.from_iterable(map(_cast_apart, tokens)))
    if _UNUSUAL.search(text):
        tokens = [_usual(tokens, at) for at in range(len(tokens))]
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    while tokens and tokens[0].token_type is TokenType.SEMICOLON:
        tokens.pop(0)
    if not tokens:
        raise source.error("the statement is empty", hint="write SELECT ... FROM ... or CREATE STREAM ...")
    _check_tokens(source, tokens)
    return tokens


def _over(problem: SqlError, facts: Mapping[str, str | int]) -> SqlError:
    """Give the error the reason STATEMENT_BUDGET, and the facts of a budget."""
    problem.reason = "STATEMENT_BUDGET"
    problem.facts |= {name: str(value) for name, value in facts.items()}
    return problem


def _said(source: StatementText, token: Token, written: dict[int, tuple[str, str]]) -> Token:
    """The token with the characters that its text constant stands for. Other tokens stay the same."""
    text = written.get(token.start)
    if text is None:
        return token
    return Token(TokenType.STRING, said(source, token.start, *text), token.line, token.col, token.start, token.end)


def _cast_apart(token: Token) -> list[Token]:
    """The tokens ? and :: of a parameter with a cast, which sqlglot reads as one. Other tokens stay the same."""
    if token.token_type is not TokenType.QDCOLON:
        return [token]
    parameter = Token(TokenType.PLACEHOLDER, "?", token.line, token.col, token.start, token.start)
    return [parameter, Token(TokenType.DCOLON, "::", token.line, token.col, token.start + 1, token.end)]


def _usual(tokens: list[Token], at: int) -> Token:
    """The token at `at`. N'x' becomes the text 'x', and the word TOP in SELECT TOP 5 becomes a TOP token."""
    token = tokens[at]
    kind = token.token_type
    if kind is TokenType.NATIONAL_STRING:
        return Token(TokenType.STRING, token.text, token.line, token.col, token.start, token.end)
    if kind is not TokenType.VAR or not 0 < at < len(tokens) - 1 or token.text.upper() != "TOP":
        return token
    if tokens[at - 1].token_type not in _BEFORE_TOP or tokens[at + 1].token_type is not TokenType.NUMBER:
        return token
    return Token(TokenType.TOP, token.text, token.line, token.col, token.start, token.end)


def _check_characters(source: StatementText) -> None:
    text = source.text
    size = len(text) if len(text) > MAX_BYTES else len(text.encode(errors="replace"))
    if size > MAX_BYTES:
        problem = source.error(
            f"the statement is longer than {MAX_BYTES:,} bytes: it has {size:,} or more",
            hint="split the query, or shorten its lists",
        )
        raise _over(problem, STATEMENT_BYTES.over(size, MAX_BYTES))
    bad = _BAD_CHARACTER.search(text)
    if bad is not None:
        culprit = "a NUL character" if bad.group() == "\0" else "half of a surrogate pair"
        raise StatementText(_BAD_CHARACTER.sub("?", text)).error(
            f"{culprit} cannot be part of a statement", bad.start()
        )


def _check_tokens(source: StatementText, tokens: list[Token]) -> None:
    depth = cases = run = 0
    for at, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.SEMICOLON:
            raise source.error("one statement at a time, please", token.start, hint="send what follows the ; alone")
        if kind is TokenType.NUMBER and _AFTER_NUMBER.match(source.text, token.end + 1):
            raise phrase_error(source, tokens, at) or source.error(
                f"{token.text!r} runs into what follows it", token.end + 1, hint=_RUN_ON
            )
        run = run + 1 if kind in _PREFIX else 0
        if kind in _OPENING:
            depth += 1
        elif kind in _CLOSING:
            depth -= 1
        elif kind is TokenType.CASE:
            cases += 1
        elif kind is TokenType.END:
            cases = max(0, cases - 1)
        if depth + cases + run > MAX_DEPTH:
            problem = source.error(
                f"this nests deeper than {MAX_DEPTH} levels", token.start, hint="simplify the expression"
            )
            raise _over(problem, STATEMENT_DEPTH.over(depth + cases + run, MAX_DEPTH))
        if depth < 0:
            raise source.error(f"{token.text!r} closes nothing", token.start)
