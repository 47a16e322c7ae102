"""The psoup command against a real service: output, messages, exit codes, bad input."""

import csv
import io
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psoup_client import Client
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.services.command import COLUMNS, ROWS, Psoup
from psoup_testing.services.threaded_service import Serving, serving


def registered(psoup: Psoup, sql: str) -> str:
    ran = psoup("register", sql)
    assert ran.code == 0, ran.err
    return ran.out.strip()


# Streams and queries -------------------------------------------------------------------------------------


def test_stream_commands(psoup: Psoup, stream: str) -> None:
    listed = list(csv.DictReader(psoup("stream", "list").out.splitlines()))
    assert [row["tuples"] for row in listed if row["name"] == stream] == ["0"]
    row = next(row for row in psoup("stream", "list", "--json").rows if row["name"] == stream)
    assert row["columns"][2] == {"name": "price", "type": "DECIMAL(9,2)", "nullable": True}
    shown = psoup("stream", "show", stream.upper()).out
    assert re.search(r"next tuple ID +0\n", shown) and "DECIMAL(9,2)" in shown and "NOT NULL" in shown
    (row,) = psoup("stream", "describe", stream, "--json").rows
    assert (row["time_column"], row["first_time"]) == ("at", None)
    again = psoup("stream", "create", f"CREATE STREAM {stream} {COLUMNS}")
    assert (again.code, again.out) == (5, "")
    assert "exists, with " in psoup("stream", "create", "--if-not-exists", f"CREATE STREAM {stream} {COLUMNS}").err
    query = registered(psoup, f"SELECT id FROM {stream}")
    assert psoup("stream", "drop", stream).code == 5, "a query uses it"
    assert psoup("unregister", query).code == 0
    assert psoup("stream", "drop", stream).code == 0
    assert psoup("stream", "describe", stream).code == 4


def test_register_invoke_and_the_rest(psoup: Psoup, filled: str) -> None:
    query = registered(psoup, f"SELECT _id, id, name FROM {filled} WHERE id <> 2")
    assert psoup("invoke", query).out == '"_id","id","name"\n0,1,"a"\n2,3,"c,d"\n'
    assert psoup("invoke", query, "--json").rows == [
        {"_id": 0, "id": 1, "name": "a"},
        {"_id": 2, "id": 3, "name": "c,d"},
    ]
    table = psoup("invoke", query, "--format", "table")
    assert [line.split() for line in table.out.splitlines() if "c,d" in line] == [["2", "3", "c,d"]]
    assert "2 rows." in table.err
    assert "ay still grow" in table.err
    limited = psoup("invoke", query, "--format", "table", "--rows", "1")
    assert "c,d" not in limited.out
    assert "first 1 of 2 rows" in limited.err
    assert query in psoup("queries").out
    assert psoup("queries", "--stream", filled, "--json").rows[0]["query_id"] == query
    assert filled in psoup("explain", query).out
    assert psoup("explain", query, "--json").rows[0]
    assert psoup("matches", filled, "2").out.split() == [query]
    assert psoup("matches", filled, "2", "--json").rows == [{"tuple_id": 2, "query_id": query}]
    assert psoup("matches", filled, "7").code == 4
    assert psoup("unregister", query).code == 0
    assert psoup("invoke", query).code == 4


def test_register_reads_standard_input_and_knows_its_request(psoup: Psoup, stream: str) -> None:
    sql = f"SELECT id\nFROM {stream}\n"
    first = psoup("register", "-", "--request-id", stream, stdin=sql.encode())
    assert psoup("register", sql, "--request-id", stream, "--json").rows[0]["query_id"] == first.out.strip()
    assert psoup("register", f"SELECT name FROM {stream}", "--request-id", stream).code == 5


def test_as_of_and_window(psoup: Psoup, filled: str, client: Client) -> None:
    query = registered(psoup, f"SELECT id FROM {filled} BEGIN (NOW - 30 MINUTES)")
    assert psoup("invoke", query, "--json").rows == [{"id": 3}]
    assert psoup("invoke", query, "--json", "--as-of", "2024-05-01T13:10:00Z").rows == [{"id": 2}]
    assert psoup("invoke", query, "--json", "--window", "BEGIN (START)").rows == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert psoup("invoke", query, "--as-of", "soon").code == 2
    assert psoup("invoke", query, "--as-of", "2030-01-01").code == 1
    assert psoup("heartbeat", filled, "2024-05-01T15:00:00Z").code == 0
    client.heartbeat(filled, "1970-01-01")  # its reply names the event of the other, which an answer here has seen
    assert (client.query(query).invoke().rows(), psoup("invoke", query, "--json").rows) == ([], [])


def test_values_in_every_format(psoup: Psoup, filled: str) -> None:
    query = registered(psoup, f"SELECT at, price, name FROM {filled}")
    assert psoup("invoke", query, "--json").rows[0] == {"at": "2024-05-01T12:00:00Z", "price": "1.50", "name": "a"}
    assert psoup("invoke", query, "--format", "csv").out.splitlines()[1:3] == [
        '"2024-05-01T12:00:00Z",1.50,"a"',
        '"2024-05-01T13:00:00Z",,',
    ]
    table = psoup("invoke", query, "--format", "table").out.splitlines()
    assert table[3].split() == ["2024-05-01", "13:00:00Z", "NULL", "NULL"]


def test_arrow_goes_to_a_file(running: Serving, psoup: Psoup, filled: str, tmp_path: Path) -> None:
    query = registered(psoup, f"SELECT id FROM {filled}")
    path = tmp_path / "answer.arrow"
    with Client(running.address) as client, path.open("wb") as file:
        from psoup_cli import output

        with client.query(query).stream() as answer, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", io.TextIOWrapper(file))
            assert output.print_batches("arrow", answer.schema, answer) == 3
            sys.stdout.flush()
    assert pa.ipc.open_stream(path.read_bytes()).read_all().to_pydict() == {"id": [1, 2, 3]}


# Pushing files -------------------------------------------------------------------------------------------


def count(psoup: Psoup, stream: str, sequence: int = 0) -> int:
    """How many tuples the stream has once the event `sequence` is there for readers."""
    shown = psoup("stream", "describe", stream, "--wait-for", str(sequence), "--json")
    return int(shown.rows[0]["tuples"])


def test_push_csv(psoup: Psoup, stream: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        'ID,name,at,price\n1,a,2024-05-01T12:00:00Z,1.5\n2,NA,2024-05-01 12:00:00,\n3,"",2024-05-01 13:00:00,\n'
    )
    ran = psoup("push", stream, str(path), "--null", "NA", "--json")
    assert ran.rows[0]["accepted"] == 3
    query = registered(psoup, f"SELECT id, name, price FROM {stream}")
    assert [tuple(row.values()) for row in psoup("invoke", query, "--json").rows] == [
        (1, "a", "1.50"),
        (2, None, None),
        (3, "", None),
    ]


def test_push_parquet_and_arrow(psoup: Psoup, stream: str, tmp_path: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    pq.write_table(table, tmp_path / "rows.parquet")
    with pa.ipc.new_stream(tmp_path / "rows.arrow", table.schema) as writer:
        writer.write_table(table)
    assert "3 rows taken" in psoup("push", stream, "rows.parquet").err
    again = psoup("push", stream, "rows.arrow", "--json").rows[0]  # the same times once more: only the last fits
    assert again["late"] == 2
    assert count(psoup, stream, again["sequence"]) == 4
    assert psoup("push", stream, "-", "--format", "parquet", stdin=Path("rows.parquet").read_bytes()).code == 6


def test_push_standard_input(psoup: Psoup, stream: str) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    assert psoup("push", stream, "-", stdin=lines).code == 2
    taken = psoup("push", stream, "-", "--format", "json", "--json", stdin=lines)
    assert taken.code == 0
    ran = psoup("push", stream, "-", "--format", "json", stdin=b"")
    assert (ran.code, ran.err) == (0, "standard input has no rows.\n")
    assert "standard input: the file is empty" in psoup("push", stream, "-", "--format", "csv", stdin=b"").err
    assert count(psoup, stream, taken.rows[0]["sequence"]) == 3


def test_a_push_of_which_no_row_is_taken_is_an_error(psoup: Psoup, stream: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,at\n1,2024-05-02\n")
    (tmp_path / "older.csv").write_text("id,at\n2,2024-05-01\n3,2024-05-01\n")
    (tmp_path / "some.csv").write_text("id,at\n4,2024-05-01\n5,2024-05-03\n")
    (tmp_path / "none.csv").write_text("id,at\n")
    assert psoup("push", stream, "rows.csv").code == 0
    for more in ((), ("--rejects", "r.csv"), ("--whole",), ("--whole", "--id", "older")):
        ran = psoup("push", stream, "older.csv", *more)
        assert (ran.code, ran.out) == (5, "")
        assert ran.err.startswith("psoup: older.csv: 2 rows are too late, and none was taken. The times have no zone")
    again = psoup("push", stream, "older.csv", "--whole", "--id", "older", "--json")
    assert (again.code, again.rows[0]["late"], again.rows[0]["duplicates"]) == (5, 2, 1)
    for more in ((), ("--whole",)):
        ran = psoup("push", stream, "none.csv", *more)
        assert (ran.code, ran.err) == (0, "none.csv has no rows.\n")
    ran = psoup("push", stream, "some.csv")
    assert ran.code == 6
    assert "1 row taken in 1 batch; refused: 1 too late" in ran.err


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("bad.jsonl", '{"id": 1', ["line 1", "JSON"]),
        ("bad.jsonl", "[1]\n", ["line 1", "an array"]),
        ("bad.jsonl", '{"id": 1, "at": "2024-05-01"}\n{"id": "x", "at": "2024-05-01"}\n', ["line 2", "'x'", "BIGINT"]),
        ("bad.jsonl", '{"idd": 1}\n', ["'idd'", "did you mean 'id'"]),
        ("bad.csv", "id,at\nx,2024-05-01\n", ["bad.csv", "'x'"]),
        ("bad.csv", "id,at\n1,soon\n", ["'soon'", "TIMESTAMP"]),
        ("bad.csv", "id\n1\n", ["'at' is missing"]),
        ("bad.csv", "id,at\n1\n", ["bad.csv"]),
        ("bad.parquet", "no parquet at all", ["bad.parquet", "parquet"]),
        ("bad.arrow", "no arrow at all", ["bad.arrow", "arrow"]),
    ],
)
def test_push_of_bad_files(
    psoup: Psoup, stream: str, tmp_path: Path, name: str, content: str, parts: list[str]
) -> None:
    (tmp_path / name).write_text(content)
    ran = psoup("push", stream, name)
    assert (ran.code, ran.out) == (1, "")
    for part in parts:
        assert part in ran.err
    assert "Traceback" not in ran.err
    assert count(psoup, stream) == 0


def test_push_that_cannot_begin(psoup: Psoup, stream: str, tmp_path: Path) -> None:
    assert psoup("push", stream, "missing.csv").code == 2
    (tmp_path / "rows.xyz").write_text("")
    assert psoup("push", stream, "rows.xyz").code == 2
    assert psoup("push", stream, str(tmp_path), "--format", "csv").code == 2
    (tmp_path / "rows.csv").write_text("id\n1\n")
    assert psoup("push", "nowhere", "rows.csv").code == 4


# Bad input and settings ----------------------------------------------------------------------------------


def test_a_bad_statement_shows_its_place(psoup: Psoup, stream: str) -> None:
    ran = psoup("register", f"SELECT nam FROM {stream}")
    assert (ran.code, ran.out) == (1, "")
    lines = ran.err.splitlines()
    caret = next(n for n, line in enumerate(lines) if line.strip() == "^")
    assert lines[caret - 1][lines[caret].index("^") :].startswith("nam ")
    assert "name" in ran.err
    assert psoup("stream", "create", "SELECT 1").code == 1
    assert psoup("register", f"SELECT random() FROM {stream}").code == 1
    assert psoup("register", "").code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["invoke"],
        ["invoke", "q", "--format", "xml"],
        ["invoke", "--file", "missing.txt"],
        ["matches", "s", "99999999999999999999"],
        ["matches", "s", "--nonsense", "1"],
        ["register", "--file", "missing.sql"],
        ["register", "SELECT 1", "--params", "missing.parquet"],
        ["push", "s", "/etc/passwd", "--format", "csv", "--whole", "--id", ""],
        ["push", "s", "/etc/passwd", "--format", "csv", "--whole", "--since", "1"],
        ["invoke", "q", "--json", "--format", "csv"],
        ["status", "--address", "no where"],
        ["status", "--address", "host:99999"],
        ["status", "--timeout", "0"],
        ["demo", "--once"],
        ["demo", "--serve", "--address", "127.0.0.1:7433"],
        ["serve", "--port", "99999"],
        ["serve", "--host", "0.0.0.0"],
        ["config", "show", "--config", "missing.toml"],
    ],
)
def test_usage_errors(psoup: Psoup, arguments: list[str]) -> None:
    ran = psoup(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["matches", "s", "x"], "it takes a whole number"),
        (["serve", "--port", "99999"], "'--port': it takes 65535 at most"),
        (["top", "--limit", "0"], "it takes 1 or more"),
    ],
)
def test_numbers_on_the_line_are_refused_in_own_words(psoup: Psoup, arguments: list[str], said: str) -> None:
    assert psoup(*arguments).err.endswith(f"{said}\n")


def test_what_is_on_disk_is_no_memory(psoup: Psoup, tmp_path: Path) -> None:
    settings = Settings(port=0, metrics_port=-1, data_dir=str(tmp_path))
    with serving(settings, store=DurableStore(tmp_path)) as service:
        said = psoup("status", "--address", service.address).out
    assert re.search(r"^on disk  +[0-9,]{5,} bytes of the log.*\nmemory: archive ", said, re.MULTILINE)  # not among it
    assert "memory: store" not in said


def test_nobody_there(psoup: Psoup) -> None:
    ran = psoup("status", "--address", "127.0.0.1:1")
    assert ran.code == 3
    assert ran.err == (
        "psoup: no PSoup service answers at 127.0.0.1:1 (Connection refused); start one with: psoup serve, and"
        " wait until it says that it listens; or name its address: PSOUP_ADDRESS\n"
    )
    assert psoup("demo", "--address", "127.0.0.1:1").code == 3


def test_a_service_on_a_socket(psoup: Psoup) -> None:
    with tempfile.TemporaryDirectory(prefix="ps") as folder:
        address = f"unix:{folder}/s"
        ran = psoup("status", "--address", address)
        assert (ran.code, address in ran.err) == (3, True)
        with serving(Settings(socket=f"{folder}/s")):
            assert address in psoup("status", "--address", address).out


def test_status(psoup: Psoup, running: Serving) -> None:
    assert running.address in psoup("status").out
    row = psoup("status", "--json").rows[0]
    assert (row["state"], row["durable"]) == ("serving", False)


def test_version(psoup: Psoup) -> None:
    assert psoup("--version").out.startswith("psoup ")


def test_where_settings_come_from(psoup: Psoup, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def shown(*flags: str) -> dict[str, tuple[Any, str]]:
        return {row["name"]: (row["value"], row["origin"]) for row in psoup("config", "show", "--json", *flags).rows}

    monkeypatch.delenv("PSOUP_ADDRESS")
    assert shown()["address"] == ("127.0.0.1:7433", "default")
    file = tmp_path / "psoup.toml"
    file.write_text("[service]\nport = 8000\n")
    assert shown()["address"] == ("127.0.0.1:8000", "psoup.toml")
    assert shown()["port"] == (8000, "psoup.toml")
    monkeypatch.setenv("PSOUP_PORT", "8001")
    assert shown()["address"] == ("127.0.0.1:8001", "PSOUP_PORT")
    monkeypatch.setenv("PSOUP_SOCKET", "psoup.sock")
    assert shown()["address"] == ("unix:psoup.sock", "PSOUP_SOCKET")
    file.write_text('[client]\naddress = "10.0.0.3:9"\ntimeout_seconds = 5\n')
    assert shown()["address"] == ("10.0.0.3:9", "psoup.toml")
    assert shown()["timeout_seconds"] == (5, "psoup.toml")
    monkeypatch.setenv("PSOUP_ADDRESS", "10.0.0.1:9")
    assert shown()["address"] == ("10.0.0.1:9", "PSOUP_ADDRESS")
    assert shown("--address", "10.0.0.2:9")["address"] == ("10.0.0.2:9", "--address")
    assert "PSOUP_ADDRESS" in psoup("config", "show").out


@pytest.mark.parametrize(
    "content",
    [
        "[service]\nprot = 8000\n",
        "[client]\nadress = 'a:1'\n",
        "client = 1\n",
        "port = \n",
        "[client]\naddress = 'a:b'\n",
        "[client]\naddress = 'unix:'\n",
        f"[service]\nsocket = '{'a' * 108}'\n",
    ],
)
def test_settings_that_are_wrong(psoup: Psoup, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.delenv("PSOUP_ADDRESS")
    Path("psoup.toml").write_text(content)
    ran = psoup("config", "show")
    assert (ran.code, ran.out) == (2, "")
    assert "psoup.toml" in ran.err
    monkeypatch.setenv("PSOUP_CONFIG", "other.toml")
    assert psoup("status").code == 2


def test_a_settings_file_that_others_may_write(psoup: Psoup, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path("psoup.toml")
    file.write_text("[client]\naddress = '127.0.0.1:1'\n")
    file.chmod(0o666)
    for command in (("status",), ("config", "show")):
        ran = psoup(*command)
        assert (ran.code, "everybody may write it" in ran.err) == (2, True)
    monkeypatch.delenv("PSOUP_ADDRESS")
    monkeypatch.setenv("PSOUP_CONFIG", "psoup.toml")
    assert psoup("status").code == 3


def test_a_timeout_that_is_none(psoup: Psoup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSOUP_TIMEOUT", "soon")
    assert psoup("status").code == 2
    monkeypatch.setenv("PSOUP_TIMEOUT", "10")
    assert psoup("status").code == 0


def test_text_that_is_not_utf8_is_refused(psoup: Psoup) -> None:
    ran = psoup("register", "SELECT '\udcff' FROM s")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("psoup: the text is not UTF-8")


def test_a_terminal_that_knows_little_is_no_error(psoup: Psoup, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    query = registered(psoup, f'SELECT id AS "é" FROM {filled}')
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    assert psoup("invoke", query, "--format", "table").code == 0
    narrow.seek(0)
    assert narrow.read().startswith("\\xe9")


def test_times_in_messages_are_times(psoup: Psoup, filled: str) -> None:
    ran = psoup("invoke", registered(psoup, f"SELECT id FROM {filled}"), "--as-of", "2030-01-01")
    assert ran.code == 1
    assert "as_of 2030-01-01 00:00:00Z lies after NOW (NOW is 2024-05-01 14:00:00Z)" in ran.err
    ran = psoup("heartbeat", filled, "9000-01-01")
    assert "heartbeat's time 9000-01-01 00:00:00Z lies too far past the clock" in ran.err
