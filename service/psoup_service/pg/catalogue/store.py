"""A catalogue in DuckDB: in memory, without files and network, with locked settings, and interrupted after a while."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import duckdb
import pyarrow as pa

from psoup.errors import InvalidInput, ResourceExhausted
from psoup_service.pg.catalogue.content import FILLED, Content, Row
from psoup_service.pg.catalogue.relations import relations
from psoup_service.pg.catalogue.types import storage_of
from psoup_service.pg.catalogue.views import definition_of, views

Variables = Mapping[str, str | Mapping[str, str]]

MOST_ROWS = 1_000_000
"""The most rows of a statement's result."""

MOST_BYTES = 128 << 20
"""The most bytes of a statement's result, in Arrow."""

_ROWS_OF_A_BATCH = 16_384

_LOCKED: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "128MB",
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
    "reserved": {"word": "text"},
    "keywords": {"word": "text", "catcode": "char"},
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
    """The catalogue of one caller."""

    def __init__(self, content: Content) -> None:
        self._base = duckdb.connect(":memory:", config=_LOCKED)
        self._base.execute("SET enable_external_access = false")  # in the configuration it would refuse temp_directory
        for schema in ("cat", "info", "known"):
            self._base.execute(f"CREATE SCHEMA {schema}")
        for name, columns in _KNOWN.items():
            self._fill("known", name, columns, content.rows.get(("known", name), []))
        for key in FILLED:
            self._fill("cat", key[1], relations()[key].columns, content.rows.get(key, []))
        self._base.execute((files(__package__) / "postgres" / "macros.sql").read_text(encoding="utf-8"))
        self._base.execute(";".join(map(definition_of, views().values())))
        self._base.execute("SET lock_configuration = true")

    def _fill(self, schema: str, name: str, columns: dict[str, str], rows: Sequence[Row]) -> None:
        arrays = [_column(column, kind, rows) for column, kind in columns.items()]
        self._base.register("filling", pa.table(arrays, names=list(columns)))
        self._base.execute(f'CREATE TABLE {schema}."{name}" AS SELECT * FROM filling')
        self._base.unregister("filling")

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection of its own to the store."""
        return self._base.cursor()


class Running:
    """A run of a statement that `translation` wrote. `variables`: values of the session.

    A variable with many values is set only for a statement with its name: `settings` for one that reads a setting.
    """

    def __init__(self, store: Store, text: str, variables: Variables, seconds: float) -> None:
        self._cursor = store.cursor()
        self._text = text
        self._variables = variables
        self._seconds = seconds

    def stop(self) -> None:
        """Interrupt the run; the client has left, or does not want it any more."""
        self._cursor.interrupt()

    def run(self) -> pa.Table:
        """The rows. Raises InvalidInput, and ResourceExhausted at a limit of time, memory or rows."""
        timer = threading.Timer(self._seconds, self._cursor.interrupt)
        timer.start()
        try:
            text = self._text.lower()
            for name, value in self._variables.items():
                if isinstance(value, str) or name[:-1] in text:
                    self._cursor.execute(f"SET VARIABLE {name} = {_written(value)}")
            return _read(self._cursor.sql(self._text).to_arrow_reader(_ROWS_OF_A_BATCH))
        except (duckdb.Error, OSError, pa.ArrowException, MemoryError) as problem:
            raise self._told(problem) from None
        finally:
            timer.cancel()
            self._cursor.close()

    def _told(self, problem: Exception) -> InvalidInput | ResourceExhausted:
        """The error for a client. Once rows have begun, Arrow repeats DuckDB's errors as texts."""
        text = str(problem)
        if "INTERRUPT Error" in text:
            return ResourceExhausted(
                f"the statement over the catalogue took longer than {self._seconds:g} s; name what you need",
                reason="DEADLINE_EXCEEDED",
            )
        if isinstance(problem, MemoryError) or "Out of Memory Error" in text:
            return _too_large(f"needs more than {_LOCKED['memory_limit']} of memory")
        return InvalidInput(_first_line(text), reason="CATALOGUE")


def _read(reader: pa.RecordBatchReader) -> pa.Table:
    """All rows. Raises ResourceExhausted for too many."""
    batches, rows, size = list[pa.RecordBatch](), 0, 0
    try:
        for batch in reader:
            batches.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > MOST_ROWS or size > MOST_BYTES:
                raise _too_large(f"returns more than {MOST_ROWS:,} rows or {MOST_BYTES >> 20} MiB")
        return pa.Table.from_batches(batches, reader.schema)
    finally:
        reader.close()  # its cursor would wait for it for ever


def _too_large(problem: str) -> ResourceExhausted:
    return ResourceExhausted(f"the statement over the catalogue {problem}; name what you need", reason="MEMORY")


def _written(value: str | Mapping[str, str]) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if not value:
        return "MAP([]::VARCHAR[], []::VARCHAR[])"
    return "MAP {" + ", ".join(f"{_written(name)}: {_written(item)}" for name, item in value.items()) + "}"


def _first_line(text: str) -> str:
    return re.sub(r"^[\w ]+ Error: ", "", text.split("\n")[0])


def _column(name: str, kind: str, rows: Sequence[Row]) -> pa.Array:
    zero: Any = _ZEROS.get(kind)
    return pa.array([row.get(name, zero) for row in rows], arrow_of(kind))
