"""A bound tree as SQL text that DuckDB understands: one spelling for one tree.

    Call("and", (Call("gt", a, 1), Call("is_null", b)))   ->   "a" > 1 AND "b" IS NULL

EXPLAIN shows this text of derived attributes. Tests use it to compute the same value with DuckDB. Every conversion is
written out; an operator inside an operator has parentheses. Only `difference`, which users cannot write, has another
meaning in DuckDB.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from psoup.expressions import formats
from psoup.expressions.frame import constant_column
from psoup.expressions.supplied_functions import shown_name
from psoup.expressions.times.interval_text import interval_text, summands
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal, Now
from psoup.model import BIGINT, MAX_DECIMAL_PRECISION, DataType, Kind
from psoup.phrases import quoted, quoted_text

_INFIX = {
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "intdiv": "//",
    "mod": "%",
    "concat_op": "||",
    "bits_and": "&",
    "bits_or": "|",
    "shift_left": "<<",
    "shift_right": ">>",
    "is_distinct": "IS DISTINCT FROM",
    "and": "AND",
    "or": "OR",
}
_BARE = frozenset({"extract", "date_trunc", "round", "substr", "regexp_extract"})
"""Functions whose integer constants are written without a type."""


def render(expr: Expr) -> str:
    """The SQL text of `expr`. O(size of the tree)."""
    if isinstance(expr, Literal):
        return literal(expr)
    if isinstance(expr, AttributeRef):
        return quoted(expr.name)
    if isinstance(expr, Now):
        return "now()"
    special = _SPECIAL.get(expr.name)
    if special is not None:
        return special(expr)
    if expr.name in _INFIX:
        return _infix(expr)
    return f"{shown_name(expr.name)}({', '.join(_arguments(expr))})"


def literal(constant: Literal, *, bare: bool = False) -> str:
    """The text of a constant. An integer has its type unless `bare`, because DuckDB reads a plain integer as
    INTEGER.
    """
    kind, value = constant.type.kind, constant.value
    if value is None:
        return f"CAST(NULL AS {constant.type})"
    if kind is Kind.TEXT:
        return quoted_text(str(value))
    if kind is Kind.BOOLEAN:
        return "TRUE" if value else "FALSE"
    if kind is Kind.BIGINT:
        return str(value) if bare else f"CAST({value} AS BIGINT)"
    if kind is Kind.DOUBLE:
        return _double(float(value))
    spelled = _spelled(constant)
    return f"{spelled}" if kind in (Kind.DECIMAL, Kind.WIDE) else f"{constant.type} '{spelled}'"


def _double(value: float) -> str:
    if not math.isfinite(value):
        return f"CAST('{value}' AS DOUBLE)"
    text = repr(value)
    return text if "e" in text else text + "e0"


def _spelled(constant: Literal) -> str:
    spelled: str = formats.WRITERS[constant.type.kind](constant_column(constant, 1))[0].as_py()
    if constant.type.kind is Kind.WIDE or (constant.type.kind is Kind.DECIMAL and constant.type.scale == 0):
        return f"CAST({spelled} AS {constant.type})"
    return spelled


def _arguments(call: Call) -> list[str]:
    """The texts of the arguments. An integer constant needs no type if another argument is a BIGINT and no constant."""
    typed = any(arg.type == BIGINT and not isinstance(arg, Literal) for arg in call.args)
    bare = typed or call.name in _BARE or call.type.kind is Kind.DATE
    return [literal(arg, bare=bare) if isinstance(arg, Literal) else render(arg) for arg in call.args]


def _nested(expr: Expr, text: str) -> str:
    """The text of an operand, in parentheses if it is an operator or begins with a minus."""
    operator = isinstance(expr, Call) and (expr.name in _INFIX or expr.name in _LOOSE)
    return f"({text})" if operator or text.startswith("-") else text


def _operands(call: Call) -> list[str]:
    return [_nested(arg, text) for arg, text in zip(call.args, _arguments(call), strict=True)]


def _infix(call: Call) -> str:
    texts = _operands(call)
    if call.type.kind is Kind.DATE:  # DuckDB adds only INTEGER days
        texts[1] = f"CAST({texts[1]} AS INTEGER)"
    text = f" {_INFIX[call.name]} ".join(texts)
    if call.type.kind is Kind.DECIMAL and _wider(call) > MAX_DECIMAL_PRECISION:
        return f"CAST({text} AS {call.type})"
    return text


def _wider(call: Call) -> int:
    """The digits that DuckDB gives the result of arithmetic on DECIMALs."""
    left, right = (arg.type for arg in call.args)
    if call.name == "mul":
        return left.precision + right.precision
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return whole + max(left.scale, right.scale) + (call.name != "mod")


def _not(call: Call) -> str:
    return f"NOT {_operands(call)[0]}"


_WIDTHS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER"}


def _narrow(call: Call) -> str:
    value, bits = call.args
    assert isinstance(bits, Literal)
    word = "CAST" if call.name == "narrow" else "TRY_CAST"
    return f"CAST({word}({render(value)} AS {_WIDTHS[int(bits.value or 8)]}) AS BIGINT)"


def _to_timestamp(call: Call) -> str:
    return f"CAST(to_timestamp({_arguments(call)[0]}) AS TIMESTAMP)"  # a TIMESTAMPTZ in DuckDB


def _time_bucket(call: Call) -> str:
    months, micros, time = call.args
    assert isinstance(months, Literal)
    assert isinstance(micros, Literal)
    return f"time_bucket({interval_text(int(months.value or 0), int(micros.value or 0))}, {render(time)})"


def _bits_not(call: Call) -> str:
    return f"~({_arguments(call)[0]})"


def _negative(call: Call) -> str:
    return f"-({_arguments(call)[0]})"


def _null_test(call: Call) -> str:
    return f"{_operands(call)[0]} IS {'NOT ' if call.name == 'is_not_null' else ''}NULL"


def _in(call: Call) -> str:
    subject, *items = _operands(call)
    return f"{subject} IN ({', '.join(items)})"


def _like(call: Call) -> str:
    subject, pattern, *escape = _operands(call)
    return f"{subject} LIKE {pattern}" + (f" ESCAPE {escape[0]}" if escape else "")


def _cast(call: Call) -> str:
    target: DataType = call.type
    inner = call.args[0]
    text = literal(inner, bare=True) if isinstance(inner, Literal) else render(inner)
    return f"{call.name.upper()}({text} AS {'VARCHAR' if target.kind is Kind.TEXT else target})"


def _case(call: Call) -> str:
    texts = [render(arg) for arg in call.args]
    branches = [f"WHEN {when} THEN {then}" for when, then in zip(texts[:-1:2], texts[1::2], strict=True)]
    return f"CASE {' '.join(branches)} ELSE {texts[-1]} END"


def _null_if(call: Call) -> str:
    value, left, right = (render(arg) for arg in call.args)
    if left == value:
        return f"nullif({value}, {right})"
    equal = " = ".join(_operands(call)[1:])
    return f"CASE WHEN {equal} THEN NULL ELSE {value} END"


def _extract(call: Call) -> str:
    return f"date_part({', '.join(_arguments(call))})"


def _round(call: Call) -> str:
    texts = _arguments(call)
    if len(texts) == 2 and not (isinstance(call.args[1], Literal) and call.args[1].value is not None):
        texts[1] = f"CAST({texts[1]} AS INTEGER)"  # DuckDB takes no BIGINT here
    return f"round({', '.join(texts)})"


def _with_integers(*places: int) -> Callable[[Call], str]:
    """Make the text of a function that takes INTEGER, not BIGINT, at these places in DuckDB."""

    def text(call: Call) -> str:
        texts = _arguments(call)
        for place in places:
            texts[place] = f"CAST({texts[place]} AS INTEGER)"
        return f"{call.name}({', '.join(texts)})"

    return text


def _regexp_extract(call: Call) -> str:
    texts = _arguments(call)
    texts[2] = texts[2].replace("BIGINT", "INTEGER")  # NULL: DuckDB takes no BIGINT here
    return f"regexp_extract({', '.join(texts)})"


def _interval(call: Call) -> str:
    time, months, micros = call.args
    assert isinstance(months, Literal)
    assert isinstance(micros, Literal)
    return _nested(time, render(time)) + summands(int(months.value or 0), int(micros.value or 0))


def _difference(call: Call) -> str:
    return " - ".join(_operands(call))


_LOOSE = frozenset(
    {"not", "neg", "bits_not", "is_null", "is_not_null", "in", "like", "add_interval", "difference", "case"}
)
"""Further operators that need parentheses inside others."""

_SPECIAL: dict[str, Callable[[Call], str]] = {
    "not": _not,
    "neg": _negative,
    "bits_not": _bits_not,
    "narrow": _narrow,
    "try_narrow": _narrow,
    "time_bucket": _time_bucket,
    "to_timestamp": _to_timestamp,
    "is_null": _null_test,
    "is_not_null": _null_test,
    "in": _in,
    "like": _like,
    "cast": _cast,
    "try_cast": _cast,
    "case": _case,
    "nullif": _null_if,
    "extract": _extract,
    "round": _round,
    "regexp_extract": _regexp_extract,
    "lpad": _with_integers(1),
    "rpad": _with_integers(1),
    "chr": _with_integers(0),
    "add_interval": _interval,
    "difference": _difference,
}
