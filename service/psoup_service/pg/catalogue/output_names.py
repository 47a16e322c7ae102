"""The names that PostgreSQL gives to the columns of a SELECT list that have no alias."""

from __future__ import annotations

from sqlglot import exp

from psoup_service.pg.catalogue.casts import type_name

UNNAMED = "?column?"

_NAMES: dict[type[exp.Expression], str] = {
    exp.Explode: "unnest",
    exp.ExplodingGenerateSeries: "generate_series",
    exp.GroupConcat: "string_agg",
    exp.StrPosition: "position",
    exp.CurrentTimestamp: "now",
    exp.LogicalOr: "bool_or",
    exp.LogicalAnd: "bool_and",
    exp.CurrentVersion: "version",
    exp.TimestampTrunc: "date_trunc",
    exp.ArraySize: "array_length",
    exp.ArrayConcat: "array_cat",
    exp.Coalesce: "coalesce",
    exp.Exists: "exists",
    exp.Array: "array",
    exp.AtTimeZone: "timezone",
}


def name_of(item: exp.Expression) -> str:
    """The name of an item of a SELECT list."""
    if isinstance(item, exp.Alias):
        return item.alias
    return _own(item) or _weak(item) or UNNAMED


def _weak(item: exp.Expression) -> str:
    """The name of a column that has no better one: the type of a cast, "bool" or "case"."""
    if isinstance(item, exp.Cast):
        return type_name(item.to)
    if isinstance(item, exp.Boolean):
        return "bool"
    if isinstance(item, exp.Paren | exp.Collate):
        return _weak(item.this)
    return "case" if isinstance(item, exp.Case) else ""


def _own(item: exp.Expression) -> str:
    if isinstance(item, exp.Trim):
        return {"TRAILING": "rtrim", "LEADING": "ltrim"}.get(str(item.args.get("position") or ""), "btrim")
    if isinstance(item, exp.Column):
        return item.name
    if isinstance(item, exp.Dot):
        return item.expression.name if isinstance(item.expression, exp.Identifier) else _own(item.expression)
    if isinstance(item, exp.Paren | exp.Collate | exp.Cast | exp.Bracket | exp.Filter | exp.Window):
        return _own(item.this)
    if isinstance(item, exp.Case):
        last = item.args.get("default")
        return "" if last is None else _own(last)
    if isinstance(item, exp.Subquery):
        inner = item.this
        while isinstance(inner, exp.SetOperation | exp.Subquery):
            inner = inner.this
        return name_of(inner.expressions[0]) if isinstance(inner, exp.Select) and inner.expressions else ""
    if type(item) in _NAMES:
        return _NAMES[type(item)]
    if isinstance(item, exp.Anonymous):
        return item.name.lower()
    if isinstance(item, exp.Func) and not isinstance(item, exp.Binary | exp.Connector):
        return item.sql_name().lower()
    return ""
