"""Queries of every form: plain statements, and composed ones with outer joins, subselects or set operations.

tokens ──no sign of another form──> psoup.sql.select
   └─────LEFT, a second SELECT, …─> psoup.sql.composed, if the tree has such a form
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from psoup.expressions.tree import Literal
from psoup.plan.standing_query import StandingQuery
from psoup.sql.composed import shapes
from psoup.sql.composed.refusals import TOKENS, begins_composed, refuse_levels
from psoup.sql.composed.shapes import unwrapped
from psoup.sql.composed.statement import bind_composed
from psoup.sql.elsewhere.advice import advised
from psoup.sql.from_list import Lookup
from psoup.sql.parser.guards import tokens_of
from psoup.sql.parser.parse_tree import parse, untie
from psoup.sql.refusals import refuse_node, refuse_statement, refuse_tokens
from psoup.sql.select import Known, bind_select
from psoup.sql.source import StatementText

_SIGNS = frozenset(
    {
        *(TokenType.LEFT, TokenType.RIGHT, TokenType.FULL, TokenType.SEMI, TokenType.ANTI, TokenType.ASOF),
        *(TokenType.NATURAL, TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT, TokenType.VALUES, TokenType.WITH),
        *(TokenType.EXISTS, TokenType.L_BRACKET),
    }
)
"""Tokens that may belong to a composed statement."""

_ITEMS = frozenset({TokenType.FROM, TokenType.JOIN, TokenType.COMMA})
"""Tokens before an item of FROM. A parenthesis after them may begin a join."""


def query_of(
    source: StatementText, lookup: Lookup, names: Sequence[str] = (), known: Known | None = None
) -> StandingQuery:
    """The standing query of a text. `known`: finds the queries of sides without parsing. Raises SqlError."""
    tokens = tokens_of(source)
    check_beginning(source, tokens, lookup)
    with advised(source, tokens, lookup):
        refuse_tokens(source, tokens, TOKENS)
        node = unwrapped(parse(source, tokens))
        try:
            return bind_query(source, node, lookup, names, known=known, tokens=tokens)
        finally:
            untie(node)


def check_beginning(source: StatementText, tokens: list[Token], lookup: Lookup | None = None) -> None:
    """Refuse a statement that is not a query, or whose subselects nest too deeply. Raises SqlError. O(tokens)."""
    if not begins_composed(tokens):
        refuse_statement(source, tokens, "SELECT", lookup)
    refuse_levels(source, tokens)


def bind_query(
    source: StatementText,
    node: exp.Expr,
    lookup: Lookup,
    names: Sequence[str],
    parameters: Mapping[int, Literal] | None = None,
    known: Known | None = None,
    *,
    tokens: Sequence[Token],
) -> StandingQuery:
    """The standing query of a parsed statement. `parameters`, `known`: as for `bind_select`. Raises SqlError."""
    if is_composed(node, tokens):
        return bind_composed(source, node, lookup, names, parameters, known)
    if not isinstance(node, exp.Select):
        raise refuse_node(source, node)
    return bind_select(source, node, lookup, names, parameters, known)


def is_composed(node: exp.Expr, tokens: Sequence[Token]) -> bool:
    """Whether a statement has a form that `bind_select` does not know. O(tokens), and O(nodes) if a token may belong
    to such a form."""
    if not isinstance(node, exp.Select):
        return True
    words, before = 0, None
    for token in tokens:
        kind = token.token_type
        words += kind is TokenType.SELECT or kind is TokenType.FROM
        opens_join = kind is TokenType.L_PAREN and before in _ITEMS
        if words > 2 or kind in _SIGNS or opens_join or (before is TokenType.ALIAS and token.text.upper() == "OF"):
            return shapes.is_composed(node)
        before = kind
    joined = [join.this for join in node.args.get("joins") or ()]
    return any(table.args.get("joins") for table in joined) or shapes.renames_columns(node, joined)
