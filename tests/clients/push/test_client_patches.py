"""Patches of a table by the SDK and in JSON: rows with some columns, from all forms of rows, and by a producer."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from psoup_client import Client, FailedPrecondition, InvalidData
from psoup_proto.v1 import ingest_pb2
from psoup_testing.services import fixtures

ROWS = [{"id": 1, "title": "bike", "price": 90.0}, {"id": 2, "title": "car", "price": 500.0}]


@pytest.fixture
def ads(client: Client) -> str:
    statement = f"CREATE TABLE t{next(fixtures.numbers)} (id BIGINT PRIMARY KEY, title TEXT, price DOUBLE)"
    table = client.create_table(statement).name
    client.upsert(table, ROWS)
    return table


def held(client: Client, table: str) -> list[tuple[Any, ...]]:
    return sorted(client.ask(f"SELECT * FROM {table}").rows())


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": 1, "price": 80}],
        [{"ID": 1, "Price": 80.0, "_patch": None}],
        {"id": [1], "price": [80]},
        pa.table({"price": [80], "id": [1]}),
        pd.DataFrame({"price": [80.0]}, index=pd.Index([1], name="id")),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_a_patch_keeps_the_columns_that_the_rows_lack(client: Client, ads: str, rows: Any) -> None:
    assert client.upsert(ads, rows, patch=True).accepted == 1
    assert held(client, ads) == [(1, "bike", 80.0), (2, "car", 500.0)]
    client.upsert(ads, [{"id": 2, "title": None}, {"id": 3, "title": "x"}], patch=True)
    assert held(client, ads)[1:] == [(2, None, 500.0), (3, "x", None)]


def test_a_producer_patches(client: Client, ads: str) -> None:
    with client.producer(ads, name="p", epoch=1) as producer:
        producer.upsert([{"id": 1, "price": 80}], patch=True)
        producer.upsert([{"id": 1, "title": "red bike"}], patch=True, position=b"7")
        producer.delete([2])
    assert held(client, ads) == [(1, "red bike", 80.0)]
    with client.producer(ads, name="p", epoch=1) as again:
        again.upsert([{"id": 1, "price": 80}], patch=True)
    assert again.result.duplicates == 1 and held(client, ads) == [(1, "red bike", 80.0)]


def test_rows_may_say_themselves_that_they_are_patches(client: Client, ads: str) -> None:
    rows = [{"id": 1, "price": 80, "_patch": True}, {"id": 2, "_patch": False}, {"id": 2, "price": 3, "_patch": True}]
    client.push(ads, rows)
    assert held(client, ads) == [(1, "bike", 80.0), (2, None, 3.0)]
    with client.stage(ads) as stage:
        stage.add([{"id": 1, "title": "blue bike", "_patch": True}])
        stage.add([{"id": 2, "title": "van", "_patch": True}])
    assert held(client, ads) == [(1, "blue bike", 80.0), (2, "van", 3.0)]
    stage = client.stage(ads)
    stage.add([{"id": 1, "title": "x", "_patch": True}])
    stage.add([{"id": 1, "price": 5, "_patch": True}])
    with pytest.raises(InvalidData, match="the parts have patches, and not all of them have the same columns"):
        stage.commit()
    stage.abort()
    assert held(client, ads) == [(1, "blue bike", 80.0), (2, "van", 3.0)]


def test_patches_in_json(client: Client, ads: str) -> None:
    def push(*rows: dict[str, object]) -> None:
        request = ingest_pb2.PushRowsRequest(stream=ads, rows=json.dumps(rows).encode())
        client.note_sequence(client.connection.call(client.connection.ingest.PushRows, request).sequence)

    push({"id": 1, "price": 80, "_patch": True}, {"price": None, "_patch": True, "id": 2})
    assert held(client, ads) == [(1, "bike", 80.0), (2, "car", None)]
    push({"id": 2, "price": 5, "_patch": True}, {"id": 1, "_deleted": True})
    assert held(client, ads) == [(2, "car", 5.0)]
    with pytest.raises(InvalidData, match="row 0: the patch lacks 'title', which another row has; write null to set"):
        push({"id": 1, "price": 1, "_patch": True}, {"id": 2, "title": "x", "_patch": True})
    with pytest.raises(InvalidData, match="row 0: \"yes\" in column '_patch' is not a valid BOOLEAN"):
        push({"id": 1, "_patch": "yes"})


def test_wrong_patches_are_named(client: Client, ads: str) -> None:
    with pytest.raises(InvalidData, match="row 1: the patch lacks 'price', which another row has; give NULL to set"):
        client.upsert(ads, [{"id": 1, "price": 1}, {"id": 2}], patch=True)
    with pytest.raises(InvalidData, match="row 0: the patch lacks 'title'"):
        client.push(ads, [{"id": 1, "_patch": True}, {"id": 2, "title": "x", "_patch": True}])
    with pytest.raises(InvalidData, match=f"table '{ads}' has no column 'prize'; did you mean 'price'"):
        client.upsert(ads, [{"id": 1, "prize": 1}], patch=True)
    strict = client.create_table(f"CREATE TABLE {ads}_n (id BIGINT PRIMARY KEY, title TEXT NOT NULL, n BIGINT)").name
    with pytest.raises(InvalidData, match="the patches lack the column 'title', which is NOT NULL in table"):
        client.push(strict, [{"id": 1, "n": 1, "_patch": True}])
    with pytest.raises(InvalidData, match=f"column 'title' is missing, and table '{strict}' says NOT NULL"):
        client.upsert(strict, [{"id": 1, "n": 1}], patch=True)
    other = client.create_table(f"CREATE TABLE {ads}_o (id BIGINT PRIMARY KEY, _patch BOOLEAN)").name
    with pytest.raises(FailedPrecondition, match="has a column '_patch' of its own, so its rows cannot be patched"):
        client.upsert(other, [{"id": 1}], patch=True)
    stream = client.create_stream(f"CREATE STREAM {ads}_s (id BIGINT)").name
    with pytest.raises(FailedPrecondition, match="is a stream, which only grows, and upsert is for tables"):
        client.upsert(stream, [{"id": 1}], patch=True)
    assert held(client, ads) == [(1, "bike", 90.0), (2, "car", 500.0)]
