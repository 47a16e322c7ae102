"""Features of SQL that PSoup recognises but refuses, each by its name, before the binder runs.

    SELECT … LEFT JOIN …   ->   NotSupported: LEFT JOIN is not supported

This module also refuses syntax that is not in the allow-list `SYNTAX`. Composed statements have a longer list, in
`psoup.sql.composed.refusals`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from psoup.errors import SqlError
from psoup.model import StreamSpec
from psoup.sql.elsewhere.brackets import LIST, begins_window, bracket_error, is_name, quoted_name
from psoup.sql.elsewhere.changes import change_hint
from psoup.sql.elsewhere.statements import STATEMENTS
from psoup.sql.elsewhere.tokens import token_error
from psoup.sql.instead import (
    FOR_STATEMENT,
    NAMED_ARGUMENT,
    ORDER_IN_FUNCTION,
    PARAMETER,
    feature_hint,
    join_hint,
)
from psoup.sql.parser.syntax import BoundNode, BoundsNode, Duration
from psoup.sql.source import StatementText, nearest
from psoup.work.rest_points import MOVES, may_rest

MAX_TREE = 100
"""The deepest expression. A chain of AND or of OR counts as one level. Evaluation recurses over expressions."""

MAX_NODES = 50_000

PREDICATES = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Is,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.In,
    exp.Between,
    exp.Like,
    exp.ILike,
    exp.RegexpLike,
    exp.RegexpILike,
    exp.SimilarTo,
    exp.Escape,
    exp.Not,
)
"""The nodes of conditions. As an operand of anything but AND, OR and NOT, a condition needs parentheses."""

_JSON = "a JSON operator"
_CLAUSES = {
    "with_": "WITH",
    "laterals": "LATERAL",
    "into": "SELECT INTO",
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "locks": "FOR UPDATE",
    "match": "MATCH_RECOGNIZE",
    "connect": "CONNECT BY",
    "hint": "a hint",
    "kind": "SELECT AS STRUCT, or AS VALUE",
}
_TAKEN = frozenset(
    {
        "expressions",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "qualify",
        "windows",
        "order",
        "limit",
        "offset",
        "distinct",
        "begin",
        "end",
    }
)
_T = TokenType
_SPEAKING = (
    *(_T.UNION, _T.INTERSECT, _T.EXCEPT, _T.LATERAL, _T.VALUES),
    *(_T.TABLE_SAMPLE, _T.CONNECT_BY, _T.CLUSTER_BY, _T.DISTRIBUTE_BY, _T.SORT_BY, _T.INTO),
)
"""Tokens whose text is the name of the refused feature."""

_SIDES = frozenset({_T.LEFT, _T.RIGHT, _T.FULL})

_TOKENS: dict[TokenType, str] = {
    **dict.fromkeys((_T.OUTER, _T.STRAIGHT_JOIN), ""),
    **dict.fromkeys((_T.DARROW, _T.HASH_ARROW, _T.DHASH_ARROW), _JSON),
    **dict.fromkeys((_T.L_BRACKET, _T.L_BRACE), LIST),
    **dict.fromkeys((_T.PLACEHOLDER, _T.PARAMETER, _T.COLON), PARAMETER),
    **dict.fromkeys(_SPEAKING, ""),
    **dict.fromkeys((_T.COLON_EQ, _T.FARROW), NAMED_ARGUMENT),
}

Syntax = Mapping[type[exp.Expr], Container[str]]
"""An allow-list: types of nodes, with the arguments that each may have."""

_PAIR = frozenset({"this", "expression"})
_ONE = frozenset({"this"})
SYNTAX: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: _TAKEN,
    exp.Group: frozenset({"expressions", "all"}),
    exp.Filter: _PAIR,
    exp.Window: frozenset({"this", "partition_by", "order", "spec", "alias", "over"}),
    exp.WindowSpec: frozenset({"kind", "start", "start_side", "end", "end_side", "exclude"}),
    exp.Tuple: frozenset({"expressions"}),  # of keys, and in comparisons
    **dict.fromkeys((exp.From, exp.Where, exp.Having, exp.Qualify, exp.IgnoreNulls, exp.RespectNulls), _ONE),
    **dict.fromkeys((exp.Paren, exp.Neg, exp.Not, exp.Var, exp.Boolean), _ONE),
    **dict.fromkeys((exp.And, exp.Or, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.Escape), _PAIR),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ, exp.BitwiseAnd, exp.BitwiseOr), _PAIR),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), _PAIR),
    exp.BitwiseNot: _ONE,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod, exp.Extract), _PAIR),
    exp.Table: frozenset({"this", "alias", "window", "as_of"}),
    exp.Join: frozenset({"this", "kind", "on", "using"}),
    BoundsNode: frozenset({"begin", "end", "partition", "rows", "where"}),
    exp.TableAlias: frozenset({"this", "window", "as_of"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Order: frozenset({"this", "expressions"}),  # of an aggregate; no rule binds it in another function
    exp.Ordered: frozenset({"this", "desc", "nulls_first"}),
    **dict.fromkeys((exp.Limit, exp.Offset), frozenset({"expression"})),
    exp.Distinct: frozenset({"expressions", "on"}),
    exp.Star: frozenset({"except_", "replace", "rename"}),
    exp.Column: frozenset({"this", "table", "db", "catalog"}),
    exp.Alias: frozenset({"this", "alias"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Null: frozenset(),
    exp.Placeholder: frozenset(),  # only templates have tokens of it
    **dict.fromkeys((exp.Like, exp.ILike), _PAIR | {"negate"}),
    **dict.fromkeys((exp.RegexpLike, exp.RegexpILike, exp.SimilarTo), _PAIR),
    exp.Div: _PAIR | {"typed", "safe"},
    exp.DPipe: _PAIR | {"safe"},
    exp.In: frozenset({"this", "expressions", "query", "unnest", "field"}),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.Cast: frozenset({"this", "to", "safe"}),
    exp.TryCast: frozenset({"this", "to", "safe", "requires_string"}),
    exp.DataType: frozenset({"this", "expressions", "nested", "kind"}),
    exp.DataTypeParam: _ONE,
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.If: frozenset({"this", "true"}),
    exp.Trim: frozenset({"this", "position", "expression"}),
    exp.Substring: frozenset({"this", "start", "length"}),
    exp.Anonymous: frozenset({"this", "expressions"}),
    exp.CurrentTimestamp: frozenset(),
    exp.Interval: frozenset({"this", "unit"}),
    exp.AtTimeZone: frozenset({"this", "zone"}),
    BoundNode: frozenset({"this", "back", "at"}),
    Duration: frozenset({"this", "unit"}),
}
"""The allow-list: every type of node that a SELECT may have, with the arguments of the node that the binder reads."""

_NODES: dict[type[exp.Expr], str] = {
    exp.Subquery: "a subquery",
    exp.Select: "a subquery",
    exp.Exists: "EXISTS",
    exp.Any: "ANY",
    exp.All: "ALL",
    exp.SetOperation: "UNION, INTERSECT or EXCEPT",
    exp.WithinGroup: "WITHIN GROUP",
    exp.Distinct: "DISTINCT in a function that is not an aggregate",
    exp.Rollup: "ROLLUP",
    exp.Cube: "CUBE",
    exp.GroupingSets: "GROUPING SETS",
    exp.Placeholder: "a parameter",
    exp.Parameter: "a parameter",
    exp.Bracket: "[...]",
    exp.Array: "a list",
    exp.Struct: "a struct",
    exp.Tuple: "a row of several values",
    exp.Lambda: "a lambda",
    exp.Star: "* outside the SELECT list",
    exp.IgnoreNulls: "IGNORE NULLS",
    exp.RespectNulls: "RESPECT NULLS",
    exp.IntervalSpan: "an INTERVAL from one unit TO another",
    exp.ColumnDef: "a type with fields",
    exp.Concat: "two texts side by side (write ||)",
    exp.National: "a text with a letter before it",
    exp.Order: ORDER_IN_FUNCTION,
    exp.Aliases: "several names",
    exp.JSON: "JSON",
    exp.Overlaps: "OVERLAPS",
    exp.Slice: "[:]",
    **dict.fromkeys((exp.Kwarg, exp.PropertyEQ), NAMED_ARGUMENT),
    exp.Dot: "a name of several parts",
    exp.Glob: "GLOB",
    exp.BitwiseXor: "the operator ^ (use power)",
    exp.Collate: "COLLATE",
    exp.CurrentDate: "current_date",
    exp.CurrentTime: "current_time",
    exp.CurrentUser: "current_user",
    exp.Alias: "a name inside an expression",
    exp.Escape: "ESCAPE without LIKE",
}


_PARTS: dict[tuple[type[exp.Expr], str], str] = {
    (exp.Group, "rollup"): "ROLLUP",
    (exp.Group, "cube"): "CUBE",
    (exp.Group, "grouping_sets"): "GROUPING SETS",
    (exp.Group, "totals"): "WITH TOTALS",
    (exp.Limit, "limit_options"): "LIMIT with PERCENT or WITH TIES",
    (exp.Limit, "expressions"): "LIMIT BY",
    (exp.Limit, "this"): "LIMIT in a function",
    (exp.DataType, "collate"): "COLLATE",
    (exp.Cast, "format"): "FORMAT in a CAST",
    (exp.TryCast, "format"): "FORMAT in a CAST",
    (exp.Cast, "default"): "DEFAULT in a CAST",
    (exp.Trim, "collation"): "COLLATE",
    (exp.Between, "symmetric"): "BETWEEN SYMMETRIC",
    (exp.Table, "pivots"): "PIVOT",
    (exp.Table, "sample"): "TABLESAMPLE",
    (exp.Order, "siblings"): "ORDER SIBLINGS BY",
    (exp.Ordered, "with_fill"): "WITH FILL",
    (exp.TableAlias, "columns"): "a list of column names after the alias",
}
"""The names, in messages, of arguments of nodes that a user may write and PSoup refuses."""


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_STATEMENTS = _words(
    "INSERT UPDATE DELETE MERGE TRUNCATE REPLACE EXPLAIN DESCRIBE SHOW SET USE COPY GRANT REVOKE BEGIN "
    "COMMIT ROLLBACK VACUUM ANALYZE PRAGMA ATTACH DETACH CALL EXECUTE PREPARE LOAD INSTALL KILL CACHE UNCACHE REFRESH "
    "PIVOT UNPIVOT COMMENT DECLARE VALUES TABLE SUMMARIZE EXPORT IMPORT CHECKPOINT RESET"
)

_OURS = {
    "SELECT": "psoup register, psoup ask, Client.register and Client.ask take a SELECT",
    "CREATE": "psoup sql and Client.execute carry out CREATE",
    "ALTER": "psoup sql and Client.execute carry out ALTER",
    "DROP": "psoup sql and Client.execute carry out DROP",
}
"""The first words of PSoup's statements, each with the advice if the statement is in the wrong place."""


def refuse_statement(
    source: StatementText, tokens: list[Token], wanted: str, lookup: Callable[[str], StreamSpec | None] | None = None
) -> None:
    """Refuse a statement that does not begin with `wanted` (SELECT, CREATE, ALTER or DROP).

    `lookup`: finds the stream or table of the statement, for the hint.
    """
    first = tokens[0]
    word = "" if first.token_type in (_T.STRING, _T.IDENTIFIER) else first.text.upper()
    if word == wanted:
        return
    if word == "WITH":
        raise source.unsupported("WITH", first.start, hint="write one SELECT")
    if word in ("FROM", "(") and wanted == "SELECT":  # FROM s SELECT a, and (SELECT a FROM s)
        return
    if word in _OURS:
        statement_form = "a SELECT" if wanted == "SELECT" else f"{wanted} STREAM"
        raise source.error(f"{statement_form} is needed here, not {word}", first.start, hint=_OURS[word])
    if word in _STATEMENTS:
        hint = change_hint(tokens, lookup) or FOR_STATEMENT.get(word) or STATEMENTS.get(word, "")
        hint = hint or "PSoup takes SELECT, and CREATE, ALTER and DROP of streams and tables"
        raise source.unsupported(f"the statement {word}", first.start, hint=hint)
    hint = (
        change_hint(tokens, lookup)
        or STATEMENTS.get(word)
        or nearest(word, list(_OURS))
        or "write SELECT … FROM stream, or CREATE STREAM"
    )
    raise source.error(f"a statement cannot begin with {first.text[:40]!r}", first.start, hint=hint)


def refuse_tokens(source: StatementText, tokens: list[Token], allowed: Container[TokenType] = ()) -> None:
    """Refuse the features that one token reveals, before the parser spends time on the statement. O(tokens).

    `allowed`: tokens of features that the caller supports.
    """
    text, from_at = source.text, -1
    for at, token in enumerate(tokens):
        feature = _TOKENS.get(token.token_type)
        if feature is LIST and token.token_type is _T.L_BRACKET and from_at < 0:
            from_at = next((at for at, other in enumerate(tokens) if other.token_type is _T.FROM), len(tokens))
        if feature is LIST and token.token_type is _T.L_BRACKET and at > from_at:
            if begins_window(tokens[at + 1 : at + 2]):
                continue
            raise bracket_error(source, tokens, at)
        if feature is LIST and is_name(tokens, at):
            raise source.unsupported("a name in brackets", token.start, hint=quoted_name(tokens[at + 1]))
        if (problem := token_error(source, tokens, at)) is not None:
            raise problem
        if token.token_type is _T.VAR and token.text.startswith("$"):
            feature = PARAMETER
        if token.token_type is _T.EXCEPT and at and tokens[at - 1].token_type is _T.STAR:
            continue  # * EXCEPT (a) is * EXCLUDE (a)
        if feature is not None and token.token_type not in allowed:
            if token.token_type in (_T.OUTER, _T.STRAIGHT_JOIN):
                raise _join(source, tokens, token)
            feature = feature or token.text.upper()
            in_create = feature is PARAMETER and tokens[0].token_type is _T.CREATE
            hint = "write the constant: CREATE takes no parameters" if in_create else feature_hint(feature)
            raise source.unsupported(feature, token.start, hint=hint)
        if text[token.start] == "!" and token.text == "!":  # a text or a name may also be '!'
            hint = "write NOT x ~ 'pattern'" if text[token.end + 1 : token.end + 2] == "~" else "write NOT, or <>"
            raise source.error("'!' is not an operator", token.start, hint=hint)


def _join(source: StatementText, tokens: list[Token], word: Token) -> SqlError:
    """The error for a join that the token `word` reveals. It names the join with the token before: LEFT OUTER JOIN."""
    before = tokens[max(tokens.index(word) - 1, 0)]
    named = [token.text.upper() for token in (before, word) if token is word or before.token_type in _SIDES]
    words = " ".join(named).removesuffix("_JOIN")
    return source.unsupported(f"{words} JOIN", before.start if len(named) > 1 else word.start, hint=join_hint(words))


def refuse_clauses(source: StatementText, select: exp.Select, allowed: Container[str] = ()) -> None:
    """Refuse the clauses of a SELECT that PSoup lacks, by their names. `allowed`: clauses that the caller supports."""
    for key, value in select.args.items():
        if not value or key in _TAKEN or key in allowed:
            continue
        node = value[0] if isinstance(value, list) else value
        at = node if isinstance(node, exp.Expr) else 0
        feature = _CLAUSES.get(key)
        if feature is None:
            feature = f"this form of {source.written(at)!r}" if isinstance(at, exp.Expr) else "this form of SELECT"
        raise source.unsupported(feature, at, hint=feature_hint(feature))


def refuse_syntax(source: StatementText, root: exp.Expr, syntax: Syntax = SYNTAX) -> None:
    """Refuse syntax outside the allow-list `syntax`, and a statement that is too large or too deep for recursion.

    With the default list, a statement inside of the statement is refused, too. O(nodes).
    """
    stack: list[tuple[exp.Expr, int]] = [(root, 0)]
    count = 0
    while stack:
        node, depth = stack.pop()
        count += 1
        if not count % MOVES:
            may_rest()
        if depth > MAX_TREE:
            raise source.error(f"this expression nests deeper than {MAX_TREE} levels", node, hint="simplify it")
        if count > MAX_NODES:
            raise source.error("the statement is too large", node, hint="split the query")
        _check_node(source, node, syntax, nested=node is not root and syntax is SYNTAX)
        for child in node.iter_expressions(reverse=True):
            chained = isinstance(node, exp.And | exp.Or) and type(child) is type(node)
            stack.append((child, 0 if type(child) is exp.Select else depth if chained else depth + 1))


def _check_node(source: StatementText, node: exp.Expr, syntax: Syntax, nested: bool) -> None:
    parts = syntax.get(type(node))
    if parts is None or (nested and type(node) is exp.Select):
        raise refuse_node(source, node)
    for name, value in node.args.items():
        if value and name not in parts:
            feature = _PARTS.get((type(node), name)) or f"this form of {source.written(node)!r}"
            raise source.unsupported(feature, node, hint=feature_hint(feature))


def refuse_node(source: StatementText, node: exp.Expr) -> SqlError:
    """The error for a node that no rule binds."""
    for kind in type(node).__mro__:
        if kind in _NODES:
            return source.unsupported(_NODES[kind], node, hint=feature_hint(_NODES[kind]))
    return source.unsupported(f"{source.written(node)!r} here", node)
