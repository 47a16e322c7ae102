"""The commands for tables: create, list, show, alter, drop; pushes that upsert and delete; wrong kinds of names."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from psoup_testing.services import fixtures
from psoup_testing.services.command import Psoup

ROWS = "id,name\n1,Ann\n2,Bob\n2,Bobby\n"


@pytest.fixture
def table(psoup: Psoup, tmp_path: Path) -> str:
    name = f"table{next(fixtures.numbers)}"
    made = psoup("table", "create", f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, name TEXT NOT NULL)")
    assert made.err == f"Created table {name} with 2 columns and the primary key id.\n"
    (tmp_path / "rows.csv").write_text(ROWS)
    pushed = psoup("push", name, "rows.csv")
    assert pushed.err.startswith("3 rows taken in 1 batch; 1 replaced by a later row with the same key and time; water")
    return name


def held(psoup: Psoup, table: str) -> list[str]:
    return sorted(psoup("ask", f"SELECT id, name FROM {table}").out.splitlines()[1:])


def test_rows_are_upserted_and_deleted(psoup: Psoup, table: str, tmp_path: Path) -> None:
    assert held(psoup, table) == ['1,"Ann"', '2,"Bobby"']
    (tmp_path / "gone.csv").write_text("name,ID\nof no interest,1\n")
    assert psoup("push", "--delete", table, "gone.csv", "--dry-run").err.startswith("1 row would be sent")
    assert psoup("push", "--delete", table, "gone.csv").code == 0
    assert held(psoup, table) == ['2,"Bobby"']
    (tmp_path / "both.jsonl").write_text('{"id": 3, "name": "Cy"}\n{"id": 2, "_deleted": true}\n')
    assert psoup("push", table, "both.jsonl", "--whole").code == 0
    assert held(psoup, table) == ['3,"Cy"']
    assert (
        psoup("push", "--delete", table, "-", "--format", "csv", "--no-header", "--ids", stdin=b"3\n").out == "0\t6\n"
    )
    assert held(psoup, table) == []


def test_rows_are_patched(psoup: Psoup, stream: str, tmp_path: Path) -> None:
    name = f"table{next(fixtures.numbers)}"
    psoup("table", "create", f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, name TEXT, n BIGINT)")
    (tmp_path / "rows.csv").write_text("id,name,n\n1,Ann,1\n2,Bob,2\n")
    (tmp_path / "n.csv").write_text("n,id\n5,1\n,2\n")
    (tmp_path / "names.jsonl").write_text('{"id": 1, "name": "Anna"}\n{"id": 3, "name": "Cy"}\n')
    (tmp_path / "bad.jsonl").write_text('{"id": 1, "name": "x"}\n{"id": 3, "n": 4}\n')
    psoup("push", name, "rows.csv")
    for file, flags in (("n.csv", ()), ("names.jsonl", ("--whole",))):
        assert psoup("push", "--patch", name, file, *flags).err.startswith("2 rows taken in 1 batch")
    rows = sorted(psoup("ask", f"SELECT id, name, n FROM {name}").out.splitlines()[1:])
    assert rows == ['1,"Anna",5', '2,"Bob",', '3,"Cy",']
    for flags in ((), ("--rejects", "no.csv"), ("--dry-run",)):
        said = psoup("push", "--patch", name, "bad.jsonl", *flags)
        assert said.code == 1 and "bad.jsonl: line 1: the patch lacks 'n', which another row has" in said.err
    assert "--delete and --patch exclude each other" in psoup("push", "--patch", "--delete", name, "n.csv").err
    said = psoup("push", "--patch", stream, "n.csv")
    assert said.code == 5 and f"{stream!r} is a stream, which only grows, and --patch is for tables" in said.err


@pytest.mark.parametrize(
    ("rows", "flags", "wanted"),
    [
        ("id,name\n3,x\n,y\n", (), "line 3: 'id' is NULL; it is the primary key of table '{}'"),
        ("id\n3\n", (), "line 1: column 'name' is missing, and table '{}' says NOT NULL; add it to the file"),
        ("id,_deleted\n3,false\n", (), "line 2: 'name' is NULL, but table '{}' says NOT NULL; give it a value"),
        ("name\nx\n", ("--delete",), "line 1: 'name' names none of the columns of table '{}', which are id"),
        ("id,name,shop\n3,x,y\n", (), "line 1: table '{}' has no column 'shop'"),
        ("id\nx\n", ("--delete",), "line 2, column 'id', 'x': it is not a valid BIGINT"),
    ],
)
def test_a_bad_row_is_named(
    psoup: Psoup, table: str, tmp_path: Path, rows: str, flags: tuple[str], wanted: str
) -> None:
    (tmp_path / "bad.csv").write_text(rows)
    said = psoup("push", *flags, table, "bad.csv")
    assert said.code == 1 and wanted.format(table) in said.err and "0 rows before it were taken" in said.err


def test_a_row_with_a_null_key_is_rejected(psoup: Psoup, table: str, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("id,name\n3,x\n,y\n")
    assert psoup("push", table, "bad.csv", "--rejects", "no.csv").code == 6
    assert f"bad.csv,3,'id' is NULL; it is the primary key of table '{table}',\",y\"" in Path("no.csv").read_text()


def test_tables_are_listed_shown_and_altered(psoup: Psoup, table: str) -> None:
    shown = psoup("table", "show", table)
    for line in (f"table          {table}", "primary key    id", "history        1 week", "deleted for    30 days"):
        assert line in shown.out
    assert "retention" not in shown.out
    altered = psoup("table", "alter", f"ALTER TABLE {table} HISTORY 90 DAYS")
    assert altered.err == f"Table {table} has 2 columns now, keeps versions for 90 days and deletions for 30 days.\n"
    listed = {row["name"]: row["primary_key"] for row in csv.DictReader(psoup("table", "list").out.splitlines())}
    assert listed[table] == "id"
    rows = {row["name"]: row for row in psoup("table", "list", "--json").rows}
    assert rows[table]["kind"] == "table" and rows[table]["primary_key"] == ["id"]
    assert {row["kind"] for row in rows.values()} == {"table"}
    assert {row["kind"] for row in psoup("stream", "list", "--json").rows} >= {"table"}


def test_a_joined_table_is_dropped_only_with_its_queries(psoup: Psoup, table: str, stream: str) -> None:
    statement = f"SELECT s.id FROM {stream} s JOIN {table} t ON t.id = s.id"
    query = psoup("register", statement).out.strip()
    said = psoup("table", "drop", table)
    assert said.code == 5 and f"table {table!r} is used by query {query}; unregister it first" in said.err
    assert "or drop the table with CASCADE (--cascade in the shell" in said.err
    assert psoup("table", "drop", table, "--cascade", "--yes").err == f"Dropped table {table} and 1 query on it.\n"


def test_the_other_kind_is_refused(psoup: Psoup, table: str, stream: str, tmp_path: Path) -> None:
    (tmp_path / "gone.csv").write_text("id\n1\n")
    for arguments, wanted in (
        (("stream", "drop", table), f"{table!r} is a table, not a stream: psoup table drop {table}"),
        (("table", "drop", stream), f"{stream!r} is a stream, not a table: psoup stream drop {stream}"),
        (("stream", "alter", f"ALTER STREAM {table} LATENESS 1 SECOND"), f"{table!r} is a table, not a stream"),
        (("stream", "alter", f"ALTER STREAM {table} ADD x TEXT"), f"write ALTER TABLE {table}"),
        (("push", "--delete", stream, "gone.csv"), f"{stream!r} is a stream, which only grows, and --delete is for ta"),
    ):
        said = psoup(*arguments)
        assert said.code in (1, 5) and wanted in said.err, said
    assert psoup("table", "drop", table).err == f"Dropped table {table}.\n"


def test_statements_over_tables_say_which_rows_they_read(psoup: Psoup, table: str) -> None:
    """A table has no window: its rows hold now or then, and come and leave."""
    stream = f"stream{next(fixtures.numbers)}"
    psoup("stream", "create", f"CREATE STREAM {stream} (id BIGINT)")
    alone = f"SELECT name FROM {table} WHERE id = 1"
    joined = f"SELECT s.id FROM {stream} s {{}} JOIN {table} t {{}} ON t.id = s.id"
    checked = psoup("check", alone).out
    assert "window      the rows that hold now (table)\n" in checked
    assert f"plan        Project name <- Source {table} (the rows that hold now)\n" in checked
    assert "Source" in psoup("check", joined.format("", "")).out
    then = psoup("check", joined.format("LEFT", "AS OF s")).out
    assert f"Source {table} AS t (the version at the time of each row)\n" in then
    assert "s BEGIN (START) END (NOW), t the version at the time of each row (landmark)\n" in then
    made = psoup("register", alone)
    assert made.err == "Registered, table: the rows that hold now\n"
    query = made.out.strip()
    assert psoup("invoke", query).err.endswith("1 row. Rows may come and leave; nothing late, nothing pending.\n")
    explained = psoup("explain", query).out
    assert "\n  rows     the rows that hold now\n" in explained
    assert "\n  table has 2 rows, 1 matches; " in explained
    assert psoup("ask", joined.format("", "")).err.startswith("0 rows. Rows may come and leave;")
