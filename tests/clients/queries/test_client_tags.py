"""Keys and labels through the service: given, found, refused, and there after a restart."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from psoup_client import Client, Conflict, InvalidData, InvalidRequest, NotFound, Query
from psoup_proto.v1 import queries_pb2
from psoup_storage import open_store
from psoup_testing.services.threaded_service import serving

SQL = "SELECT a FROM s WHERE a > 1"


def test_keys_and_labels_over_a_restart(tmp_path: Path) -> None:
    with (
        serving(store=open_store(str(tmp_path / "data"), reserve_bytes=0)) as service,
        Client(service.address) as client,
    ):
        client.create_stream("CREATE STREAM s (a BIGINT)")
        query = client.register(SQL, key="search-42", labels={"user": "u3", "kind": "alert"})
        assert (query.key, query.labels) == ("search-42", {"kind": "alert", "user": "u3"})
        others = [client.register(SQL, labels={"user": f"u{number % 2 + 2}"}) for number in range(6)]
        bound = client.register("SELECT a FROM s WHERE a > ?", [7], key="bound", labels={"user": "u9"})
        again = client.register("SELECT a FROM s WHERE a > ?", [7], key="bound", labels={"user": "u9"})
        assert again.id == bound.id
        others[1].unregister()
    with (
        serving(store=open_store(str(tmp_path / "data"), reserve_bytes=0)) as service,
        Client(service.address) as client,
    ):
        assert client.register(SQL, key="search-42", labels={"kind": "alert", "user": "u3"}).id == query.id
        assert client.query(key="search-42").id == query.id
        assert [q.id for q in client.queries(labels={"user": "u3"})] == [query.id, others[3].id, others[5].id]
        assert [q.id for q in client.queries("s", labels={"user": "u3", "kind": "alert"})] == [query.id]
        assert client.queries(labels={"user": "nobody"}) == []
        with pytest.raises(Conflict, match=f"key 'search-42' is that of another query \\({query.id}\\)"):
            client.register(SQL + "0", key="search-42")
        with pytest.raises(Conflict, match="key 'bound'"):
            client.register("SELECT a FROM s WHERE a > ?", [8], key="bound", labels={"user": "u9"})
        with pytest.raises(InvalidData, match="the key is empty"):
            client.register(SQL, key="")
        with pytest.raises(InvalidRequest, match="has a NUL"):
            client.register("SELECT a FROM s WHERE a > ?", [8], labels={"user": "\0"})
        with pytest.raises(ValueError, match="query's ID, or its key"):
            client.query()
        client.unregister(query.id)
        with pytest.raises(NotFound, match="no query with key 'search-42'"):
            client.query(key="search-42")


def test_keys_and_labels_of_another_type_are_refused_by_name() -> None:
    with Client() as client:  # nothing is sent
        with pytest.raises(TypeError, match="key is 5: give a text"):
            client.register(SQL, key=5)  # type: ignore[arg-type]
        for call in (partial(client.register, SQL), client.queries):
            with pytest.raises(TypeError, match="label 'user' is 3: its name and its value are texts"):
                call(labels={"user": 3})  # type: ignore[operator]
            with pytest.raises(TypeError, match=r"labels is \['user'\]: give a dict of texts"):
                call(labels=["user"])  # type: ignore[operator]


def test_a_list_by_labels_comes_in_pages() -> None:
    with serving() as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT)")
        ids = [client.register(SQL, labels={"user": f"u{number % 2}"}).id for number in range(9)]
        labels, found, token = {"user": "u0"}, list[str](), ""
        while token or not found:
            page = client.connection.queries.ListQueries(
                queries_pb2.ListQueriesRequest(page_size=2, labels=labels, page_token=token)
            )
            found += [message.query_id for message in page.queries]
            token = page.next_page_token
        assert found == ids[::2]
        first = client.connection.queries.ListQueries(queries_pb2.ListQueriesRequest(page_size=2, labels=labels))
        other = queries_pb2.ListQueriesRequest(page_size=2, labels={"user": "u1"}, page_token=first.next_page_token)
        with pytest.raises(InvalidRequest, match="of other labels"):
            client.connection.call(client.connection.queries.ListQueries, other)


def test_columns_of_a_frame_are_keys_and_labels() -> None:
    with serving() as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT)")
        rows = [{"least": number, "id": f"search-{number}", "user": f"u{number % 4}"} for number in range(20)]
        queries = client.register_many("SELECT a FROM s WHERE a > $least", rows, key="id", labels=["user"])
        again = client.register_many("SELECT a FROM s WHERE a > $least", rows, key="id", labels=["user"])
        assert [query.id for query in again] == [query.id for query in queries]
        assert client.query(key="search-7").id == queries[7].id
        assert [query.key for query in client.queries(labels={"user": "u1"})] == [
            f"search-{n}" for n in range(1, 20, 4)
        ]
        rows[5]["least"] = 100
        with pytest.raises(Conflict, match="key 'search-0' is that of a query of a block of 20 "):
            client.register_many("SELECT a FROM s WHERE a > $least", rows, key="id", labels=["user"])
        with pytest.raises(InvalidData, match="no columns 'key', 'kind' for keys or labels; their columns are 'least'"):
            client.register_many("SELECT a FROM s WHERE a > $least", rows, key="key", labels=["kind"])
        with pytest.raises(TypeError, match="a label that all rows share needs a column"):
            client.register_many("SELECT a FROM s WHERE a > $least", rows, labels={"user": "u1"})  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match=r"there is no parameter \$id"):
            client.register_many("SELECT a FROM s WHERE a > $least", rows, labels=["user"])


def test_a_query_takes_the_place_of_another_over_a_restart(tmp_path: Path) -> None:
    with (
        serving(store=open_store(str(tmp_path / "data"), reserve_bytes=0)) as service,
        Client(service.address) as client,
    ):
        client.create_stream("CREATE STREAM s (a BIGINT)")
        rows = [{"least": number, "id": f"search-{number}"} for number in range(20)]
        old = client.register_many("SELECT a FROM s WHERE a > $least", rows, key="id")
        later = client.register("SELECT a FROM s WHERE a > ?", [50], key="search-7", replace=True)
        assert client.register("SELECT a FROM s WHERE a > ?", [50], key="search-7", replace=True).id == later.id
        rows[5]["least"] = 100
        new = client.register_many("SELECT a FROM s WHERE a > $least", rows, key="id", replace=True)
        with pytest.raises(Conflict, match="its text is SELECT a FROM s WHERE a > 100"):
            client.register(SQL, key="search-5")
        with pytest.raises(InvalidData, match="replace is for queries with a key"):
            client.register(SQL, replace=True)
        with pytest.raises(InvalidData, match="replace is for queries with a key"):
            client.register_many(SQL, replace=True)
    with (
        serving(store=open_store(str(tmp_path / "data"), reserve_bytes=0)) as service,
        Client(service.address) as client,
    ):
        assert [query.id for query in client.queries()] == [query.id for query in new]
        pairs = ((old[0].id, new[0]), (old[7].id, new[7]), (later.id, new[7]))
        for gone, successor in ((Query(client, name), successor) for name, successor in pairs):
            calls = (gone.invoke, gone.explain, gone.unregister, partial(client.why, gone, 0), gone.stream)
            for call in calls:
                with pytest.raises(NotFound, match="was replaced by") as refused:
                    call()
                assert (refused.value.replaced_by, refused.value.reason) == (successor.id, "QUERY_REPLACED")
        [outcome] = client.invoke_many([old[3].id], return_errors=True)
        assert isinstance(outcome, NotFound) and outcome.replaced_by == new[3].id
        with pytest.raises(NotFound) as refused:
            client.query("q-" + new[0].id.split("-")[1] + "-999")
        assert refused.value.replaced_by == ""
