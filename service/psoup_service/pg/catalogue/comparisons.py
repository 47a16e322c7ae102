"""Comparisons: a text constant, a parameter and a list become values of the type on the other side.

typinput = 'array_in'     ─>  typinput = f_to_regproc('array_in')
relkind = ANY ('{r,v}')   ─>  relkind = ANY (CAST(['r', 'v'] AS TEXT[]))
"""

from __future__ import annotations

from sqlglot import exp

from psoup_service.pg.catalogue.casts import elements_of
from psoup_service.pg.catalogue.long_lists import FIRST
from psoup_service.pg.catalogue.refusals import refused, unknown
from psoup_service.pg.catalogue.scope import Scope
from psoup_service.pg.catalogue.special_calls import Types
from psoup_service.pg.catalogue.types import NUMBERS, REGISTERED, UNKNOWN, array_of, element_of, is_array, storage_of

COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)


def array_of_text(types: Types, literal: exp.Expression, kind: str) -> exp.Expression:
    """The array that a text constant stands for. Raises SqlError."""
    elements = elements_of(literal.name)
    if elements is None:
        raise unknown(types.text, literal, f'malformed array literal: "{literal.name}"', "INVALID_TEXT")
    items = [exp.Null() if element is None else exp.Literal.string(element) for element in elements]
    to = exp.DataType.build(storage_of(kind), dialect="duckdb")
    return exp.Cast(this=exp.Array(expressions=items), to=to)


def comparison(types: Types, node: exp.Expression, scope: Scope) -> str:
    """`=`, `<` and their like."""
    left = types.type_of(node.this, scope)
    other = node.expression
    right = types.type_of(other, scope, left)
    if left == UNKNOWN and isinstance(node.this, exp.Parameter):
        types.type_of(node.this, scope, right)
    _fit(types, node.this, right)
    _fit(types, node.expression, left)
    return "bool"


def _fit(types: Types, node: exp.Expression, kind: str) -> None:
    """Read a text constant as a value of the type on the other side."""
    if isinstance(node, exp.Literal) and node.is_string:
        if kind in REGISTERED:
            node.replace(exp.Anonymous(this=f"f_to_{kind}", expressions=[node.copy()]))
        elif is_array(kind):
            node.replace(array_of_text(types, node, kind))


def quantified(types: Types, node: exp.Expression, scope: Scope) -> str:
    """`= ANY (array)`, `<> ALL (array)`, and both with a subselect."""
    comparison = node.parent
    if not isinstance(comparison, COMPARISONS):
        raise refused(types.text, node)
    inner = node.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    wanted = _type_beside(types, comparison, scope)
    if isinstance(inner, exp.Literal):
        inner.replace(array_of_text(types, inner, array_of(wanted)))
        return wanted
    return element_of(types.type_of(inner, scope, array_of(wanted)))


def _type_beside(types: Types, comparison: exp.Expression, scope: Scope) -> str:
    return types.type_of(comparison.this.copy(), scope) if isinstance(comparison.this, exp.Column) else UNKNOWN


def membership(types: Types, node: exp.In, scope: Scope) -> str:
    """`IN` with a list, short or long, or with a subselect."""
    kind = types.type_of(node.this, scope)
    if len(node.expressions) == 1 and _is_list(types, node.expressions[0]):
        return _in_list(types, node, kind)
    for item in list(node.expressions):
        types.type_of(item, scope, kind)
    for item in list(node.expressions):
        _fit(types, item, kind)
    query = node.args.get("query")
    if query is not None:
        types.query(query, scope)
    if node.args.get("unnest") or node.args.get("field"):
        raise refused(types.text, node)
    return "bool"


def _is_list(types: Types, node: exp.Expression) -> bool:
    return isinstance(node, exp.Parameter) and node.name.isdecimal() and 0 <= int(node.name) - FIRST < len(types.lists)


def _in_list(types: Types, node: exp.In, kind: str) -> str:
    """`IN` with a long list, which becomes an array."""
    place = node.expressions[0]
    items = types.lists[int(place.name) - FIRST]
    kind = kind if kind in (*NUMBERS, "oid") else "int8"
    for item in items:
        if item.startswith("$"):
            types.parameter(exp.Parameter(this=exp.Literal.number(item[1:])), kind)
    constant = all(map(str.isdecimal, items))
    inner = exp.Literal.string(f"[{','.join(items)}]") if constant else place.copy()
    values = exp.Cast(this=inner, to=exp.DataType.build(storage_of(kind) + "[]", dialect="duckdb"))
    node.set("expressions", [])
    node.set("query", exp.Subquery(this=exp.Select(expressions=[exp.Explode(this=values)])))
    return "bool"
