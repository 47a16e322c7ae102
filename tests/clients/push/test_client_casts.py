"""Numbers that are times, floats that are decimals, dates as people write them: taken where nothing is changed."""

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from psoup_client import Client, InvalidData
from psoup_client.columns.casts import TimeOptions, cast
from psoup_client.columns.convert import array_of
from psoup_client.schema import ColumnInfo

AT = ColumnInfo("at", "TIMESTAMP", pa.timestamp("us", tz="UTC"), True)
DAY = ColumnInfo("day", "DATE", pa.date32(), True)
PRICE = ColumnInfo("price", "DECIMAL(9,2)", pa.decimal128(9, 2), True)
NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
EPOCH = 1_714_564_800
"""Noon, in seconds."""


def values(given: Any, column: ColumnInfo, unit: str | None = None, *formats: str) -> list[Any]:
    return array_of(given, column, TimeOptions(unit, formats)).to_pylist()


def refusal(given: Any, column: ColumnInfo, unit: str | None = None, *formats: str) -> str:
    with pytest.raises(InvalidData) as caught:
        array_of(given, column, TimeOptions(unit, formats))
    return caught.value.message


def test_a_float_that_stands_for_one_decimal_is_taken() -> None:
    """Every decimal of a column comes back from its nearest float; a float beside it does not pass for it."""
    drawn = random.Random(7)
    for precision, scale in ((9, 2), (15, 0), (15, 15), (6, 3)):
        whole = [drawn.randrange(-(10**precision) + 1, 10**precision) for _ in range(200)]
        decimals = [Decimal(n).scaleb(-scale) for n in whole]
        floats = pa.array([*map(float, decimals), None])
        target = pa.decimal128(precision, scale)
        assert cast(floats, target, TimeOptions()).to_pylist() == [*decimals, None]
        for value in floats.to_pylist()[:20]:
            with pytest.raises(ValueError, match="not exact"):
                cast(pa.array([np.nextafter(value, 2.0**60)]), target, TimeOptions())


@pytest.mark.parametrize("value", [0.1 + 0.2, 1.005, 2.0**53 + 2, 1e300, float("inf"), float("nan")])
def test_a_float_that_is_no_decimal_of_the_column_is_refused(value: float) -> None:
    assert f"row 1: {value!r} in column 'price' does not fit DECIMAL(9,2) without loss" in refusal([1.5, value], PRICE)
    if 0 < value < 10:
        assert refusal(pa.array([value]), PRICE).endswith("; round it to 2 digits, or give text or Decimal")


def test_floats_of_pandas_become_decimals() -> None:
    frame = pd.DataFrame({"price": [1.1, float("nan"), -9999999.99]})
    assert values(pa.array(frame["price"], from_pandas=True), PRICE) == [Decimal("1.10"), None, Decimal("-9999999.99")]
    assert values(pa.array([1.1, 0.5], pa.float32()), PRICE) == [Decimal("1.10"), Decimal("0.50")]
    assert values([1.5, "2.5", Decimal("3.5"), 4], PRICE) == [Decimal(text) for text in ("1.5", "2.5", "3.5", "4")]


@pytest.mark.parametrize(
    ("unit", "given"),
    [
        ("s", [EPOCH, float(EPOCH), str(EPOCH), f" {EPOCH}.0"]),
        ("ms", [EPOCH * 10**3, EPOCH * 1e3, f"{EPOCH}000"]),
        ("us", [EPOCH * 10**6, EPOCH * 1e6, f"{EPOCH}000000"]),
        ("ns", [EPOCH * 10**9, f"{EPOCH}000000000"]),
    ],
)
def test_numbers_are_times_of_a_unit(unit: str, given: list[Any]) -> None:
    for value in given:
        assert values([value, None], AT, unit) == values(pa.array([value, None]), AT, unit) == [NOON, None], value
    assert values([*given, "2024-05-01T12:00:00Z"], AT, unit) == [NOON] * (len(given) + 1)
    assert "time_unit=" in refusal(pa.array([EPOCH]), AT)


def test_parts_of_a_unit_are_taken_down_to_the_microsecond() -> None:
    later = NOON + dt.timedelta(microseconds=123_456)
    assert values([EPOCH + 0.123456], AT, "s") == values([f"{EPOCH}.123456"], AT, "s") == [later]
    assert values([EPOCH * 1e3 + 123.456], AT, "ms") == [later]
    assert "as s since 1970" in refusal([EPOCH + 1e-7 * 4], AT, "s")
    assert "is not a valid TIMESTAMP" in refusal([f"{EPOCH}.1234567"], AT, "s")
    assert "as ns since 1970" in refusal([EPOCH * 10**9 + 1], AT, "ns")
    assert "as s since 1970" in refusal([2**62], AT, "s")


def test_nanoseconds_are_taken_where_they_lose_nothing() -> None:
    whole = pa.array([EPOCH * 10**9 + 1_000], pa.timestamp("ns"))
    assert values(whole, AT) == [NOON + dt.timedelta(microseconds=1)]
    assert values(pa.array(pd.Series(pd.to_datetime([EPOCH * 10**9]))), AT) == [NOON]
    assert "a TIMESTAMP has microseconds: round it" in refusal(pa.array([1], pa.timestamp("ns", "UTC")), AT)
    assert values(["2024-05-01T12:00:00.000000000Z"], AT) == [NOON]
    for given in (["2024-05-01T12:00:00.000000001Z"], pa.array(["2024-05-01T12:00:00.000000001Z"])):
        assert "is not a valid TIMESTAMP" in refusal(given, AT)


def test_dates_are_read_in_the_formats_given_and_in_iso() -> None:
    given = ["01.05.2024 12:00", "2024-05-01 12:00", None, "01.05.2024 12:00"]
    assert values(given, AT, None, "%d.%m.%Y", "%d.%m.%Y %H:%M") == [NOON, NOON, None, NOON]
    assert values(pa.array(given), AT, None, "%d.%m.%Y %H:%M") == [NOON, NOON, None, NOON]
    assert values(["01.05.2024", "1.5.2024"], DAY, None, "%d.%m.%Y") == [NOON.date()] * 2
    assert values(["05/01/2024 02:00:00.5 PM +0200"], AT, None, "%D %T %z", "%m/%d/%Y %I:%M:%S.%f %p %z") == [
        NOON + dt.timedelta(milliseconds=500)
    ]
    assert values(["5/1/24 12:00"], AT, None, "%D %R") == [NOON]


def test_a_day_that_does_not_exist_is_refused() -> None:
    """C makes the 1st of March of the 30th of February."""
    for day in ("30.02.2023", "31.04.2024", "29.02.2023", "32.01.2024"):
        assert f"row 1: {day!r} in column 'day' is not a valid DATE" in refusal(
            ["28.02.2023", day], DAY, None, "%d.%m.%Y"
        )
    assert values(["29.02.2024", "01.03.2024"], DAY, None, "%d.%m.%Y") == [dt.date(2024, 2, 29), dt.date(2024, 3, 1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "min"}, "time_unit is 'min': give one of s, ms, us, ns"),
        ({"formats": ("%H:%M",)}, "'%H:%M' does not say year, month and day"),
        ({"formats": ("%Q",)}, "'%Q' is not a format of dates"),
    ],
)
def test_options_that_say_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TimeOptions(**options)


def test_every_way_into_a_stream_takes_a_unit(client: Client, make_stream: Any) -> None:
    stream = make_stream("(n BIGINT, t TIMESTAMP)")
    client.push(stream, [{"n": 1, "t": EPOCH}], time_unit="s")
    with client.producer(stream, time_unit="ms") as producer:
        producer.push(pd.DataFrame({"n": [2], "t": [EPOCH * 1_000]}))
    with client.stage(stream) as stage:
        stage.add(pa.table({"n": [3], "t": [EPOCH * 10**9]}), time_unit="ns")
    answer = client.ask(f"SELECT n, t FROM {stream}").to_arrow().to_pylist()
    assert [(row["n"], row["t"]) for row in answer] == [(1, NOON), (2, NOON), (3, NOON)]
    with pytest.raises(ValueError, match="time_unit is 'hour'"):
        client.push(stream, [{"n": 1}], time_unit="hour")
