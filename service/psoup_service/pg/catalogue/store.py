"""A catalogue in DuckDB: in memory, without files and network, with locked settings and a time limit."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any

import duckdb
import pyarrow as pa

from psoup.errors import InvalidInput, ResourceExhausted
from psoup.work.read_budget import UNBOUNDED, ReadBudget
from psoup_service.pg.catalogue.content import FILLED, Content, Row, system_content
from psoup_service.pg.catalogue.growth import Growth
from psoup_service.pg.catalogue.relations import relations
from psoup_service.pg.catalogue.types import storage_of
from psoup_service.pg.catalogue.views import definition_of, views

Variables = Mapping[str, str | Mapping[str, str]]

MOST_ROWS = 1_000_000
"""The most rows of a statement's result."""

MOST_BYTES = 128 << 20
"""The most bytes of a statement's result, in Arrow."""

_ROWS_OF_A_BATCH = 16_384
_AGAIN_S = 0.05
"""Seconds between two interrupts of a run."""

_LOCKED: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "192MB",
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
_ZEROS: dict[str, Any] = {"bool": False, "name": "", "char": ""} | dict.fromkeys(
    ("int2", "int4", "int8", "oid", "xid", "cid", "float4", "float8", "regproc", "regclass", "regtype"), 0
)
_RARE = {"settings": "setting", "version": "version", "cursors": "cursor", "pid": "pid", "started": "_time"}
"""Variables that few statements use. Each is set only for statements whose text has the word beside it."""

_OWNERS = {
    ("pg_catalog", "pg_class"): "oid",
    ("pg_catalog", "pg_attribute"): "attrelid",
    ("pg_catalog", "pg_constraint"): "oid",
    ("pg_catalog", "pg_description"): "objoid",
    ("pg_catalog", "pg_index"): "indexrelid",
    ("pg_catalog", "pg_rewrite"): "ev_class",
    ("known", "constraints"): "oid",
    ("known", "definitions"): "oid",
    ("known", "indexes"): "oid",
    ("known", "names"): "oid",
    ("known", "shown"): "oid",
    ("known", "visible"): "oid",
}
"""The tables with rows of streams and queries, each with the column that has the object's OID."""

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
    """The catalogue of some callers. A new one has the rows of a new PostgreSQL database."""

    def __init__(self) -> None:
        self.removed = 0
        """The number of deleted rows. DuckDB does not free their memory."""
        self.rows = 0
        """Rows of streams and queries."""
        self._base = duckdb.connect(":memory:", config=_LOCKED)
        self._base.execute("SET enable_external_access = false")  # in the configuration it would refuse temp_directory
        self._base.execute(";".join(_definitions()))
        self._insert(system_content())
        self._base.execute((files(__package__) / "postgres" / "macros.sql").read_text(encoding="utf-8"))
        self._base.execute(";".join(map(definition_of, views().values())))
        self._base.execute("SET lock_configuration = true")
        self.system_bytes = self.nbytes
        """Bytes of the rows of a new PostgreSQL database."""

    def change(self, gone: Collection[int], content: Content) -> None:
        """Delete the rows of the objects with some OIDs, and add rows. Some milliseconds, and 20 us for each row.

        Raises ResourceExhausted without memory, and then changes nothing.
        """
        try:
            self._base.execute("BEGIN")
            removed = self._delete(gone) if gone else 0
            added = self._insert(content)
            self._base.execute("COMMIT")
        except (duckdb.Error, MemoryError, pa.ArrowException) as problem:
            with suppress(duckdb.Error):
                self._base.execute("ROLLBACK")
            if isinstance(problem, duckdb.Error) and not isinstance(problem, duckdb.OutOfMemoryException):
                raise
            raise ResourceExhausted(
                "the catalogue has no memory for these streams and queries; keep fewer of them", reason="MEMORY"
            ) from None
        self.removed += removed
        self.rows += added - removed

    def with_names(self, schema: int, names: Collection[str]) -> set[int]:
        """The OIDs of the relations of a schema whose names are among `names`, which are in lower case."""
        question = "SELECT oid FROM cat.pg_class WHERE relnamespace = $1 AND list_contains($2, lower(relname))"
        return {oid for (oid,) in self._base.execute(question, [schema, list(names)]).fetchall()}

    @property
    def nbytes(self) -> int:
        """Bytes of all tables."""
        row = self._base.execute("SELECT sum(memory_usage_bytes) FROM duckdb_memory()").fetchone()
        return 0 if row is None else int(row[0])

    def _insert(self, content: Content) -> int:
        """Add rows; returns their number. Columns that no row has get their defaults."""
        for (schema, name), rows in content.rows.items():
            columns, given = _columns_of(schema, name), set[str]().union(*rows)
            present = {column: kind for column, kind in columns.items() if column in given}
            arrays = [_array(column, kind, rows) for column, kind in present.items()]
            self._base.register("filling", pa.table(arrays, names=list(present)))
            self._base.execute(f"INSERT INTO {_table(schema, name)} BY NAME SELECT * FROM filling")
            self._base.unregister("filling")
        return sum(map(len, content.rows.values()))

    def _delete(self, oids: Collection[int]) -> int:
        """Delete the rows of objects; returns their number."""
        count = 0
        self._base.register("gone", pa.table({"oid": pa.array(sorted(oids), pa.uint32())}))
        for (schema, name), column in _OWNERS.items():
            where = f'"{column}" IN (SELECT oid FROM gone)'
            (deleted,) = self._base.execute(f"DELETE FROM {_table(schema, name)} WHERE {where}").fetchone() or (0,)
            count += deleted
        self._base.unregister("gone")
        return count

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection of its own to the store."""
        return self._base.cursor()


class Running:
    """A run of a statement that `translation` wrote. `growth`: its limits. `variables`: values of the session.

    `budget`: holds the rows.
    """

    def __init__(
        self,
        store: Store,
        text: str,
        growth: Growth,
        variables: Variables,
        seconds: float,
        budget: ReadBudget = UNBOUNDED,
    ) -> None:
        self._growth = growth
        self._budget = budget
        self._wake = threading.Event()
        self._stopped = self._ended = False
        self._cursor = store.cursor()
        self._text = text
        self._variables = variables
        self._seconds = seconds

    def stop(self) -> None:
        """Interrupt the run, or prevent it. Called when the client has disconnected or cancels the statement."""
        self._stopped = True
        self._wake.set()

    def _watch(self) -> None:
        """Interrupt the run after its time or a stop.

        It interrupts again and again, because DuckDB forgets an interrupt that comes before the statement begins.
        """
        self._wake.wait(self._seconds)
        while not self._ended:
            with suppress(duckdb.ConnectionException):  # the run has just ended
                self._cursor.interrupt()
            time.sleep(_AGAIN_S)

    def run(self) -> pa.Table:
        """The rows. Raises InvalidInput, and ResourceExhausted at a limit of time, memory or rows."""
        threading.Thread(target=self._watch, name="psoup-catalogue-watch", daemon=True).start()
        try:
            if self._stopped:
                raise duckdb.InterruptException("INTERRUPT Error")
            if self._growth != Growth():
                for name, limit in self._growth._asdict().items():
                    self._cursor.execute(f"SET VARIABLE {name} = {limit}")
            text = self._text.lower()
            for name, value in self._variables.items():
                if _RARE.get(name, "") in text:  # each variable takes 0.2 ms
                    self._cursor.execute(f"SET VARIABLE {name} = {_written(value)}")
            return _read(self._cursor.sql(self._text).to_arrow_reader(_ROWS_OF_A_BATCH), self._budget)
        except (duckdb.Error, OSError, pa.ArrowException, MemoryError) as problem:
            raise self._told(problem) from None
        finally:
            self._ended = True
            self._wake.set()
            self._cursor.close()

    def _told(self, problem: Exception) -> InvalidInput | ResourceExhausted:
        """The error for the client. After the first rows, Arrow raises DuckDB's errors as its own, by their text."""
        text = str(problem)
        if "INTERRUPT Error" in text:
            return ResourceExhausted(
                f"the statement over the catalogue took longer than {self._seconds:g} s; ask for fewer relations or"
                " names, by WHERE",
                reason="DEADLINE_EXCEEDED",
            )
        if isinstance(problem, MemoryError) or "Out of Memory Error" in text:
            return _too_large(f"needs more than {_LOCKED['memory_limit']} of memory", "MEMORY")
        return InvalidInput(_first_line(text), reason="CATALOGUE")


def _read(reader: pa.RecordBatchReader, budget: ReadBudget) -> pa.Table:
    """All rows. Raises ResourceExhausted for too many, and without room for them."""
    batches, rows, size = list[pa.RecordBatch](), 0, 0
    try:
        for batch in reader:
            batches.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > MOST_ROWS or size > MOST_BYTES:
                raise _too_large(f"returns more than {MOST_ROWS:,} rows or {MOST_BYTES >> 20} MiB", "TOO_MANY_ROWS")
            budget.hold_joined(batch.nbytes, "the result of a statement over the catalogue")
        return pa.Table.from_batches(batches, reader.schema)
    finally:
        reader.close()  # its cursor would wait for it for ever


def _too_large(problem: str, reason: str) -> ResourceExhausted:
    return ResourceExhausted(f"the statement over the catalogue {problem}; ask for fewer rows, by WHERE", reason=reason)


def _written(value: str | Mapping[str, str]) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if not value:
        return "MAP([]::VARCHAR[], []::VARCHAR[])"
    return "MAP {" + ", ".join(f"{_written(name)}: {_written(item)}" for name, item in value.items()) + "}"


def _first_line(text: str) -> str:
    return re.sub(r"^[\w ]+ Error: ", "", text.split("\n")[0])


def _array(name: str, kind: str, rows: Sequence[Row]) -> pa.Array:
    zero = _ZEROS.get(kind)
    return pa.array([row.get(name, zero) for row in rows], arrow_of(kind))


def _columns_of(schema: str, name: str) -> Mapping[str, str]:
    return _KNOWN[name] if schema == "known" else relations()[schema, name].columns


def _table(schema: str, name: str) -> str:
    return f'{schema if schema == "known" else "cat"}."{name}"'


def _definitions() -> Iterator[str]:
    """The statements that create the schemas and their tables."""
    yield from (f"CREATE SCHEMA {schema}" for schema in ("cat", "info", "known"))
    for schema, name in [*(("known", name) for name in _KNOWN), *sorted(FILLED)]:
        columns = (_column(column, kind) for column, kind in _columns_of(schema, name).items())
        yield f"CREATE TABLE {_table(schema, name)} ({', '.join(columns)})"


def _column(name: str, kind: str) -> str:
    stored = storage_of(kind)
    element = stored.removesuffix("[]")
    stored = stored if element in _ARROW else stored.replace(element, "VARCHAR")
    zero = _ZEROS.get(kind)
    return f'"{name}" {stored}' + ("" if zero is None else f" DEFAULT {zero!r}")
