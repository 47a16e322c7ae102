"""The store: copies of answers in one SQLite file, which any tool for SQLite can read.

    queries    the queries that are kept, with the token of each
    rows_3     the rows of the third copy, by tuple ID; or by place, if the answer has groups or other rows without IDs
    delays     a view of these rows, in the order of the answer, as people read them; it hides rows that have left since
    history    what each recharge brought

One transaction changes rows and token, only if the copy's token is still that of the request. So a copy is in its state
before or after a change: after a kill, on a full disk, or with two processes on one file.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from psoup_client import Client
from psoup_client.copies.answer_copy import now_of
from psoup_client.copies.moments import moment
from psoup_client.copies.places import positions
from psoup_client.copies.replies import new_rows, suspicious
from psoup_client.errors import NotFound, PSoupError
from psoup_client.times import from_micros
from psoup_proto.v1 import sync_pb2
from psoup_recharge import ledger
from psoup_recharge.clock import look, set_clock
from psoup_recharge.entry import Entry
from psoup_recharge.format import prepare
from psoup_recharge.live import Live
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
    still_there,
)
from psoup_recharge.values import to_arrow, to_sqlite

_SAME = "name = ? AND sql = ? AND query_id = ? AND key = ?"
"""The SQL condition that a row of `queries` still has the query of an entry."""


class Store:
    """A store, created if the file is missing. Use it in a `with` statement, or call `close()`. For one thread at a
    time.
    """

    def __init__(self, path: str | Path) -> None:
        """Open the file. Raises StoreError if it is another kind of file, damaged, or cannot be opened."""
        self.path = Path(path)
        self._file = File(self.path)
        try:
            prepare(self._file)
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
        self,
        name: str,
        *,
        sql: str = "",
        query_id: str = "",
        key: str = "",
        priority: float = 0.0,
        fresh: float = 0.0,
        share: float = 0.0,
        order: str = "newest",
        window: str = "",
    ) -> Entry:
        """Keep a copy of a query: of a statement, or of a standing query by its ID or key.

        The first recharge registers a statement. The options are as in `Entry`. Adding the same query again changes
        them. With another statement, ID or key the copy begins empty. Raises InvalidRequest for an invalid name or
        value.
        """
        self.adopt([Entry(name, sql, query_id, key, priority, fresh, share, order, window)])
        return self.entry(name)

    def adopt(self, entries: Sequence[Entry]) -> None:
        """Add all entries, for example of a profile. If one entry is invalid, none is added."""
        for entry in entries:
            entry.check()
        with self._file.changing():
            for entry in entries:
                names = (entry.sql, entry.query_id, entry.key)
                entry_ = self._find(entry.name)
                if entry_ is None or (entry_.sql, entry_.query_id, entry_.key) != names:
                    self._drop(entry.name)
                    insert = "INSERT INTO queries (name, sql, query_id, key, priority, fresh) VALUES (?, ?, ?, ?, 0, 0)"
                    self._file.run(insert, entry.name, *names)
                wishes = entry.priority, entry.fresh, entry.share, entry.order, entry.window
                change = 'priority = ?, fresh = ?, share = ?, "order" = ?, "window" = ?'
                self._file.run(f"UPDATE queries SET {change} WHERE name = ?", *wishes, entry.name)

    def forget(self, name: str, client: Client | None = None) -> None:
        """Drop a copy. With a `client`, also unregister its query if this store registered it. Raises NotFound."""
        entry = self.entry(name)
        if client is not None and entry.sql:
            with suppress(NotFound):  # the service has no such query any more
                client.unregister(key=self.key_of(entry))
        with self._file.changing():
            self._drop(name)

    def entries(self) -> list[Entry]:
        """All entries, in the order in which they are recharged."""
        names = self._file.run("SELECT name FROM queries ORDER BY priority DESC, number")
        entries = [entry for (name,) in names if (entry := self._find(name)) is not None]
        return sorted(entries, key=lambda entry: not entry.fresh or entry.is_fresh())  # overdue copies first

    def entry(self, name: str) -> Entry:
        """Find an entry by its name; case does not matter. Raises NotFound."""
        entry = self._find(name)
        if entry is None:
            names = ", ".join(entry.name for entry in self.entries())
            raise NotFound(f"{self.path} keeps no query {name[:80]!r}; it keeps {names or 'none'}")
        return entry

    def key_of(self, entry: Entry) -> str:
        """The key of an entry's query: the given one, or the key under which its statement is registered."""
        if not entry.sql:
            return entry.key
        ((store,),) = self._file.run("SELECT value FROM store WHERE name = 'id'")
        return f"recharge/{store}/{entry.name.lower()}"

    # Rows ---------------------------------------------------------------------------------------------------

    def read(self, name: str) -> pa.Table:
        """Return the rows of a copy as an Arrow table of exact values, in the order of the answer. Uses no network.

        Rows that have left a sliding window since the last recharge, by the local clock, are hidden. `Entry.certainty`
        says how exact the rows are. Raises NotFound, and StoreError before the first recharge.
        """
        now, _ = look(self._file, moment())
        with self._file.reading():
            number, form = self._form(self.entry(name).name)
            if form is None:
                raise StoreError(f"nothing has come for {name!r} yet: recharge it first")
            schema, places = shown_columns(form)
            columns = ", ".join([f"c{place}" for place in places])
            table, condition = f"rows_{number}", still_there(form, "NULL" if now is None else str(now))
            rows = self._file.run(f"SELECT {columns} FROM {table}{condition} ORDER BY {order_of(form, table)}")
        values = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
        arrays = [to_arrow(list(column), field.type) for column, field in zip(values, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def select(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Run a SELECT over the copies, which are views by their names. SQLite evaluates it. Returns columns and rows.

        Raises InvalidRequest for an invalid statement, or one that would change the file.
        """
        look(self._file, moment())
        return self._file.select(sql)

    def now(self) -> tuple[dt.datetime | None, float]:
        """Return the service's NOW by the local clocks, and the seconds by which the wall clock was set.

        Both count from the last recharge; NOW is None before the first. NOW does not go back until the next recharge.
        """
        now, stepped = look(self._file, moment())
        return None if now is None else from_micros(now), stepped / 1e6

    def history(self, rows: int = 100) -> list[dict[str, Any]]:
        """Return the latest lines of `history`, the newest first: at, name, bytes, came, gone, reset, error."""
        return ledger.history(self._file, rows)

    def recharges(self, rows: int = 100) -> list[dict[str, Any]]:
        """Return the latest lines of `recharges`, the newest first.

        A line has `at`, seconds, bytes `sent` and `received`, and the rows that came and left. It also names the copies
        left out and the reason: `bytes`, `time`, or an error. The reason `watch` marks a line that covers some minutes
        of `watch`.
        """
        return ledger.recharges(self._file, rows)

    def recharge(
        self,
        client: Client,
        *,
        max_bytes: int | None = None,
        max_seconds: float | None = None,
        only: Sequence[str] = (),
    ) -> Recharge:
        """Bring copies up to date within limits: overdue copies first, then by priority.

        `only`: names of copies. Copies that are fresh enough are left out, unless they are named. Each copy with a
        share has at least its part of `max_bytes`; other copies get its unused bytes. If a query fails, its outcome has
        the error, and the copy stays as it was. Raises Unavailable and similar errors if the service cannot be reached.
        """
        return recharge(self, client, max_bytes=max_bytes, max_seconds=max_seconds, only=only)

    def watch(
        self, client: Client, *, every: float | None = None, lost: Callable[[PSoupError], object] = lambda _: None
    ) -> Live:
        """Stay up to date until `Live.close`. Iterating yields the outcome for a copy (`Recharged`) as changes come.

        If the service cannot be reached, the store tries again, with pauses of up to a minute, and calls `lost` with
        the reason. `every`: recharge at this interval in seconds instead of staying connected.
        """
        return Live(self, client, every, lost)

    # What a recharge needs ----------------------------------------------------------------------------------

    def want(self, entry: Entry) -> sync_pb2.Want:
        """Build the want of a copy; its token names the query. Raises NotFound if it was forgotten, or replaced."""
        rows = self._file.run(f"SELECT token FROM queries WHERE {_SAME}", *_names(entry))
        if not rows:
            raise NotFound(f"another program has changed {self.path}: {entry.name} is gone, or of another query")
        ((token,),) = rows
        want = sync_pb2.Want(token=token, window=entry.window, oldest_first=entry.order == "oldest")
        if not token:
            want.query_id, want.key = entry.query_id, self.key_of(entry)
        return want

    def start_anew(self, entry: Entry) -> None:
        """Forget the token of a copy. Its rows stay until the next change."""
        self._file.run("UPDATE queries SET token = x'' WHERE name = ?", entry.name)

    def apply(
        self,
        entry: Entry,
        want: sync_pb2.Want,
        change: sync_pb2.Change,
        streams: Sequence[sync_pb2.StreamTime],
        clock: int = 0,
    ) -> int | None:
        """Apply a change to a copy, rows and token in one transaction. Returns the number of rows that left.

        `streams` and `clock` come from the reply. Returns None, without a change, if the copy has another token or
        query by now. Raises ServerFault for a change that does not fit this copy.
        """
        with suspicious(), self._file.changing():
            now = now_of(change, streams)
            rows = self._file.run(f"SELECT number, token, form FROM queries WHERE {_SAME}", *_names(entry))
            if not rows or rows[0][1] != want.token:
                return None
            number, _, stored = rows[0]
            gone = 0
            if change.token:
                form = change.form if change.reset else sync_pb2.CopyForm.FromString(stored)
                new = new_rows(change, form, schema_of(form))
                if change.reset:
                    gone = self._begun_anew(entry.name, number, form)
                elif form.whole:
                    gone = self._moved(number, change)
                else:
                    gone = self._left(number, form, change.keep)
                self._insert(number, form, change, new)
                update = "UPDATE queries SET token = ?, form = ? WHERE number = ?"
                self._file.run(update, change.token, form.SerializeToString(), number)
            update = "UPDATE queries SET complete = ?, now = ?, synced = ?, error = '' WHERE number = ?"
            self._file.run(update, int(change.complete), now and now.isoformat(), time.time(), number)
            if clock:
                set_clock(self._file, clock, moment())
        return gone

    def note(self, report: Recharge, sent: int) -> None:
        """Write the outcome of a recharge: the lines of the history, and the errors of the entries."""
        copies = [copy for copy in report.copies if copy.asked]
        with self._file.changing():
            for copy in copies:
                error = "" if copy.error is None else str(copy.error)
                ledger.note_copy(self._file, copy.name, copy.size, copy.came, copy.gone, copy.reset, error)
                self._file.run("UPDATE queries SET error = ? WHERE name = ?", error, copy.name)
            came, gone = (sum(counts) for counts in ([copy.came for copy in copies], [copy.gone for copy in copies]))
            left = " ".join(report.left_out)
            ledger.note_recharge(self._file, report.seconds, sent, report.received, came, gone, left, report.why)

    # Inside -------------------------------------------------------------------------------------------------

    def _find(self, name: str) -> Entry | None:
        with self._file.reading():
            return self._found(name)

    def _found(self, name: str) -> Entry | None:
        row = self._file.run(
            'SELECT name, sql, query_id, key, priority, fresh, share, "order", "window",'
            " number, form, complete, now, synced, error FROM queries WHERE name = ?",
            name,
        )
        if not row:
            return None
        named, sql, query_id, key, priority, fresh, share, order, window, number, *state = row[0]
        stored, complete, now, synced, error = state
        form = sync_pb2.CopyForm.FromString(stored or b"")
        return Entry(
            *(named, sql, query_id, key, priority, fresh, share, order, window),
            rows=0 if stored is None else self._rows(number),
            complete=bool(complete),
            ages=form.ages and form.by_clock,
            now=None if now is None else dt.datetime.fromisoformat(now),
            synced=None if synced is None else dt.datetime.fromtimestamp(synced, dt.UTC),
            error=error,
        )

    def _rows(self, number: int) -> int:
        ((rows,),) = self._file.run(f"SELECT count(*) FROM rows_{number}")
        return int(rows)

    def _form(self, name: str) -> tuple[int, sync_pb2.CopyForm | None]:
        ((number, form),) = self._file.run("SELECT number, form FROM queries WHERE name = ?", name)
        return number, None if form is None else sync_pb2.CopyForm.FromString(form)

    def _drop(self, name: str) -> None:
        """Drop the entry with this name and its rows, if it exists."""
        for number, named in self._file.run("SELECT number, name FROM queries WHERE name = ?", name):
            self._drop_rows(named, number)
            self._file.run("DELETE FROM queries WHERE number = ?", number)

    def _drop_rows(self, name: str, number: int) -> None:
        self._file.run(f'DROP VIEW IF EXISTS "{name}"')
        self._file.run(f"DROP TABLE IF EXISTS rows_{number}")

    def _begun_anew(self, name: str, number: int, form: sync_pb2.CopyForm) -> int:
        """Replace the table and the view of a copy by empty ones. Returns the number of rows that were there."""
        exists = self._file.run("SELECT 1 FROM sqlite_schema WHERE name = ?", f"rows_{number}")
        gone = self._rows(number) if exists else 0
        self._drop_rows(name, number)
        self._file.run(create_table(number, form))
        self._file.run(create_view(name, number, form))
        return gone

    def _left(self, number: int, form: sync_pb2.CopyForm, keep: Sequence[int]) -> int:
        """Remove the rows whose tuple IDs are not in `keep`; returns their number."""
        gone = 0
        for condition, values in leaving(form, keep):
            self._file.run(f"DELETE FROM rows_{number} WHERE {condition}", *values)
            gone += self._file.changed()
        return gone

    def _moved(self, number: int, change: sync_pb2.Change) -> int:
        """Remove the rows that leave, and move the other rows to their new places. Returns the number that left."""
        rows = self._rows(number)
        stay, after, _ = positions(change, rows)
        delete = f"DELETE FROM rows_{number} WHERE _id >= ? AND _id < ?"
        self._file.run_many(delete, intervals(change.removed))
        move = f"UPDATE rows_{number} SET _id = -1 - (_id + ?) WHERE _id >= ? AND _id <= ?"
        self._file.run_many(move, moves(stay, after))
        self._file.run(f"UPDATE rows_{number} SET _id = -1 - _id WHERE _id < 0")  # two rows never have one place
        return rows - len(stay)

    def _insert(self, number: int, form: sync_pb2.CopyForm, change: sync_pb2.Change, table: pa.Table) -> None:
        keys = table.num_columns - len(form.sort_keys)
        columns = [to_sqlite(column, ordered=place >= keys) for place, column in enumerate(table.columns)]
        if form.whole:
            places = [*chain(*(range(*interval) for interval in intervals(change.places)))]
            columns = [list(range(table.num_rows)) if change.reset else places, *columns]
        marks = ", ".join("?" * len(columns))
        self._file.run_many(f"INSERT INTO rows_{number} VALUES ({marks})", zip(*columns, strict=True))


def _names(entry: Entry) -> tuple[str, ...]:
    return entry.name, entry.sql, entry.query_id, entry.key
