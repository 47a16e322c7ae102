"""The Results Structure through the service: page by page, by names and labels, and what is refused before any work."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import pytest
from bitarray import frozenbitarray

from psoup_client import Client, InvalidData, InvalidRequest, NotFound, OutOfRange, ResourceExhausted, Results
from psoup_proto.v1 import matching_pb2
from psoup_testing.services.threaded_service import Serving, serving

QUERIES, TUPLES = 300, 70_000
"""More than a chunk of 65,536."""


@pytest.fixture(scope="module")
def service() -> Iterator[Serving]:
    with serving() as running, Client(running.address) as client:
        client.create_stream("CREATE STREAM r (a BIGINT NOT NULL)")
        client.create_stream("CREATE STREAM other (a BIGINT)")
        client.register("SELECT a FROM r WHERE a % 5 = 0", key="fifth", labels={"user": "u1"})
        rows = [(n, f"key-{n}", f"u{n % 3}") for n in range(QUERIES - 1)]
        columns = dict(zip(("a", "key", "user"), map(list, zip(*rows, strict=True)), strict=True))
        client.register_many("SELECT a FROM r WHERE a = $a", columns, key="key", labels=["user"])
        client.wait_for(client.push("r", {"a": [n % 1_000 for n in range(TUPLES)]}).sequence)
        yield running


@pytest.fixture
def client(service: Serving) -> Iterator[Client]:
    with Client(service.address) as client:
        yield client


def as_lists(found: Results) -> list[tuple[str, str, list[int]]]:
    return [(id, key, list(found[id].search(1))) for id, key in zip(found.query_ids, found.query_keys, strict=True)]


def test_bits_say_what_matches_says(client: Client) -> None:
    found = client.results("r", ids=range(990, 1_020))
    assert (found.first_id, found.end_id, len(found), found.more) == (990, 1_020, QUERIES, False)
    wanted = client.matches_many("r", range(990, 1_020))
    for at, query_ids in enumerate(wanted):
        assert sorted(query_ids) == sorted(query_id for query_id in found if found[query_id][at])
    assert found["fifth"] == found[client.query(key="fifth")] == found[found.query_ids[0]]
    assert isinstance(found["fifth"], frozenbitarray)
    table = found.to_arrow()
    assert table.num_rows == 30
    assert table["key-5"].to_pylist() == [bool(bit) for bit in found["key-5"]]


def test_overlaps_of_a_large_window(service: Serving, client: Client) -> None:
    """Chunk by chunk, some queries at a time: the same, however small a reply is."""
    whole = client.results("r")
    assert (whole.first_id, whole.end_id) == (0, TUPLES)
    assert whole["fifth"].count() == TUPLES // 5
    assert (whole["fifth"] & whole["key-10"]).count() == whole["key-10"].count() == 70
    assert (whole["key-10"] & whole["key-11"]).count() == 0
    assert whole.completeness is not None
    assert (whole.completeness.pending, whole.completeness.errors) == (0, 0)
    backend, limits = service.service._backend, service.service._backend.limits
    object.__setattr__(backend, "limits", replace(limits, answer_bytes=8_192 * 70))
    pages = client.results("r")
    object.__setattr__(backend, "limits", limits)
    assert as_lists(pages) == as_lists(whole)


def test_queries_by_ids_keys_and_labels(client: Client) -> None:
    second = client.query(key="key-1")
    assert list(client.results("r", ["fifth", second, second.id, "key-0"], last=10).query_keys) == [
        "fifth",
        "key-1",
        "key-0",
    ]
    of_user = client.results("r", labels={"user": "u1"}, last=1)
    assert sorted(of_user.query_ids) == sorted(query.id for query in client.queries("r", labels={"user": "u1"}))
    assert (of_user.first_id, of_user.end_id) == (TUPLES - 1, TUPLES)
    few = client.results("r", labels={"user": "u1"}, last=1, limit=7)
    assert (few.query_ids, few.more) == (of_user.query_ids[:7], True)
    assert (len(client.results("r", ["fifth", "key-1"], last=1, limit=1)), len(client.results("other"))) == (1, 0)
    many = [f"key-{n}" for n in range(QUERIES - 1)]
    assert client.results("r", reversed(many), last=9).query_keys == many[::-1]


def test_what_is_refused(client: Client) -> None:
    foreign = client.register("SELECT a FROM other")
    with pytest.raises(InvalidRequest, match="is on stream 'other'"):
        client.results("r", [foreign])
    foreign.unregister()
    with pytest.raises(InvalidRequest, match="queries is empty"):
        client.results("r", [])
    with pytest.raises(TypeError, match="give a list of queries"):
        client.results("r", "fifth")
    with pytest.raises(TypeError, match="a query is 5"):
        client.results("r", [5])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="label 'user' is 5"):
        client.results("r", labels={"user": 5})  # type: ignore[dict-item]
    with pytest.raises(InvalidData, match="the key is empty"):
        client.results("r", [""])
    with pytest.raises(NotFound, match="no query with key 'none'"):
        client.results("r", ["none"])
    with pytest.raises(NotFound, match=f"no query '{foreign.id}'"):
        client.results("r", [foreign.id])
    with pytest.raises(NotFound, match="no stream"):
        client.results("nothing")
    with pytest.raises(OutOfRange, match="tuple IDs kept"):
        client.results("r", ids=range(-5, 3))
    for wrong in ({"last": -1}, {"limit": -1}, {"begin": 5, "end": 2}):
        with pytest.raises(InvalidRequest):
            client.results("r", **wrong)  # type: ignore[arg-type]


def test_a_million_queries_over_a_billion_tuples_are_refused_at_once(client: Client) -> None:
    """By the sizes alone: the request of a hostile client that names them all, or says so."""
    ask = client.connection.matching.Results
    many = matching_pb2.ResultsRequest(stream="r", query_ids=["q-7f3a91c2-1"] * 10_001)
    with pytest.raises(InvalidRequest, match="10,001 names, and 10,000 is the most"):
        client.connection.call(ask, many)
    tracemalloc.start()
    with pytest.raises(ResourceExhausted, match="1,000,000 queries over 70,000 tuples are 8,750,000,000 bytes") as told:
        client.connection.call(ask, matching_pb2.ResultsRequest(stream="r", queries_in_all=1_000_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert told.value.reason == "RESULTS_TOO_LARGE"
    assert peak < 10_000_000
    with pytest.raises(InvalidRequest, match="queries_in_all is -1"):
        client.connection.call(ask, matching_pb2.ResultsRequest(stream="r", queries_in_all=-1))
