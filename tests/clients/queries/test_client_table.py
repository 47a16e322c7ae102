"""The answers of many queries as one table: in the SDK by all the ways to name queries, and as a command."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pyarrow as pa
import pytest

from psoup_client import AnswerTable, Client, InvalidRequest, NotFound, Places, Queries
from psoup_testing.services.command import Psoup

MakeStream = Callable[[str], str]
USERS = 1_200


@pytest.fixture
def filled(client: Client, make_stream: MakeStream) -> tuple[str, Queries]:
    """Alerts of 1,200 users: user n has n % 3 rows."""
    name = make_stream("(u BIGINT, text TEXT)")
    keys, groups = [f"{name}/{n}" for n in range(USERS)], [f"{name}{n % 2}" for n in range(USERS)]
    rows = pa.table({"u": range(USERS), "key": keys, "group": groups})
    standing = client.register_many(f"SELECT text FROM {name} WHERE u = $u", rows, key="key", labels=["group"])
    some = [n for n in range(USERS) for _ in range(n % 3)]
    client.wait_for(client.push(name, {"u": some, "text": [f"t{n}" for n in some]}).sequence)
    return name, standing


def check(table: AnswerTable, users: list[int]) -> None:
    """Check that it has the rows of some users, by place."""
    wanted = [(place, f"t{user}") for place, user in enumerate(users) for _ in range(user % 3)]
    columns = table.to_arrow().to_pydict()
    assert list(zip(columns["_query"], columns["text"], strict=True)) == wanted
    assert table.queries == len(users)
    assert not table.failures


def test_queries_are_named_in_many_ways(client: Client, filled: tuple[str, Queries]) -> None:
    name, standing = filled
    every = list(range(USERS))
    whole = client.invoke_table(standing)
    check(whole, every)
    assert whole.query_id(7) == standing[7].id
    assert whole.rows_of(5).to_pydict() == {"text": ["t5", "t5"]}
    assert (whole.rows_of(6).num_rows, len(whole), whole.columns) == (0, USERS, ("_query", "text"))
    check(client.invoke_table(standing[3:9]), every[3:9])
    backwards = [query.id for query in standing][::-1]
    check(client.invoke_table(backwards), every[::-1])  # as numbers
    check(client.invoke_table(pa.array(backwards)), every[::-1])
    check(client.invoke_table(backwards[:5] * 2), every[::-1][:5] * 2)  # as texts
    check(client.invoke_table([standing[1], standing[0].id]), [1, 0])
    labelled = client.invoke_table(labels={"group": f"{name}1"})
    check(labelled, every[1::2])
    assert labelled.query_id(3) == standing[7].id
    check(client.invoke_table(key_prefix=f"{name}/11"), [11, *range(110, 120), *range(1_100, 1_200)])
    assert len(client.invoke_table(labels={"group": "nobody"})) == 0


def test_a_table_is_read_as_other_frames_are(client: Client, filled: tuple[str, Queries]) -> None:
    _, standing = filled
    table = client.invoke_table(standing[:6])
    assert sum(batch.num_rows for batch in table.batches) == len(table) == 6
    assert table.to_pandas().columns.tolist() == ["_query", "text"]
    assert pa.table(table).equals(table.to_arrow())
    assert list(table)[:2] == [{"_query": 1, "text": "t1"}, {"_query": 2, "text": "t2"}]
    assert table.to_polars().height == 6
    assert "6 rows of 6 queries. May still grow" in repr(table)
    assert "<table" in table._repr_html_()


def test_what_failed_is_said_by_place(client: Client, filled: tuple[str, Queries]) -> None:
    _, standing = filled
    last = standing[-1].id
    prefix, _, number = last.rpartition("-")
    gone = [f"{prefix}-{int(number) + n}" for n in range(10_000, 10_003)]
    table = client.invoke_table([standing[2].id, *gone, standing[1].id, "q-00000000-1"])
    assert table.to_arrow()["_query"].to_pylist() == [0, 0, 4]
    failed = {failure.error.reason: failure.places for failure in table.failures}
    assert failed == {"UNKNOWN_QUERY": [1, 2, 3], "FOREIGN_INCARNATION": [5]}
    assert all(isinstance(failure.error, NotFound) for failure in table.failures)
    assert list(table.completeness[0].places) == [0, 4]
    assert table.sentence().startswith("3 rows of 2 queries; 4 queries without an answer (FOREIGN_INCARNATION, UNKNOWN")
    with pytest.raises(InvalidRequest) as refused:
        client.invoke_table([standing[0].id, client.register(f"SELECT u FROM {filled[0]}").id])
    assert refused.value.reason == "MIXED_COLUMNS"


def test_queries_are_named_in_one_way(client: Client) -> None:
    for call in ({}, {"queries": [], "key_prefix": "a"}, {"labels": {"a": "b"}, "key_prefix": "a"}):
        with pytest.raises(ValueError, match="say which queries"):
            client.invoke_table(**call)  # type: ignore[arg-type]


def test_places_are_a_sequence() -> None:
    places = Places([2, 9], [3, 1])
    assert (len(places), list(places), places[3], places[1:]) == (4, [2, 3, 4, 9], 9, [3, 4, 9])
    assert 4 in places and 5 not in places
    assert places.ranges() == [range(2, 5), range(9, 10)]
    assert repr(places) == "<4 places: 2 to 4, 9>"


def test_the_command_prints_one_table(psoup: Psoup, client: Client, filled: tuple[str, Queries]) -> None:
    name, standing = filled
    ran = psoup("invoke", "--table", "--key-prefix", f"{name}/11", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert ran.code == 0
    assert [(row["_query"], row["text"]) for row in rows[:3]] == [("0", "t11"), ("0", "t11"), ("1", "t110")]
    assert "rows of 111 queries" in ran.err
    shown = psoup("invoke", "--table", standing[1].id, standing[2].id, "--format", "table", "--rows", "2")
    assert [line.split() for line in shown.out.splitlines()[-2:]] == [["0", "t1"], ["1", "t2"]]
    assert "The first 2 of 3 rows" in shown.err
    missing = psoup("invoke", "--table", standing[1].id, standing[1].id.rpartition("-")[0] + "-99999", "--json")
    assert (missing.code, missing.rows) == (4, [{"_query": 0, "text": "t1"}])
    assert "1 place: 1: there are no such queries" in missing.err
    for nobody in ("--table --label of=nobody", f"--table --key-prefix {name}/9999", "--label of=nobody"):
        none = psoup("invoke", *nobody.split())
        assert (none.code, none.out) == (4, "")
        assert "no query has" in none.err
    for wrong in (["--table", "--key", "k"], ["--key-prefix", "k"], ["--table", "--key-prefix", ""], ["--table"]):
        assert psoup("invoke", *wrong).code == 2
