"""The amount that is kept of queries: registered, listed, changed and forgotten through the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from psoup_client import Altered, Client, InvalidRequest, NotFound, QueryInfo
from psoup_client.amounts import AMOUNTS
from psoup_service.process.settings import Settings
from psoup_storage import open_store
from psoup_testing.services.threaded_service import Serving, serving

SELECT = "SELECT a, b FROM s WHERE a > $x"
JOIN = "SELECT s.a, t.b FROM s JOIN t ON s.b = t.b WHERE s.a > 3"
GROUPED = "SELECT b, count(*) AS n FROM s GROUP BY b ORDER BY b"


@pytest.fixture(scope="module")
def service() -> Iterator[Serving]:
    with serving() as running:
        yield running


@pytest.fixture
def client(service: Serving) -> Iterator[Client]:
    with Client(service.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT, b BIGINT)")
        client.create_stream("CREATE STREAM t (b BIGINT)")
        yield client
        client.drop("t", cascade=True)
        client.drop("s", cascade=True)


def kept(info: QueryInfo) -> tuple[str, bool, bool]:
    return info.amount, info.eager, info.active


def all_kept(client: Client) -> list[tuple[str, bool, bool]]:
    return [kept(query.info) for query in client.queries()]


def answers(client: Client) -> list[list[dict[str, Any]]]:
    """The answers of all queries, with sorted rows, because the rows of joins have no order."""
    return [sorted(query.invoke(), key=str) for query in client.queries()]


def test_a_registration_says_how_much_is_kept(client: Client) -> None:
    assert kept(client.register("SELECT a FROM s").info) == ("partial", False, True)
    for amount in AMOUNTS:
        query = client.register("SELECT a FROM s", amount=amount)
        assert kept(query.info) == kept(client.query(query.id).info) == (amount, False, True)
    eager = client.register(JOIN, amount="complete", eager=True, active=False)
    assert kept(eager.info) == ("complete", True, False)
    client.register_many(SELECT, [{"x": n} for n in range(3)], amount="none", active=False)
    client.register_many([JOIN, GROUPED], amount="complete", eager=True)
    few = [(amount, False, True) for amount in ("partial", "none", "partial", "complete", "auto")]
    assert all_kept(client) == [
        *few,
        ("complete", True, False),
        *[("none", False, False)] * 3,
        *[("complete", True, True)] * 2,
    ]


def test_the_amount_is_no_part_of_what_must_be_the_same(client: Client) -> None:
    first = client.register("SELECT a FROM s", key="k", amount="none")
    again = client.register("SELECT a FROM s", key="k", amount="complete", eager=True, active=False)
    assert again == first
    assert kept(again.info) == ("none", False, True)
    rows = {"x": [1, 2], "k": ["k1", "k2"]}
    many = client.register_many(SELECT, rows, key="k", amount="none")
    assert [*client.register_many(SELECT, rows, key="k", active=False)] == [*many]
    assert kept(client.query(key="k2").info) == ("none", False, True)


def test_answers_are_the_same_before_and_after(client: Client) -> None:
    client.register_many(SELECT, [{"x": n} for n in range(8)], labels=["x"])
    for amount in AMOUNTS:
        client.register_many([JOIN, GROUPED, "SELECT count(DISTINCT b) AS n FROM s"], amount=amount)
    client.push("s", {"a": list(range(40)), "b": [n % 7 for n in range(40)]})
    client.push("t", {"b": [1, 2, 3]})
    before = answers(client)
    assert [len(rows) for rows in before[:8]] == [39 - n for n in range(8)]
    assert before[8:11] == before[11:14] == before[14:17] == before[17:20]
    everything: list[dict[str, Any]] = [
        *({"amount": amount} for amount in ("none", "complete", "partial", "complete", "none", "auto", "partial")),
        {"active": False},
        {"amount": "complete", "eager": True},
        {"active": True},
        {"amount": "partial", "eager": False},
    ]
    for change in everything:
        altered = client.alter_queries(client.queries(), **change)
        assert altered.count == 20
        assert altered.changed > 0
        assert answers(client) == before, change
    client.push("s", {"a": [100], "b": [1]})
    after = answers(client)
    assert [len(rows) for rows in after[:8]] == [40 - n for n in range(8)]
    assert after[8:11] == after[11:14] == after[14:17] == after[17:20]


def test_queries_are_altered_by_ids_labels_and_prefixes(client: Client) -> None:
    rows = [{"x": n, "k": f"site-{n % 2}/{n}", "user": f"u{n % 3}"} for n in range(12)]
    queries = client.register_many(SELECT, rows, key="k", labels=["user"])
    assert client.alter_queries(queries[:2], amount="none") == Altered(count=2, changed=2)
    assert client.alter_queries([queries[0].id, queries[2], queries[0]], amount="none") == Altered(2, 1)
    assert client.alter_queries(labels={"user": "u0"}, active=False, dry_run=True) == Altered(4, 4)
    assert {info[2] for info in all_kept(client)} == {True}
    assert client.alter_queries(labels={"user": "u0"}, active=False) == Altered(4, 4)
    assert client.alter_queries(labels={"user": "u0"}, active=False) == Altered(4, 0)
    assert client.alter_queries(key_prefix="site-1/", amount="complete", eager=True) == Altered(6, 6)
    assert client.alter_queries(key_prefix="site-7/", amount="none") == client.alter_queries([], amount="none")
    assert client.alter_queries(labels={"user": "u9"}, amount="none") == Altered(0, 0)
    listed = {query.key: kept(query.info) for query in client.queries()}
    assert listed["site-0/0"] == ("none", False, False)
    assert listed["site-1/1"] == ("complete", True, True)
    assert listed["site-1/3"] == ("complete", True, False)
    assert listed["site-0/4"] == ("partial", False, True)


def test_one_query_is_altered_and_knows_it(client: Client) -> None:
    query = client.register("SELECT a FROM s", key="mine")
    assert query.alter(amount="complete", eager=True)
    assert kept(query.info) == ("complete", True, True)
    assert not query.alter(eager=True)
    assert query.alter(active=False)
    assert kept(query.info) == kept(client.query(key="mine").info) == ("complete", True, False), "it remembers"
    assert query.alter(active=True)
    assert kept(query.info) == ("complete", True, True)
    query.unregister()
    with pytest.raises(NotFound):
        query.alter(amount="none")


def test_inactive_queries_are_left_out_of_matches(client: Client) -> None:
    low, high = client.register("SELECT a FROM s WHERE a > 1"), client.register("SELECT a FROM s WHERE a > 2")
    none = client.register("SELECT a FROM s WHERE a > 3", amount="none")
    client.push("s", {"a": [5], "b": [1]})
    assert client.matches("s", 0) == [low.id, high.id, none.id]
    high.alter(active=False)
    assert client.matches("s", 0) == [low.id, none.id]
    assert [row["a"] for row in high.invoke()] == [5]
    high.alter(active=True)
    assert client.matches("s", 0) == [low.id, high.id, none.id]


def test_all_or_none_and_each_wrong_call_has_its_message(client: Client) -> None:
    queries = client.register_many(SELECT, [{"x": n} for n in range(3)])
    ids = [query.id for query in queries]
    client.unregister(ids[1])
    with pytest.raises(NotFound, match=f"of 3 queries, 1 cannot be found: {ids[1]}; nothing was altered") as gone:
        client.alter_queries(ids, amount="none")
    assert gone.value.facts["query_id"] == ids[1]
    with pytest.raises(NotFound, match="from another incarnation"):
        client.alter_queries([ids[0], "q-00000000-1"], amount="none")
    with pytest.raises(InvalidRequest, match="'nonsense' is not a query ID"):
        client.alter_queries([ids[0], "nonsense"], amount="none")
    client.register("SELECT a FROM s", labels={"user": "u"})
    with pytest.raises(NotFound, match="no query has a label 'usr'"):
        client.alter_queries(labels={"usr": "u"}, amount="none")
    with pytest.raises(InvalidRequest, match="prefix of keys has 300 bytes"):
        client.alter_queries(key_prefix="x" * 300, amount="none")
    with pytest.raises(InvalidRequest, match=r"bytes, and a call takes 16,777,216: send less"):
        client.alter_queries([f"{ids[0]:>20}"] * 1_000_000, amount="none")
    assert set(all_kept(client)) == {("partial", False, True)}


def test_wrong_arguments_are_named_before_a_call(client: Client) -> None:
    for wrong in ({}, {"labels": {}}, {"key_prefix": "a", "labels": {"user": "u"}}):
        with pytest.raises(ValueError, match="say which queries"):
            client.alter_queries(**wrong, amount="none")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="say what to change: amount, eager, active or parked"):
        client.alter_queries(["q-1"])
    with pytest.raises(ValueError, match="amount is 'all'; take one of none, partial, complete"):
        client.alter_queries(["q-1"], amount="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="amount is 'NONE'; take one of none, partial, complete"):
        client.register("SELECT a FROM s", amount="NONE")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="amount is 3"):
        client.register_many(SELECT, [{"x": 1}], amount=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="eager is 'yes': give True or False"):
        client.register("SELECT a FROM s", eager="yes")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="active is 0: give True or False"):
        client.alter_queries(["q-1"], active=0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="give a list of queries or IDs"):
        client.alter_queries("q-1", amount="none")
    assert client.queries() == []


def test_a_restart_keeps_amounts(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    with serving(store=open_store(path, reserve_bytes=0)) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT, b BIGINT)")
        client.register_many(SELECT, [{"x": n, "k": f"k{n}"} for n in range(6)], key="k", amount="none")
        client.register(GROUPED, amount="complete", eager=True)
        client.push("s", {"a": list(range(10)), "b": [1] * 10})
        assert client.alter_queries([client.query(key="k1"), client.query(key="k4")], active=False) == Altered(2, 2)
        assert client.alter_queries(key_prefix="k5", amount="complete") == Altered(1, 1)
        before, shown = answers(client), all_kept(client)
    assert shown[:6] == [
        ("none", False, True),
        ("none", False, False),
        *[("none", False, True)] * 2,
        ("none", False, False),
        ("complete", False, True),
    ]
    with serving(store=open_store(path, reserve_bytes=0)) as service, Client(service.address) as client:
        assert all_kept(client) == shown
        assert answers(client) == before
        assert client.alter_queries(client.queries(), amount="partial", active=True, eager=False) == Altered(7, 7)
    with serving(store=open_store(path, reserve_bytes=0)) as service, Client(service.address) as client:
        assert set(all_kept(client)) == {("partial", False, True)}
        assert answers(client) == before


def test_the_setting_is_the_amount_of_queries_that_name_none() -> None:
    with serving(Settings(port=0, amount="none")) as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT, b BIGINT)")
        client.register("SELECT a FROM s", active=False)
        client.register("SELECT a FROM s WHERE a > ?", [1])
        client.register("SELECT a FROM s", amount="partial")
        client.register_many(SELECT, [{"x": 1}], amount="complete")
        client.register_many(SELECT, [{"x": 2}])
        assert [amount for amount, _, _ in all_kept(client)] == ["none", "none", "partial", "complete", "none"]
