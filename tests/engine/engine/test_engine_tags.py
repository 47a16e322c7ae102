"""Keys and labels: what may be in them, whose they are, and that they go with their queries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.errors import Conflict, InvalidInput, NotFound, PSoupError
from psoup.events.commands import RegisterMany
from psoup.events.tags import TagColumns, coded
from psoup.local import LocalPSoup
from psoup.published import tags as published_tags

SQL = "SELECT x FROM s WHERE x > 1"


@pytest.fixture
def soup() -> LocalPSoup:
    soup = LocalPSoup(verify="all")
    soup.execute("CREATE STREAM s (x BIGINT)")
    return soup


def keyed(*keys: str, **labels: list[str | None]) -> TagColumns:
    """The tags of a block."""
    columns = tuple((name, coded(pa.array(values, pa.string()))) for name, values in sorted(labels.items()))
    return TagColumns(len(keys), pa.array(keys), columns)


def many(soup: LocalPSoup, values: list[int], tags: TagColumns) -> list[int]:
    """Register a block with tags."""
    done: Any = soup.submit(RegisterMany(["SELECT x FROM s WHERE x > ?"], pa.table({"x": values}), tags=tags))
    return list(range(done.first_id, done.first_id + done.count))


def test_the_same_call_again_gives_the_same_query_and_another_names_the_key(soup: LocalPSoup) -> None:
    first = soup.register(SQL, key="search-42", labels={"user": "u3"})
    assert soup.register(SQL, "some request", key="search-42", labels={"user": "u3"}) == first
    for sql, labels in ((SQL + "1", {"user": "u3"}), (SQL, {"user": "u4"}), (SQL, None)):
        with pytest.raises(Conflict, match="key 'search-42' is that of another query"):
            soup.register(sql, key="search-42", labels=labels)
    assert soup.query("search-42") == first


def test_a_key_wins_over_a_request_id(soup: LocalPSoup) -> None:
    first = soup.register(SQL, "request")
    assert soup.register(SQL, "request", key="a") != first
    assert soup.register(SQL, "request") == first


def test_labels_are_part_of_what_a_request_id_stands_for(soup: LocalPSoup) -> None:
    soup.register(SQL, "request", labels={"user": "u1"})
    with pytest.raises(Conflict, match="request ID 'request'"):
        soup.register(SQL, "request", labels={"user": "u2"})


def test_a_key_is_free_when_its_query_is_gone_and_not_before(soup: LocalPSoup) -> None:
    first = soup.register(SQL, key="k", labels={"user": "u"})
    with pytest.raises(Conflict):
        soup.register(SQL + "0", key="k")
    soup.unregister(first)
    with pytest.raises(NotFound, match="no query with key 'k'"):
        soup.query("k")
    assert soup.queries(labels={"user": "u"}) == []
    assert soup.register(SQL + "0", key="k") != first


def test_a_block_is_taken_whole(soup: LocalPSoup) -> None:
    ids = many(soup, [1, 2, 3], keyed("a", "b", "c", user=["u", None, "v"]))
    assert many(soup, [1, 2, 3], keyed("a", "b", "c", user=["u", None, "v"])) == ids
    assert soup.queries(labels={"user": "v"}) == ids[2:]
    for values, tags in (
        ([1, 2, 4], keyed("a", "b", "c", user=["u", None, "v"])),
        ([1, 2, 3], keyed("a", "b", "c", user=["u", "u", "v"])),
        ([1, 2], keyed("a", "b", user=["u", None])),
        ([3, 1], keyed("new", "a")),
    ):
        with pytest.raises(Conflict, match="key 'a' is that of a query of a block of 3"):
            many(soup, values, tags)
    with pytest.raises(NotFound):
        soup.query("new")
    soup.unregister(ids[0])
    with pytest.raises(Conflict, match="key 'b'"):
        many(soup, [1, 2, 3], keyed("a", "b", "c", user=["u", None, "v"]))


@pytest.mark.parametrize(
    ("key", "labels", "why"),
    [
        ("k" * 257, {}, "key has 257 bytes; 256 are the most"),
        ("é" * 129, {}, "key has 258 bytes"),
        ("k" * 10_240, {}, "key has 10,240 bytes"),
        ("a\0b", {}, "key has a NUL"),
        ("\ud800", {}, "half of a surrogate pair"),
        ("", {"": "v"}, "name of label '' is empty"),
        ("", {"n": ""}, "label 'n' is empty"),
        ("", {"n" * 65: "v"}, "name of label 'n{60}' has 65 bytes"),
        ("", {"n": "v" * 65}, "label 'n' has 65 bytes"),
        ("", {"n": "\0"}, "label 'n' has a NUL"),
    ],
)
def test_what_may_not_be_in_a_key_or_a_label(soup: LocalPSoup, key: str, labels: dict[str, str], why: str) -> None:
    refused(soup, key, labels, why)


def test_a_hundred_thousand_labels_are_too_many(soup: LocalPSoup) -> None:
    refused(soup, "", {f"n{number}": "v" for number in range(100_000)}, "100,000 labels are too many")


def refused(soup: LocalPSoup, key: str, labels: dict[str, str], why: str) -> None:
    before = soup.admission.state()
    with pytest.raises(InvalidInput, match=why):
        soup.register(SQL, key=key, labels=labels)
    assert soup.admission.state() == before


@pytest.mark.parametrize(
    ("tags", "why"),
    [
        (keyed("a", "b", "a"), "query 3: key 'a' is also that of query 1"),
        (keyed("a", "", "c"), "query 2: the key is empty"),
        (keyed("a", "b", "c" * 257), "query 3: the key has 257 bytes"),
        (keyed("a", "b", "c", user=["u", None, "v\0"]), "query 3: the label 'user' has a NUL"),
        (keyed("a", "b", "c", **{f"n{i}": ["v", "v", "v"] for i in range(9)}), "9 labels are too many"),
    ],
)
def test_what_may_not_be_in_those_of_a_block(soup: LocalPSoup, tags: TagColumns, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        many(soup, [1, 2, 3], tags)
    with pytest.raises(NotFound):
        soup.query("a")


def test_a_tenant_has_as_many_names_of_labels_as_its_queries() -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (x BIGINT)")
    ids = [soup.register(SQL, labels={f"n{number}": "v"}) for number in range(32)]
    with pytest.raises(InvalidInput, match="label 'other' would be one name too many"):
        soup.register(SQL, labels={"other": "v"})
    soup.register(SQL, labels={"n3": "w"})
    soup.unregister(ids[5])
    soup.register(SQL, labels={"other": "v"})
    with pytest.raises(PSoupError):
        soup.register(SQL, labels={"n5": "v"})


def test_keys_are_found_while_what_is_published_lags_behind(soup: LocalPSoup) -> None:
    """Admission runs ahead of the writer, and judges by all that it has prepared."""
    soup.register(SQL, key="first")
    behind = soup.engine.snapshot()
    soup.admission.share_published(lambda: behind)
    soup.register(SQL, key="a")
    soup.register(SQL, key="other")
    with pytest.raises(Conflict):
        soup.register(SQL + "0", key="a")
    soup.admission.share_published(soup.engine.snapshot)
    soup.register(SQL, key="b")
    with pytest.raises(Conflict):
        soup.register(SQL + "0", key="a")


def test_labels_whose_names_are_alike_are_told_apart(soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_tags, "label_names", lambda tenant, name, values: np.zeros(len(values), np.uint64))
    ids = many(soup, [1, 2, 3], keyed("a", "b", "c", user=["u", "v", None]))
    single = soup.register(SQL, labels={"user": "v"})
    assert soup.queries(labels={"user": "v"}) == [ids[1], single]
    assert soup.queries(labels={"user": "w"}) == []


def test_what_is_gone_leaves_the_memory() -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (x BIGINT)")
    soup.register(SQL, key="stays", labels={"user": "u"})
    before = soup.engine.bill()
    count = 300
    ids = many(soup, list(range(count)), keyed(*(f"k{i}" for i in range(count)), user=["u"] * count))
    assert soup.queries(labels={"user": "u"})[1:] == ids
    soup.maintain()
    for query_id in ids:
        soup.unregister(query_id)
    soup.check()
    assert soup.engine.bill()["query_tags_bytes"] <= 2 * before["query_tags_bytes"]
    assert soup.queries(labels={"user": "u"}) == [soup.query("stays")]


def frame(count: int, **more: Any) -> pa.Table:
    """Rows of a parameter `least` and of tags."""
    ids = [f"search-{number}" for number in range(count)]
    users = [number % 3 or None for number in range(count)]
    return pa.table({"least": range(count), "search_id": ids, "user_id": pa.array(users, pa.int64()), **more})


@pytest.mark.parametrize("count", [5, 400])
@pytest.mark.parametrize("statement", ["SELECT x FROM s WHERE x > ?", "SELECT x FROM s WHERE x > $least"])
def test_columns_of_a_frame_are_keys_and_labels(soup: LocalPSoup, count: int, statement: str) -> None:
    ids = soup.register_many(statement, frame(count), key="search_id", labels=["user_id"])
    assert soup.register_many(statement, frame(count), key="search_id", labels=["user_id"]) == ids
    assert soup.queries(labels={"user_id": "2"}) == list(ids)[2::3]
    assert soup.query("search-3") == ids[3]
    with pytest.raises(Conflict, match="key 'search-0'"):
        soup.register_many(statement, frame(count), key="search_id")
    soup.push("s", pa.table({"x": [3]}))
    assert soup.matches("s", 0) == list(ids)[:3]


def test_a_label_may_be_a_parameter_too(soup: LocalPSoup) -> None:
    ids = soup.register_many(
        "SELECT x FROM s WHERE x = $user_id", frame(4).drop(["least"]), key="search_id", labels=["user_id"]
    )
    assert soup.queries(labels={"user_id": "1"}) == [ids[1]]
    assert soup.engine.snapshot().query(ids[1], "default").query.text == "SELECT x FROM s WHERE x = 1"


@pytest.mark.parametrize(
    ("statement", "rows", "options", "why"),
    [
        ("x > $least", frame(3), {"key": "id", "labels": ["user_id", "kind"]}, "no column 'id', 'kind' for keys"),
        (
            "x > $least",
            frame(3, a=[1, 2, 3], b=[1, 2, 3]),
            {"key": "search_id"},
            r"no parameter \$user_id, \$a or \$b;",
        ),
        ("x > $most + $less", frame(3), {}, r"parameters \$most, \$less are missing; there is no parameter \$least, "),
        ("x > ?", frame(3), {"key": "search_id"}, "2 parameters are given, the columns least, user_id, but .* takes 1"),
        ("x > ?", frame(3, f=[1.5, 2.0, 3.0]), {"labels": ["f"]}, "column 'f' has double; keys and labels are texts"),
        ("x > ?", frame(3), {"key": "user_id"}, "query 1: the key is NULL"),
        ("x > ?", frame(3), {"labels": ["user_id", "user_id"]}, "named twice"),
        ("x > ?", [(1,), (2,)], {"key": "search_id"}, "columns of a table"),
    ],
)
def test_columns_that_do_not_fit_are_named(
    soup: LocalPSoup, statement: str, rows: Any, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        soup.register_many(f"SELECT x FROM s WHERE {statement}", rows, **options)
    assert soup.queries() == []
