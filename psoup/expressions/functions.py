"""All operators and functions of expressions: name -> number of arguments, typing rule. `resolve` applies them.

They mean what they mean in DuckDB 2.0. Canonical names of operators, with their arguments:

    and or            n conditions                eq ne lt le gt ge      two values
    not               one condition               in                     x, item, item, ...
    is_null is_not_null   anything                like                   x, pattern [, escape constant]
    is_distinct           two values
    add sub mul div intdiv mod   two numbers      neg                    a number
    bits_and bits_or shift_left shift_right   two BIGINT    bits_not        a BIGINT
    case              condition, value, ..., else     concat_op          a || b
    difference        two BIGINT, DECIMAL of one scale, DATE or TIMESTAMP: left - right in steps of their order keys,
                      held to int64 where it would overflow; never an error. What a < b + 5 is indexed by
    cast try_cast     one value, the target is the call's type (made by `cast`, not by `resolve`)
    add_interval      a time, constant months (BIGINT), constant microseconds (BIGINT): x + INTERVAL; negate for -
    span_seconds      microseconds (BIGINT): the seconds of an INTERVAL, DOUBLE

and, with the same name as in SQL: abs round floor ceil sqrt power greatest least coalesce nullif lower upper length
substr trim ltrim rtrim concat starts_with contains replace, and all of `text_pieces`, `regex`, `mathematics`, `moments`
and `strptime`; dayname monthname last_day epoch_ms epoch_us; extract(part, x) and date_trunc(part, x) have a TEXT
constant in front. Binding replaces the names in `sugar` by other functions. `docs/sql.md` shows all. The functions that
the operator of a service adds are in `supplied_functions`.

**Errors and NULL.** An error in a row (overflow, // or % by zero, a CAST that fails) makes that row NULL and marks it
in `Column.error`. Functions hand marks of their arguments on. AND, OR, NOT and IN take an error as UNKNOWN: TRUE OR
error is TRUE and not marked; a mark stays only where the result is UNKNOWN. CASE and COALESCE hand on only marks of
conditions and values that they needed. TRY_CAST makes no marks of its own, but keeps those of its argument.

**Types.** BIGINT with DECIMAL is DECIMAL, with DOUBLE is DOUBLE. A DECIMAL result has DuckDB's scale, and its precision
up to 18 digits: a value of more is an error of that row. A product of more than 18 decimal places is refused.
`/` is DOUBLE, `//` of two BIGINTs is BIGINT; floor and ceil of a BIGINT are DOUBLE; date_trunc of a DATE is TIMESTAMP.
A TEXT constant takes the type of what it is compared or combined with; in arithmetic it is refused.

**Differences from DuckDB**, on purpose (each has a test in `test_expressions_differences.py`, `_types.py` or
`test_sql_spans.py`):

- BIGINT and DOUBLE, and DECIMALs of any scale, are compared exactly; DuckDB compares BIGINT with DOUBLE as DOUBLEs.
- A constant of more than 18 digits compares exactly with exact numbers, however long it is (DuckDB: up to 38 digits).
  In arithmetic with a column it is a DOUBLE. A whole number compares exactly with a DOUBLE.
- A DECIMAL has at most 18 digits, also in between: DuckDB goes to 38 in sums. BIGINT with DECIMAL likewise.
- Sums have up to 38 digits, and stay exact with numbers of any scale: % of them too, where DuckDB takes DOUBLEs, and
  comparisons with a DOUBLE. A result of more digits is an error of its row, also below the end of a HUGEINT.
- Integer constants are BIGINT (DuckDB: INTEGER), so 2000000000 + 2000000000 does not overflow.
- The offset in '2020-01-01 10:00:00+02' counts when TEXT becomes a TIMESTAMP, as for DuckDB's TIMESTAMPTZ. Names of
  zones other than UTC are errors. A DATE ignores both, as in DuckDB. There are no infinite times.
- TIMESTAMP - TIMESTAMP is an interval, and not a value. The binder turns the uses it allows into numbers. DATE
  plus or minus a BIGINT attribute is allowed.
- epoch of a sum of intervals may differ in its last bit: DuckDB adds up the days separately from the rest.
- A DATE too far for a TIMESTAMP is an error when they are compared, also against a constant.
- Text as an exact number: any that fits, however many digits it has before an exponent; not 0x1F and 0b11.
- round of a DECIMAL(18,0) to tens that carries into a 19th digit is an error.
- TRUE as DECIMAL(2,2) is an error, not 0.01; NULL rounded to more places than it has stays NULL, not 0.
- x IN (...) is TRUE on a match, also if another item is an error.
- A TEXT of more than 1 MiB (`EngineConfig.text_bytes`) is an error, whatever makes it; so is a row for which one
  expression would make 64 MiB of text on its way.
- A number is not compared with a TEXT attribute, DECIMALs included: cast it. The text of a NaN has no sign.
- try_strptime reads the word epoch as strptime does; weeks of the year (%U, %W, %V) are not read.
- reverse goes by code points, not by what a reader sees as one character. ascii, unicode and instr are BIGINT.
- The characters of trim, the part of extract and date_trunc, and the pattern and replacement of a regular expression
  must be constants; a LIKE pattern with wildcards inside has at most 1,000 characters, a regular expression 16 KiB and
  some 10,000 states. A row whose text times the states is beyond 256 million is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psoup.errors import InvalidInput
from psoup.expressions import rules, rules_texts, rules_times, supplied_functions
from psoup.expressions.conversion import cast
from psoup.expressions.evaluate import Scope, constant, evaluate
from psoup.expressions.numbers import long_numbers
from psoup.expressions.numbers.mathematics import REAL
from psoup.expressions.render import render
from psoup.expressions.sugar import SUGAR, Sugar
from psoup.expressions.tree import Expr, LongNumber
from psoup.model import BIGINT, TEXT

__all__ = [
    "ALIASES",
    "FUNCTIONS",
    "Function",
    "Scope",
    "cast",
    "constant",
    "evaluate",
    "names",
    "render",
    "resolve",
]

_EXACT = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "is_distinct", "in", "nullif"})
"""The functions that compare. They receive a constant of many digits unchanged."""

MANY = 65_536
"""The most arguments of any function."""


@dataclass(frozen=True, slots=True)
class Function:
    """The typing rule of a function. `least`, `most`: bounds of the number of its arguments.

    `operator`: True if the function has its own syntax in SQL.
    """

    least: int
    most: int
    rule: rules.Rule
    operator: bool = False


def _operators(rule: rules.Rule, low: int, high: int, *listed: str) -> dict[str, Function]:
    return {name: Function(low, high, rule, operator=True) for name in listed}


FUNCTIONS: dict[str, Function] = {
    **_operators(rules.connective, 1, MANY, "and", "or"),
    **_operators(rules.connective, 1, 1, "not"),
    **_operators(rules.comparison, 2, 2, "eq", "ne", "lt", "le", "gt", "ge"),
    **_operators(rules.comparison, 2, 2, "is_distinct"),
    **_operators(rules.membership, 2, MANY, "in"),
    **_operators(rules.null_test, 1, 1, "is_null", "is_not_null"),
    **_operators(rules_texts.like, 2, 3, "like"),
    **_operators(rules.additive, 2, 2, "add", "sub"),
    **_operators(rules.multiplicative, 2, 2, "mul"),
    **_operators(rules.division, 2, 2, "div", "intdiv"),
    **_operators(rules.bits, 2, 2, "bits_and", "bits_or", "shift_left", "shift_right"),
    **_operators(rules.bits, 1, 1, "bits_not"),
    **_operators(rules.keep_number, 1, 1, "neg"),
    **_operators(rules.distance, 2, 2, "difference"),
    **_operators(rules.case, 3, MANY, "case"),
    **_operators(rules_texts.joining, 2, 2, "concat_op"),
    **_operators(rules_times.shifting, 3, 3, "add_interval"),
    **_operators(rules_times.lasting, 1, 1, "span_seconds"),
    "abs": Function(1, 1, rules.keep_number),
    "round": Function(1, 2, rules.rounding),
    "floor": Function(1, 1, rules.whole),
    "ceil": Function(1, 1, rules.whole),
    "sqrt": Function(1, 1, rules.floating),
    "power": Function(2, 2, rules.floating),
    "mod": Function(2, 2, rules.remainder),
    **{name: Function(1, 1, rules.floating) for name in REAL},
    "atan2": Function(2, 2, rules.floating),
    "isnan": Function(1, 1, rules.testing),
    "isinf": Function(1, 1, rules.testing),
    "isfinite": Function(1, 1, rules.testing),
    "sign": Function(1, 1, rules.sizing),
    "trunc": Function(1, 1, rules.truncating),
    "gcd": Function(2, 2, rules.bits),
    "lcm": Function(2, 2, rules.bits),
    "xor": Function(2, 2, rules.bits),
    "greatest": Function(1, MANY, rules.unified),
    "least": Function(1, MANY, rules.unified),
    "coalesce": Function(1, MANY, rules.unified),
    "nullif": Function(2, 2, rules.null_if),
    "lower": Function(1, 1, rules_texts.texts),
    "upper": Function(1, 1, rules_texts.texts),
    "length": Function(1, 1, rules_texts.text_length),
    "substr": Function(2, 3, rules_texts.slicing),
    "trim": Function(1, 2, rules_texts.trimming),
    "ltrim": Function(1, 2, rules_texts.trimming),
    "rtrim": Function(1, 2, rules_texts.trimming),
    "concat": Function(1, MANY, rules_texts.joining),
    "starts_with": Function(2, 2, rules_texts.text_test),
    "contains": Function(2, 2, rules_texts.text_test),
    "replace": Function(3, 3, rules_texts.texts),
    "instr": Function(2, 2, rules_texts.taking(BIGINT, TEXT, TEXT)),
    "ends_with": Function(2, 2, rules_texts.text_test),
    "left": Function(2, 2, rules_texts.taking(TEXT, TEXT, BIGINT)),
    "right": Function(2, 2, rules_texts.taking(TEXT, TEXT, BIGINT)),
    "reverse": Function(1, 1, rules_texts.texts),
    "repeat": Function(2, 2, rules_texts.taking(TEXT, TEXT, BIGINT)),
    "lpad": Function(3, 3, rules_texts.taking(TEXT, TEXT, BIGINT, TEXT)),
    "rpad": Function(3, 3, rules_texts.taking(TEXT, TEXT, BIGINT, TEXT)),
    "concat_ws": Function(2, MANY, rules_texts.joining_with),
    "split_part": Function(3, 3, rules_texts.taking(TEXT, TEXT, TEXT, BIGINT)),
    "strlen": Function(1, 1, rules_texts.text_length),
    "bit_length": Function(1, 1, rules_texts.text_length),
    "ascii": Function(1, 1, rules_texts.text_length),
    "unicode": Function(1, 1, rules_texts.text_length),
    "chr": Function(1, 1, rules_texts.taking(TEXT, BIGINT)),
    "md5": Function(1, 1, rules_texts.texts),
    "regexp_matches": Function(2, 3, rules_texts.matching),
    "regexp_full_match": Function(2, 3, rules_texts.matching),
    "regexp_extract": Function(2, 4, rules_texts.extracting),
    "regexp_replace": Function(3, 4, rules_texts.replacing),
    "extract": Function(2, 2, rules_times.extraction),
    "date_trunc": Function(2, 2, rules_times.truncation),
    "dayname": Function(1, 1, rules_times.naming),
    "monthname": Function(1, 1, rules_times.naming),
    "last_day": Function(1, 1, rules_times.last_day),
    "epoch_ms": Function(1, 1, rules_times.counting),
    "date_diff": Function(3, 3, rules_times.differing),
    "make_date": Function(3, 3, rules_times.making),
    "make_timestamp": Function(1, 6, rules_times.making),
    "to_timestamp": Function(1, 1, rules_times.making),
    "strftime": Function(2, 2, rules_times.formatting),
    "strptime": Function(2, 2, rules_times.reading),
    "try_strptime": Function(2, 2, rules_times.reading),
    **_operators(rules_times.bucketing, 3, 3, "time_bucket"),
    **_operators(rules.narrowing, 2, 2, "narrow", "try_narrow"),
    "epoch_us": Function(1, 1, rules_times.counting),
}

ALIASES = {
    "pow": "power",
    "greatest_common_divisor": "gcd",
    "least_common_multiple": "lcm",
    "ceiling": "ceil",
    "lcase": "lower",
    "ucase": "upper",
    "len": "length",
    "char_length": "length",
    "character_length": "length",
    "substring": "substr",
    "prefix": "starts_with",
    "suffix": "ends_with",
    "strpos": "instr",
    "position": "instr",
    "ord": "unicode",
    "ifnull": "coalesce",
    "date_part": "extract",
    "datepart": "extract",
    "datetrunc": "date_trunc",
    "datediff": "date_diff",
}
"""Other names that DuckDB has, with the canonical ones."""

BUILT_IN = frozenset(
    [
        *(name for name, function in FUNCTIONS.items() if not function.operator),
        *ALIASES,
        *SUGAR,
        "hop",
        "time_bucket",
        "tumble",
    ]
)
"""The names of all functions that every service has."""


def names() -> tuple[str, ...]:
    """The names that users may call as functions, with aliases and supplied functions, sorted."""
    return tuple(sorted([*BUILT_IN, *supplied_functions.known_names()]))


def resolve(name: str, args: Sequence[Expr]) -> Expr:
    """The typed call of `name` (lower case, canonical or an alias) with `args`, including conversions.

    Raises InvalidInput: UNKNOWN_FUNCTION, WRONG_ARGUMENTS (their number), TYPE_MISMATCH, INVALID_VALUE (a constant that
    cannot be converted).
    """
    if any(isinstance(arg, LongNumber) for arg in args):
        exact = long_numbers.computed(name, args)
        if exact is not None:
            return exact
        if name not in _EXACT:
            args = long_numbers.summands(args) if name in ("add", "sub") else long_numbers.plain(args)
    signature = supplied_functions.known(name)  # first, as a later release may have a function of this name
    if signature is not None:
        return rules.supplied_call(signature, args)
    canonical = ALIASES.get(name, name)
    function = SUGAR.get(canonical) or FUNCTIONS.get(canonical)
    if function is None:
        raise InvalidInput(f"there is no function {name}", reason="UNKNOWN_FUNCTION", function=name)
    if not function.least <= len(args) <= function.most:
        raise InvalidInput(f"{name} takes {_arity(function)}, not {len(args)}", reason="WRONG_ARGUMENTS", function=name)
    if isinstance(function, Sugar):
        return function.made(resolve, args)
    return function.rule(canonical, args)


def _arity(function: Function | Sugar) -> str:
    if not function.most:
        return "no arguments"
    if function.least == function.most:
        return f"{function.least} argument{'s' if function.least > 1 else ''}"
    if function.most == MANY:
        return f"at least {function.least} argument{'s' if function.least > 1 else ''}"
    return f"{function.least} to {function.most} arguments"
