"""Rows held against the standing queries through the service: page by page, and refused as a push would be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup_client import Client, InvalidData, InvalidRequest, NotFound, OutOfRange
from psoup_proto.v1 import matching_pb2
from psoup_testing.services.threaded_service import Serving, serving

QUERIES = 300


@pytest.fixture(scope="module")
def service() -> Iterator[Serving]:
    with serving() as running:
        yield running


@pytest.fixture
def client(service: Serving) -> Iterator[Client]:
    with Client(service.address) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def queries(service: Serving) -> list[str]:
    with Client(service.address) as client:
        client.create_stream("CREATE STREAM m (a BIGINT NOT NULL, t TEXT)")
        first = client.register("SELECT a FROM m WHERE t LIKE 'x%'").id
        some = client.register_many("SELECT a FROM m WHERE a > ?", [(n,) for n in range(QUERIES)])
        return [first, *(query.id for query in some)]


def test_rows_match_what_they_match_once_they_are_pushed(client: Client, queries: list[str]) -> None:
    rows = {"a": [0, 1, 250, 10_000, 7], "t": ["x", None, "xy", "y", "ax"]}
    found = client.match("m", rows)
    assert (found.rows, found.late, found.ahead) == (5, 0, 0)
    assert found.pairs.schema.names == ["row", "query_id", "key"]
    assert found.query_keys() == [[]] * 5
    client.push("m", rows)
    pushed = client.matches_many("m", range(5))
    assert [sorted(ids) for ids in found.query_ids()] == [sorted(ids) for ids in pushed]
    assert set(found.query_ids()[3]) == set(queries[1:])


def test_what_does_not_fit_a_reply_comes_in_further_ones(service: Serving, client: Client) -> None:
    """Also the queries of one row."""
    backend, rows = service.service._backend, {"a": [10_000, -1, 3, 10_000], "t": ["x"] * 4}
    whole = [sorted(ids) for ids in client.match("m", rows).query_ids()]
    limits = backend.limits
    object.__setattr__(backend, "limits", replace(limits, answer_bytes=1_024 + 16 * 100))
    pages = list(client.match_pages("m", rows))
    object.__setattr__(backend, "limits", limits)
    assert max(len(page.pairs) for page in pages) == 100
    assert len(pages) > 6
    assert [page.rows for page in pages] == sorted(page.rows for page in pages)
    pairs = pa.concat_tables(page.pairs for page in pages)
    assert pairs["row"].to_pylist() == sorted(pairs["row"].to_pylist())
    found = [
        [q for r, q in zip(*pairs.drop_columns("key").to_pydict().values(), strict=True) if r == row]
        for row in range(4)
    ]
    assert [sorted(ids) for ids in found] == whole
    assert len(pairs) == sum(map(len, whole)) == 2 * (QUERIES + 1) + 1 + 4


def test_what_a_push_refuses_is_refused_with_the_same_words(client: Client) -> None:
    with pytest.raises(NotFound):
        client.match("nothing", {"a": [1]})
    for wrong in ({"a": [None]}, {"a": ["x"]}, {"b": [1]}):
        with pytest.raises(InvalidData) as matched:
            client.match("m", wrong)
        with pytest.raises(InvalidData) as pushed:
            client.push("m", wrong)
        assert matched.value.reason == pushed.value.reason
    assert client.match("m", {"a": [], "t": []}).query_ids() == []


def test_a_range_of_tuples_as_a_table(service: Serving, client: Client) -> None:
    """Page by page; of one tuple too."""
    client.create_stream("CREATE STREAM r (a BIGINT)")
    client.register_many("SELECT a FROM r WHERE a > ?", [(n,) for n in range(QUERIES)])
    client.push("r", {"a": [5, -1, *[10_000] * 8, 7]})
    wanted = [(id, query) for id, ids in enumerate(client.matches_many("r", range(11))) for query in sorted(ids)]
    whole = client.matches_table("r", 0, 11)
    backend, limits = service.service._backend, service.service._backend.limits
    object.__setattr__(backend, "limits", replace(limits, answer_bytes=1_024 + 16 * 100))
    pages = client.matches_table("r", 0, 11)
    object.__setattr__(backend, "limits", limits)
    for table in (whole, pages):
        assert table.schema.names == ["tuple_id", "query_id", "key"]
        assert table["tuple_id"].to_pylist() == sorted(table["tuple_id"].to_pylist())
        assert sorted(zip(*table.drop_columns("key").to_pydict().values(), strict=True)) == sorted(wanted)
    assert len(client.matches_table("r", 3, 3)) == 0
    with pytest.raises(OutOfRange):
        client.matches_table("r", 9, 12)


def test_keys_and_labels_beside_the_queries(service: Serving, client: Client) -> None:
    """Of all calls about matches; in pages, too. Who has none of them gets none."""
    client.create_stream("CREATE STREAM k (a BIGINT)")
    rows = {"a": [*range(50)], "id": [f"search {n}" for n in range(50)], "user": [f"u{n % 3}" for n in range(50)]}
    client.register_many("SELECT a FROM k WHERE a > $a", rows, key="id", labels=["user"])
    client.register("SELECT a FROM k", labels={"kind": "feed"})
    client.register("SELECT a FROM k WHERE a = 7", key="seven", labels={"kind": "alert", "user": "u1"})
    client.push("k", {"a": [1, 7, 100]})
    keys = ["search 0", "search 1", "search 2", "search 3", "search 4", "search 5", "search 6", "", "seven"]
    assert client.matches("k", 1, keys=True) == keys
    assert client.matches_many("k", [1, 0], keys=True) == [keys, ["search 0", ""]]
    assert client.matches("k", 1, keys=True, labels={"user": "u1"}) == ["search 1", "search 4", "seven"]
    assert client.matches("k", 1, labels={"user": "u1", "kind": "alert"}) == [client.query(key="seven").id]
    options: dict[str, Any] = {"labels": {"user": "u1"}, "label_columns": ["kind", "other"]}
    table = client.matches_table("k", 0, 3, **options)
    assert table.column_names == ["tuple_id", "query_id", "key", "kind", "other"]
    assert table["key"].to_pylist()[:3] == ["search 1", "search 4", "seven"]
    assert table["kind"].to_pylist()[:4] == [None, None, "alert", None]
    found = client.match("k", {"a": [1, 7, 100]}, **options)
    assert found.pairs.drop_columns(["row"]).equals(table.drop_columns(["tuple_id"]))
    assert [sorted(keys) for keys in found.query_keys()][1] == ["search 1", "search 4", "seven"]
    backend, limits = service.service._backend, service.service._backend.limits
    whole = client.matches_table("k", 0, 3, label_columns=["user"])
    object.__setattr__(backend, "limits", replace(limits, answer_bytes=1_024 + 16 * 10))
    pages = client.matches_table("k", 0, 3, label_columns=["user"])
    matched = [page.pairs for page in client.match_pages("k", {"a": [1, 7, 100]}, label_columns=["user"])]
    object.__setattr__(backend, "limits", limits)
    order = [("tuple_id", "ascending"), ("query_id", "ascending")]
    assert pages.sort_by(order).equals(whole.sort_by(order)) and len(whole) == 1 + 9 + 52 - 1 + 1
    named = pa.concat_tables(matched).rename_columns(pages.column_names)
    assert max(map(len, matched)) < 10 and named.sort_by(order).equals(whole.sort_by(order))
    assert [cost.query.key for cost in client.top_queries(stream="k", labels={"kind": "alert"})] == ["seven"]
    assert len(client.top_queries("bytes", stream="k", labels={"user": "u1"}, limit=3)) == 3


def test_what_cannot_be_asked_of_keys_and_labels(client: Client, queries: list[str]) -> None:
    client.register("SELECT a FROM m WHERE a < 0", key="below")
    assert client.why(key="below", tuple={"a": -1}).kept_out is None
    with pytest.raises(NotFound, match="no query with key 'eight'"):
        client.why(key="eight", tuple={"a": 1})
    with pytest.raises(ValueError, match="a query or a key, not both"):
        client.why(queries[0], 0, key="below")
    with pytest.raises(ValueError, match="label_columns has 'key', which would be the name of two columns"):
        client.matches_table("m", 0, 3, label_columns=["key"])
    with pytest.raises(TypeError, match="label_columns is 'user': give a list"):
        client.match("m", {"a": [1]}, label_columns="user")
    request = matching_pb2.MatchesBetweenRequest(stream="m", end_id=1, label_columns=["user", "user"])
    with pytest.raises(InvalidRequest, match="'user', which would be the name of two columns"):
        client.connection.call(client.connection.matching.MatchesBetween, request)


def test_why_through_the_service(client: Client, queries: list[str]) -> None:
    (pushed,) = client.tuple_ids(client.push("m", {"a": [5], "t": ["x'y"]}))
    assert pushed is not None
    found = client.why(queries[0], pushed)
    assert client.why(queries[0], np.int64(pushed)).kept_out is None  # as it comes out of a frame
    assert found.kept_out is None
    assert [step.kind for step in found.steps] == ["factor", "window", "retention", "arrival"]
    assert found.steps[0].values == {"t": "'x''y'"}
    kept = client.why(queries[1], {"a": 0, "t": "x"}).kept_out
    assert kept is not None
    assert (kept.kind, kept.text, kept.values) == ("factor", "a >= 1", {"a": "0"})
    assert str(kept) == "no   WHERE      a >= 1    (a is 0)"
    values = {"p": "CAST(-1.50 AS DECIMAL(9,2))", "m": "TIMESTAMP '2026-07-01 12:00:00'", "d": "31.5e0", "t": "'1e0'"}
    assert str(replace(kept, text="b", values={**values, "b": "FALSE"})) == (
        "no   WHERE      b    (p is -1.50, m is 2026-07-01 12:00:00, d is 31.5, t is '1e0')"
    )
    assert str(replace(kept, text="b", values={"b": "NULL"})) == "no   WHERE      b    (b is NULL)"
    for wrong in ({"a": None}, [{"a": 1}, {"a": 2}], {"nothing": 1}):
        with pytest.raises(InvalidData):
            client.why(queries[0], wrong)
    with pytest.raises(NotFound, match="q-00000000-1"):
        client.why("q-00000000-1", 0)
    with pytest.raises(OutOfRange):
        client.why(queries[0], 10**9)
