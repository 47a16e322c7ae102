"""Constants of any number of digits compare exactly: in WHERE, in expressions, over groups, in joins, as parameters.

The judge of exact columns is Python's Fraction. A DOUBLE column compares with a number that has a point as with the
nearest DOUBLE, as in DuckDB, and with a whole number exactly.
"""

from __future__ import annotations

import operator
import random
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import SqlError
from psoup.local import LocalPSoup
from psoup.model import StreamSpec
from psoup.sql import create_stream, prepare, standing_query
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import in_parts, swept

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
END = 2**63
BIGINTS = [-END, -END + 1, -(2**53) - 1, -10, -1, 0, 1, 2, 10, 2**53 + 1, 10**18, END - 2, END - 1]
DOUBLES = [-1.7976931348623157e308, -float(END), -0.5, -0.0, 5e-324, 0.1, 0.5, 1.5, 2.0**53, 1e18, float(END), 1e22]
TENTHS = [
    Decimal(n).scaleb(-4) for n in (-(10**18) + 1, -15_000, -1, 0, 1, 15_000, 123_456_789_012_345_678, 10**18 - 1)
]
SMALL = [Decimal(n).scaleb(-18) for n in (-(10**18) + 1, -1, 0, 1, 5 * 10**17, 10**18 - 1)]
COLUMNS: dict[str, tuple[str, list[Any], pa.DataType]] = {
    "b": ("BIGINT", BIGINTS, pa.int64()),
    "d": ("DOUBLE", DOUBLES, pa.float64()),
    "e": ("DECIMAL(18,4)", TENTHS, pa.decimal128(18, 4)),
    "f": ("DECIMAL(18,18)", SMALL, pa.decimal128(18, 18)),
}


@pytest.fixture(scope="module")
def soup() -> LocalPSoup:
    """A stream for each type of number, with the column x, and one with small whole numbers."""
    config = EngineConfig(shape=EAGER)
    local = LocalPSoup(config, clock=VirtualClock(1_700_000_000_000_000))
    for name, (kind, values, arrow) in COLUMNS.items():
        local.execute(f"CREATE STREAM s_{name} (x {kind})")
        local.push(f"s_{name}", pa.table({"x": pa.array(values, arrow)}))
    return local


def constants(rng: random.Random, count: int) -> list[str]:
    """Numbers of 1 to 60 digits as they are written: near values of the columns, and anywhere; some with exponents."""
    near = [*BIGINTS, *DOUBLES[1:], *TENTHS, *SMALL]
    made = []
    for _ in range(count):
        if rng.random() < 0.6:
            exact = Fraction(rng.choice(near)) + rng.choice([-1, 0, 1]) * Fraction(1, 10 ** rng.randint(0, 40))
            made.append(written(exact, rng.randint(0, 60)))
            continue
        digits = "".join(rng.choices("0123456789", k=rng.randint(1, 60)))
        point = rng.randint(0, len(digits))
        text = rng.choice(["", "-"]) + digits[:point] + rng.choice(["", "."]) + digits[point:]
        made.append(
            text + (f"e{rng.randint(-20, 20)}" if rng.random() < 0.2 else "") if text[-1] != "." else text + "0"
        )
    return made


def written(exact: Fraction, places: int) -> str:
    """A number with so many digits behind the point, what is beyond them cut off."""
    size = int(abs(exact) * 10**places)
    digits = str(size).rjust(places + 1, "0")
    text = digits if not places else f"{digits[:-places]}.{digits[-places:]}"
    return "-" + text if exact < 0 else text


def judged(column: str, value: Any, text: str) -> tuple[Any, Any]:
    """The two sides of a comparison as exact numbers."""
    if "e" in text:  # a DOUBLE, as it is written
        return (float(value) if column in "ef" else Fraction(value)), Fraction(float(text))
    if column == "d" and "." in text:
        return Fraction(value), Fraction(float(text))
    return Fraction(value), Fraction(text)


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("seed", swept(range(2), fast=1))
@in_parts(4)
def test_every_comparison_is_that_of_fractions(soup: LocalPSoup, column: str, seed: int, part: slice) -> None:
    values = COLUMNS[column][1]
    for text in list(constants(random.Random(f"{column}{seed}"), 30))[part]:
        sides = [judged(column, value, text) for value in values]
        listed = ", ".join(f"x {symbol} {text} AS c{at}" for at, symbol in enumerate(OPERATORS))
        flipped = ", ".join(f"{text} {symbol} x AS f{at}" for at, symbol in enumerate(OPERATORS))
        shown = again(
            soup.ask, f"SELECT {listed}, {flipped}, CASE x WHEN {text} THEN 1 ELSE 0 END AS y FROM s_{column}"
        ).to_table()
        for at, (symbol, compare) in enumerate(OPERATORS.items()):
            want = [compare(left, right) for left, right in sides]
            assert shown.column(f"c{at}").to_pylist() == want, f"x {symbol} {text}"
            assert shown.column(f"f{at}").to_pylist() == [compare(right, left) for left, right in sides], (symbol, text)
            found = (
                again(soup.ask, f"SELECT x FROM s_{column} WHERE x {symbol} {text}").to_table().column("x").to_pylist()
            )
            assert found == [value for value, right in zip(values, want, strict=True) if right], f"{symbol} {text}"
        equal = [left == right for left, right in sides]
        assert [y == 1 for y in shown.column("y").to_pylist()] == equal, text


@pytest.mark.parametrize("column", swept(COLUMNS, fast=1))
def test_lists_ranges_groups_and_parameters_take_the_same_constants(soup: LocalPSoup, column: str) -> None:
    rng, values = random.Random(column), COLUMNS[column][1]
    texts = [text for text in constants(rng, 60) if "e" not in text]
    for low, high in zip(texts[::2], texts[1::2], strict=False):
        equal = [v for v in values if any(a == b for a, b in (judged(column, v, text) for text in (low, high)))]
        assert found(soup, f"SELECT x FROM s_{column} WHERE x IN ({low}, {high})") == equal, (low, high)
        same = [v for v in values if (sides := judged(column, v, low))[0] == sides[1]]
        assert found(soup, f"SELECT x FROM s_{column} WHERE x IS NOT DISTINCT FROM {low}") == same, low
        within = [
            v for v in values if (a := judged(column, v, low))[0] >= a[1] and (b := judged(column, v, high))[0] <= b[1]
        ]
        assert found(soup, f"SELECT x FROM s_{column} WHERE x BETWEEN {low} AND {high}") == within, (low, high)
        grouped = f"SELECT x FROM s_{column} GROUP BY x HAVING min(x) BETWEEN {low} AND {high}"
        assert sorted(found(soup, grouped)) == sorted(within), (low, high)
        if column != "d":
            query = prepare(f"SELECT x FROM s_{column} WHERE x BETWEEN ? AND ?", lookup)
            bound = query.bind((Decimal(low), Decimal(high)))
            assert found(soup, bound.text) == within, (low, high)
            assert bound.factors == standing_query(bound.text, lookup).factors


def lookup(name: str) -> StreamSpec | None:
    """The stream of a column, by its name."""
    return create_stream(f"CREATE STREAM {name} (x {COLUMNS[name[-1]][0]})")


def found(soup: LocalPSoup, statement: str) -> list[Any]:
    """The values of the only column of an answer."""
    return again(soup.ask, statement).to_table().column(0).to_pylist()


CASES = {
    "b > 9223372036854775806.5": [END - 1],
    "-(9223372036854775806.5) > b": [-END, -END + 1],
    "b > 9223372036854775806.25 + 0.5": [END - 1],
    "b = -(9223372036854775808)": [-END],
    "b IN (9223372036854775807.00000000000000000000, 9.9999999999999999999)": [END - 1],
    "b NOT IN (9223372036854775807.5) AND b > 1000000000000000000": [END - 2, END - 1],
    "(b > 9223372036854775806.5) = TRUE OR b = 2.00000000000000000000": [2, END - 1],
    "nullif(b, 9223372036854775807.00000000000000000000) IS NULL": [END - 1],
    "b < 99999999999999999999 AND b > 999999999999999999.9999999999": [10**18, END - 2, END - 1],
    "CAST(9223372036854775806.4999 AS BIGINT) = b": [END - 2],
    "9223372036854775807.5 > 9223372036854775807.25 AND b = 0": [0],
    "CASE WHEN b > 9223372036854775806.5 THEN 1 END = 1": [END - 1],
    "b = 0.00000000000000000000000000": [0],
    "b > -0.00000000000000000000000001 AND b < 0.00000000000000000000000001": [0],
    f"b = 1.{'0' * 5000}": [1],
    f"b < 1.{'0' * 5000}1 AND b > 0.{'9' * 5000}": [1],
}


@pytest.mark.parametrize("where", CASES)
def test_a_condition_in_any_form_takes_all_digits(soup: LocalPSoup, where: str) -> None:
    condition = re.sub(r"\bb\b", "x", where)
    assert found(soup, f"SELECT x FROM s_b WHERE {condition}") == CASES[where]


def test_joins_and_groups_take_all_digits(soup: LocalPSoup) -> None:
    both = "SELECT l.x FROM s_b l JOIN s_b r ON l.x = r.x"
    assert found(soup, f"{both} AND l.x > 9223372036854775806.5") == [END - 1]
    assert found(soup, f"{both} WHERE greatest(l.x, r.x) > 9223372036854775806.5") == [END - 1]
    total = "SELECT sum(x) AS n FROM s_b WHERE x > 9223372036854775800 HAVING sum(x)"
    assert found(soup, f"{total} > 18446744073709551612.99999999999999999999") == [2**64 - 3]
    assert found(soup, f"{total} >= 18446744073709551613.00000000000000000001") == []
    assert found(soup, f"{total} < {'9' * 60}") == [2**64 - 3]
    assert found(soup, f"{total} + 0.000000000000000001 > 18446744073709551613") == [2**64 - 3]


def test_a_parameter_of_many_digits_is_taken_as_its_text_is() -> None:
    query = prepare("SELECT x FROM s_e WHERE x > ?", lookup)
    short = query.bind((Decimal("1.500000000000000000000"),))
    assert short.text == "SELECT x FROM s_e WHERE x > 1.5"
    assert short.factors == standing_query(short.text, lookup).factors
    assert query.bind((Decimal("1.50001"),)).factors == query.bind((Decimal("1.500050000000000000001"),)).factors


def test_what_no_double_holds_is_refused_by_its_place() -> None:
    for number in ("9" * 310, "1e400", f"{'9' * 309}.5"):
        with pytest.raises(SqlError, match=r"line 1, column 29: .* is too large for a DOUBLE"):
            standing_query(f"SELECT x FROM s_b WHERE x < {number}", lookup)


def test_an_interval_has_zeros_at_its_end() -> None:
    create = create_stream("CREATE STREAM t (x TIMESTAMP)")
    long, short = (
        standing_query(f"SELECT x + INTERVAL '{days}' DAY AS y FROM t", lambda _: create).plan
        for days in ("1.50000000000000000000000", "1.5")
    )
    assert long == short
