"""Limits of the texts and arrays within a statement.

DuckDB evaluates an expression for 2,048 rows at once. It does not count the memory of arrays, and an interrupt takes
effect only between two such steps. So a statement with many functions over texts or arrays has lower limits:

    5 functions with arrays: 2,000 elements each        50 functions: 200 elements each
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import exp

from psoup.errors import ResourceExhausted
from psoup_service.pg.catalogue.types import is_array

MOST_CALLS = 200
"""The most functions and operators over texts and arrays in a statement."""

MOST_CHARACTERS, MOST_ELEMENTS = 65_536, 2_000
"""The most characters of a text, and the most elements of an array."""

_TEXTS, _ARRAYS = 8, 5
"""A statement with more functions over texts, or over arrays, has lower limits, in proportion."""

_OVER_TEXTS = (
    exp.RegexpLike,
    exp.RegexpILike,
    exp.Like,
    exp.ILike,
    exp.SimilarTo,
    exp.Lower,
    exp.Upper,
    exp.Trim,
    exp.Substring,
    exp.Left,
    exp.Right,
    exp.Initcap,
    exp.Translate,
    exp.SplitPart,
    exp.StrPosition,
    exp.MD5,
    exp.Length,
    exp.StartsWith,
    exp.GroupConcat,
)
_PATTERNS = (exp.RegexpLike, exp.RegexpILike, exp.SimilarTo)
"""Operators that match patterns. A long text would take them too long, so a check is put around it."""

_LONG = 256
"""A constant with more characters counts as a long text."""

_OVER_ARRAYS = (exp.ArrayAgg, exp.ArrayRemove, exp.ArrayPosition)
_TEXT_MACROS = frozenset(
    f"f_{name}" for name in ("joined", "replace", "regexp_replace", "array_to_string", "quote_ident", "quote_literal")
)
_ARRAY_MACROS = frozenset(f"f_{name}" for name in ("series", "string_to_array")) | frozenset(
    f"f_{kind}_{name}" for kind in ("list", "texts") for name in ("concat", "append", "prepend")
)
_LONG_COLUMNS = frozenset(
    {"definition", "view_definition", "indexdef", "description", "statement", "setting", "boot_val", "reset_val"}
)
"""The columns of the catalogue with texts of clients: statements, comments and settings."""

_LONG_MACROS = frozenset(
    f"f_{name}"
    for name in (
        "pg_get_viewdef",
        "pg_get_indexdef",
        "pg_get_constraintdef",
        "obj_description",
        "col_description",
        "current_setting",
    )
) | (_TEXT_MACROS - {"f_quote_ident"})
"""The functions that make or return texts longer than names."""

_SEARCHES = (exp.Any, exp.All, exp.In, exp.Explode, exp.Unnest)
"""Nodes around an array whose elements are looked at one by one."""

_AROUND = (exp.Filter, exp.Window, exp.WithinGroup)
"""Nodes around an aggregate function that belong to it."""


class Growth(NamedTuple):
    """The longest text, in characters, and the longest array, in elements, that a function of a statement makes."""

    characters: int = MOST_CHARACTERS
    elements: int = MOST_ELEMENTS


def bounded(tree: exp.Expression, kinds: Sequence[str] = ()) -> Growth:
    """The limits of a translated statement. Puts a check around each aggregate function that makes a text or array.

    `kinds`: the types of its parameters. An array that is a parameter is checked, too, unless it is only searched.

    Raises ResourceExhausted for too many functions.
    """
    nodes = list(tree.walk())
    texts = sum(isinstance(node, _OVER_TEXTS) or _is_macro(node, _TEXT_MACROS) for node in nodes)
    arrays = sum(isinstance(node, _OVER_ARRAYS) or _is_macro(node, _ARRAY_MACROS) or _is_query(node) for node in nodes)
    if texts + arrays > MOST_CALLS:
        raise ResourceExhausted(
            f"a statement over the catalogue has at most {MOST_CALLS} functions and operators over texts and arrays,"
            f" and this one has {texts + arrays:,}; divide it",
            reason="TOO_DEEP",
        )
    long = any(map(_may_be_long, nodes))
    for node in nodes:
        if isinstance(node, exp.ArrayAgg) or _is_query(node) or _is_list(node, kinds):
            _check(node, "f_checked_array")
        elif isinstance(node, exp.GroupConcat):
            _check(node, "f_checked_text")
        elif long and isinstance(node, _PATTERNS):
            _check(node.this, "f_short_text")
    return Growth(MOST_CHARACTERS * _TEXTS // max(_TEXTS, texts), MOST_ELEMENTS * _ARRAYS // max(_ARRAYS, arrays))


def _may_be_long(node: exp.Expr) -> bool:
    """Whether a node makes or returns texts longer than names."""
    if isinstance(node, exp.Literal):
        return len(node.name) > _LONG
    if isinstance(node, exp.Column):
        return node.name.lower() in _LONG_COLUMNS
    return isinstance(node, exp.GroupConcat | exp.Parameter) or _is_macro(node, _LONG_MACROS)


def _is_macro(node: exp.Expr, names: frozenset[str]) -> bool:
    return isinstance(node, exp.Anonymous) and node.name in names


def _is_list(node: exp.Expr, kinds: Sequence[str]) -> bool:
    """Whether a node is a parameter with an array that a function may take: not one behind ANY, ALL, IN or UNNEST."""
    if not isinstance(node, exp.Parameter):
        return False
    number = int(node.name)
    if number > len(kinds) or not is_array(kinds[number - 1]):
        return False
    around = node.parent
    while isinstance(around, exp.Paren | exp.Cast):
        around = around.parent
    return not isinstance(around, _SEARCHES)


def _is_query(node: exp.Expr) -> bool:
    """Whether a node is ARRAY(SELECT …)."""
    return isinstance(node, exp.Array) and len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Query)


def _check(node: exp.Expr, macro: str) -> None:
    while isinstance(node.parent, _AROUND) and node.arg_key == "this":
        node = node.parent
    checked = exp.Anonymous(this=macro)
    node.replace(checked)
    checked.set("expressions", [node])
