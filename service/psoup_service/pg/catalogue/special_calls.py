"""Functions and operators that DuckDB lacks or has with another meaning. They become other expressions.

generate_subscripts(indkey, 1)   ─>  UNNEST(GENERATE_SERIES(0, len(indkey) - 1))
format('%s.%I', a, b)            ─>  f_joined([a, '.', f_quote_ident(b)])
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sqlglot import exp

from psoup.errors import InvalidInput
from psoup_service.pg.catalogue.functions import MACROS
from psoup_service.pg.catalogue.refusals import refused, unknown
from psoup_service.pg.catalogue.scope import Scope
from psoup_service.pg.catalogue.types import element_of, storage_of

Change = tuple[str, exp.Expression, bool]
"""A setting, its new value, and whether it lasts only for the transaction."""

_OPERATORS = {"~": exp.RegexpLike, "~*": exp.RegexpILike, "=": exp.EQ, "<>": exp.NEQ, "~~": exp.Like}


class Types(Protocol):
    """The translation of the expressions of one statement: see `Expressions`."""

    text: str
    values: Mapping[str, str]
    changes: list[Change]
    sleeps: list[exp.Expression]
    lists: Sequence[Sequence[str]]
    query: Callable[[exp.Expression, Scope | None], list[tuple[str, str]]]

    def type_of(self, node: exp.Expression, scope: Scope, wanted: str = "") -> str:
        """Translate an expression in place. Returns its type."""
        ...

    def children(self, node: exp.Expression, scope: Scope) -> list[str]:
        """Translate the parts of an expression. Returns their types."""
        ...

    def parameter(self, node: exp.Expression, wanted: str) -> str:
        """The type of a parameter. `wanted`: the type that its place expects."""
        ...


def subscripts(types: Types, node: exp.Anonymous, scope: Scope) -> str:
    """`generate_subscripts(array, 1)`. The first subscript of a vector is 0."""
    kind = types.children(node, scope)[0]
    size: exp.Expression = exp.Anonymous(this="len", expressions=[node.expressions[0]])
    first = 0 if kind.endswith("vector") else 1
    last = exp.Sub(this=size, expression=exp.Literal.number(1 - first))
    node.replace(exp.Explode(this=exp.Anonymous(this="f_series", expressions=[exp.Literal.number(first), last])))
    return "int4"


def object(types: Types, node: exp.Anonymous, scope: Scope) -> str:
    """`json_build_object(name, value, ...)`."""
    parts = list[exp.Expression]()
    items = node.expressions
    for at in range(0, len(items) - 1, 2):
        types.type_of(items[at], scope)
        types.type_of(items[at + 1], scope)
    for at in range(0, len(node.expressions) - 1, 2):
        name, value = node.expressions[at], node.expressions[at + 1]
        parts += [exp.Literal.string(", " if at else "{"), _json(name), exp.Literal.string(" : "), _json(value)]
    node.replace(concatenated([*parts, exp.Literal.string("}")]))
    return "json"


def formatted(types: Types, node: exp.Expression, scope: Scope) -> str:
    """`format('%s.%I', ...)` with a constant form."""
    form = node.this if isinstance(node, exp.Format) else node.expressions[0]
    if not isinstance(form, exp.Literal):
        raise refused(types.text, node, "format() with a form that is not a constant")
    for argument in node.expressions:
        types.type_of(argument, scope)
    values = list(node.expressions if isinstance(node, exp.Format) else node.expressions[1:])
    parts = list[exp.Expression]()
    for piece in re.split(r"(%[sIL%])", form.name):
        if piece == "%%" or not re.fullmatch("%[sIL]", piece):
            parts.append(exp.Literal.string("%" if piece == "%%" else piece))
        elif not values:
            raise unknown(types.text, node, "too few arguments for format()", "INVALID_TEXT")
        else:
            quote = {"%I": "f_quote_ident", "%L": "f_quote_literal"}.get(piece)
            value = values.pop(0)
            parts.append(value if quote is None else exp.Anonymous(this=quote, expressions=[value]))
    node.replace(concatenated(parts))
    return "text"


def set(types: Types, node: exp.Anonymous, scope: Scope) -> str:
    """`set_config(name, value, is_local)`: the statement remembers it, and its run changes the setting."""
    if len(node.expressions) != 3 or not isinstance(node.expressions[0], exp.Literal):
        raise refused(types.text, node)
    types.type_of(node.expressions[1], scope, "text")
    name, value, local = node.expressions
    types.changes.append((name.name, value.copy(), isinstance(local, exp.Boolean) and bool(local.this)))
    node.replace(exp.Cast(this=value, to=exp.DataType.build("VARCHAR")))
    return "text"


def sleep(types: Types, node: exp.Anonymous, scope: Scope) -> str:
    """`pg_sleep(seconds)` with a constant: the statement remembers it, and its run waits before it reads."""
    select = node.find_ancestor(exp.Select)
    if len(node.expressions) != 1 or select is None or select.args.get("from_") or select.parent_select:
        raise refused(types.text, node, "pg_sleep() beside FROM")
    seconds = node.expressions[0]
    types.type_of(seconds, scope, "float8")
    seconds = node.expressions[0]
    if not isinstance(_bare(seconds), (exp.Literal, exp.Parameter, exp.Null)):
        raise refused(types.text, node, "pg_sleep() of an expression")
    types.sleeps.append(seconds.copy())
    node.replace(exp.Cast(this=exp.Literal.string(""), to=exp.DataType.build("VARCHAR")))
    return "void"


def seconds_of(constant: exp.Expression) -> float:
    """The seconds of a constant: 0 for NULL and a negative number. Raises InvalidInput for a text of no number."""
    value = _bare(constant)
    if not isinstance(value, exp.Literal) or constant.find(exp.Neg) is not None:
        return 0.0
    try:
        seconds = float(value.name)
    except ValueError:
        raise InvalidInput(f"pg_sleep takes seconds, and not {value.name[:60]!r}", reason="INVALID_TEXT") from None
    return seconds if seconds > 0 else 0.0


def _bare(node: exp.Expression) -> exp.Expression:
    """The expression within casts, parentheses and minus signs."""
    while isinstance(node, (exp.Cast, exp.Paren, exp.Neg)):
        node = node.this
    return node


def strung(types: Types, node: exp.Concat, scope: Scope) -> str:
    """`concat(...)`, in which NULL is an empty text."""
    types.children(node, scope)
    empty = exp.Literal.string("")
    texts = [exp.Cast(this=part.copy(), to=exp.DataType.build("VARCHAR")) for part in node.expressions]
    node.replace(concatenated([exp.Coalesce(this=text, expressions=[empty.copy()]) for text in texts]))
    return "text"


def aggregated(types: Types, node: exp.Anonymous, scope: Scope) -> str:
    """`pg_catalog.string_agg(text, separator)`, which sqlglot knows only without its schema."""
    text, separator = node.expressions[0], node.expressions[-1]
    if isinstance(separator, exp.Order):
        text, separator = exp.Order(this=text, expressions=separator.expressions), separator.this
    aggregate = exp.GroupConcat(this=text, separator=separator)
    node.replace(aggregate)
    return types.type_of(aggregate, scope)


def macro(types: Types, node: Any, scope: Scope) -> str:
    """A node of sqlglot that becomes a macro, because DuckDB's function has no limit or another meaning."""
    name = "array_length" if isinstance(node, exp.ArraySize) else node.sql_name().lower()
    types.children(node, scope)
    node.replace(exp.Anonymous(this=f"f_{name}", expressions=list(node.iter_expressions())))
    return MACROS[name]


def schemas(types: Types, node: exp.Expression, scope: Scope) -> str:
    """`current_schemas(with_implicit)`: the search path."""
    names = [name for name in types.values["schemas"].split(",") if name]
    if isinstance(node.this, exp.Boolean) and node.this.this and "pg_catalog" not in names:
        names = ["pg_catalog", *names]
    node.replace(exp.Array(expressions=[exp.Literal.string(name) for name in names]))
    return "_name"


def operator(types: Types, node: exp.Expression, scope: Scope) -> str:
    """`OPERATOR(pg_catalog.~)`."""
    sign = str(node.args["operator"]).removeprefix("pg_catalog.")
    negated = sign.startswith("!")
    kind = _OPERATORS.get(sign.removeprefix("!"))
    if kind is None:
        raise refused(types.text, node, f"OPERATOR({node.args['operator']})")
    same = kind(this=node.this, expression=node.expression)
    plain: Any = exp.Not(this=same) if negated else same
    node.replace(plain)
    return types.type_of(plain, scope)


def _json(value: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this="f_json_value", expressions=[value.copy()])


def concatenated(parts: Sequence[exp.Expression]) -> exp.Expression:
    """The texts one after the other: NULL if one of them is NULL. Nested ones become one list."""
    texts = list[exp.Expression]()
    for part in parts:
        while isinstance(part, exp.Paren):
            part = part.this
        if isinstance(part, exp.Anonymous) and part.name == "f_joined":
            texts += [text.copy() for text in part.expressions[0].expressions]
        else:
            texts.append(exp.Cast(this=part.copy(), to=exp.DataType.build("VARCHAR")))
    return exp.Anonymous(this="f_joined", expressions=[exp.Array(expressions=texts)])


def series(call: exp.Expression) -> exp.Expression:
    """The array of `generate_series(start, end, step)`, which has a limit."""
    parts = [call.args.get(name) for name in ("start", "end", "step")]
    return exp.Anonymous(this="f_series", expressions=[part.copy() for part in parts if part is not None])


def generated(types: Types, node: exp.Expression, scope: Scope) -> str:
    """`generate_series(...)` in a SELECT list."""
    types.children(node, scope)
    node.replace(exp.Explode(this=series(node)))
    return "int4"


def joiner(kind: str, end: str) -> str:
    """The macro that joins arrays of a type. It also measures texts. `end`: "concat", "append" or "prepend"."""
    return f"f_{'texts' if storage_of(element_of(kind)) == 'VARCHAR' else 'list'}_{end}"


def appended(types: Types, node: exp.Expression, scope: Scope) -> str:
    """`array_append(array, element)` and `array_cat(array, array)`."""
    kind = types.type_of(node.this, scope)
    elements = node.expressions or [node.expression]
    for other in list(elements):
        types.type_of(other, scope)
    name = joiner(kind, "append" if isinstance(node, exp.ArrayAppend) else "concat")
    other = (node.expressions or [node.expression])[0]
    node.replace(exp.Anonymous(this=name, expressions=[node.this.copy(), other.copy()]))
    return kind
