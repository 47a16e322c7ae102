"""Times without a zone: in rows of every form, in the zone of the client, and in the messages about refused rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from psoup_client import Client, ClientOptions, ColumnInfo, InvalidData, RowsRefused
from psoup_client.bulk import parameters_of
from psoup_client.columns.casts import TimeOptions
from psoup_client.columns.convert import array_of
from psoup_client.columns.zones import check_zone, have_no_zone, instant
from psoup_testing.services.command import Psoup

MakeStream = Callable[[str], str]

AT = ColumnInfo("at", "TIMESTAMP", pa.timestamp("us", tz="UTC"), True)
BERLIN = TimeOptions(zone="Europe/Berlin")
NOON = dt.datetime(2026, 7, 1, 12)
THERE = dt.datetime(2026, 7, 1, 10, tzinfo=dt.UTC)
"""The instant at which clocks in Berlin show NOON."""


def read(values: Any, times: TimeOptions = BERLIN) -> list[dt.datetime]:
    return list(array_of(values, AT, times).cast(pa.timestamp("us", "UTC")).to_pylist())


@pytest.mark.parametrize(
    "values",
    [
        [NOON],
        ["2026-07-01 12:00"],
        ["2026-07-01T12:00:00.000000000"],
        ["2026-07-01T12:00:00+02:00"],
        ["2026-07-01T10:00:00Z"],
        [THERE],
        [np.datetime64(NOON)],
        np.array([NOON], "datetime64[us]"),
        np.array([NOON], "datetime64[ns]"),
        pa.array([NOON]),
        pa.array([NOON], pa.timestamp("s")),
        pa.chunked_array([[THERE]], pa.timestamp("us", "UTC")),
        pa.array(["2026-07-01 12:00"], pa.large_string()),
        pd.Series([NOON]),
        pd.Series([NOON]).dt.tz_localize("Europe/Berlin"),
        pl.Series([NOON]),
    ],
)
def test_each_form_is_read_in_the_zone(values: Any) -> None:
    assert read(values) == [THERE]


def test_values_of_several_forms_are_read_one_by_one() -> None:
    assert read([NOON, THERE, "2026-07-01 12:00", dt.date(2026, 7, 1), None]) == [
        *[THERE] * 3,
        dt.datetime(2026, 6, 30, 22, tzinfo=dt.UTC),
        None,
    ]
    assert read([NOON, THERE]) == [THERE, THERE]
    formats = TimeOptions(formats=("%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S.%f"), zone="Europe/Berlin")
    assert read(["01.07.2026 12:00", "01.07.2026 12:00:00.0", "2026-07-01 12:00"], formats) == [THERE] * 3
    assert read([1_782_900_000], TimeOptions("s", zone="Europe/Berlin")) == [THERE], "a number has no zone"


def test_dates_stay_dates() -> None:
    day = ColumnInfo("day", "DATE", pa.date32(), True)
    formats = TimeOptions(formats=("%d.%m.%Y",), zone="Europe/Berlin")
    assert array_of(["01.07.2026"], day, formats).to_pylist() == [dt.date(2026, 7, 1)]
    assert array_of([dt.datetime(2026, 7, 1)], day, BERLIN).to_pylist() == [dt.date(2026, 7, 1)]


def test_hours_that_come_twice_or_never() -> None:
    twice = dt.datetime(2026, 10, 25, 2, 30)
    first = dt.datetime(2026, 10, 25, 0, 30, tzinfo=dt.UTC)
    assert read([twice]) == read(["2026-10-25 02:30"]) == read(pa.array([twice])) == [first]
    assert read([twice.replace(fold=1), twice]) == [first + dt.timedelta(hours=1), first]
    never = dt.datetime(2026, 3, 29, 2, 30)
    for values in ([NOON, never], ["2026-07-01", "2026-03-29 02:30"], pa.array([NOON, never])):
        with pytest.raises(InvalidData, match=r"row 1: .* does not exist in Europe/Berlin"):
            read(values)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Berlin", "'Europe/Berlin'"),
        ("Europe/Berln", "'Europe/Berlin'"),
        ("new york", "'America/New_York'"),
        ("../etc/passwd", "give a name such as"),
        ("/etc/passwd", "give a name such as"),
        ("a\0b", "give a name such as"),
        ("", "give a name such as"),
    ],
)
def test_an_unknown_zone_names_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match="not a known zone") as caught:
        check_zone(name)
    assert hint in str(caught.value)
    assert check_zone("UTC") is check_zone(None) is None


def test_the_client_says_the_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSOUP_TIMEZONE", "Asia/Tokyo")
    assert Client().timezone == "Asia/Tokyo"
    assert Client(options=ClientOptions(timezone="Asia/Kolkata")).timezone == "Asia/Kolkata"
    assert Client(timezone="UTC").timezone is None
    with pytest.raises(ValueError, match="did you mean"):
        Client(timezone="Berlin")
    with pytest.raises(TypeError, match="timezone is 3"):
        ClientOptions(timezone=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "zoneless"),
    [
        ({"AT": [None, NOON]}, True),
        ([{"at": "2026-07-01"}], True),
        ([{"at": "2026-07-01T12:00Z"}], False),
        ([{"at": THERE}], False),
        ([], False),
        (pa.table({"at": [NOON]}), True),
        (pa.table({"at": ["2026-07-01 12:00+01:00"]}), False),
        (pd.DataFrame({"at": [NOON]}), True),
        (pd.DataFrame({"at": [THERE]}), False),
        (pl.DataFrame({"at": ["2026-07-01"]}), True),
        ({"x": [NOON]}, False),
    ],
)
def test_which_rows_have_no_zone(data: Any, zoneless: bool) -> None:
    assert have_no_zone(data, "at") is zoneless


def test_a_heartbeat_has_the_zone_too() -> None:
    assert instant(NOON, "Europe/Berlin") == instant("2026-07-01 12:00", "Europe/Berlin") == THERE
    assert (instant(5, "Europe/Berlin"), instant("?", "Europe/Berlin"), instant(NOON, None)) == (5, "?", NOON)


@pytest.mark.parametrize(
    "rows",
    [
        [[NOON]],
        [(THERE,), (NOON,)],
        [[np.datetime64(NOON)]],
        {"1": [NOON, None]},
        {"1": [NOON, pd.NaT]},
        {"1": np.array([NOON], "datetime64[ns]")},
        pa.table({"1": [NOON]}),
        pd.DataFrame({"1": [NOON]}),
        pl.DataFrame({"1": [NOON]}),
    ],
)
def test_parameters_have_the_zone_of_the_client(rows: Any) -> None:
    sql = "SELECT n FROM s WHERE at = ?"
    berlin = parameters_of(sql, rows, "Europe/Berlin").table.column(0).cast(pa.timestamp("us", "UTC")).to_pylist()
    assert {value for value in berlin if value is not None} == {THERE}
    utc = parameters_of(sql, rows).table.column(0).cast(pa.timestamp("us", "UTC")).to_pylist()
    assert utc[-1] in (NOON.replace(tzinfo=dt.UTC), None)


def test_dates_and_texts_of_parameters_stay_as_they_are() -> None:
    day = dt.date(2026, 7, 1)
    table = parameters_of("", [[day, "2026-07-01 12:00"]], "Europe/Berlin").table
    assert [column.to_pylist() for column in table.columns] == [[day], ["2026-07-01 12:00"]]
    mixed = parameters_of("", {"a": [NOON, day]}, "Europe/Berlin").table
    assert mixed["a"].cast(pa.timestamp("us", "UTC")).to_pylist() == [
        THERE,
        dt.datetime(2026, 6, 30, 22, tzinfo=dt.UTC),
    ]


def test_a_parameter_that_does_not_exist_in_the_zone_is_named() -> None:
    never = dt.datetime(2026, 3, 29, 2, 30)
    with pytest.raises(InvalidData, match=r"parameter a in row 2: .* does not exist in Europe/Berlin"):
        parameters_of("", {"a": [NOON, never]}, "Europe/Berlin")
    with pytest.raises(InvalidData, match="parameter a has a time that does not exist in Europe/Berlin"):
        parameters_of("", pa.table({"a": [NOON, never]}), "Europe/Berlin")


def test_as_of_and_parameters_of_a_call_have_the_zone(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(n BIGINT, at TIMESTAMP NOT NULL) TIMESTAMP BY at")
    hour = dt.timedelta(hours=1)
    client.push(name, [{"n": n, "at": THERE + n * hour} for n in range(3)])
    text, sql = NOON.isoformat(), f"SELECT n FROM {name}"
    with Client(client.address, timezone="Europe/Berlin") as berlin:
        assert berlin.ask(f"{sql} WHERE at = ?", [NOON]).rows() == [(0,)]
        query = berlin.register(f"{sql} WHERE at >= ?", [NOON + hour])
        (same,) = berlin.register_many(f"{sql} WHERE at >= ?", [(NOON + hour,)])
        assert same.sql == query.sql
        assert berlin.ask(sql, as_of=text).rows() == berlin.ask(sql, as_of=NOON).rows() == [(0,)]
        for ask in (query.invoke, lambda as_of: berlin.invoke(query.id, as_of=as_of)):
            assert ask(as_of=NOON + hour).rows() == [(1,)]
        assert len(berlin.invoke_table([query], as_of=text)) == 0
        assert [len(answer) for answer in berlin.invoke_many([query], as_of=text)] == [0]
        with query.stream(as_of=text) as pieces:
            assert len(pieces.read_all()) == 0
        kept_out = berlin.why(query, 1, as_of=text).kept_out
        assert kept_out is not None
    assert client.ask(sql, as_of=text).rows() == [(0,), (1,), (2,)]


def test_a_refusal_says_that_times_were_taken_as_utc(client: Client, make_stream: MakeStream) -> None:
    name = make_stream("(at TIMESTAMP NOT NULL) TIMESTAMP BY at")
    now = dt.datetime.now(dt.UTC)
    fast = (now + dt.timedelta(hours=2)).replace(tzinfo=None)
    with pytest.raises(RowsRefused, match="sender's clock is fast") as caught:
        client.push(name, [{"at": fast}])
    assert "taken as UTC" in str(caught.value)
    for harmless in (fast.replace(tzinfo=dt.UTC), fast + dt.timedelta(days=300)):
        with pytest.raises(RowsRefused) as caught:
            client.push(name, [{"at": harmless}])
        assert "taken as UTC" not in str(caught.value)
    india = now.replace(tzinfo=None) + dt.timedelta(hours=5, minutes=30)
    with Client(client.address, timezone="Asia/Kolkata") as indian:
        done = indian.push(name, [{"at": india}])
    assert done.accepted == 1
    with pytest.raises(RowsRefused, match="too late") as caught:
        client.push(name, [{"at": (now - dt.timedelta(hours=2)).replace(tzinfo=None)}])
    assert "taken as UTC" in str(caught.value)


def test_files_have_the_zone_of_the_option(
    client: Client, make_stream: MakeStream, psoup: Psoup, tmp_path: Path
) -> None:
    name = make_stream("(at TIMESTAMP NOT NULL) TIMESTAMP BY at")
    file = tmp_path / "rows.csv"
    file.write_text("at\n2026-07-01 12:00\n2026-07-01T10:00:00Z\n")
    assert psoup("push", name, str(file), "--timezone", "Europe/Berlin").code == 0
    assert client.ask(f"SELECT DISTINCT at FROM {name}").rows() == [(THERE,)]
    file.write_text("at\n2026-07-01 09:00\n2026-07-01 10:00\n")
    refused = psoup("push", name, str(file))
    assert "1 too late" in refused.err
    assert "--timezone NAME" in refused.err
    file.write_text("at\n2026-07-01 09:00\n")
    assert "--timezone NAME" in psoup("push", name, str(file)).err
    assert "did you mean 'Europe/Berlin'" in psoup("push", name, str(file), "--timezone", "Berlin").err
