"""The ways in: text to a `StreamSpec`, `Alteration`, `Dropping`, `StandingQuery`, `Template` or `WindowClause`.

    text -> guards -> tokens -> parser -> refusals -> binder, factors, window

Any fault of a text comes out as SqlError (or NotSupported) with its place; nothing else is raised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from psoup.model import StreamSpec, WindowClause
from psoup.plan.standing import StandingQuery
from psoup.sql.ddl import Alteration, Dropping, alteration, dropping, stream_spec
from psoup.sql.dialect import PSoup
from psoup.sql.guards import after_comment, tokens_of
from psoup.sql.refusals import refuse_node, refuse_statement, refuse_tokens
from psoup.sql.select import Lookup, bind_select
from psoup.sql.source import StatementText, nearest
from psoup.sql.syntax import (
    AlterStreamNode,
    BoundsNode,
    CreateStreamNode,
    DropStreamNode,
    PlacedError,
    Refusal,
    TooComplex,
)
from psoup.sql.templates.holes import find_holes
from psoup.sql.templates.template import Template, template_of
from psoup.sql.vague import refuse_vague
from psoup.sql.windows import window

T = TypeVar("T")

_SAYINGS = [
    (re.compile(pattern), told)
    for pattern, told in (
        (r"Expected table name", "a stream's name is missing @"),
        (r"Expecting ([^\s\w<]|[A-Z]+)$", r"\1 is missing @"),
        (r"Found multiple '([A-Z ]+)' clauses$", r"\1 is given twice"),
        (r"Expected TYPE after (\w+)$|Expected type$", "a type is missing @"),
        (r"Expected FROM or comma after EXTRACT$", "extract needs a part, FROM and a time: extract(year FROM time)"),
        (r"Expected ([A-Z]+) after ([A-Z]+)$", r"\1 is missing @"),
        (r"Required keyword", "a value or a name is missing @"),
    )
]
"""Messages of sqlglot, and the words for them; @ is the place. Any other message is not repeated."""

_NEXT = re.compile(r"\S|\Z")
_WORD = re.compile("[A-Za-z_]{1,40}")

_NAMES = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING)
"""Tokens whose text is not a reserved word."""

_CLAUSES = ("SELECT", "FROM", "WHERE", "AND", "OR", "ORDER BY", "LIMIT")

_WORDS = ("SELECT", "FROM", "WHERE", "ORDER BY", "LIMIT", "BEGIN", "END", "DISTINCT")

_OPTIONS = ("TIMESTAMP BY", "LATENESS", "AHEAD", "RETENTION", "ARCHIVE", "ADD")


def create_stream(text: str, *, new: bool = False) -> StreamSpec:
    """The stream that a CREATE STREAM statement declares. `new`: nothing vague, see `vague`. Raises SqlError."""
    return _safely(text, lambda source: _create(source, new))


def alter_stream(text: str, *, new: bool = False) -> Alteration:
    """The change that an ALTER STREAM statement asks for. `new`: nothing vague, see `vague`. Raises SqlError."""
    return _safely(text, lambda source: _alter(source, new))


def drop_stream(text: str) -> Dropping:
    """The stream that a DROP STREAM statement names. Raises SqlError."""
    return _safely(text, _drop)


def standing_query(text: str, lookup: Lookup, names: Sequence[str] = ()) -> StandingQuery:
    """The standing query of a SELECT over one stream.

    `lookup` finds a stream by its name as written (any case), `names` are those to suggest. Raises SqlError; its
    reason is UNKNOWN_STREAM, UNKNOWN_COLUMN, UNKNOWN_FUNCTION, TYPE_MISMATCH … where a program may want to know.
    """
    return _safely(text, lambda source: _select(source, lookup, names))


def prepare(text: str, lookup: Lookup, names: Sequence[str] = ()) -> Template:
    """A SELECT with parameters in WHERE (`?`, `$1` or `$name`), parsed and checked once for many values.

    `lookup`, `names` and errors are those of `standing_query`. `Template.bind` puts the values in.
    """
    return _safely(text, lambda source: _prepare(source, lookup, names))


def window_clause(text: str) -> WindowClause:
    """The window of `BEGIN … END …`, either part of which may be missing; not both. Raises SqlError."""
    return _safely(text, _window)


def first_word(text: str) -> str:
    """The word that says what a statement is, in capitals; "" if there is none. O(length); never raises."""
    at = 0
    while at >= 0:
        at = _NEXT.search(text, at).start()  # type: ignore[union-attr]  # the end is found, too
        if text.startswith("--", at):
            at = text.find("\n", at)
        elif text.startswith("/*", at):
            at = after_comment(text, at + 2)
        else:
            word = _WORD.match(text, at)
            return word.group().upper() if word else ""
    return ""


def _create(source: StatementText, new: bool) -> StreamSpec:
    tokens = tokens_of(source)
    refuse_statement(source, tokens, "CREATE")
    second = tokens[1] if len(tokens) > 1 else tokens[0]
    if [token.text.upper() for token in tokens[2:4]] == ["IF", "NOT"]:
        hint = "ask for it beside the statement: if_not_exists=True in Python, --if-not-exists in the shell"
        raise source.unsupported("IF NOT EXISTS", tokens[2].start, hint=hint)
    if second.text.upper() != "STREAM":
        what = f"CREATE {second.text.upper()[:40]}" if len(tokens) > 1 else "CREATE of nothing"
        raise source.unsupported(what, second.start, hint="write CREATE STREAM name (column TYPE, ...)")
    refuse_tokens(source, tokens)
    node = _parse(source, tokens)
    if not isinstance(node, CreateStreamNode):
        raise refuse_node(source, node)
    spec = stream_spec(source, node)
    if new:
        refuse_vague(source, node)
    return spec


def _alter(source: StatementText, new: bool) -> Alteration:
    tokens = tokens_of(source)
    refuse_statement(source, tokens, "ALTER")
    refuse_tokens(source, tokens)
    node = _parse(source, tokens)
    if not isinstance(node, AlterStreamNode):
        raise refuse_node(source, node)
    asked = alteration(source, node)
    if new:
        refuse_vague(source, node)
    return asked


def _drop(source: StatementText) -> Dropping:
    tokens = tokens_of(source)
    refuse_statement(source, tokens, "DROP")
    refuse_tokens(source, tokens)
    node = _parse(source, tokens)
    if not isinstance(node, DropStreamNode):
        raise refuse_node(source, node)
    return dropping(source, node)


def _select(source: StatementText, lookup: Lookup, names: Sequence[str]) -> StandingQuery:
    tokens = tokens_of(source)
    refuse_statement(source, tokens, "SELECT")
    refuse_tokens(source, tokens)
    node = _parse(source, tokens)
    if not isinstance(node, exp.Select):
        raise refuse_node(source, node)
    try:
        return bind_select(source, node, lookup, names)
    finally:
        _untie(node)


def _prepare(source: StatementText, lookup: Lookup, names: Sequence[str]) -> Template:
    tokens = tokens_of(source)
    refuse_statement(source, tokens, "SELECT")
    tokens, holes = find_holes(source, tokens)
    refuse_tokens(source, [token for token in tokens if token.token_type is not TokenType.PLACEHOLDER])
    node = _parse(source, tokens)
    if not isinstance(node, exp.Select):
        raise refuse_node(source, node)
    return template_of(source, node, holes, lookup, names)


def _window(source: StatementText) -> WindowClause:
    tokens = tokens_of(source)
    if tokens[0].text.upper() not in ("BEGIN", "END"):
        raise source.error("a window begins with BEGIN or END", tokens[0].start, hint="BEGIN (NOW - 10) END (NOW)")
    refuse_tokens(source, tokens)
    node = _parse(source, tokens)
    if not isinstance(node, BoundsNode):
        raise refuse_node(source, node)
    return window(source, node.args.get("begin"), node.args.get("end"))


def _untie(tree: exp.Expr) -> None:
    """Free a syntax tree as soon as it is dropped: its nodes know their parents, and cycles are left to Python's
    collector, which stops all threads. O(nodes)."""
    for node in tree.walk():
        node.parent = None


def _parse(source: StatementText, tokens: list[Token]) -> exp.Expr:
    """Parse one syntax tree. Messages of sqlglot are put into other words."""
    parser = PSoup().parser()
    try:
        trees = parser.parse(tokens, source.text)
    except PlacedError as problem:
        raise _syntax(source, tokens, problem) from problem
    except (TooComplex, RecursionError):
        raise source.error("the statement is too complex", hint="simplify it, or split it into several") from None
    except Exception as problem:  # sqlglot trips over some malformed texts; no text may do more than be refused
        raise source.error(
            "the statement cannot be read as SQL", hint="look for words that SQL does not have"
        ) from problem
    if len(trees) != 1 or trees[0] is None:
        raise source.error("this is not a statement")
    return trees[0]


def _syntax(source: StatementText, tokens: list[Token], problem: PlacedError) -> Exception:
    position = next((i for i, token in enumerate(tokens) if token.start == problem.at), None)
    culprit = None if position is None else tokens[position]
    message, hint = _translated(problem.message, culprit), ""
    if isinstance(problem, Refusal):
        message, hint = problem.message, problem.hint
    return source.error(message, problem.at, hint=hint or ("" if position is None else _hint(tokens, position)))


def _translated(message: str, token: Token | None) -> str:
    """A message of sqlglot in the words of the statement: as it is, it tells too much of sqlglot."""
    place = "at the end of the statement" if token is None else f"before {token.text[:40]!r}"
    for pattern, told in _SAYINGS:
        match = pattern.match(message)
        if match is not None:
            return match.expand(told).replace("@", place)
    return "the statement ends too early" if token is None else f"{token.text[:40]!r} is not expected here"


def _hint(tokens: list[Token], position: int) -> str:
    """A hint: a misspelt word, here or before (there it was read as an alias), or a reserved word meant as a name."""
    suspect = tokens[position]
    selects = tokens[0].token_type is TokenType.SELECT
    for token in (suspect, tokens[max(position - 1, 0)]) if selects else (suspect,):
        words = _WORDS if selects else _OPTIONS
        hint = nearest(token.text, words) if token.token_type is TokenType.VAR else ""
        if hint:
            return hint
    if suspect.token_type is TokenType.BEGIN and any(token.token_type is TokenType.END for token in tokens[:position]):
        return "BEGIN stands before END"
    reserved = suspect.text.isidentifier() and suspect.token_type not in _NAMES and suspect.text.upper() not in _CLAUSES
    return f'quote it if it is a name: "{suspect.text}"' if reserved else ""


def _safely(text: str, read: Callable[[StatementText], T]) -> T:
    """Run `read`; what the parser's own limits raise becomes an SqlError too."""
    source = StatementText(text)
    try:
        return read(source)
    except RecursionError:
        raise source.error("the statement nests too deeply", hint="simplify its expressions") from None
