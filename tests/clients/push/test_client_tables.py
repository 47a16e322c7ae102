"""Rows of tables by the SDK: upserts and deletions by key, from all forms of rows, with errors that name the row."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from psoup_client import Client, FailedPrecondition, InvalidData, RowsRefused
from psoup_proto.v1 import ingest_pb2
from psoup_testing.services import fixtures

ADS = "(id BIGINT, title TEXT NOT NULL, price DOUBLE, PRIMARY KEY (id))"
ROWS = [{"id": 1, "title": "bike", "price": 90.0}, {"id": 2, "title": "car", "price": 500.0}]


def make(client: Client, declared: str) -> str:
    return client.create_table(f"CREATE TABLE t{next(fixtures.numbers)} {declared}").name


@pytest.fixture
def ads(client: Client) -> str:
    return make(client, ADS)


def held(client: Client, table: str) -> list[tuple[Any, ...]]:
    return sorted(client.ask(f"SELECT * FROM {table}").rows())


def test_upserts_replace_the_row_of_their_key(client: Client, ads: str) -> None:
    assert client.upsert(ads, ROWS).replaced == 0
    pushed = client.upsert(ads, [{"id": 1, "title": "bike"}, {"id": 3, "title": "x"}, {"id": 1, "title": "red bike"}])
    assert (pushed.accepted, pushed.replaced) == (3, 1)
    assert held(client, ads) == [(1, "red bike", None), (2, "car", 500.0), (3, "x", None)]
    info = client.describe(ads)
    assert (info.kind, info.primary_key, info.history) == ("table", ("id",), dt.timedelta(days=7))
    assert info.deleted_for == dt.timedelta(days=30) and repr(info).startswith(f"<Table {ads} (id BIGINT")


def test_rows_replace_each_other_only_at_one_time(client: Client) -> None:
    table = make(client, "(k TEXT, at TIMESTAMP, v BIGINT, PRIMARY KEY (k)) TIMESTAMP BY at")
    times = ["2026-01-02", "2026-01-01", "2026-01-02", "2026-01-03"]
    rows = [{"k": "a", "at": at, "v": number} for number, at in enumerate(times)]
    assert client.upsert(table, [*rows, {"k": "b", "at": "2026-01-03", "v": 9}]).replaced == 1
    assert client.ask(f"SELECT k, v FROM {table}", as_of="2026-01-02T12:00:00Z").rows() == [("a", 2)]


@pytest.mark.parametrize(
    "keys",
    [
        [1],
        (1,),
        {1},
        [(1,)],
        [{"id": 1}],
        [{"ID": 1, "title": "of a row"}],
        {"id": [1]},
        pa.array([1]),
        pa.table({"id": [1], "price": [3.0]}),
        pd.Series([1]),
        pd.DataFrame({"id": [1], "title": ["bike"]}),
        pd.DataFrame({"title": ["bike"]}, index=pd.Index([1], name="id")),
    ],
    ids=lambda keys: type(keys).__name__,
)
def test_a_row_is_deleted_by_its_key(client: Client, ads: str, keys: Any) -> None:
    client.upsert(ads, ROWS)
    assert client.delete(ads, keys).accepted == 1
    assert held(client, ads) == [(2, "car", 500.0)]


def test_a_key_of_several_columns_and_a_time(client: Client) -> None:
    table = make(client, "(a TEXT, b DATE, at TIMESTAMP, PRIMARY KEY (a, b)) TIMESTAMP BY at")
    at = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
    client.upsert(table, [{"a": a, "b": "2026-01-01", "at": at} for a in "xyz"])
    assert client.delete(table, [("x", "2026-01-01")], time="2026-01-06T00:00:00Z").accepted == 1
    client.delete(table, [{"a": "y", "b": dt.date(2026, 1, 1), "at": "2026-01-06"}])
    assert held(client, table) == [("z", dt.date(2026, 1, 1), at)]
    for keys, wanted in (
        (["x"], "row 0: 'x' is not a key of table"),
        ([("x", "2026-01-01", 5)], "give a tuple of a, b"),
        ([("x", "2026-01-01")], f"table '{table}' has TIMESTAMP BY at, so a deletion has a time: give time=..."),
        (pa.array(["x"]), "is (a, b); give tuples"),
        ([{"a": "x"}], f"column 'b' is missing, and table '{table}' says NOT NULL"),
    ):
        with pytest.raises(InvalidData) as problem:
            client.delete(table, keys)
        assert wanted in str(problem.value)


def test_a_producer_changes_rows(client: Client, ads: str) -> None:
    with client.producer(ads) as producer:
        producer.upsert(ROWS)
        assert producer.delete([1]) == 2
    assert producer.result.accepted == 3 and held(client, ads) == [(2, "car", 500.0)]
    stream = client.create_stream(f"CREATE STREAM {ads}_s (x BIGINT)").name
    with client.producer(stream) as other, pytest.raises(FailedPrecondition, match="delete is for tables"):
        other.delete([1])


def test_two_producers_of_one_table(client: Client, ads: str) -> None:
    """Each batch is taken once and as a whole, in the order of arrival. The later row of a key stands."""
    with client.producer(ads) as first, client.producer(ads) as second:
        for number in range(20):
            first.upsert([{"id": n, "title": "one", "price": number} for n in range(10)])
            second.upsert([{"id": n, "title": "two", "price": number} for n in range(5, 15)])
            first.flush(), second.flush()
        first.delete(range(5))
    rows = held(client, ads)
    assert [row[0] for row in rows] == list(range(5, 15)) and {row[2] for row in rows} == {19.0}
    assert len({row[1] for row in rows[:5]}) == 1 and {row[1] for row in rows[5:]} == {"two"}


def test_a_bad_row_is_named(client: Client, ads: str) -> None:
    null_key = f"row 3: 'id' is NULL; it is the primary key of table '{ads}'"
    with pytest.raises(RowsRefused) as refused:
        client.upsert(ads, [*ROWS, *ROWS[:1], {"id": None, "title": "x"}])
    assert refused.value.message == null_key and refused.value.facts["row"] == "3"
    for call, rows, wanted in (
        (client.upsert, [{"id": 3}], f"column 'title' is missing, and table '{ads}' says NOT NULL"),
        (client.upsert, [{"id": 3, "_deleted": None}], f"'title' is NULL, but table '{ads}' says NOT NULL; give it"),
        (client.upsert, [{"id": 3, "title": "x", "_first": True}], "has no column '_first'"),
        (client.delete, [{"idd": 3}], f"table '{ads}' has no column 'idd'; did you mean 'id'?"),
        (client.delete, [2.5], "row 0: 2.5 in column 'id' does not fit BIGINT"),
        (client.delete, [None], "row 0: 'id' is NULL; it is the primary key of table"),
    ):
        with pytest.raises(InvalidData) as problem:
            call(ads, rows)
        assert wanted in str(problem.value)
    with pytest.raises(TypeError, match=r"keys is 'ab': give a list of keys, such as \['ab'\]"):
        client.delete(ads, "ab")
    with pytest.raises(InvalidData, match="has no TIMESTAMP BY, so a deletion has the time of its arrival"):
        client.delete(ads, [1], time=5)
    assert held(client, ads) == [] and client.describe(ads).next_tuple_id == 0


def test_a_stream_takes_no_upsert(client: Client) -> None:
    name = f"s{next(fixtures.numbers)}"
    client.create_stream(f"CREATE STREAM {name} (x BIGINT)")
    with pytest.raises(FailedPrecondition, match=f"'{name}' is a stream, which only grows") as problem:
        client.upsert(name, [{"x": 1}])
    assert problem.value.reason == "WRONG_KIND"
    client.drop(name)
    client.create_table(f"CREATE TABLE {name} (x BIGINT PRIMARY KEY)")
    assert client.upsert(name, [{"x": 1}]).accepted == 1  # the schema of the stream is not used any more


def test_json_rows_upsert_and_delete(client: Client, ads: str) -> None:
    """The call for clients without Arrow takes `_deleted`, counts replaced rows, and names a NULL key."""

    def push(*rows: dict[str, object]) -> int:
        request = ingest_pb2.PushRowsRequest(stream=ads, rows=json.dumps(rows).encode())
        reply = client.connection.call(client.connection.ingest.PushRows, request)
        client.note_sequence(reply.sequence)
        return int(reply.replaced)

    assert push({"id": 1, "title": "a"}, {"id": 1, "title": "b"}) == 1
    assert push({"id": 2, "title": "c"}, {"id": 1, "_deleted": True}) == 0
    assert held(client, ads) == [(2, "c", None)]
    with pytest.raises(InvalidData, match=f"row 1: 'id' is NULL; it is the primary key of table '{ads}'"):
        push({"id": 1, "title": "a"}, {"id": None, "title": "b"})
    with pytest.raises(InvalidData, match='row 0: the table has no column "_first"'):
        push({"id": 1, "_first": True})
    assert push() == 0


def test_a_notebook_shows_which_are_tables(client: Client, ads: str) -> None:
    client.create_stream(f"CREATE STREAM {ads}_s (x BIGINT)")
    shown = client.streams()._repr_html_()
    assert ">name<" in shown and ">kind<" in shown and ">table<" in shown and ">stream<" in shown
    assert client.describe(ads)._repr_html_().startswith(f"<p>Table {ads}</p>")
