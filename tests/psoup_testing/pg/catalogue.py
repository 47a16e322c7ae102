"""Statements that clients of PostgreSQL send about its catalogue, and a catalogue that answers them in the test.

`tests/fixtures/pg-catalogue.jsonl` has one statement a line. Most were recorded at a server of PostgreSQL 15, from
psql, SQLAlchemy, asyncpg, ADBC, pg8000, psycopg, JDBC and ODBC. The statements of Grafana, Metabase, DBeaver and
DataGrip have the constructs of their published sources in other words. Each statement has the names and OIDs of the
server's columns.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from psoup_proto.v1 import queries_pb2, streams_pb2, types_pb2
from psoup_service.pg.catalogue.content import content_of
from psoup_service.pg.catalogue.statement import prepared, rendered, typed
from psoup_service.pg.catalogue.store import Running, Store
from psoup_service.pg.catalogue.stores import Stores
from psoup_service.pg.catalogue.types import oid_of
from psoup_service.pg.contract import TEXT, Argument
from psoup_testing.services.threaded_service import Serving

_FIXTURE = Path(__file__).parents[2] / "fixtures" / "pg-catalogue.jsonl"
VALUES = {"user": "me", "database": "d", "schema": "streams", "schemas": "streams,queries", "version": "PostgreSQL 15"}
VARIABLES: dict[str, str | Mapping[str, str]] = {
    "user": "me",
    "database": "d",
    "version": "PostgreSQL 15",
    "pid": "42",
    "started": "2026-01-01T00:00:00+00:00",
    "cursors": {},
    "settings": {"jit": "off"},
}


@dataclass(frozen=True)
class Recorded:
    """A recorded statement. `columns`: names and OIDs. `arguments`: in text format."""

    client: str
    text: str
    columns: list[list[Any]]
    arguments: tuple[Argument, ...]


def recorded() -> list[Recorded]:
    """The recorded statements, each once."""
    statements = list[Recorded]()
    for line in _FIXTURE.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        values = zip(entry.get("arguments", []), entry.get("types", []), strict=True)
        arguments = tuple(Argument(None if value is None else value.encode(), TEXT, oid) for value, oid in values)
        statements.append(Recorded(entry["client"], entry["text"], entry["columns"], arguments))
    return statements


def _column(name: str, kind: types_pb2.Kind.ValueType, nullable: bool = True, precision: int = 0) -> types_pb2.Column:
    data_type = types_pb2.DataType(kind=kind, precision=precision, scale=2 if precision else 0)
    return types_pb2.Column(name=name, type=data_type, nullable=nullable)


_TRADES = [
    _column("sym", types_pb2.KIND_TEXT, nullable=False),
    _column("price", types_pb2.KIND_DOUBLE),
    _column("n", types_pb2.KIND_BIGINT),
    _column("d", types_pb2.KIND_DECIMAL, precision=10),
    _column("t", types_pb2.KIND_TIMESTAMP),
]
_PEOPLE = [_column("id", types_pb2.KIND_BIGINT, nullable=False), _column("name", types_pb2.KIND_TEXT)]


def store() -> Store:
    """A store with a stream, a table with a key, and the views of two queries."""
    streams = [
        streams_pb2.Stream(stream_id="s-1-1", name="trades", columns=_TRADES, statement="CREATE STREAM trades"),
        streams_pb2.Stream(stream_id="s-1-2", name="people", columns=_PEOPLE, primary_key=["id"]),
    ]
    queries = [
        queries_pb2.Query(query_id="q-1-1", key="dear", statement="SELECT sym, price FROM trades", columns=_TRADES[:2]),
        queries_pb2.Query(query_id="q-1-2", key='Odd "key"', statement="SELECT sym FROM trades", columns=_TRADES[:1]),
    ]
    filled = Store()
    filled.change((), content_of(streams, queries, {"trades", "people"}))
    return filled


def described(statement: Recorded) -> list[list[Any]]:
    """The names and OIDs of the columns, without a run."""
    read = prepared(statement.text, VALUES, [])
    assert read is not None, f"the catalogue does not answer {statement.text}"
    return [[name, oid_of(kind)] for name, kind in read.columns]


def answer(filled: Store, text: str, arguments: tuple[Argument, ...] = (), seconds: float = 20) -> pa.Table:
    """The rows of a statement."""
    read = prepared(text, VALUES, [])
    assert read is not None, f"the catalogue does not answer {text}"
    return typed(Running(filled, *rendered(read, arguments), VARIABLES, seconds).run(), read.columns)


def released(serving: Serving, now: float = float("inf")) -> int:
    """Empty the stores that no client has used for long, as the service does each few seconds; returns those left."""
    stores = stores_of(serving)

    async def release() -> int:
        stores.release_unused(now)
        return len(stores._places)

    return asyncio.run_coroutine_threadsafe(release(), serving._loop).result()


def stores_of(serving: Serving) -> Stores:
    """The stores of a service whose catalogue a client has read before."""
    assert serving.service.pg is not None
    loaded = serving.service.pg._catalogues._loaded
    assert loaded is not None
    stores: Stores = loaded[1]
    return stores
