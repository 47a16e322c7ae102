"""Every function on every combination of types against DuckDB, over columns of extremes."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence

import pytest

from psoup.errors import InvalidInput
from psoup.expressions.civil import EXTRACT_PARTS, PART_ALIASES
from psoup.expressions.functions import cast, resolve
from psoup.expressions.numbers.mathematics import REAL
from psoup.expressions.render import render
from psoup.expressions.rules_times import DIFF_PARTS
from psoup.expressions.times.moments import SHORT, SPECIFIERS
from psoup.expressions.tree import Call, Expr, Literal
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, DataType, Kind, decimal
from psoup_testing.oracles.expression_oracle import SAMPLES, Oracle, sample
from psoup_testing.suite.sweeps import in_parts, swept

LITERALS: list[Expr] = [
    Literal(BIGINT, 3),
    Literal(BIGINT, -10),
    Literal(DOUBLE, 2.5),
    Literal(decimal(2, 1), 25),
    Literal(TEXT, "a"),
    Literal(TEXT, "7"),
    Literal(TIMESTAMP, 1583020799123456),
    Literal(DATE, 18262),
    Literal(BOOLEAN, True),
]
NULLS: list[Expr] = [Literal(BIGINT, None), Literal(TEXT, None)]


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle()


def pool(oracle: Oracle) -> list[Expr]:
    return [oracle.ref(name) for name in oracle.types] + LITERALS + NULLS


def resolved(name: str, operands: Sequence[Sequence[Expr]]) -> Iterator[Expr]:
    """All calls of `name` that type."""
    for args in itertools.product(*operands):
        try:
            expr = resolve(name, args)
        except InvalidInput:
            continue
        if not all(isinstance(arg, Literal) for arg in args):
            yield expr


def inexact(expr: Expr) -> bool:
    """BIGINT against DOUBLE, which DuckDB compares as DOUBLEs."""
    return {arg.type.kind for arg in getattr(expr, "args", ())[-2:]} == {Kind.BIGINT, Kind.DOUBLE}


def rewritten(expr: Expr) -> bool:
    """DATE against a TIMESTAMP constant: DuckDB casts the constant, so far dates are no errors there."""
    args = getattr(expr, "args", ())[-2:]
    return any(getattr(a, "name", "") == "cast" and a.args[0].type == DATE for a in args) and any(
        isinstance(a, Literal) for a in args
    )


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "intdiv", "mod"])
@in_parts(5)
def test_arithmetic(oracle: Oracle, name: str, part: slice) -> None:
    oracle.compare(list(resolved(name, [pool(oracle)] * 2))[part])


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
@in_parts(8)
def test_comparisons(oracle: Oracle, name: str, part: slice) -> None:
    oracle.compare([e for e in resolved(name, [pool(oracle)] * 2) if not inexact(e) and not rewritten(e)][part])


@in_parts(3)
def test_is_distinct_from(oracle: Oracle, part: slice) -> None:
    exprs = [e for e in resolved("is_distinct", [pool(oracle)] * 2) if not inexact(e) and not rewritten(e)][part]
    oracle.compare([*exprs, *(resolve("not", [e]) for e in exprs[::7])])


@pytest.mark.parametrize("name", ["dayname", "monthname", "last_day", "epoch_us"])
def test_names_and_counts_of_times(oracle: Oracle, name: str) -> None:
    exprs = list(resolved(name, [[oracle.ref(c) for c in ("s", "s2", "y", "y2", "b")]]))
    assert len(exprs) == 4
    oracle.compare(exprs)


def near_times() -> Oracle:
    """Times whose differences DuckDB can compute in microseconds, and dates that are TIMESTAMPs."""
    near = [time for time in SAMPLES["s"][1] if isinstance(time, int) and abs(time) < 1 << 60]
    days = [day for day in SAMPLES["y"][1] if isinstance(day, int) and abs(day) < 10**7]
    return Oracle(
        {
            "s": (TIMESTAMP, sample(near, 1, 90)),
            "s2": (TIMESTAMP, sample(near, 2, 90)),
            "y": (DATE, sample(days, 3, 90)),
            "y2": (DATE, sample(days, 4, 90)),
        }
    )


def test_buckets_of_the_first_and_the_last_times(oracle: Oracle) -> None:
    for micros in (1, 7, 420_000_000, 900_000_000, 86_400_000_000, 604_800_000_000, 10**15):
        width = [Literal(BIGINT, 0), Literal(BIGINT, micros)]
        oracle.compare([resolve("time_bucket", [*width, oracle.ref(name)]) for name in ("s", "s2")])


def test_differences_and_buckets_of_times() -> None:
    some = near_times()
    parts = [Literal(TEXT, part) for part in DIFF_PARTS]
    columns: list[Expr] = [some.ref(name) for name in some.types]
    some.compare(list(resolved("date_diff", [parts, columns, [*columns, Literal(TIMESTAMP, 1583020799123456)]])))
    widths = [(months, 0) for months in (1, 3, 5, 12, 1200)]
    widths += [(0, micros) for micros in (1, 7, 1_000_000, 900_000_000, 86_400_000_000, 604_800_000_000, 10**15)]
    for months, micros in widths:
        width = [[Literal(BIGINT, months)], [Literal(BIGINT, micros)]]
        some.compare(list(resolved("time_bucket", [*width, columns])))


@pytest.mark.parametrize(
    "written", swept([*SPECIFIERS, *SHORT, "%d.%m.%Y %H:%M", "é%%%Y''", "plain"], fast=range(0, 36, 3))
)
def test_formats_of_times(written: str) -> None:
    some = near_times()
    some.compare(list(resolved("strftime", [[some.ref(name) for name in some.types], [Literal(TEXT, written)]])))


def test_times_that_are_made() -> None:
    numbers = {
        "a": (BIGINT, sample([2020, 2021, 1970, -44, 0, 1, 10**6, 10**7, 5_881_580, 9999], 1, 200)),
        "b": (BIGINT, sample([1, 2, 12, 13, 0, -1, 6], 2, 200)),
        "c": (BIGINT, sample([1, 28, 29, 30, 31, 32, 0, -1], 3, 200)),
        "h": (BIGINT, sample([0, 1, 12, 23, 24, 25, -1], 4, 200)),
        "m": (BIGINT, sample([0, 1, 59, 60, -1], 5, 200)),
        "d": (
            DOUBLE,
            sample([0.0, 1.5, 59.9999999, 60.0, 60.5, 61.0, -1.0, math.nan, math.inf, 1e300, 0.0000005], 6, 200),
        ),
    }
    some = Oracle(numbers)  # type: ignore[arg-type]
    a, b, c, h, m, d = (some.ref(name) for name in numbers)
    some.compare([resolve("make_date", [a, b, c]), resolve("make_timestamp", [a, b, c, h, m, d])])
    some.compare([resolve("make_timestamp", [a]), resolve("make_timestamp", [c]), resolve("make_date", [a, m, c])])


def test_integers_of_fewer_bits(oracle: Oracle) -> None:
    exprs = []
    for bits in (8, 16, 32):
        for name in ("b", "b2"):
            exprs += [resolve(word, [oracle.ref(name), Literal(BIGINT, bits)]) for word in ("narrow", "try_narrow")]
    oracle.compare(exprs)


def test_milliseconds_since_1970() -> None:
    """DuckDB looks at the least and greatest time of a column, and fails for the last of all."""
    near = [time for time in SAMPLES["s"][1] if isinstance(time, int) and abs(time) < 1 << 62]
    some = Oracle(
        {
            "s": (TIMESTAMP, [*near, 500, -500, 499, 1_500, -1_501, None]),
            "b": (BIGINT, [*range(-3, 4), 10**15, 2**63 - 1, -(2**62), *[None] * 40][: len(near) + 6]),
        }
    )
    some.compare(list(resolved("epoch_ms", [[some.ref("s"), some.ref("b")]])))


@pytest.mark.parametrize("name", ["greatest", "least", "coalesce", "nullif", "concat", "concat_op"])
@in_parts(8)
def test_choices(oracle: Oracle, name: str, part: slice) -> None:
    exprs = list(resolved(name, [pool(oracle)] * 2))[part]
    oracle.compare([e for e in exprs if name != "nullif" or not (inexact(e) or rewritten(e))])


NUMERIC = ["neg", "abs", "round", "floor", "ceil", "sqrt"]
TEXTUAL = ["lower", "upper", "length", "trim", "ltrim", "rtrim"]


@pytest.mark.parametrize("name", [*NUMERIC, *TEXTUAL, "not", "is_null", "is_not_null"])
def test_one_argument(oracle: Oracle, name: str) -> None:
    exprs = list(resolved(name, [pool(oracle)]))
    assert exprs
    oracle.compare(exprs)


def test_power(oracle: Oracle) -> None:
    """The library functions of two builds may differ in the last place."""
    oracle.compare(list(resolved("power", [pool(oracle)] * 2)), ulps=2)


ONE_NUMBER = [
    *REAL,
    "cbrt",
    "isnan",
    "isinf",
    "isfinite",
    "sign",
    "trunc",
    "degrees",
    "radians",
    "cot",
    "log",
    "bits_not",
]


@pytest.mark.parametrize("name", swept(ONE_NUMBER, fast=range(0, 28, 3)))
def test_mathematics(oracle: Oracle, name: str) -> None:
    exprs = list(resolved(name, [pool(oracle)]))
    assert exprs
    oracle.compare(exprs, ulps=1 if name == "cot" else 0)


@pytest.mark.parametrize(
    "name",
    swept(["gcd", "lcm", "xor", "bits_and", "bits_or", "shift_left", "shift_right", "atan2", "log"], fast=(1, 4, 6)),
)
def test_mathematics_of_two(oracle: Oracle, name: str) -> None:
    near: list[Expr] = [Literal(BIGINT, n) for n in (0, 1, 5, 62, 63, 64, -1)]
    exprs = list(resolved(name, [pool(oracle), [*pool(oracle), *near]]))
    assert exprs
    oracle.compare(exprs)


@pytest.mark.parametrize("digits", [-400, -19, -18, -10, -3, -1, 0, 1, 2, 3, 5, 17, 30, 400])
def test_rounding_to_digits(oracle: Oracle, digits: int) -> None:
    exprs = list(resolved("round", [pool(oracle), [Literal(BIGINT, digits)]]))
    # DuckDB makes a NULL DECIMAL 0 when all its digits go
    oracle.compare([e for e in exprs if e.type.kind is not Kind.DECIMAL or digits >= 0])


@in_parts(3)
def test_substr(oracle: Oracle, part: slice) -> None:
    texts = [oracle.ref("t"), oracle.ref("t2"), Literal(TEXT, "aé日👨x")]
    numbers = [
        Literal(BIGINT, n) for n in (-7, -3, -2, -1, 0, 1, 2, 3, 4, 10, 2**32 - 1, 2**32, -(2**32) + 1, -(2**32) - 1)
    ]
    numbers += [oracle.ref("b"), Literal(BIGINT, None)]
    oracle.compare([*resolved("substr", [texts, numbers]), *resolved("substr", [texts, numbers, numbers])][part])


def test_trim_characters(oracle: Oracle) -> None:
    texts = [oracle.ref("t"), oracle.ref("t2")]
    characters = [Literal(TEXT, c) for c in ("", "a", "ax", "éa", " \t\n", "\u3000x", None)]
    for name in ("trim", "ltrim", "rtrim"):
        oracle.compare(list(resolved(name, [texts, characters])))


def test_text_tests(oracle: Oracle) -> None:
    texts = [oracle.ref("t"), oracle.ref("t2"), Literal(TEXT, "xaxx"), Literal(TEXT, "é"), Literal(TEXT, "")]
    for name in ("starts_with", "contains"):
        oracle.compare(list(resolved(name, [[*texts, *NULLS], [*texts, *NULLS]])))


def test_replace(oracle: Oracle) -> None:
    texts = [oracle.ref("t"), oracle.ref("t2")]
    parts = [*texts, *(Literal(TEXT, part) for part in ("a", "aa", "", "é", "xyz", None))]
    oracle.compare(list(resolved("replace", [texts, parts, parts])))


PATTERNS = [
    "",
    "%",
    "_",
    "__",
    "%_%",
    "a%",
    "%a",
    "%a%",
    "a_c",
    "a%c",
    "%b%",
    "a\\%c",
    "a\\c",
    "%\n%",
    "x_y",
    "日_語",
    "_____%",
    "%é%",
    "é",
    "A%",
    "%a%a%",
    "a$%c",
    "a$_c",
    "a$$c",
    "$a%",
    "%%",
    "%%%a",
    ".*",
    "a.c",
    "[a]%",
    "100$%",
    "👨%",
    "straße",
]


def test_like(oracle: Oracle) -> None:
    for escape in (None, "", "$", "\\"):
        given = [] if escape is None else [[Literal(TEXT, escape)]]
        fine = [p for p in PATTERNS if not (escape == "\\" and p.endswith("\\"))]
        oracle.compare(
            list(resolved("like", [[oracle.ref("t"), oracle.ref("t2")], [Literal(TEXT, p) for p in fine], *given]))
        )
    columns = [oracle.ref("t"), oracle.ref("t2")]
    oracle.compare([*resolved("like", [columns, columns]), *resolved("like", [columns, columns, [Literal(TEXT, "$")]])])


@pytest.mark.parametrize("name", ["extract", "date_trunc"])
def test_parts_of_times(oracle: Oracle, name: str) -> None:
    parts = [Literal(TEXT, part) for part in (*EXTRACT_PARTS, *PART_ALIASES)]
    times = [oracle.ref(column) for column in ("s", "s2", "y", "y2")]
    oracle.compare(list(resolved(name, [parts, times])), ulps=1)


def test_intervals(oracle: Oracle) -> None:
    months = [Literal(BIGINT, n) for n in (0, 1, -1, 11, 12, -25, 1200, 24000)]
    micros = [Literal(BIGINT, n) for n in (0, 1, -1, 86_400_000_000, -3_600_000_001, 10**15)]
    oracle.compare(list(resolved("add_interval", [[oracle.ref(c) for c in ("s", "y")], months, micros])))


@pytest.mark.parametrize(
    "target",
    swept(
        [BIGINT, DOUBLE, TEXT, BOOLEAN, TIMESTAMP, DATE, decimal(18, 4), decimal(3, 1), decimal(2, 2)],
        fast=range(0, 9, 3),
    ),
)
def test_casts(oracle: Oracle, target: DataType) -> None:
    exprs: list[Expr] = []
    for name, source in oracle.types.items():
        if source == BOOLEAN and target == decimal(2, 2):  # 0.01 in DuckDB; an error here, as 1 does not fit
            continue
        try:
            exprs += [cast(oracle.ref(name), target), cast(oracle.ref(name), target, try_=True)]
        except InvalidInput:
            continue
    oracle.compare(exprs)


@in_parts(6)
def test_in(oracle: Oracle, part: slice) -> None:
    operands = pool(oracle)
    exprs = [
        expr
        for expr in resolved("in", [operands[part], operands, LITERALS + NULLS])
        if not any(inexact(Call(BOOLEAN, "eq", (expr.args[0], item))) for item in expr.args[1:])
        and "CAST" not in render(expr).replace("CAST(3", "").replace("CAST(-10", "")
    ]
    oracle.compare(random.Random(3).sample(exprs, min(85, len(exprs))))


@in_parts(2)
def test_logic(oracle: Oracle, part: slice) -> None:
    flags: list[Expr] = [oracle.ref("f"), oracle.ref("f2"), Literal(BOOLEAN, True), Literal(BOOLEAN, False)]
    flags += [
        resolve("is_null", [oracle.ref("b")]),
        resolve("gt", [oracle.ref("b"), Literal(BIGINT, 3)]),
        Literal(BOOLEAN, None),
    ]
    for name in ("and", "or"):
        exprs = [*resolved(name, [flags] * 2), *resolved(name, [flags] * 3)][part]
        oracle.compare([*exprs, *(resolve("not", [expr]) for expr in exprs)])


@in_parts(8)
def test_case(oracle: Oracle, part: slice) -> None:
    operands = pool(oracle)
    conditions = [oracle.ref("f"), resolve("lt", [oracle.ref("b"), oracle.ref("b2")])]
    exprs = [*resolved("case", [conditions, operands[part], operands])]
    rng = random.Random(4)
    exprs += rng.sample(
        list(resolved("case", [conditions, operands[part], conditions, operands[1::2], operands[::3]])), 70
    )
    oracle.compare(exprs)


def test_errors_in_branches_not_taken_do_not_count(oracle: Oracle) -> None:
    b, b2 = oracle.ref("b"), oracle.ref("b2")
    zero = resolve("eq", [b2, Literal(BIGINT, 0)])
    quotient = resolve("mod", [b, b2])
    exprs = [
        resolve("case", [zero, b, quotient]),
        resolve("case", [resolve("not", [zero]), quotient, Literal(BIGINT, 7)]),
        resolve("case", [zero, quotient, b]),
        resolve("coalesce", [b, quotient]),
        resolve("coalesce", [quotient, b]),
        resolve("coalesce", [cast(oracle.ref("t"), BIGINT, try_=True), Literal(BIGINT, 5)]),
    ]
    oracle.compare(exprs)
