"""Text as numbers, truth values and times: the spellings of DuckDB, over written-out and random texts."""

from __future__ import annotations

import random
import re
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, localcontext

import pytest

from psoup.expressions.functions import cast
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, DataType, decimal
from psoup.values.columns import Column
from psoup_testing.oracles.expression_oracle import Oracle
from psoup_testing.suite.sweeps import swept

NUMBERS = """0|5|-5|+5|  5  |007|-0|2.5|3.5|-2.5|0.49999|.5|5.|-.5|-.4|.|-|+||e5|.e5|1e|1e+|1e3|1E3|1e+2|1e-1|15e-1
    |25e-1|5e-1|-5e-1|1.5e1|1.e2|0e5|1_000|1__0|_1|1_|1_.5|1._5|1.5_5|1e1_0|9223372036854775807
    |9223372036854775808|-9223372036854775808|-9223372036854775809|9223372036854775807.4
    |9223372036854775807.5|99999999999999999999|1e18|1e19|9.3e18|9.2e18|1e400|9.9999999999999999999e3
    |0.00000000000000000000000001|1.4999999999999999999999999|1.5000000000000000000000000|1e-100|true|abc|--5
    |5 5|1,5|999.994|999.995|1.255|-1.255|99.94|99.95|0.995|0.994|0.005|inf|-inf|+inf|Infinity|NaN|nan|iNf
    |infinit|1.5f|1e5000|-1e5000|1e-5000|٣|５|1d5|0.1|1.7976931348623157e308|1.8e308|5e-324|2e-324
    |9007199254740993|123456789012345678.5|999999999999999999|99999999999999.99995|1e2|1.5e-1|-1e-3|0.00004
    |0.00005|00000000000000000000001"""
FLAGS = "true|t|TRUE|tRuE|yes|y|1|YES|false|f|FALSE|no|n|0|on|off| true|true |2|-1|truee|"
DATES_TEXT = """2020-01-01|2020-1-1|2020/01/01|2020 01 01|2020\\01\\01| 2020-01-01 |2020-01/01|20200101|2020.01.01
    |1.1.2020|2020-02-30|2020-02-29|2019-02-29|1900-02-29|2000-02-29|2020-13-01|2020-00-01|2020-01-00
    |2020-01-32|0000-01-01|-0001-01-01|0044-03-15 (BC)|0044-03-15 (bc)|0044-03-15(BC)|0000-01-01 (BC)
    |-0001-01-01 (BC)|12020-01-01|99999-01-01|5881580-07-10|5881580-07-11|9999999-01-01|020-01-01|1-01-01
    |+2020-01-01|2020-01|2020-001-01|2020-01-001|2020-01-01x|2020-01-01 x|epoch|EPOCH| epoch |today|
    |2020-01-01 10:00|2020-01-01T10:00|2020-01-01 25:00|x2020-01-01|0001-01-01|9999-12-31"""
TIMES_TEXT = """2020-01-01|2020-01-01 | 2020-01-01|2020-01-01 10|2020-01-01 10:|2020-01-01 10:00|2020-01-01 1:2
    |2020-01-01 1:2:3|2020-01-01 10:00:|2020-01-01 10:00:00.|2020-01-01 10:00:00.1|2020-01-01 10:00:00.123456
    |2020-01-01 10:00:00.1234567|2020-01-01 10:00:00.123456999999|2020-01-01T10:00:00|2020-01-01t10:00:00
    |2020-01-01  10:00:00|2020-01-01T|2020-01-01 T10:00|2020-01-01 24:00:00|2020-01-01 24:00:01
    |2020-01-01 24:00:00.000001|2020-01-01 24:00|2020-01-01 25:00:00|2020-01-01 10:60:00|2020-01-01 10:00:60
    |2020-01-01T10:00:00Z|2020-01-01 10:00:00z|2020-01-01 10:00:00 UTC|2020-01-01 10:00:00 |epoch|Epoch
    | epoch|2020-01-01 10:00:00x|2020-02-30 10:00:00|2020/01/01 10:00|0044-03-15 (BC) 10:00:00
    |294247-01-10 04:00:54.775806||now|294247-01-10 04:00:54.775807|294248-01-01|290309-12-22 (BC) 00:00:00
    |290309-12-21 (BC) 00:00:00|9999-12-31 23:59:59.999999|0001-01-01 00:00:00|1969-12-31 23:59:59.999999
    |2020-01-01+02|2020-01-01 10:00:00+2|2020-01-01 10:00:00+123"""


def words(listed: str) -> list[str]:
    return listed.replace("\n    ", "").split("|")


def random_numbers(rng: random.Random, count: int) -> list[str]:
    """Mostly well-formed numbers of any length, some broken by one character."""
    found = []
    for _ in range(count):
        text = rng.choice(["", "", "-", "+"]) + "".join(
            rng.choices("0123456789", k=rng.choice([0, 1, 1, 2, 5, 18, 19, 20]))
        )
        if rng.random() < 0.5:
            text += "." + "".join(rng.choices("0123456789", k=rng.choice([0, 1, 2, 3, 17, 25])))
        if rng.random() < 0.3:
            text += rng.choice("eE") + rng.choice(["", "-", "+"]) + str(rng.choice([0, 1, 2, 5, 17, 18, 19, 25, 300]))
        if rng.random() < 0.1:
            cut = rng.randrange(len(text) + 1)
            text = text[:cut] + rng.choice("_ .-+ex\n") + text[cut:]
        found.append(text)
    return found


def random_times(rng: random.Random, count: int) -> list[str]:
    found = []
    for _ in range(count):
        year = rng.choice([rng.randrange(1, 10_000), 1, 4, 100, 400, 1582, 1900, 1970, 2000, 2024, 9999])
        date = f"{year:04}-{rng.randrange(1, 13):02}-{rng.randrange(1, 32):02}"
        time = f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}"
        found.append(
            rng.choice([date, f"{date} {time}", f"{date}T{time}.{rng.randrange(10**6):06}", f"{date} {time}.5"])
        )
    return found


def oracle_of(texts: list[str]) -> Oracle:
    return Oracle({"t": (TEXT, [None, *texts])})


@pytest.mark.parametrize(
    "target",
    swept([BIGINT, DOUBLE, decimal(18, 0), decimal(18, 4), decimal(5, 2), decimal(2, 2), decimal(18, 18)], fast=4),
)
def test_numbers(target: DataType) -> None:
    texts = [*words(NUMBERS), *random_numbers(random.Random(1), 1500)]
    if target == DOUBLE:
        texts = [text for text in texts if not re.search(r"\..*_", text)]  # DuckDB refuses long ones
    else:
        texts = [text for text in texts if "e" not in text.lower()]
    oracle = oracle_of(texts)
    oracle.compare([cast(oracle.ref("t"), target), cast(oracle.ref("t"), target, try_=True)])


def test_numbers_with_an_exponent_are_exact() -> None:
    """DuckDB overflows on the way where the digits before the exponent do not fit; here only the value must."""
    texts = [text for text in [*words(NUMBERS), *random_numbers(random.Random(5), 3000)] if "e" in text.lower()]
    texts = [text for text in texts if WELL_FORMED.fullmatch(text)]
    assert len(texts) > 500
    oracle = oracle_of(texts)
    for target in (BIGINT, decimal(18, 0), decimal(18, 4), decimal(5, 2), decimal(18, 18)):
        mine = oracle.mine(cast(oracle.ref("t"), target))
        for row, text in enumerate(texts, start=1):
            assert mine_scaled(mine, row) == scaled(text, target), (text, target)


WELL_FORMED = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d{1,4}")


def scaled(text: str, target: DataType) -> int | None:
    with localcontext(Context(prec=20_000, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        value = int((Decimal(text).scaleb(target.scale)).to_integral_value(ROUND_HALF_UP))
    if target == BIGINT:
        return value if -(2**63) <= value < 2**63 else None
    return value if abs(value) < 10**target.precision else None


def mine_scaled(column: Column, row: int) -> int | None:
    return int(column.values[row]) if column.valid is None or column.valid[row] else None


def test_booleans() -> None:
    oracle = oracle_of(words(FLAGS))
    oracle.compare([cast(oracle.ref("t"), BOOLEAN)])


@pytest.mark.parametrize(("target", "listed"), [(DATE, DATES_TEXT), (TIMESTAMP, TIMES_TEXT), (TIMESTAMP, DATES_TEXT)])
def test_times(target: DataType, listed: str) -> None:
    oracle = oracle_of([*words(listed), *random_times(random.Random(2), 1000)])
    oracle.compare([cast(oracle.ref("t"), target)])
