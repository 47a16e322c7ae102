"""A catalogue in DuckDB: in memory, without files and network, with locked settings, and interrupted after a while."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import duckdb
import pyarrow as pa

from psoup.errors import InvalidInput, ResourceExhausted
from psoup_service.pg.catalogue.content import Content, Row
from psoup_service.pg.catalogue.relations import relations
from psoup_service.pg.catalogue.types import storage_of

MOST_ROWS = 1_000_000
"""The most rows of a statement's result."""

_LOCKED: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "256MB",
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_unsigned_extensions": False,
    "python_enable_replacements": False,
}
_KNOWN = {
    "visible": {"oid": "oid"},
    "names": {"oid": "oid", "name": "text"},
    "shown": {"oid": "oid", "shown": "text"},
    "types": {"oid": "oid", "name": "text", "shown": "text"},
    "definitions": {"oid": "oid", "definition": "text"},
    "constraints": {"oid": "oid", "definition": "text"},
    "indexes": {"oid": "oid", "definition": "text", "columns": "_text"},
    "settings": {"name": "text", "setting": "text"},
    "reserved": {"word": "text"},
}
_ZEROS = {"bool": False, "name": "", "char": ""} | dict.fromkeys(
    ("int2", "int4", "int8", "oid", "xid", "cid", "float4", "float8", "regproc", "regclass", "regtype"), 0
)
_ARROW = {
    "BOOLEAN": pa.bool_(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UINTEGER": pa.uint32(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "DATE": pa.date32(),
    "BLOB": pa.binary(),
}


def arrow_of(kind: str) -> pa.DataType:
    """The Arrow type in which values of a type of PostgreSQL leave the catalogue."""
    stored = storage_of(kind)
    element = _ARROW.get(stored.removesuffix("[]"), pa.string())
    return pa.list_(element) if stored.endswith("[]") else element


class Store:
    """The catalogue of one caller. `filled`: the relations that have rows."""

    def __init__(self, content: Content) -> None:
        self._base = duckdb.connect(":memory:", config=_LOCKED)
        self._base.execute("SET enable_external_access = false")  # in the configuration it would refuse temp_directory
        for schema in ("cat", "info", "known"):
            self._base.execute(f"CREATE SCHEMA {schema}")
        for name, columns in _KNOWN.items():
            self._fill("known", name, columns, content.rows.pop(("known", name), []))
        for key, rows in content.rows.items():
            self._fill("cat", key[1], relations()[key].columns, rows)
        for name in ("pg_description", "pg_constraint", "pg_index", "pg_rewrite"):
            if ("pg_catalog", name) not in content.rows:
                self._fill("cat", name, relations()["pg_catalog", name].columns, [])
        for statement in (files(__package__) / "postgres" / "macros.sql").read_text(encoding="utf-8").split(";\n"):
            if statement.strip():
                self._base.execute(statement)
        self._base.execute("SET lock_configuration = true")
        self.filled = frozenset(content.rows)

    def _fill(self, schema: str, name: str, columns: dict[str, str], rows: Sequence[Row]) -> None:
        arrays = [_column(column, kind, rows) for column, kind in columns.items()]
        self._base.register("filling", pa.table(arrays, names=list(columns)))
        self._base.execute(f'CREATE TABLE {schema}."{name}" AS SELECT * FROM filling')
        self._base.unregister("filling")

    def run(self, text: str, variables: dict[str, str], seconds: float) -> pa.Table:
        """The rows of a statement that `translation` wrote. Raises InvalidInput, and ResourceExhausted at a limit."""
        cursor = self._base.cursor()
        timer = threading.Timer(seconds, cursor.interrupt)
        timer.start()
        try:
            for name, value in variables.items():
                cursor.execute(f"SET VARIABLE {name} = '{value.replace(chr(39), chr(39) * 2)}'")
            return cursor.sql(f"SELECT * FROM ({text}) LIMIT {MOST_ROWS + 1}").to_arrow_table()
        except duckdb.InterruptException:
            raise ResourceExhausted(
                f"the statement over the catalogue took longer than {seconds:g} s; name the relations that you need",
                reason="DEADLINE_EXCEEDED",
            ) from None
        except duckdb.OutOfMemoryException:
            raise ResourceExhausted(
                f"the statement over the catalogue needs more than {_LOCKED['memory_limit']} of memory", reason="MEMORY"
            ) from None
        except duckdb.Error as problem:
            raise InvalidInput(_first_line(problem), reason="CATALOGUE") from None
        finally:
            timer.cancel()
            cursor.close()


def _first_line(problem: Exception) -> str:
    return re.sub(r"^\w+( \w+)? Error: ", "", str(problem).split("\n")[0])


def _column(name: str, kind: str, rows: Sequence[Row]) -> pa.Array:
    zero: Any = _ZEROS.get(kind)
    return pa.array([row.get(name, zero) for row in rows], arrow_of(kind))
