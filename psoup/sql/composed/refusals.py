"""Composed statements that PSoup refuses, each by the name of the part that it lacks, before the binder runs.

    … WHERE EXISTS (SELECT …) OR a > 1   ->   EXISTS under OR is not supported

The checks need the tree alone. The binder refuses features that depend on names and types. An example is a subselect as
a value that reads a source outside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from psoup.errors import SqlError
from psoup.sql.aggregates import AGGREGATES
from psoup.sql.composed.shapes import (
    QUERIES,
    bare,
    conjuncts,
    is_existence,
    is_partner_join,
    join_words,
    negated,
    nested_join,
    operands,
)
from psoup.sql.instead import feature_hint, join_hint
from psoup.sql.parser.compositions import OPERATOR
from psoup.sql.refusals import SYNTAX, refuse_clauses, refuse_syntax
from psoup.sql.source import StatementText

MOST_LEVELS = 20
"""The most SELECTs inside of one another."""

MOST_OPERANDS = 8
"""The most SELECTs of one set operation."""

_T = TokenType
TOKENS = frozenset({_T.OUTER, _T.UNION, _T.INTERSECT, _T.EXCEPT, _T.VALUES})
"""The tokens that only composed statements have, for `refuse_tokens`."""

_ORDERED = frozenset({"order", "limit", "offset"})
_BOUNDED = frozenset({"begin", "end"})
_WITH = frozenset({"with_"})
_SET = frozenset({"this", "expression", "distinct", "with_", *_ORDERED, *_BOUNDED})
_COMPOSED: dict[type[exp.Expr], frozenset[str]] = {
    **SYNTAX,
    exp.Select: SYNTAX[exp.Select] | {"with_"},
    **dict.fromkeys((exp.Intersect, exp.Except), _SET),
    exp.Union: _SET | {"by_name"},
    exp.Subquery: frozenset({"this", "alias", "window", "with_", "joins", *_ORDERED, *_BOUNDED}),
    exp.Table: SYNTAX[exp.Table] | {"joins"},
    exp.With: frozenset({"expressions"}),
    exp.CTE: frozenset({"this", "alias", "materialized"}),  # an answer does not depend on MATERIALIZED
    exp.Values: frozenset({"expressions", "alias", "joins", *_BOUNDED}),
    exp.Exists: frozenset({"this"}),
    exp.Join: SYNTAX[exp.Join] | {"method", "side"},
    exp.TableAlias: SYNTAX[exp.TableAlias] | {"columns"},
}
"""The allow-list of composed statements: every type of node, with the arguments that the binder reads."""

_JOINS = frozenset({"", "INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "LEFT SEMI", "LEFT ANTI"})
_JOINS |= {"CROSS", "ASOF", "ASOF LEFT", "ASOF INNER", *(f"NATURAL {join}".rstrip() for join in _JOINS)}
"""The words before JOIN that the binder knows."""

_INEQUALITIES = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_BRACKETS = (
    "one BEGIN … END … at the end of the whole statement holds for all sources, or each source has its window in"
    " brackets: FROM s [RANGE 1 HOUR]"
)
_ONE_VALUE = "a subselect of one value is an aggregate without GROUP BY: (SELECT avg(x) FROM s)"
_CONJUNCT = "it stands in WHERE, alone or with AND: WHERE EXISTS (SELECT …) AND …"
_ALTERNATIVES = "write UNION: SELECT … WHERE EXISTS (SELECT …) UNION SELECT … WHERE …"


def begins_composed(tokens: Sequence[Token]) -> bool:
    """Whether a statement begins as only composed statements do: with WITH or a parenthesis."""
    return tokens[0].token_type in (_T.WITH, _T.L_PAREN)


def refuse_levels(source: StatementText, tokens: Sequence[Token]) -> None:
    """Refuse a statement with more than MOST_LEVELS SELECTs inside of one another, before it is parsed. O(tokens)."""
    inside, selects = [0], 0
    for token in tokens:
        if token.token_type is _T.L_PAREN:
            inside.append(0)
        elif token.token_type is _T.R_PAREN and len(inside) > 1:
            selects -= inside.pop()
        elif token.token_type is _T.SELECT and not inside[-1]:
            inside[-1] = 1
            selects += 1
            if selects > MOST_LEVELS + 1:
                raise source.error(
                    f"subselects nest deeper than {MOST_LEVELS} levels",
                    token.start,
                    hint="name the inner ones with WITH, and read one from the other",
                )


def refuse_composed(source: StatementText, whole: exp.Expr) -> None:
    """Refuse the parts of a composed statement that the binder lacks. O(nodes)."""
    nodes = [node for node in whole.walk() if type(node) in _CHECKS]
    for node in nodes:
        if isinstance(node, exp.SetOperation):
            _check_count(source, node)
        elif isinstance(node, exp.With):
            _check_with(source, node)
        elif isinstance(node, exp.Select):
            refuse_clauses(source, node, allowed=_WITH)
    refuse_syntax(source, whole, _COMPOSED)
    for node in nodes:
        if isinstance(node, QUERIES) and node is not whole:
            _check_bounds(source, node)
        _CHECKS[type(node)](source, node)


def _check_bounds(source: StatementText, query: exp.Expr) -> None:
    """Refuse BEGIN and END of a query inside of the statement."""
    for word in ("begin", "end"):
        if (bound := query.args.get(word)) is not None:
            inside = "a SELECT before UNION, INTERSECT or EXCEPT" if _is_operand(query) else "a subselect"
            raise source.unsupported(f"{word.upper()} in {inside}", bound, hint=_BRACKETS)


def _is_operand(query: exp.Expr) -> bool:
    return isinstance(query.parent, exp.SetOperation)


def _check_count(source: StatementText, node: exp.SetOperation) -> None:
    """Refuse a set operation of other parts than queries, or of too many, and BY NAME except for UNION."""
    for query in (node.this, node.args["expression"]):
        if not isinstance(query, QUERIES) or (isinstance(query, exp.Subquery) and isinstance(query.this, exp.Table)):
            hint = f"SELECT … {node.key.upper()} SELECT …"
            raise source.error(f"{node.key.upper()} needs a SELECT on both sides", query, hint=hint)
    if node.args.get("by_name") and not isinstance(node, exp.Union):
        raise source.unsupported(
            f"{node.key.upper()} BY NAME", node.meta[OPERATOR], hint="list the columns in one order"
        )
    if isinstance(node.parent, exp.SetOperation):
        return
    count = sum(1 for _ in operands(node))
    if count > MOST_OPERANDS:
        raise source.error(
            f"a set operation has at most {MOST_OPERANDS} SELECTs, not {count}",
            node.meta[OPERATOR],
            hint="register several queries",
        )


def _check_operation(source: StatementText, node: exp.Expr) -> None:
    words = node.key.upper()
    for query in (node.this, node.args["expression"]):
        _check_operand(source, words, query)


def _check_operand(source: StatementText, words: str, query: exp.Expr) -> None:
    """Refuse an operand with a part that only a SELECT in parentheses, or the whole, can have."""
    if isinstance(query, exp.Subquery):
        for name in ("alias", "window"):
            if (part := query.args.get(name)) is not None:
                raise source.error(f"an operand of {words} has no name and no window of its own", part)
        return
    for name in ("order", "limit", "offset"):
        if (part := query.args.get(name)) is not None:
            clause = "ORDER BY" if name == "order" else name.upper()
            raise source.error(
                f"{clause} stands before {words}, and belongs to its SELECT alone",
                part,
                hint=f"put the SELECT in parentheses, or write {clause} at the end",
            )


def _check_with(source: StatementText, node: exp.With) -> None:
    if node.args.get("recursive"):
        raise source.unsupported("WITH RECURSIVE", node, hint="join a stream with itself for each step")
    seen: set[str] = set()
    for item in node.expressions:
        name = item.alias
        if not isinstance(item.this, QUERIES):
            raise source.error(f"{name[:128]!r} is not a SELECT", item, hint="write WITH t AS (SELECT …) SELECT …")
        if name.lower() in seen:
            raise source.error(f"WITH names {name[:128]!r} twice", item.args["alias"])
        seen.add(name.lower())


def _check_existence(source: StatementText, node: exp.Expr) -> None:
    """Refuse EXISTS and IN (SELECT …) that are not a conjunct of WHERE."""
    if not is_existence(node):
        return
    at = node
    while isinstance(at.parent, exp.Paren | exp.Not):
        at = at.parent
    above = at
    while isinstance(above.parent, exp.And | exp.Paren):
        above = above.parent
    if isinstance(above.parent, exp.Where):
        return
    feature = "EXISTS" if isinstance(node, exp.Exists) else "IN (SELECT …)"
    if isinstance(above.parent, exp.Or):
        raise source.unsupported(f"{feature} under OR", node, hint=_ALTERNATIVES)
    if isinstance(above.parent, exp.Not):
        raise source.unsupported(f"{feature} under NOT (… AND …)", node, hint=_ALTERNATIVES)
    raise source.unsupported(f"{feature} in {_part(node)}", node, hint=_CONJUNCT)


def _part(node: exp.Expr) -> str:
    """The name of the part of a SELECT around a node."""
    names: dict[type[exp.Expr], str] = {
        exp.Join: "ON",
        exp.Having: "HAVING",
        exp.Order: "ORDER BY",
        exp.Group: "GROUP BY",
        exp.Select: "SELECT",
    }
    at = node.parent
    while at is not None:
        if isinstance(at, exp.Where):
            return "an expression"
        if type(at) in names:
            return names[type(at)]
        at = at.parent
    return "this place"


def _check_subquery(source: StatementText, node: exp.Expr) -> None:
    """Refuse an operand that may have other than one row of one value, and a window of a join."""
    parent = node.parent
    if nested_join(node) is not None:
        alias = node.args.get("alias")
        if (bounds := node.args.get("window") or (alias and alias.args.get("window"))) is not None:
            raise source.unsupported("a window of a join", bounds, hint="each source has its own window: FROM s [NOW]")
        return
    if parent is None or isinstance(parent, (*QUERIES, exp.From, exp.Join, exp.CTE, exp.Exists)):
        return
    if isinstance(parent, exp.In) and parent.args.get("query") is node:
        return
    select = bare(node)
    if not isinstance(select, exp.Select) or len(select.expressions) != 1 or not _is_total(select):
        raise source.unsupported("a subselect of several rows or columns as a value", node, hint=_ONE_VALUE)
    part = _part(node)
    if part in ("GROUP BY", "ON") or (part == "ORDER BY" and not isinstance(node.parent_select, exp.Select)):
        raise source.unsupported(f"a subselect in {part}", node, hint="compare with it in WHERE")


def _is_total(select: exp.Select) -> bool:
    """Whether a SELECT has an aggregate, and no GROUP BY or another clause that could leave out its one row."""
    if any(select.args.get(part) for part in ("group", "having", "limit", "offset")):
        return False
    calls = select.expressions[0].find_all(exp.Anonymous)
    direct = [call for call in calls if call.find_ancestor(exp.Select) is select]
    return any(
        call.name.lower() in AGGREGATES and isinstance(call.find_ancestor(exp.Window, exp.Select), exp.Select)
        for call in direct
    )


def _check_join(source: StatementText, join: exp.Expr) -> None:
    assert isinstance(join, exp.Join)
    words = join_words(join)
    if words not in _JOINS:
        raise source.unsupported(f"{words} JOIN", join, hint=join_hint(words))
    condition, using = join.args.get("on"), join.args.get("using")
    if join.args.get("method") == "NATURAL":
        return
    if is_partner_join(join) and condition is None and not using:
        raise _unconnected(source, join, words)
    if join.args.get("method") == "ASOF" and condition is not None:
        count = sum(isinstance(negated(node)[0], _INEQUALITIES) for node in conjuncts(condition))
        if not count:
            hint = "ASOF JOIN b ON a.k = b.k AND a.t >= b.t"
            raise source.error("ASOF JOIN needs an inequality in ON, which says what is closest", join, hint=hint)


def _unconnected(source: StatementText, join: exp.Join, words: str) -> SqlError:
    hint = f"{words} JOIN b ON a.k = b.k, or USING (k)"
    return source.error(f"{words} JOIN needs ON or USING", join, hint=hint)


def _check_alias(source: StatementText, alias: exp.Expr) -> None:
    if not alias.args.get("columns"):
        return
    for column in alias.args["columns"]:
        if not isinstance(column, exp.Identifier):
            raise source.unsupported("a type in a list of column names", column, hint=feature_hint(""))
        if not column.args.get("quoted") and not (column.name[0].isalpha() or column.name[0] == "_"):
            hint = f'"{column.name}", in quotes, is a name'
            raise source.error(f"{column.name} is not the name of a column", column, hint=hint)


def _check_place(source: StatementText, node: exp.Expr) -> None:
    """Refuse a query as the argument of a function: ARRAY(SELECT …)."""
    if node.parent is not None and not isinstance(node.parent, (*QUERIES, exp.CTE, exp.Exists, exp.From, exp.Join)):
        raise source.unsupported("a subselect as an argument of a function", node, hint=_ONE_VALUE)


def _unchecked(source: StatementText, node: exp.Expr) -> None:
    """Accept a node that was checked before."""


_CHECKS: dict[type[exp.Expr], Callable[[StatementText, exp.Expr], None]] = {
    **dict.fromkeys((exp.Union, exp.Intersect, exp.Except), _check_operation),
    **dict.fromkeys((exp.Select, exp.Values), _check_place),
    exp.With: _unchecked,
    exp.Exists: _check_existence,
    exp.In: _check_existence,
    exp.Subquery: _check_subquery,
    exp.Join: _check_join,
    exp.TableAlias: _check_alias,
}
"""The check of each type of node that only composed statements have, or have in other forms."""
