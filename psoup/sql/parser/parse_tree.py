"""The parser: turns tokens into a syntax tree, and sqlglot's messages into messages about the statement.

    SELECT a FORM s   ->   line 1, column 10: 'FORM' is not expected here …

Every failure of sqlglot becomes a SqlError with a place.
"""

from __future__ import annotations

import re
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from psoup.plan.canonical import UNITS
from psoup.sql.parser.dialect import PSoup
from psoup.sql.parser.syntax import PlacedError, SyntaxRefusal, TooComplex
from psoup.sql.source import StatementText, nearest
from psoup.sql.types import unit_name
from psoup.work.rest_points import MOVES, may_rest

_SAYINGS = [
    (re.compile(pattern), message)
    for pattern, message in (
        (r"Expected table name", "a stream's name is missing @"),
        (r"Expecting ([^\s\w<]|[A-Z]+)$", r"\1 is missing @"),
        (r"Found multiple '([A-Z ]+)' clauses$", r"\1 is given twice"),
        (r"Expected TYPE after (\w+)$|Expected type$", "a type is missing @"),
        (r"Expected FROM or comma after EXTRACT$", "extract needs a part, FROM and a time: extract(year FROM time)"),
        (r"Expected ([A-Z]+) after ([A-Z]+)$", r"\1 is missing @"),
        (r"Required keyword.*\b(Union|Intersect|Except)\b", "a SELECT is missing @"),
        (r"Required keyword", "a value or a name is missing @"),
    )
]
"""Patterns of sqlglot's messages, and the messages that replace them. @ stands for the place.

Users never see other messages of sqlglot.
"""

_NAMES = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING)
"""Tokens whose text is not a reserved word."""

_CLAUSES = ("SELECT", "FROM", "WHERE", "AND", "OR", "ORDER BY", "LIMIT")

_WORDS = ("SELECT", "FROM", "WHERE", "ORDER BY", "LIMIT", "BEGIN", "END", "DISTINCT")

_JOINING = (TokenType.ON, TokenType.USING, TokenType.JOIN, TokenType.INNER, TokenType.CROSS)
"""Words of joins. Users rarely intend them as names."""

_OPTIONS = ("TIMESTAMP BY", "LATENESS", "AHEAD", "RETENTION", "ARCHIVE", "ADD")


def untie(tree: exp.Expr) -> None:
    """Remove the links of nodes to their parents, so that Python frees the tree after its last use. O(nodes).

    With the links, trees are cycles. Python's collector would free them, and it stops all threads.
    """
    for number, node in enumerate(tree.walk()):
        if not number % MOVES:
            may_rest()
        node.parent = None


def parse(source: StatementText, tokens: list[Token]) -> exp.Expr:
    """Parse one statement, without parentheses around it. Raises SqlError with PSoup's messages, not sqlglot's."""
    parser = PSoup().parser()
    try:
        trees = parser.parse(tokens, source.text)
    except PlacedError as problem:
        raise _syntax(source, tokens, problem) from problem
    except (TooComplex, RecursionError):
        raise source.error("the statement is too complex", hint="simplify it, or split it into several") from None
    except Exception as problem:  # sqlglot fails in its own ways on some malformed texts; each must become a refusal
        raise source.error(
            "the statement cannot be read as SQL", hint="look for words that SQL does not have"
        ) from problem
    if len(trees) != 1 or trees[0] is None:
        raise source.error("this is not a statement")
    tree = trees[0]
    while isinstance(tree, exp.Subquery) and tree.is_wrapper:
        tree = tree.this
    return tree


def _syntax(source: StatementText, tokens: list[Token], problem: PlacedError) -> Exception:
    position = next((i for i, token in enumerate(tokens) if token.start == problem.at), None)
    culprit = None if position is None else tokens[position]
    message, hint = _translated(problem.message, culprit), ""
    if isinstance(problem, SyntaxRefusal):
        message, hint = problem.message, problem.hint
    return source.error(message, problem.at, hint=hint or _hint(tokens, position))


def _translated(message: str, token: Token | None) -> str:
    """The message that replaces a message of sqlglot, because sqlglot's messages name its classes."""
    place = "at the end of the statement" if token is None else f"before {token.text[:40]!r}"
    for pattern, replacement in _SAYINGS:
        match = pattern.match(message)
        if match is not None:
            return match.expand(replacement).replace("@", place)
    return "the statement ends too early" if token is None else f"{token.text[:40]!r} is not expected here"


def _hint(tokens: list[Token], position: int | None) -> str:
    """A hint for a misspelt keyword at `position` or before it, or for a reserved word meant as a name.

    The parser reads a misspelt keyword before `position` as an alias.
    """
    end = len(tokens) if position is None else position + 1
    if any(token.text == "%" and after.text.startswith(("s", "(")) for token, after in pairwise(tokens[: end + 1])):
        return "parameters are written ?, $1 or $name"
    if position is None:
        return ""
    suspect = tokens[position]
    selects = tokens[0].token_type is TokenType.SELECT
    advice = _of_joins(tokens, position) if selects else ""
    if advice or suspect.token_type in _JOINING:
        return advice
    for token in (suspect, tokens[max(position - 1, 0)]) if selects else (suspect,):
        words = _WORDS if selects else _OPTIONS
        hint = nearest(token.text, words) if token.token_type is TokenType.VAR else ""
        if hint:
            return hint
    kinds_before = {token.token_type for token in tokens[:position]}
    if suspect.token_type is TokenType.BEGIN and TokenType.END in kinds_before:
        return "BEGIN stands before END"
    if selects and suspect.token_type is TokenType.BEGIN and suspect.token_type in kinds_before:
        return "one window is for all sources, or each has its own in brackets: FROM a [RANGE 1 HOUR], b [ROWS 100]"
    reserved = suspect.text.isidentifier() and suspect.token_type not in _NAMES and suspect.text.upper() not in _CLAUSES
    return f'quote it if it is a name: "{suspect.text}"' if reserved else ""


def _of_joins(tokens: list[Token], position: int) -> str:
    """A hint for common mistakes in joins.

    These are two conditions of one JOIN, a window in parentheses, and a duration without the word INTERVAL.
    """
    suspect, before = tokens[position], tokens[position - 1]
    kind = suspect.token_type
    if kind in (TokenType.ON, TokenType.USING) and before.token_type not in (TokenType.JOIN, TokenType.COMMA):
        return "each JOIN has one ON, or one USING; other conditions follow with AND, or stand in WHERE"
    if kind in (TokenType.INNER, TokenType.CROSS):
        return f"write {suspect.text.upper()} JOIN"
    if before.token_type is TokenType.NUMBER and unit_name(suspect.text) in UNITS:
        if position > 1 and tokens[position - 2].text.upper() in ("RANGE", "ROWS"):
            return "the window of a source stands in brackets: [RANGE 1 HOUR]"
        return f"a length of time is INTERVAL {before.text} {suspect.text.upper()}"
    return ""
