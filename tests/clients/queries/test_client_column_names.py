"""Columns of one name: Arrow and CSV have the names as written, all else has a different name for each column."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import grpc
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psoup.plan import column_names
from psoup_client import Client
from psoup_proto.column_names import unique_names
from psoup_proto.v1 import queries_pb2, queries_pb2_grpc
from psoup_recharge import Store
from psoup_testing.services.command import Psoup
from psoup_testing.services.fixtures import numbers
from psoup_testing.services.threaded_service import Serving

MakeStream = Callable[[str], str]
ROW = {"k": 1, "v": "a", "k_2": 1, "K_1": 7}
WRITTEN, UNIQUE = ["k", "v", "k", "K_1"], ["k", "v", "k_2", "K_1"]


@pytest.mark.parametrize(
    ("written", "unique"),
    [
        ("a b c", "a b c"),
        ("a a a", "a a_1 a_2"),
        ("a A a", "a A_1 a_2"),
        ("a a a_1", "a a_2 a_1"),
        ("a a A_1 a_2 a", "a a_3 A_1 a_2 a_4"),
        ("a a_1 a_1 a", "a a_1 a_1_1 a_2"),
        ("a_1 a_1 a a", "a_1 a_1_1 a a_2"),
    ],
)
def test_each_repetition_gets_the_next_free_ending(written: str, unique: str) -> None:
    assert unique_names(written.split()) == tuple(unique.split()) == column_names.unique_names(written.split())


def test_four_thousand_equal_names_are_made_different_at_once() -> None:
    names = unique_names(["a", *[f"a_{number}" for number in range(2, 4_000, 2)]] * 2)
    assert len({name.lower() for name in names}) == 4_000


@pytest.fixture
def statement(client: Client, make_stream: MakeStream) -> str:
    left, right = make_stream("(k BIGINT, v TEXT)"), make_stream("(k BIGINT, K_1 BIGINT)")
    client.push(left, [{"k": 1, "v": "a"}])
    client.push(right, [{"k": 1, "K_1": 7}])
    return f"SELECT * FROM {left} a JOIN {right} b ON a.k = b.k BEGIN (START)"


def test_an_answer_has_the_written_names_in_arrow_alone(client: Client, statement: str, tmp_path: Path) -> None:
    query = client.register(statement)
    assert [column.name for column in query.info.columns] == UNIQUE
    answer = query.invoke()
    assert answer.schema.names == pa.table(answer).schema.names == answer.to_arrow().schema.names == WRITTEN
    assert list(answer.columns) == UNIQUE
    assert [*answer] == [ROW] and answer[0] == ROW and answer.rows() == [(1, "a", 1, 7)]
    assert answer["k"].to_pylist() == answer["k_2"].to_pylist() == [1]
    assert answer.to_pandas().to_dict("records") == [ROW]
    assert repr(answer).split("\n")[0].split() == UNIQUE
    assert "<th>k_2</th>" in answer._repr_html_()
    answer.to_parquet(tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == [ROW]
    with query.stream() as pieces:
        assert pieces.schema.names == WRITTEN
        assert [*pieces.read_all()] == [ROW]
    assert [*client.ask(statement)] == [ROW]


def test_polars_gets_different_names(client: Client, statement: str) -> None:
    pytest.importorskip("polars")
    assert client.ask(statement).to_polars().to_dicts() == [ROW]


def test_a_table_of_many_queries_has_different_names(client: Client, statement: str) -> None:
    queries = [client.register(statement), client.register(statement.replace("SELECT *", "SELECT DISTINCT *"))]
    table = client.invoke_table(queries)
    assert table.schema.names == ["_query", *WRITTEN]
    assert [*table] == [{"_query": 0, **ROW}, {"_query": 1, **ROW}]
    odd = client.register(statement.replace("SELECT *", "SELECT a.k AS _query, b.k"))
    assert [*client.invoke_table([odd])] == [{"_query": 0, "_query_1": 1, "k": 1}]


def test_copies_have_different_names(client: Client, statement: str, tmp_path: Path) -> None:
    copy = client.copy(client.register(f"{statement} ORDER BY v"))
    copy.sync()
    assert [*copy] == [ROW] and copy.to_arrow().schema.names == WRITTEN
    with Store(tmp_path / "copies.db") as store:
        store.add("both", sql=statement)
        store.recharge(client)
        assert store.read("both").schema.names == WRITTEN
        assert store.select("SELECT * FROM both") == (UNIQUE, [(1, "a", 1, 7)])
    with sqlite3.connect(tmp_path / "copies.db") as file:
        file.row_factory = sqlite3.Row
        assert [dict(row) for row in file.execute("SELECT * FROM both")] == [ROW]
    file.close()


def test_the_shell_has_different_names_except_in_csv_and_arrow(psoup: Psoup, statement: str) -> None:
    assert psoup("ask", statement, "--format", "table").out.splitlines()[0].split() == UNIQUE
    assert psoup("ask", statement, "--json").rows == [ROW]
    assert psoup("ask", statement, "--format", "csv").out.splitlines()[0].replace('"', "").split(",") == WRITTEN


def test_json_has_different_names(client: Client, running: Serving, statement: str) -> None:
    query = client.register(statement)
    with grpc.insecure_channel(running.address) as channel:
        stub = queries_pb2_grpc.QueryServiceStub(channel)
        page = stub.InvokeRows(queries_pb2.InvokeRowsRequest(query_id=query.id, json=True))
    assert [column.name for column in page.columns] == UNIQUE
    assert json.loads(page.json_rows) == [ROW]


def test_statements_in_a_derived_stream_use_the_different_names(client: Client, statement: str) -> None:
    rows = client.ask(statement)
    name = client.create_stream(f"CREATE STREAM derived{next(numbers)} (k BIGINT, v TEXT, k_2 BIGINT, K_1 BIGINT)").name
    client.push(name, [*rows])
    assert [*client.ask(f"SELECT * FROM {name}")] == [ROW]
