"""Random scalar expressions: a small tree of templates that writes itself as PSoup's SQL and as DuckDB's.

    Expression(BIGINT, "({0} + {1})", (column("a"), literal(BIGINT, 3)))
        psoup:  ("a" + 3)
        duck:   ("a" + CAST('3' AS BIGINT))

Types follow DuckDB's rules, so that no conversion is left to chance. A tree is drawn choice by choice from a
Hypothesis `draw`, and shrinks with it: the first form in each table is the simplest. No meaning is computed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeVar

from hypothesis import strategies as st

from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, DataType, Kind, Schema, decimal
from psoup_testing.histories.values import Value, duck_literal, duck_type, psoup_literal, values

T = TypeVar("T")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Expression:
    """`template` with `{0}`, `{1}` … for the arguments; `duck` where DuckDB is written differently."""

    type: DataType
    template: str
    args: tuple[Expression, ...] = ()
    duck: str | None = None

    def psoup_sql(self) -> str:
        """As PSoup reads it."""
        return self.template.format(*(arg.psoup_sql() for arg in self.args))

    def duck_sql(self) -> str:
        """As DuckDB reads it."""
        template = self.template if self.duck is None else self.duck
        return template.format(*(arg.duck_sql() for arg in self.args))

    def functions(self) -> frozenset[str]:
        """The words and signs of functions and operators in it."""
        words = _WORDS.findall(_QUOTED.sub("", self.template))
        return frozenset(words).union(*(arg.functions() for arg in self.args))

    @property
    def constant(self) -> bool:
        """Whether it names no attribute."""
        return not self.template.startswith('"') and all(arg.constant for arg in self.args)

    def folded(self) -> bool:
        """Whether a part of it can be computed before there is any data."""
        return (bool(self.args) and self.constant) or any(arg.folded() for arg in self.args)


_WORDS = re.compile(r"[A-Z][A-Z_0-9]+|[-+*/%<>=|&~^]+")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def _plain(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def column(name: str, data_type: DataType) -> Expression:
    """A reference to an attribute."""
    return Expression(data_type, f'"{name}"')


def literal(data_type: DataType, value: Value) -> Expression:
    """A constant. One of DECIMAL has the least precision that holds it, as in SQL; without a fraction it is BIGINT."""
    if isinstance(value, Decimal):
        scale = max(0, -int(value.as_tuple().exponent))
        digits = len(f"{abs(value):f}".replace(".", "").lstrip("0"))
        data_type = decimal(max(digits, scale, 1), scale) if scale else BIGINT
    return Expression(data_type, _plain(psoup_literal(data_type, value)), (), _plain(duck_literal(data_type, value)))


@dataclass(frozen=True)
class Scope:
    """The scope of expressions: the attributes of a stream, and a few values of its data."""

    schema: Schema
    pools: tuple[tuple[Value, ...], ...]

    def columns(self, *wanted: Kind) -> list[Expression]:
        """The attributes of the kinds wanted (all if none is named)."""
        return [column(a.name, a.type) for a in self.schema.attributes if not wanted or a.type.kind in wanted]

    def seen(self, data_type: DataType) -> list[Value]:
        """Values of a type that occur in the data, without NULL."""
        pairs = zip(self.schema.attributes, self.pools, strict=True)
        return [v for a, pool in pairs if a.type == data_type for v in pool if v is not None]


@dataclass(frozen=True)
class Maker:
    """Draws expressions over `scope`, functions up to `depth` levels deep."""

    draw: Callable[[Any], Any]
    scope: Scope
    depth: int = 2

    def pick(self, options: Sequence[T]) -> T:
        """Pick from `options`; the first is the simplest."""
        return self.draw(st.sampled_from(options))  # type: ignore[no-any-return]

    def number(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        return self.draw(st.integers(low, high))  # type: ignore[no-any-return]

    def constant(self, data_type: DataType) -> Expression:
        """A literal: mostly a value of the data, so that boundaries are met."""
        seen = self.scope.seen(data_type)
        if seen and self.number(0, 3):
            return literal(data_type, self.pick(seen))
        return literal(data_type, self.draw(values(data_type)))

    def small(self, low: int = -10, high: int = 10) -> Expression:
        """A small BIGINT literal."""
        return literal(BIGINT, self.number(low, high))

    def atom(self, data_type: DataType) -> Expression:
        """An attribute of exactly this type, or if there is none a literal."""
        columns = [c for c in self.scope.columns(data_type.kind) if c.type == data_type]
        return self.pick(columns) if columns else self.exact_constant(data_type)

    def exact_constant(self, data_type: DataType) -> Expression:
        """A literal that has exactly this type, by a CAST if need be."""
        plain = self.constant(data_type)
        if plain.type == data_type:
            return plain
        return Expression(data_type, f"CAST({{0}} AS {data_type})", (plain,))

    def of(self, data_type: DataType) -> Expression:
        """Any expression of exactly this type."""
        choice = self.number(0, 9) if self.depth > 0 else 0
        if choice < 3:
            return self.atom(data_type)
        if choice < 4:
            return self.exact_constant(data_type)
        deeper = replace(self, depth=self.depth - 1)
        forms = FORMS.get(data_type.kind, ())
        form = deeper.pick(forms) if forms and choice < 8 else deeper.pick(GENERAL)
        return deeper.fill(data_type, form)

    def fill(self, data_type: DataType, form: Form) -> Expression:
        """The form with drawn arguments."""
        template = form.template
        if form.words:
            template = template.replace("@", self.pick(form.words))
        if "#" in template:
            template = template.replace("#", str(self.number(-40, 40)))
        arguments = tuple(self.argument(data_type, arg) for arg in form.args)
        return Expression(data_type, template, arguments, form.duck)

    def argument(self, data_type: DataType, wanted: DataType | str) -> Expression:
        """An argument as a form asks for it."""
        if isinstance(wanted, DataType):
            return self.of(wanted)
        if wanted == "same":
            return self.of(data_type)
        if wanted == "condition":
            return self.comparison()
        if wanted == "small":
            return self.small()
        if wanted == "pattern":
            return literal(TEXT, self.pick(PATTERNS))
        if wanted == "instant":  # a time on the clock of a zone is refused here
            return self.atom(TIMESTAMP)
        if wanted in ("length", "square"):
            return self.small(0, 4 if wanted == "length" else 2)
        return self.constant(TEXT)

    def comparison(self) -> Expression:
        """A comparison of two expressions of the same type."""
        data_type = self.pick(self.scope.columns()).type
        operator = self.pick(COMPARISONS)
        return Expression(BOOLEAN, f"({{0}} {operator} {{1}})", (self.of(data_type), self.of(data_type)))


@dataclass(frozen=True, slots=True)
class Form:
    """A function or operator: `@` is one of `words`, `#` a number; `args` are types, or words `argument` knows."""

    template: str
    args: tuple[DataType | str, ...]
    words: tuple[str, ...] = ()
    duck: str | None = None

    def spelled(self) -> list[str]:
        """The template with each of the words."""
        return [self.template.replace("@", word) for word in self.words or ("@",)]


GENERAL = (
    Form("COALESCE({0}, {1})", ("same", "same")),
    Form("NULLIF({0}, {1})", ("same", "same")),
    Form("GREATEST({0}, {1})", ("same", "same")),
    Form("LEAST({0}, {1}, {2})", ("same", "same", "same")),
    Form("CASE WHEN {0} THEN {1} ELSE {2} END", ("condition", "same", "same")),
    Form("CASE WHEN {0} THEN {1} WHEN {2} THEN {3} END", ("condition", "same", "condition", "same")),
)
PATTERNS = ("a", "^a", "b$", "[ab]+", "(a|b).*", "\\d+", ".", "", "(?i)B", "^[^a]*$", "(é|日).", "a|\\pL")
"""Regular expressions."""
_PARTS = ("year", "month", "day", "hour", "minute", "second", "dow", "doy", "week", "quarter")
NAMED_PARTS = (
    *("YEAR", "MONTH", "DAY", "QUARTER", "WEEK", "HOUR", "MINUTE", "SECOND", "ISODOW", "MILLISECOND", "MICROSECOND"),
    *("ISOYEAR", "DECADE", "CENTURY", "MILLENNIUM", "DAYOFMONTH", "DAYOFWEEK", "WEEKDAY", "DAYOFYEAR", "WEEKOFYEAR"),
)
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_STEPS = ("DAY", "HOUR", "MINUTE", "SECOND", "MONTH", "YEAR")

FORMS: dict[Kind, tuple[Form, ...]] = {
    Kind.BOOLEAN: (
        Form("({0} @ {1})", (BIGINT, BIGINT), COMPARISONS),
        Form("STARTS_WITH({0}, {1})", (TEXT, "text")),
        Form("@({0})", (DOUBLE,), ("ISNAN", "ISINF", "ISFINITE")),
        Form("CONTAINS({0}, {1})", (TEXT, "text")),
        Form("ENDS_WITH({0}, {1})", (TEXT, "text")),
        Form("SUFFIX({0}, {1})", (TEXT, TEXT)),
        Form("({0} IS DISTINCT FROM {1})", (BIGINT, "small")),
        Form("({0} IS NOT DISTINCT FROM {1})", (TEXT, "text")),
        Form("({0} IS NOT DISTINCT FROM {1})", (BIGINT, BIGINT)),
        Form("({0} IS DISTINCT FROM {1})", (DOUBLE, DOUBLE)),
        Form("({0} IS @)", (BOOLEAN,), ("TRUE", "NOT TRUE", "FALSE", "NOT FALSE")),
        Form("(({0} > {1}) IS @)", (BIGINT, "small"), ("TRUE", "NOT TRUE", "NOT FALSE")),
        Form("(YEAR({0}) @ 2019)", (TIMESTAMP,), COMPARISONS),
        Form("({0} - {1} @ INTERVAL '#' HOUR)", (TIMESTAMP, TIMESTAMP), COMPARISONS),
        Form("({0} - {1} IS DISTINCT FROM {1} - {0})", (TIMESTAMP, DATE)),
        Form("(YEAR({0}) @ 2020)", (DATE,), COMPARISONS),
        Form("(CAST({0} AS DATE) @ DATE '2020-01-01')", (TIMESTAMP,), COMPARISONS),
        Form("({0} ILIKE {1})", (TEXT, "text")),
        Form("({0} ~ {1})", (TEXT, "pattern")),
        Form("({0} SIMILAR TO {1})", (TEXT, "pattern")),
        Form("REGEXP_MATCHES({0}, {1})", (TEXT, "pattern")),
        Form("REGEXP_MATCHES({0}, {1}, '@')", (TEXT, "pattern"), ("i", "s", "m", "l", "c")),
        Form("REGEXP_FULL_MATCH({0}, {1})", (TEXT, "pattern")),
        Form("({0} @ {1})", (DOUBLE, DOUBLE), COMPARISONS),
    ),
    Kind.BIGINT: (
        Form("({0} @ {1})", (BIGINT, "small"), ("+", "-", "*", "//", "%")),
        Form("({0} @ {1})", (BIGINT, BIGINT), ("+", "-", "*", "//", "%")),
        Form("({0} @ {1})", (BIGINT, BIGINT), ("&", "|")),
        Form("({0} @ {1})", (BIGINT, "small"), ("<<", ">>", "&")),
        Form("@({0}, {1})", (BIGINT, "small"), ("XOR", "GCD", "LCM", "MOD")),
        Form("(~ {0})", (BIGINT,)),
        Form("SIGN({0})", (DOUBLE,), (), "CAST(SIGN({0}) AS BIGINT)"),
        Form("TRUNC({0})", (BIGINT,)),
        Form("(- {0})", (BIGINT,), (), "(0 - {0})"),  # DuckDB makes -(-2**63) a HUGEINT if it is constant
        Form("ABS({0})", (BIGINT,)),
        Form("LENGTH({0})", (TEXT,)),
        Form("CAST({0} AS BIGINT)", (DOUBLE,)),
        Form("CAST({0} AS BIGINT)", (BOOLEAN,)),
        Form("CAST({0} AS BIGINT)", (TEXT,)),
        Form("TRY_CAST({0} AS BIGINT)", (TEXT,)),
        Form("EXTRACT(@ FROM {0})", (TIMESTAMP,), _PARTS),
        Form("EXTRACT(@ FROM {0})", (DATE,), _PARTS),
        Form("({0} - {1})", (DATE, DATE)),
        Form("@({0})", (TIMESTAMP,), NAMED_PARTS),
        Form("@({0})", (DATE,), NAMED_PARTS),
        Form("@({0}, {1})", (TEXT, "text"), ("INSTR", "STRPOS")),
        Form("POSITION({1} IN {0})", (TEXT, "text")),
        Form("@({0})", (TEXT,), ("STRLEN", "BIT_LENGTH")),
        Form("ASCII({0})", (TEXT,), (), "CAST(ascii({0}) AS BIGINT)"),
        Form("@({0})", (TEXT,), ("UNICODE", "ORD"), "CAST(unicode({0}) AS BIGINT)"),
        Form("DATE_DIFF('@', {0}, {1})", (TIMESTAMP, TIMESTAMP), _PARTS),
        Form("DATE_DIFF('@', {0}, {1})", (DATE, DATE), _PARTS),
        *(
            Form(f"{word}({{0}} AS {width})", (BIGINT,), (), f"CAST({word}({{0}} AS {width}) AS BIGINT)")
            for word in ("CAST", "TRY_CAST")
            for width in ("TINYINT", "INTEGER")
        ),
        Form("EPOCH_MS({0})", (TIMESTAMP,)),
        Form("EXTRACT(@ FROM {0} - {1})", (TIMESTAMP, TIMESTAMP), ("day", "hour", "minute", "second", "microsecond")),
        Form("@({0} - {1})", (TIMESTAMP, DATE), ("EPOCH_MS", "EPOCH_US", "HOUR")),
        Form("EPOCH_US({0})", (TIMESTAMP,)),
        Form("IF({0}, {1}, {2})", ("condition", BIGINT, BIGINT)),
    ),
    Kind.DOUBLE: (
        Form("({0} @ {1})", (DOUBLE, DOUBLE), ("+", "-", "*", "/", "%")),
        Form("({0} @ {1})", (DOUBLE, BIGINT), ("+", "-", "*", "/")),
        Form("({0} / {1})", (BIGINT, BIGINT)),
        Form("@({0})", (DOUBLE,), ("ABS", "FLOOR", "CEIL", "ROUND", "SQRT")),
        Form("POWER({0}, {1})", (DOUBLE, "square")),
        Form("@({0})", (DOUBLE,), ("EXP", "LN", "LOG", "LOG2", "LOG10", "CBRT", "TRUNC", "DEGREES", "RADIANS")),
        Form("@({0})", (DOUBLE,), ("SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN", "SINH", "COSH", "TANH")),
        Form("@({0})", (DOUBLE,), ("ASINH", "ACOSH", "ATANH")),
        Form("ATAN2({0}, {1})", (DOUBLE, DOUBLE)),
        Form("MOD({0}, {1})", (DOUBLE, DOUBLE)),
        Form("CAST({0} AS DOUBLE)", (BIGINT,)),
        Form("EPOCH({0})", (TIMESTAMP,)),
        Form("EPOCH({0} - {1})", (TIMESTAMP, TIMESTAMP)),
        Form("JULIAN({0})", (DATE,)),
        Form("TRY_CAST({0} AS DOUBLE)", (TEXT,)),
    ),
    Kind.DECIMAL: (Form("(- {0})", ("same",)), Form("ABS({0})", ("same",))),
    Kind.TEXT: (
        Form("@({0})", (TEXT,), ("LOWER", "UPPER", "TRIM", "LTRIM", "RTRIM")),
        Form("SUBSTR({0}, {1}, {2})", (TEXT, "small", "length")),
        Form("SUBSTR({0}, {1})", (TEXT, "small")),
        Form("CONCAT({0}, {1})", (TEXT, TEXT)),
        Form("({0} || {1})", (TEXT, TEXT)),
        Form("REPLACE({0}, {1}, {2})", (TEXT, "text", "text")),
        Form("@({0})", (TEXT,), ("REVERSE", "MD5")),
        Form("@({0}, {1})", (TEXT, "small"), ("LEFT", "RIGHT")),
        Form("REPEAT({0}, {1})", (TEXT, "small")),
        Form("@({0}, 5, {1})", (TEXT, "text"), ("LPAD", "RPAD")),
        Form("@({0}, #, 'xé')", (TEXT,), ("LPAD", "RPAD")),
        Form("CONCAT_WS({0}, {1}, {2}, {3})", (TEXT, TEXT, BIGINT, TEXT)),
        Form("SPLIT_PART({0}, {1}, {2})", (TEXT, "text", "small")),
        Form("CHR({0} + 90)", ("small",), (), "CHR(CAST({0} + 90 AS INTEGER))"),
        Form("@({0})", (TIMESTAMP,), ("DAYNAME", "MONTHNAME")),
        Form("STRFTIME({0}, '%Y-%m-%d %H:%M:%S.%f')", (TIMESTAMP,)),
        Form("STRFTIME({0}, '%a %-d. %B %y')", (DATE,)),
        Form("REGEXP_EXTRACT({0}, {1})", (TEXT, "pattern")),
        Form("REGEXP_EXTRACT({0}, {1}, 1)", (TEXT, "pattern")),
        Form("REGEXP_REPLACE({0}, {1}, '-\\0')", (TEXT, "pattern")),
        Form("REGEXP_REPLACE({0}, {1}, '@', 'g')", (TEXT, "pattern"), ("", "xy", "\\0\\0")),
        Form("CAST({0} AS TEXT)", (BIGINT,)),
        Form("CAST({0} AS TEXT)", (BOOLEAN,)),
        Form("CAST({0} AS TEXT)", (DATE,)),
        Form("CAST({0} AS TEXT)", (TIMESTAMP,)),
    ),
    Kind.TIMESTAMP: (
        Form("DATE_TRUNC('@', {0})", (TIMESTAMP,), _UNITS),
        Form("({0} + INTERVAL '#' @)", (TIMESTAMP,), _STEPS),
        Form("({0} - INTERVAL '#' @)", (TIMESTAMP,), _STEPS),
        Form("CAST({0} AS TIMESTAMP)", (DATE,)),
        Form("({0} @ ({1} - {2}))", (TIMESTAMP, TIMESTAMP, TIMESTAMP), ("+", "-")),
        Form(
            "(CAST({0} AS TIMESTAMPTZ) AT TIME ZONE '+02:00')",
            ("instant",),
            (),
            "(CAST({0} AS TIMESTAMPTZ) AT TIME ZONE 'Etc/GMT-2')",
        ),
        Form("EPOCH_MS({0})", (BIGINT,)),
        Form("TIME_BUCKET(INTERVAL '7' @, {0})", (TIMESTAMP,), ("MINUTE", "HOUR", "DAY", "MONTH")),
        Form("MAKE_TIMESTAMP({0})", ("small",)),
        Form("STRPTIME(STRFTIME({0}, '%Y-%m-%d %H:%M'), '%Y-%m-%d %H:%M')", (TIMESTAMP,)),
        Form("TRY_STRPTIME(CAST({0} AS TEXT), '%Y-%m-%d')", (DATE,)),
        Form("@({0}, '%d')", (TEXT,), ("STRPTIME", "TRY_STRPTIME")),
        Form("TO_TIMESTAMP({0})", (DOUBLE,), (), "CAST(to_timestamp({0}) AS TIMESTAMP)"),
    ),
    Kind.DATE: (
        Form("CAST({0} AS DATE)", (TIMESTAMP,)),
        Form("TRY_CAST({0} AS DATE)", (TEXT,)),
        Form("TIME_BUCKET(INTERVAL '2' @, {0})", (DATE,), ("DAY", "MONTH", "WEEK")),
        Form("MAKE_DATE({0}, {1}, 5)", ("small", "small")),
        Form("LAST_DAY({0})", (TIMESTAMP,)),
        Form("LAST_DAY({0})", (DATE,)),
    ),
}
"""Functions by the kind they return; every type also has `GENERAL`."""


def null_of(data_type: DataType) -> Expression:
    """NULL with a type, which PSoup and DuckDB both read from a CAST."""
    return Expression(data_type, f"CAST(NULL AS {data_type})", (), f"CAST(NULL AS {duck_type(data_type)})")
