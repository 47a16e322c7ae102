"""The store: copies of answers in one SQLite file, which any tool for SQLite can read.

    store      what the file is
    queries    the queries that are kept, with the token of each
    rows_3     the rows of the third, by tuple ID or, of groups and the like, by place
    delays     a view of them, in the order of the answer, as people read it
    history    what each recharge brought

A change is one transaction: rows and token together, and only if the token is still the one that the change was asked
with. So a process that is killed, a full disk, or two processes on one file leave a copy as it was before or after.
"""

from __future__ import annotations

import datetime as dt
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from psoup_client import Client
from psoup_client.copies import hidden_columns
from psoup_client.errors import NotFound
from psoup_client.json_columns import from_json
from psoup_client.places import positions
from psoup_client.times import from_proto
from psoup_proto.v1 import sync_pb2
from psoup_recharge.entry import Entry
from psoup_recharge.rounds import Recharge, recharge
from psoup_recharge.sqlite import File, StoreError
from psoup_recharge.tables import (
    create_table,
    create_view,
    intervals,
    leaving,
    moves,
    order_of,
    schema_of,
    shown_columns,
)
from psoup_recharge.values import to_arrow, to_sqlite

_FORMAT = 1
_APPLICATION = 0x50536F70
"""`PSop`: the application ID in the header of the file."""
_HISTORY = 10_000
"""Lines of history that are kept."""

_TABLES = """
CREATE TABLE store (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE queries (
    number INTEGER PRIMARY KEY, name TEXT UNIQUE COLLATE NOCASE NOT NULL, sql TEXT NOT NULL, query_id TEXT NOT NULL,
    key TEXT NOT NULL, priority REAL NOT NULL, fresh REAL NOT NULL, token BLOB NOT NULL DEFAULT x'',
    form BLOB, complete INTEGER NOT NULL DEFAULT 0, now TEXT, synced REAL, error TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE history (
    at TEXT NOT NULL, name TEXT NOT NULL, bytes INTEGER NOT NULL, came INTEGER NOT NULL, gone INTEGER NOT NULL,
    reset TEXT NOT NULL, error TEXT NOT NULL
) STRICT;
"""


class Store:
    """A store, made if it is not there. Use it in a `with` statement, or call `close()`; of one thread at a time."""

    def __init__(self, path: str | Path) -> None:
        """Open the file. Raises StoreError if it is something else, damaged, or cannot be opened."""
        self.path = Path(path)
        self._file = File(self.path)
        try:
            self._prepare()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.path}: {', '.join(entry.name for entry in self.entries()) or 'empty'}>"

    def close(self) -> None:
        """Close the file; idempotent."""
        self._file.close()

    # Entries ------------------------------------------------------------------------------------------------

    def add(
        self, name: str, *, sql: str = "", query_id: str = "", key: str = "", priority: float = 0.0, fresh: float = 0.0
    ) -> Entry:
        """Keep a query: of a statement, which the first recharge registers, or one that stands, by its ID or its key.

        Adding it again changes priority and freshness; with another statement, ID or key the copy begins anew. Raises
        InvalidRequest for a name that cannot be taken.
        """
        self.adopt([Entry(name, sql, query_id, key, float(priority), float(fresh))])
        return self.entry(name)

    def adopt(self, entries: Sequence[Entry]) -> None:
        """Add some entries, those of a profile, say: all or none."""
        for entry in entries:
            entry.check()
        with self._file.changing():
            for entry in entries:
                own = (entry.sql, entry.query_id, entry.key)
                known = self._find(entry.name)
                if known is not None and (known.sql, known.query_id, known.key) == own:
                    change = "UPDATE queries SET priority = ?, fresh = ? WHERE name = ?"
                    self._file.run(change, entry.priority, entry.fresh, entry.name)
                else:
                    self._drop(entry.name)
                    insert = "INSERT INTO queries (name, sql, query_id, key, priority, fresh) VALUES (?, ?, ?, ?, ?, ?)"
                    self._file.run(insert, entry.name, *own, entry.priority, entry.fresh)

    def forget(self, name: str, client: Client | None = None) -> None:
        """Drop a copy. With a `client`, unregister its query as well, if this store registered it. Raises NotFound."""
        entry = self.entry(name)
        if client is not None and entry.sql:
            with suppress(NotFound):  # it is gone already
                client.unregister(key=self.key_of(entry))
        with self._file.changing():
            self._drop(name)

    def entries(self) -> list[Entry]:
        """All entries, in the order in which they are recharged."""
        names = self._file.run("SELECT name FROM queries ORDER BY priority DESC, number")
        return [entry for (name,) in names if (entry := self._find(name)) is not None]

    def entry(self, name: str) -> Entry:
        """The entry of a name, in any case. Raises NotFound."""
        entry = self._find(name)
        if entry is None:
            known = ", ".join(entry.name for entry in self.entries())
            raise NotFound(f"{self.path} keeps no query {name[:80]!r}; it keeps {known or 'none'}")
        return entry

    def key_of(self, entry: Entry) -> str:
        """The key of the query of an entry: its own, or the one under which its statement is registered."""
        if not entry.sql:
            return entry.key
        ((store,),) = self._file.run("SELECT value FROM store WHERE name = 'id'")
        return f"recharge/{store}/{entry.name.lower()}"

    # Rows ---------------------------------------------------------------------------------------------------

    def read(self, name: str) -> pa.Table:
        """The rows of a copy, in the order of the answer, as an Arrow table of exact values; no network is used.

        Raises NotFound; StoreError before its first recharge.
        """
        number, form = self._form(self.entry(name).name)
        if form is None:
            raise StoreError(f"nothing has come for {name!r} yet: recharge it first")
        schema, places = shown_columns(form)
        columns = ", ".join([f"c{place}" for place in places])
        rows = self._file.run(f"SELECT {columns} FROM rows_{number} ORDER BY {order_of(form)}")
        values = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
        arrays = [to_arrow(list(of), field.type) for of, field in zip(values, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def select(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The columns and rows of a SELECT over the copies, whose names are those of views; SQLite carries it out.

        Raises InvalidRequest for anything that it does not understand, or that would change the file.
        """
        return self._file.select(sql)

    def history(self, rows: int = 100) -> list[dict[str, Any]]:
        """The latest lines of history, the newest first: at, name, bytes, came, gone, reset, error."""
        names = ("at", "name", "bytes", "came", "gone", "reset", "error")
        found = self._file.run(f"SELECT {', '.join(names)} FROM history ORDER BY rowid DESC LIMIT ?", rows)
        return [dict(zip(names, row, strict=True)) for row in found]

    def recharge(
        self,
        client: Client,
        *,
        max_bytes: int | None = None,
        max_seconds: float | None = None,
        only: Sequence[str] = (),
    ) -> Recharge:
        """Bring copies up to date, those of the greatest priority first, within limits; `only`: of some names.

        Copies that are fresh enough are left out, unless they are named. What is wrong with a query is in its outcome,
        and its copy stays as it was. Raises Unavailable and the like if the service cannot be reached.
        """
        return recharge(self, client, max_bytes=max_bytes, max_seconds=max_seconds, only=only)

    # What a recharge needs ----------------------------------------------------------------------------------

    def want(self, entry: Entry) -> sync_pb2.Want:
        """What is asked for a copy: a token names the query."""
        ((token,),) = self._file.run("SELECT token FROM queries WHERE name = ?", entry.name)
        if token:
            return sync_pb2.Want(token=token)
        return sync_pb2.Want(query_id=entry.query_id, key=self.key_of(entry))

    def start_anew(self, entry: Entry) -> None:
        """Forget the token of a copy, whose rows stay until the next change."""
        self._file.run("UPDATE queries SET token = x'' WHERE name = ?", entry.name)

    def apply(
        self, entry: Entry, asked: sync_pb2.Want, change: sync_pb2.Change, streams: Sequence[sync_pb2.StreamTime]
    ) -> int | None:
        """Make a change of a copy: rows and token, in one transaction; returns how many rows left.

        None: nothing was done, as the copy has another token by now.
        """
        times = [from_proto(streams[at].now) for at in change.streams if streams[at].HasField("now")]
        now = min(times).isoformat() if times else None
        with self._file.changing():
            found = self._file.run("SELECT number, token, form FROM queries WHERE name = ?", entry.name)
            if not found or found[0][1] != asked.token:
                return None
            number, _, stored = found[0]
            gone = 0
            if change.token:
                form = change.form if change.reset else sync_pb2.CopyForm.FromString(stored)
                if change.reset:
                    gone = self._begun_anew(entry.name, number, form)
                elif form.whole:
                    gone = self._moved(number, change)
                else:
                    gone = self._left(number, form, change.keep)
                self._insert(number, form, change)
                update = "UPDATE queries SET token = ?, form = ? WHERE number = ?"
                self._file.run(update, change.token, form.SerializeToString(), number)
            update = "UPDATE queries SET complete = ?, now = ?, synced = ?, error = '' WHERE number = ?"
            self._file.run(update, int(change.complete), now, time.time(), number)
        return gone

    def note(self, entry: Entry, size: int, came: int, gone: int, reset: str, error: str) -> None:
        """Write a line of history, and the error of the entry."""
        at = dt.datetime.now(dt.UTC).isoformat()
        with self._file.changing():
            line = (at, entry.name, size, came, gone, reset, error)
            self._file.run("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?)", *line)
            self._file.run("DELETE FROM history WHERE rowid <= (SELECT max(rowid) FROM history) - ?", _HISTORY)
            self._file.run("UPDATE queries SET error = ? WHERE name = ?", error, entry.name)

    # Inside -------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Make the tables of a new file; refuse a file that is something else."""
        with self._file.changing():
            ((version,),) = self._file.run("PRAGMA user_version")
            ((application,),) = self._file.run("PRAGMA application_id")
            ((tables,),) = self._file.run("SELECT count(*) FROM sqlite_schema")
            if not tables and not version:
                self._file.run(_TABLES)
                self._file.run(f"PRAGMA application_id = {_APPLICATION}")
                self._file.run(f"PRAGMA user_version = {_FORMAT}")
                self._file.run("INSERT INTO store VALUES ('id', ?)", secrets.token_hex(8))
            elif application != _APPLICATION:
                raise StoreError(f"{self.path} is a SQLite file of something else; choose another place for the store")
            elif version != _FORMAT:
                raise StoreError(f"{self.path} has format {version}, and this program reads {_FORMAT}; upgrade psoup")

    def _find(self, name: str) -> Entry | None:
        row = self._file.run(
            "SELECT number, name, sql, query_id, key, priority, fresh, form IS NOT NULL, complete, now, synced, error"
            " FROM queries WHERE name = ?",
            name,
        )
        if not row:
            return None
        number, named, sql, query_id, key, priority, fresh, has_rows, complete, now, synced, error = row[0]
        rows = self._rows(number) if has_rows else 0
        then = None if synced is None else dt.datetime.fromtimestamp(synced, dt.UTC)
        instant = None if now is None else dt.datetime.fromisoformat(now)
        return Entry(named, sql, query_id, key, priority, fresh, rows, bool(complete), instant, then, error)

    def _rows(self, number: int) -> int:
        ((rows,),) = self._file.run(f"SELECT count(*) FROM rows_{number}")
        return int(rows)

    def _form(self, name: str) -> tuple[int, sync_pb2.CopyForm | None]:
        ((number, form),) = self._file.run("SELECT number, form FROM queries WHERE name = ?", name)
        return number, None if form is None else sync_pb2.CopyForm.FromString(form)

    def _drop(self, name: str) -> None:
        """Drop the entry of a name, if there is one, with its rows."""
        for number, named in self._file.run("SELECT number, name FROM queries WHERE name = ?", name):
            self._drop_rows(named, number)
            self._file.run("DELETE FROM queries WHERE number = ?", number)

    def _drop_rows(self, name: str, number: int) -> None:
        self._file.run(f'DROP VIEW IF EXISTS "{name}"')
        self._file.run(f"DROP TABLE IF EXISTS rows_{number}")

    def _begun_anew(self, name: str, number: int, form: sync_pb2.CopyForm) -> int:
        """Make table and view of a copy anew; returns how many rows were there."""
        exists = self._file.run("SELECT 1 FROM sqlite_schema WHERE name = ?", f"rows_{number}")
        gone = self._rows(number) if exists else 0
        self._drop_rows(name, number)
        self._file.run(create_table(number, form))
        self._file.run(create_view(name, number, form))
        return gone

    def _left(self, number: int, form: sync_pb2.CopyForm, keep: Sequence[int]) -> int:
        """Remove the rows whose tuple IDs are not kept; returns how many."""
        gone = 0
        for condition, values in leaving(form, keep):
            self._file.run(f"DELETE FROM rows_{number} WHERE {condition}", *values)
            gone += self._file.changed()
        return gone

    def _moved(self, number: int, change: sync_pb2.Change) -> int:
        """Remove the rows that leave, and move the others to their places, in SQLite; returns how many left."""
        rows = self._rows(number)
        stay, after, _ = positions(change, rows)
        delete = f"DELETE FROM rows_{number} WHERE _id >= ? AND _id < ?"
        self._file.run_many(delete, intervals(change.removed))
        move = f"UPDATE rows_{number} SET _id = -1 - (_id + ?) WHERE _id >= ? AND _id <= ?"
        self._file.run_many(move, moves(stay, after))
        self._file.run(f"UPDATE rows_{number} SET _id = -1 - _id WHERE _id < 0")  # two rows never have one place
        return rows - len(stay)

    def _insert(self, number: int, form: sync_pb2.CopyForm, change: sync_pb2.Change) -> None:
        schema = schema_of(form)
        table = from_json(change.columns_json, schema, hidden_columns(form))
        keys = len(schema) - len(form.sort_keys)
        columns = [to_sqlite(column, ordered=place >= keys) for place, column in enumerate(table.columns)]
        if form.whole:
            places = [*chain(*(range(*interval) for interval in intervals(change.places)))]
            columns = [list(range(table.num_rows)) if change.reset else places, *columns]
        marks = ", ".join("?" * len(columns))
        self._file.run_many(f"INSERT INTO rows_{number} VALUES ({marks})", zip(*columns, strict=True))
