"""Registration in bulk, from the SDK and the command line, on a real service."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from psoup_cli.app import app
from psoup_client import Client, Conflict, InvalidData, InvalidRequest
from psoup_client.bulk import PART_QUERIES
from psoup_testing.services.threaded_service import Serving

Make = Callable[[str], str]


@pytest.fixture
def trades(make_stream: Make, client: Client) -> str:
    name = make_stream("(sym TEXT, qty BIGINT)")
    client.push(name, {"sym": ["a", "b", "b"], "qty": [1, 5, 9]})
    return name


def quantities(query: object) -> list[int]:
    return [row["qty"] for row in query.invoke()]  # type: ignore[attr-defined]


def test_one_query_with_parameters(client: Client, trades: str) -> None:
    query = client.register(f"SELECT qty FROM {trades} WHERE sym = ? AND qty > ?", ["b", 5])
    assert quantities(query) == [9]
    assert query.sql == f"SELECT qty FROM {trades} WHERE sym = 'b' AND qty > 5"
    named = client.register(f"SELECT qty FROM {trades} WHERE sym = $sym", {"sym": "b"}, request_id="one")
    assert client.register(f"SELECT qty FROM {trades} WHERE sym = $sym", {"sym": "b"}, request_id="one").id == named.id
    with pytest.raises(Conflict):
        client.register(f"SELECT qty FROM {trades} WHERE sym = $sym", {"sym": "c"}, request_id="one")


@pytest.mark.parametrize(
    "rows",
    [
        [("a", 0), ("b", 6)],
        [["a", 0], ["b", 6]],
        pa.table({"x": ["a", "b"], "y": [0, 6]}),
        pd.DataFrame({"x": ["a", "b"], "y": [0, 6]}),
        pl.DataFrame({"x": ["a", "b"], "y": [0, 6]}),
        pa.table({"x": pa.array(["a", "b"]).dictionary_encode(), "y": ["0", "6"]}),
    ],
    ids=["tuples", "lists", "arrow", "pandas", "polars", "text"],
)
def test_rows_of_parameters_in_order(client: Client, trades: str, rows: object) -> None:
    found = client.register_many(f"SELECT qty FROM {trades} WHERE sym = ? AND qty > ?", rows)
    assert [quantities(query) for query in found] == [[1], [9]]
    assert found[1].info.sql.endswith("sym = 'b' AND qty > 6")


@pytest.mark.parametrize(
    "rows",
    [
        [{"least": 0, "sym": "a"}, {"sym": "b", "least": 6}],
        {"least": [0, 6], "sym": ["a", "b"]},
        pa.table({"least": [0, 6], "SYM": ["a", "b"]}),
        pl.DataFrame({"least": [0, 6], "sym": ["a", "b"]}),
    ],
)
def test_rows_of_parameters_by_name(client: Client, trades: str, rows: object) -> None:
    found = client.register_many(f"SELECT qty FROM {trades} WHERE sym = $sym AND qty > $least", rows)
    assert [quantities(query) for query in found] == [[1], [9]]


def test_many_go_in_parts_and_are_told(client: Client, trades: str) -> None:
    rows = [("b", number % 7) for number in range(PART_QUERIES + 100)]
    told: list[tuple[int, int]] = []
    sql = f"SELECT qty FROM {trades} WHERE sym = ? AND qty > ?"
    found = client.register_many(sql, rows, request_id="many", progress=lambda *both: told.append(both))
    assert told == [(PART_QUERIES, len(rows)), (len(rows), len(rows))]
    assert len({query.id for query in found}) == len(rows)
    assert quantities(found[-1]) == [9] if rows[-1][1] >= 5 else [5, 9]
    assert [query.id for query in client.register_many(sql, rows, request_id="many")] == [q.id for q in found]
    rows[PART_QUERIES + 50] = ("b", "x")  # type: ignore[assignment]
    with pytest.raises(InvalidData, match=r"cannot be sent together: int \(row 1\), str \(row 8243\)"):
        client.register_many(sql, rows)


def test_statements_in_a_list(client: Client, trades: str) -> None:
    found = client.register_many([f"SELECT qty FROM {trades} WHERE qty > {least}" for least in range(600)])
    assert quantities(found[5]) == [9]
    assert len(found) == 600
    with pytest.raises(InvalidRequest, match="query 2: line 1, column 8"):
        client.register_many([f"SELECT qty FROM {trades}", f"SELECT nix FROM {trades}"])


def test_a_wrong_parameter_is_named_and_the_part_leaves_nothing(client: Client, trades: str) -> None:
    before = len(client.queries(trades))
    sql = f"SELECT qty FROM {trades} WHERE sym = ? AND qty > ?"
    with pytest.raises(InvalidRequest) as refused:
        client.register_many(sql, [("a", "1"), ("a", "one")])
    assert "parameter 2 of query 2 is 'one', a text, but BIGINT is expected" in refused.value.message
    assert refused.value.reason == "PARAMETER_TYPE"
    assert refused.value.facts["query"] == "2"
    for rows, message in (
        ([("a",)], "query 1: 1 parameter is given, but the statement takes 2"),
        ([{"sym": "a", "qty": 1}], "the parameters are written ?, so they have no names"),
        (pa.table({"x": [b"1"], "y": [1]}), "column 'x' of parameters is binary"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            client.register_many(sql, rows)
        assert message in refused.value.message
    with pytest.raises(InvalidData, match="row 2 has 1 value, those before it 2"):
        client.register_many(sql, [("a", 1), ("a",)])
    assert len(client.queries(trades)) == before


def test_no_rows_are_no_call(client: Client, trades: str) -> None:
    assert client.register_many(f"SELECT qty FROM {trades} WHERE sym = ?", []) == []


def test_times_keep_their_meaning(client: Client, make_stream: Make) -> None:
    name = make_stream("(at TIMESTAMP, day DATE)")
    noon = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
    client.push(name, [{"at": noon, "day": noon.date()}])
    sql = f"SELECT * FROM {name} WHERE at = ? AND day = ?"
    forms = [(noon, noon.date()), (noon.replace(tzinfo=None), noon.date())]
    for form in forms:
        assert len(client.register(sql, form).invoke()) == 1
    assert len(client.register(sql, ["2024-05-01T12:00:00Z", "2024-05-01"]).invoke()) == 1


# The command line ------------------------------------------------------------------------------------------


def run(running: Serving, *words: str, fails: int = 0) -> list[str]:
    result = CliRunner().invoke(app, ["register", *words, "--address", running.address])
    assert result.exit_code == fails, result.output
    return result.stdout.splitlines()


def test_the_command_registers_one_with_values(running: Serving, client: Client, trades: str) -> None:
    words = (f"SELECT qty FROM {trades} WHERE sym = $1 AND qty > $2", "--param", "b", "--param", "6")
    (query_id,) = run(running, *words)
    assert quantities(client.query(query_id)) == [9]


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl", "arrow"])
def test_the_command_reads_rows_of_a_file(
    running: Serving, client: Client, trades: str, tmp_path: Path, form: str
) -> None:
    path = tmp_path / f"params.{form}"
    table = pa.table({"least": [0, 6], "sym": ["a", "b"]})
    if form == "csv":
        path.write_text("least,sym\n0,a\n6,b\n")
    elif form == "jsonl":
        path.write_text('{"least": 0, "sym": "a"}\n\n{"least": 6, "sym": "b"}\n')
    elif form == "parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    sql = f"SELECT qty FROM {trades} WHERE sym = $sym AND qty > $least"
    found = run(running, sql, "--params", str(path))
    assert [quantities(client.query(query_id)) for query_id in found] == [[1], [9]]
    template = tmp_path / "query.sql"
    template.write_text(sql)
    again = run(running, "--file", str(template), "--params", str(path), "--json")
    assert [quantities(client.query(json.loads(line)["query_id"])) for line in again] == [[1], [9]]


def test_the_command_reads_statements_of_a_file(running: Serving, client: Client, trades: str, tmp_path: Path) -> None:
    path = tmp_path / "queries.sql"
    path.write_text(f"-- two\nSELECT qty FROM {trades} WHERE qty > 6\n\nSELECT qty FROM {trades} WHERE qty < 2;\n")
    found = run(running, "--file", str(path))
    assert [quantities(client.query(query_id)) for query_id in found] == [[9], [1]]
    path.write_text("-- nothing\n")
    run(running, "--file", str(path), fails=2)
    run(running, "--file", str(path), "--param", "1", fails=2)
    run(running, "SELECT 1", "--params", str(tmp_path / "none.csv"), fails=2)
    run(running, fails=2)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (lambda: pd.DataFrame({"a": [1, "x"]}), "parameter a cannot be sent together: int .row 1., str .row 2."),
        (lambda: pd.DataFrame({"a": [object()]}), "parameter a cannot be sent: object .row 1."),
        (lambda: pd.DataFrame({"a": [1 + 2j]}), "parameter a cannot be sent: complex"),
        (lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]), "column 'a' comes twice"),
        (lambda: pa.chunked_array([[1]]), "a ChunkedArray is not a table; rows of parameters are a list"),
        (lambda: pl.Series([1]), "a Series is not a table"),
        (lambda: {"a": 1}, "the values of parameter a are a int; give a list"),
        (lambda: {"a": "xyz"}, "the values of parameter a are a str"),
    ],
)
def test_what_is_no_rows_is_an_error_of_the_sdk(client: Client, rows: Any, said: str) -> None:
    with pytest.raises(InvalidData, match=said):
        client.register_many("SELECT a FROM nothing WHERE a = ?", rows())


@pytest.mark.parametrize("rows", [5, pl.LazyFrame({"a": [1]})])
def test_what_has_no_rows_is_a_type_error(client: Client, rows: Any) -> None:
    with pytest.raises(TypeError, match="has no rows; rows of parameters are a list of tuples or dicts"):
        client.register_many("SELECT a FROM nothing WHERE a = ?", rows)
