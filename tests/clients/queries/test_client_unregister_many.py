"""Queries are unregistered together, and streams dropped with them, through the service and in the shell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from psoup_client import Client, Conflict, FailedPrecondition, InvalidRequest, NotFound
from psoup_storage import open_store
from psoup_testing.services.threaded_service import Serving, serving

SQL = "SELECT a FROM s WHERE a = ?"


@pytest.fixture(scope="module")
def service() -> Iterator[Serving]:
    with serving() as running:
        yield running


@pytest.fixture
def client(service: Serving) -> Iterator[Client]:
    with Client(service.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT)")
        yield client
        client.drop("s", cascade=True)


def tagged(client: Client, count: int = 12) -> list[str]:
    """Queries with keys and labels, and one without."""
    rows = [{"x": n, "k": f"site-{n % 2}/{n}", "user": f"u{n % 3}"} for n in range(count)]
    queries = client.register_many("SELECT a FROM s WHERE a = $x", rows, key="k", labels=["user"])
    return [*(query.id for query in queries), client.register("SELECT a FROM s").id]


def test_by_ids_labels_and_prefixes(client: Client) -> None:
    ids = tagged(client)
    assert client.unregister_many(ids[:2]) == 2
    assert client.unregister_many([client.query(ids[2])]) == 1
    assert client.unregister_many(labels={"user": "u0"}, dry_run=True) == 3
    assert client.unregister_many(labels={"user": "u0"}) == 3
    assert client.queries(labels={"user": "u0"}) == []
    assert client.unregister_many(labels={"user": "u0"}) == client.unregister_many(key_prefix="site-7") == 0
    assert client.unregister_many(key_prefix="site-1/") == 3
    assert [query.key for query in client.queries()] == ["site-0/4", "site-0/8", "site-0/10", ""]
    assert client.unregister_many([]) == 0
    assert client.unregister_many(client.queries()) == 4


def test_a_label_name_that_no_query_has_is_an_error_for_calls_that_remove(client: Client) -> None:
    """Without any label nothing can be told of a name. Calls that read select nothing then."""
    assert client.unregister_many(labels={"usr": "u0"}) == 0
    assert client.queries(labels={"usr": "u0"}) == []
    tagged(client)
    said = "^no query has a label 'usr'; did you mean 'user'\\? the names of labels are user$"
    for dry_run in (False, True):
        with pytest.raises(NotFound, match=said) as unknown:
            client.unregister_many(labels={"usr": "u0"}, dry_run=dry_run)
        assert (unknown.value.reason, unknown.value.facts["label"]) == ("UNKNOWN_LABEL", "usr")
        assert client.unregister_many(labels={"user": "u9"}, dry_run=dry_run) == 0
    for labels in ({"usr": "u0"}, {"user": "u9"}, {"user": "u0", "usr": "u0"}):
        assert client.queries(labels=labels) == client.top_queries(labels=labels) == []
        assert list(client.invoke_many(labels=labels)) == []
        assert len(client.invoke_table(labels=labels)) == 0
        assert len(client.results("s", labels=labels)) == 0
    with pytest.raises(NotFound, match=r"no query has a label 'plan'; the names of labels are user$"):
        client.unregister_many(labels={"user": "u0", "plan": "free"})
    assert len(client.queries(labels={"user": "u0"})) == 4
    assert client.unregister_many(client.queries()) == 13


@pytest.mark.long
def test_all_or_none(client: Client) -> None:
    ids = tagged(client)
    client.unregister(ids[4])
    with pytest.raises(NotFound, match=f"of 13 queries, 1 cannot be found: {ids[4]}; nothing was unregistered") as gone:
        client.unregister_many(ids)
    assert gone.value.facts["query_id"] == ids[4]
    with pytest.raises(NotFound, match="from another incarnation"):
        client.unregister_many([ids[0], "q-00000000-1"])
    with pytest.raises(InvalidRequest, match="'nonsense' is not a query ID"):
        client.unregister_many([ids[0], "nonsense"])
    with pytest.raises(InvalidRequest, match="prefix of keys has 300 bytes"):
        client.unregister_many(key_prefix="x" * 300)
    for wrong in ({}, {"key_prefix": ""}, {"labels": {}}, {"labels": {"user": "u0"}, "key_prefix": "a"}):
        with pytest.raises(ValueError, match="say which queries"):
            client.unregister_many(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match=r"has 22,000,0\d\d bytes, and a call takes 16,777,216: send less"):
        client.unregister_many([f"{ids[0]:>20}"] * 1_000_000)
    with pytest.raises(TypeError, match="a query is 5: give a query or its ID"):
        client.unregister_many([5])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="give a list of queries or IDs"):
        client.unregister_many(ids[0])
    assert len(client.queries()) == 12


def test_a_stream_is_dropped_with_its_queries(client: Client) -> None:
    ids = tagged(client)
    with pytest.raises(FailedPrecondition, match=r"used by 13 queries, .* or drop the stream with CASCADE .--cascade"):
        client.drop("s")
    with pytest.raises(FailedPrecondition, match="used by 13 queries by now, and not by 12"):
        client.drop("s", cascade=True, expected=12)
    assert client.drop("s", cascade=True, expected=13) == 13
    with pytest.raises(NotFound):
        client.invoke(ids[0])
    client.create_stream("CREATE STREAM s (a BIGINT)")


def test_a_retry_gets_the_same_number_also_after_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    with serving(store=open_store(path, reserve_bytes=0)) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT)")
        client.create_stream("CREATE STREAM t (a BIGINT)")
        ids = tagged(client)
        client.register("SELECT a FROM t")
        assert client.unregister_many(ids[:9], request_id="mine") == 9
        assert client.drop("t", cascade=True) == 1
    with serving(store=open_store(path, reserve_bytes=0)) as service, Client(service.address) as client:
        assert client.unregister_many(ids[:9], request_id="mine") == 9
        with pytest.raises(Conflict, match="request ID 'mine' was used to unregister other queries"):
            client.unregister_many(ids[9:], request_id="mine")
        assert [query.id for query in client.queries()] == ids[9:]
        assert [stream.name for stream in client.streams()] == ["s"]
