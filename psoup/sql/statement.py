"""The entry points of `psoup.sql`: one function for each kind of statement, from the text to its meaning.

    text -> guards -> tokens -> parser -> refusals -> binder, factors, window

The results are `StreamSpec`, `Alteration`, `Dropping`, `StandingQuery`, `PreparedStatement` and `WindowClause`. For
every fault of a text, the functions raise SqlError or NotSupported with its place, and no other exception.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

from sqlglot.tokenizer_core import Token

from psoup.model import StreamSpec, WindowClause
from psoup.plan.standing_query import StandingQuery
from psoup.sql.composed.refusals import TOKENS
from psoup.sql.ddl import Alteration, Dropping, alteration, dropping, stream_spec, table_of_stream
from psoup.sql.derivation import derived_spec
from psoup.sql.elsewhere.advice import advised
from psoup.sql.elsewhere.statements import CREATED
from psoup.sql.names import listed
from psoup.sql.parser.guards import tokens_of
from psoup.sql.parser.parse_tree import parse
from psoup.sql.parser.spaces import after_space
from psoup.sql.parser.syntax import AlterStreamNode, BoundsNode, CreateStreamNode, DeriveNode, DropStreamNode
from psoup.sql.queries import query_of
from psoup.sql.refusals import refuse_node, refuse_statement, refuse_tokens
from psoup.sql.select import Known, Lookup
from psoup.sql.source import StatementText, nearest
from psoup.sql.templates.prepared_statement import PreparedStatement
from psoup.sql.templates.template import prepared
from psoup.sql.vague import refuse_vague
from psoup.sql.windows import window

T = TypeVar("T")

_CREATE = "write CREATE STREAM name (column TYPE, ...)"
_WORD = re.compile("[A-Za-z_]{1,40}")


def create_stream(
    text: str, *, new: bool = False, lookup: Lookup | None = None, names: Sequence[str] = ()
) -> StreamSpec:
    """The stream or table of a CREATE statement. `new`: refuse vague clauses (`psoup.sql.vague`). Raises SqlError.

    `lookup`, `names`: the streams that a derived stream may read; as for `standing_query`.
    """
    return _safely(text, lambda source: _create(source, new, lookup, names, copies=False)[1])


def create_from_stream(text: str, lookup: Lookup, names: Sequence[str] = ()) -> tuple[str, StreamSpec]:
    """The stream in the FROM STREAM of a new CREATE statement, and the table. The name is "" without FROM STREAM.

    `lookup`: finds a stream by its name in any case. `names`: the names of streams to suggest in errors. Raises
    SqlError.
    """
    return _safely(text, lambda source: _create(source, True, lookup, names))


def alter_stream(text: str, *, new: bool = False) -> Alteration:
    """The change of an ALTER statement. `new`: refuse vague clauses (`psoup.sql.vague`). Raises SqlError."""
    return _safely(text, lambda source: _alter(source, new))


def drop_stream(text: str) -> Dropping:
    """The stream or table of a DROP statement. Raises SqlError."""
    return _safely(text, _drop)


def standing_query(text: str, lookup: Lookup, names: Sequence[str] = (), known: Known | None = None) -> StandingQuery:
    """The standing query of a SELECT.

    `lookup`: finds a stream by its name in any case. `names`: the names of streams to suggest in errors. `known`: finds
    the query of a join's side without parsing, or returns None. Raises SqlError. Its reason is UNKNOWN_STREAM,
    UNKNOWN_COLUMN, UNKNOWN_FUNCTION, TYPE_MISMATCH or another one for programs.
    """
    return _safely(text, lambda source: query_of(source, lookup, names, known))


def prepare(text: str, lookup: Lookup, names: Sequence[str] = ()) -> PreparedStatement:
    """A SELECT with parameters in WHERE, HAVING or QUALIFY (`?`, `$1` or `$name`), parsed once for many values.

    `lookup`, `names` and errors are as for `standing_query`. `PreparedStatement.bind` inserts the values.
    """
    return _safely(text, lambda source: prepared(source, lookup, names))


def window_clause(text: str) -> WindowClause:
    """The window of `BEGIN … END …`. One of the two parts may be missing. Raises SqlError."""
    return _safely(text, _window)


def first_word(text: str) -> str:
    """The first word of a statement in capitals, which shows the kind of statement. "" if there is none. O(length).

    Raises no exception.
    """
    word = _WORD.match(text, after_space(text, 0))
    return word.group().upper() if word else ""


def _create(
    source: StatementText,
    new: bool,
    lookup: Lookup | None = None,
    names: Sequence[str] = (),
    *,
    copies: bool = True,
) -> tuple[str, StreamSpec]:
    """The stream in FROM STREAM, or "", and the stream or table that is created. `copies`: allow FROM STREAM."""
    tokens = tokens_of(source)
    refuse_statement(source, tokens, "CREATE")
    second = tokens[1] if len(tokens) > 1 else tokens[0]
    if [token.text.upper() for token in tokens[2:4]] == ["IF", "NOT"]:
        hint = "ask for it beside the statement: if_not_exists=True in Python, --if-not-exists in the shell"
        raise source.unsupported("IF NOT EXISTS", tokens[2].start, hint=hint)
    if second.text.upper() not in ("STREAM", "TABLE"):
        word = second.text.upper()[:40]
        if len(tokens) == 1:
            raise source.error("CREATE needs STREAM or TABLE", second.end + 1, hint=_CREATE)
        raise source.unsupported(f"CREATE {word}", second.start, hint=_created(tokens, word))
    with advised(source, tokens):
        refuse_tokens(source, tokens, TOKENS)
        node = parse(source, tokens)
    if isinstance(node, DeriveNode):
        if lookup is None:
            hint = "work on its sources; a job or a program without a service cannot read derived streams yet"
            raise source.error("a derived stream needs the streams of a service", node, hint=hint)
        return "", derived_spec(source, node, lookup, names)
    if not isinstance(node, CreateStreamNode):
        raise refuse_node(source, node)
    origin = _origin(source, node, lookup if copies else None, names)
    spec = stream_spec(source, node) if origin is None else table_of_stream(source, node, origin)
    if new:
        refuse_vague(source, node)
    return "" if origin is None else origin.name, spec


def _origin(
    source: StatementText, node: CreateStreamNode, lookup: Lookup | None, names: Sequence[str]
) -> StreamSpec | None:
    """The stream of FROM STREAM. None without it."""
    origin = node.args.get("origin")
    if origin is None:
        return None
    if lookup is None:
        raise source.error("FROM STREAM needs the streams of a service", origin)
    spec = lookup(origin.name)
    if spec is None:
        hint = nearest(origin.name, names) or (f"the streams are {listed(names)}" if names else "")
        raise source.error(f"there is no stream {origin.name[:128]!r}", origin, hint=hint, reason="UNKNOWN_STREAM")
    return spec


def _created(tokens: list[Token], word: str) -> str:
    """The hint for a statement that creates something other than a stream."""
    of_query = any(a.text.upper() == "AS" and b.text.upper() == "SELECT" for a, b in pairwise(tokens))
    return CREATED["VIEW" if of_query else word] if of_query or word in CREATED else _CREATE


def _alter(source: StatementText, new: bool) -> Alteration:
    tokens = tokens_of(source)
    refuse_statement(source, tokens, "ALTER")
    refuse_tokens(source, tokens)
    node = parse(source, tokens)
    if not isinstance(node, AlterStreamNode):
        raise refuse_node(source, node)
    change = alteration(source, node)
    if new:
        refuse_vague(source, node)
    return change


def _drop(source: StatementText) -> Dropping:
    tokens = tokens_of(source)
    refuse_statement(source, tokens, "DROP")
    refuse_tokens(source, tokens)
    node = parse(source, tokens)
    if not isinstance(node, DropStreamNode):
        raise refuse_node(source, node)
    return dropping(source, node)


def _window(source: StatementText) -> WindowClause:
    tokens = tokens_of(source)
    if tokens[0].text.upper() not in ("BEGIN", "END"):
        raise source.error(
            "a window begins with BEGIN or END", tokens[0].start, hint="BEGIN (NOW - 10 MINUTES) END (NOW)"
        )
    refuse_tokens(source, tokens)
    node = parse(source, tokens)
    if not isinstance(node, BoundsNode):
        raise refuse_node(source, node)
    return window(source, node.args.get("begin"), node.args.get("end"))


def _safely(text: str, read: Callable[[StatementText], T]) -> T:
    """Call `read`. If the statement nests too deeply for Python's stack, raises SqlError."""
    source = StatementText(text)
    try:
        return read(source)
    except RecursionError:
        raise source.error("the statement nests too deeply", hint="simplify its expressions") from None
