"""Drivers that users of PostgreSQL have: polars with ADBC, connectorx, ODBC, drivers for Node, and psql.

A test is skipped, with its reason, where a driver is not installed. The tests passed with these versions:

    connectorx 0.4.6     pyodbc 5.5.0, Debian's odbc-postgresql 13.02
    npm                  pg 8.23, pg-cursor 2.22, pg-query-stream 4.17, postgres 3.4
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from psoup_testing.pg.script import pg_address
from psoup_testing.pg.trades import ROWS, START, fill
from psoup_testing.services.threaded_service import Serving

pytestmark = pytest.mark.long

_SELECTED = "SELECT sym, price, n, amount, up, at, day FROM trades WHERE n < 9 ORDER BY n"
_NODE = Path(__file__).parents[4] / "build" / "pg-clients"
_SCRIPT = Path(__file__).parents[3] / "fixtures" / "pg-clients.mjs"
_PACKAGES = ("pg", "pg-cursor", "pg-query-stream", "postgres")


@pytest.fixture(scope="module")
def port(running: Serving) -> str:
    """The port of a service with a stream of 30 tuples, a table and a view."""
    fill(running)
    return pg_address(running).rpartition(":")[2]


def test_polars_reads_and_writes_through_adbc(port: str) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    address = f"postgresql://me:x@127.0.0.1:{port}/any"
    read = polars.read_database_uri(_SELECTED, address, engine="adbc")
    assert read["n"].to_list() == list(range(9)) and read["price"].null_count() == 1
    assert read["at"][1] == START + dt.timedelta(seconds=4) and read["day"][8] == dt.date(2026, 11, 9)
    frame = polars.DataFrame({"sym": ["A1", "A2"], "n": [1001, 1002], "price": [2.5, None]})
    assert frame.write_database("streams.trades", address, if_table_exists="append", engine="adbc") == 2
    written = polars.read_database_uri("SELECT sym, n, price FROM trades WHERE n > 1000", address, engine="adbc")
    assert written.sort("n").equals(frame)


_CONNECTORX = """
import json, sys
import connectorx
address, selected, rows = sys.argv[1:]
reported = {}
for protocol in ("binary", "csv", "cursor", "simple"):
    read = connectorx.read_sql(address, selected, protocol=protocol, return_type="arrow")
    reported[protocol] = [read["n"].to_pylist(), read["price"].null_count, str(read["amount"][5])]
ranged = f"SELECT n FROM trades WHERE n < {rows}"
parts = connectorx.read_sql(address, ranged, partition_on="n", partition_num=3, return_type="arrow")
reported["parts"] = sorted(parts["n"].to_pylist())
print(json.dumps(reported))
"""
"""A process of its own: connectorx holds the interpreter's lock while it waits for the service."""


def test_connectorx_reads_by_all_its_protocols(port: str) -> None:
    if find_spec("connectorx") is None:
        pytest.skip("connectorx is not installed")
    command = [sys.executable, "-c", _CONNECTORX, f"postgresql://me:x@127.0.0.1:{port}/any", _SELECTED, str(ROWS)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert reported.pop("parts") == list(range(ROWS))
    for protocol, (numbers, nulls, amount) in reported.items():
        assert (numbers, nulls, float(amount)) == (list(range(9)), 1, 0.05), protocol


def test_odbc_reads_writes_and_inspects(port: str) -> None:
    pyodbc = pytest.importorskip("pyodbc", reason="pyodbc is not installed")
    if "PostgreSQL Unicode" not in pyodbc.drivers():
        pytest.skip("ODBC's driver is not installed (Debian's odbc-postgresql)")
    place = f"Driver={{PostgreSQL Unicode}};Server=127.0.0.1;Port={port};Database=any;Uid=me;Pwd=x;"
    connection = pyodbc.connect(place, autocommit=True)

    def rows(sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.cursor().execute(sql, *values).fetchall()]

    noon = dt.datetime(2026, 11, 29, 8, 0, 4)
    where = "price < ? AND amount <= ? AND up = ? AND at >= ? AND day > ? AND n <= ? AND sym <> ?"
    values = (0.5, Decimal("0.20"), True, noon, dt.date(2026, 11, 2), 1000, "Q")
    assert rows(f"SELECT n FROM trades WHERE {where} ORDER BY n", *values)[:2] == [(3,), (6,)]
    cursor = connection.cursor()
    cursor.executemany("INSERT INTO trades (sym, price, n) VALUES (?, ?, ?)", [("O", 1.5, 2001), ("O", None, 2002)])
    assert rows("SELECT price FROM trades WHERE sym = 'O' ORDER BY n") == [(1.5,), (None,)]
    connection.autocommit = False
    rows("SELECT n FROM trades WHERE n = 1")
    with pytest.raises(pyodbc.Error, match="has no column"):
        rows("SELECT nope FROM trades")
    assert rows("SELECT n FROM trades WHERE n = 1") == [(1,)], "the driver goes back to its savepoint"
    connection.rollback()
    assert {row.table_name for row in connection.cursor().tables(schema="streams")} == {"trades", "people"}
    assert len({row.table_type for row in connection.cursor().tables("", "", "", "%")}) == 4
    assert [row.column_name for row in connection.cursor().columns("trades")][:2] == ["sym", "price"]
    assert [row.column_name for row in connection.cursor().primaryKeys("people", schema="streams")] == ["id"]
    connection.close()


def test_clients_for_node_read_write_and_listen(port: str, tmp_path: Path) -> None:
    missing = [name for name in _PACKAGES if not (_NODE / "node_modules" / name).exists()]
    if shutil.which("node") is None or missing:
        pytest.skip(f"run: npm install --prefix build/pg-clients {' '.join(_PACKAGES)}")
    (tmp_path / "node_modules").symlink_to(_NODE / "node_modules")
    script = shutil.copy(_SCRIPT, tmp_path)
    done = subprocess.run(["node", script, port], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    first = {"sym": "A", "price": 0, "n": "0", "amount": "0.00", "up": True, "day": "2026-11-01"}
    assert reported["types"][0] == {**first, "at": "2026-11-29T08:00:00.000Z"}
    assert (reported["arguments"], reported["named"]) == ([{"n": "3"}], [1, 2])
    assert (reported["cursor"], reported["streamed"]) == ([8, 8, 4], sum(range(30)))
    assert (reported["heard"], reported["fault"]) == (1, ["42703", "8"])
    assert (reported["tagged"], reported["pieces"]) == ([{"n": "1"}, {"n": "2"}], [2, 1])
    assert reported["copied"] == "R\t700\nR\t701\n"


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed (Debian's postgresql-client)")
def test_no_command_of_psql_fails(port: str) -> None:
    letters = (
        "a A Ac Af Ao Ap b c C d D ddp E des det deu dew f F Fd Fp Ft g i L m n o O p P Pi Pt Rp Rs s S t T u v x X y"
    )
    commands = [f"\\d{letter}+" for letter in letters.split()]
    commands += [
        "\\d",
        "\\d+ trades",
        "\\d people",
        "\\d+ dear",
        "\\drds",
        "\\dconfig",
        "\\l",
        "\\l+",
        "\\z",
    ]
    commands += ["\\sv dear", "\\conninfo", "\\encoding", "\\lo_list"]
    place = ["psql", "-X", "-h", "127.0.0.1", "-p", port, "-U", "me", "any"]
    environment = {**os.environ, "PAGER": "cat"}
    done = subprocess.run(
        place, input="\n".join(commands), capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert "ERROR" not in done.stderr and "FATAL" not in done.stderr, done.stderr[:2000]
    assert "CREATE OR REPLACE VIEW queries.dear AS" in done.stdout and '"people_pkey" PRIMARY KEY' in done.stdout
