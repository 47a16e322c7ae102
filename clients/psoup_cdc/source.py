"""A table of PostgreSQL as a source of changes: its definition, its publication and its slot.

    publication   the table whose changes are decoded; its comment names the table of PSoup
    slot          the place up to which the changes are confirmed; PostgreSQL keeps its log from there on

PSoup creates both, and `drop` removes them. Without a reader the slot keeps the log of PostgreSQL from being removed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2 import sql
from psycopg2.extras import LogicalReplicationConnection

from psoup_cdc.lsn import lsn_of
from psoup_cdc.pgoutput import SourceColumn
from psoup_client.channel.patience import Patience
from psoup_client.errors import FailedPrecondition, InvalidRequest, NotFound, PSoupError, Unavailable

_OPTIONS = "-c timezone=UTC -c datestyle=ISO -c intervalstyle=postgres -c bytea_output=hex -c extra_float_digits=1"
"""Settings of a session, on which values in text form depend."""

_TABLE = """
SELECT c.oid, n.nspname, c.relname, c.relkind, c.relreplident, greatest(c.reltuples, 0)::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)
"""
_COLUMNS = """
SELECT attname, atttypid, atttypmod, attgenerated <> '' FROM pg_attribute
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_KEYS = """
SELECT i.indisprimary, i.indisreplident, array_agg(a.attname::text)
FROM pg_index i JOIN pg_attribute a
    ON a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE i.indrelid = %s AND (i.indisprimary OR i.indisreplident) GROUP BY i.indexrelid, i.indisprimary, i.indisreplident
"""
_SLOT = """
SELECT active, active_pid, confirmed_flush_lsn::text,
    pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint,
    pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint
FROM pg_replication_slots WHERE slot_name = %s
"""
_DROP = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
_READER_SECONDS = 10.0
"""The seconds for which a slot may have a reader whose client has ended."""
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}
_TABLE_KIND, _PARTITIONED = "r", "p"
FULL, NOTHING, _DEFAULT, _INDEX = "f", "n", "d", "i"
"""Values of REPLICA IDENTITY."""
_PARTITIONS = """
SELECT n.nspname, c.relname, c.relkind, c.relreplident
FROM pg_partition_tree(%s) p JOIN pg_class c ON c.oid = p.relid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE p.isleaf ORDER BY 1, 2
"""
_PARTITIONS_FROM = 130_000
"""The first version of PostgreSQL whose changes name the partitioned table instead of the partition."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """The definition of a table. `generated`: names of generated columns, which PostgreSQL does not send.

    `primary_key`, `identity_key`: names of columns. The second are those that a deletion tells; all of them with FULL.
    `rows`: an estimate. `root`: the OID of a partitioned table, 0 for another table.
    """

    schema: str
    name: str
    identity: str
    columns: tuple[SourceColumn, ...]
    generated: tuple[str, ...]
    primary_key: tuple[str, ...]
    identity_key: tuple[str, ...]
    rows: int
    root: int = 0

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class SlotState:
    """A slot. `active_pid`: the process that reads it, None if there is none. `confirmed`: an LSN.

    `behind`: bytes of the log after `confirmed`. `retained`: bytes of the log that PostgreSQL keeps for the slot.
    """

    active_pid: int | None
    confirmed: int
    behind: int
    retained: int


class PostgresSource:
    """A database of PostgreSQL. `address`: a URI or a connection string. `name`: of the slot and the publication.

    Raises InvalidRequest for a name that PostgreSQL does not take.
    """

    def __init__(self, address: str, name: str) -> None:
        if not re.fullmatch(r"[a-z0-9_]{1,63}", name):
            raise InvalidRequest(
                f"{name!r} is not a valid name of a slot: use lower-case letters, digits and _, at most 63",
                reason="SLOT_NAME",
            )
        self.address = address
        self.name = name
        self._connection: Any = None

    def __enter__(self) -> PostgresSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection of questions."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def connect(self, replication: bool = False) -> Any:
        """Open a connection, for replication or for statements. Raises Unavailable."""
        with naming_errors():
            factory = {"connection_factory": LogicalReplicationConnection} if replication else {}
            names = {"application_name": "psoup cdc", "client_encoding": "UTF8"}
            return psycopg2.connect(self.address, options=_OPTIONS, **names, **factory)

    def ask(self, statement: Any, *values: Any) -> list[tuple[Any, ...]]:
        """Carry out one statement in a transaction of its own. Returns its rows."""
        with naming_errors():
            if self._connection is None or self._connection.closed:
                self._connection = self.connect()
                self._connection.autocommit = True
            with self._connection.cursor() as cursor:
                cursor.execute(statement, values)
                return list(cursor.fetchall()) if cursor.description else []

    def check_settings(self) -> None:
        """Raise FailedPrecondition if the server does not decode its log."""
        [(level,)] = self.ask("SELECT current_setting('wal_level')")
        if level != "logical":
            raise FailedPrecondition(
                f"PostgreSQL has wal_level = {level}, and its changes are decoded only with wal_level = logical: ALTER"
                " SYSTEM SET wal_level = logical, and start it again",
                reason="WAL_LEVEL",
            )

    def describe(self, table: str) -> SourceTable:
        """Describe a table by its name, as in SQL. Raises NotFound, and FailedPrecondition for a view."""
        rows = self.ask(_TABLE, table)
        if not rows:
            raise NotFound(
                f"PostgreSQL has no table {table}; name it with --source, and with its schema if that is not in the"
                " search_path",
                reason="UNKNOWN_SOURCE",
            )
        oid, schema, name, kind, identity, estimate = rows[0]
        if kind == _PARTITIONED:
            self._check_partitions(oid, f"{schema}.{name}", identity)
        elif kind != _TABLE_KIND:
            raise FailedPrecondition(
                f"{schema}.{name} is {_KINDS.get(kind, 'not a table')}, whose changes are not followed; name a table",
                reason="SOURCE_KIND",
            )
        columns = self.ask(_COLUMNS, oid)
        keys = {(primary, replica): tuple(names) for primary, replica, names in self.ask(_KEYS, oid)}
        primary = next((names for (is_primary, _), names in keys.items() if is_primary), ())
        index = next((names for (_, is_replica), names in keys.items() if is_replica), ())
        sent = tuple(SourceColumn(*column[:3]) for column in columns if not column[3])
        whole = tuple(column.name for column in sent)
        sent_key = whole if identity == FULL else () if identity == NOTHING else index if identity == "i" else primary
        generated = tuple(column[0] for column in columns if column[3])
        root = oid if kind == _PARTITIONED else 0
        return SourceTable(schema, name, identity, sent, generated, primary, sent_key, estimate, root)

    def _check_partitions(self, oid: int, table: str, identity: str) -> None:
        """Raise FailedPrecondition if the changes of a partitioned table do not come whole, with its primary key."""
        [(version,)] = self.ask("SELECT current_setting('server_version_num')::int")
        if version < _PARTITIONS_FROM:
            raise FailedPrecondition(
                f"{table} is a partitioned table, whose changes PostgreSQL 13 sends, and later ones; name a partition",
                reason="SOURCE_KIND",
            )
        for schema, name, kind, of_partition in [*self.ask(_PARTITIONS, oid), ("", "", _TABLE_KIND, identity)]:
            place = f"the partition {schema}.{name} of {table}" if name else f"the partitioned table {table}"
            if kind != _TABLE_KIND:
                raise FailedPrecondition(
                    f"{place} is {_KINDS.get(kind, 'not a table')}, whose changes are not followed; detach it",
                    reason="SOURCE_KIND",
                )
            if of_partition == _INDEX or (name and of_partition == NOTHING):
                raise FailedPrecondition(
                    f"{place} has REPLICA IDENTITY {'NOTHING' if of_partition == NOTHING else 'USING INDEX'}, and"
                    " deletions in partitions need the primary key: ALTER TABLE … REPLICA IDENTITY DEFAULT, or FULL",
                    reason="REPLICA_IDENTITY",
                )

    def slot(self) -> SlotState | None:
        """The state of the slot; None if there is none."""
        rows = self.ask(_SLOT, self.name)
        if not rows:
            return None
        active, pid, confirmed, behind, retained = rows[0]
        return SlotState(pid if active else None, lsn_of(confirmed or "0/0"), behind or 0, retained or 0)

    def owner(self) -> str | None:
        """The comment of the publication, which names a table of PSoup. None without a publication."""
        rows = self.ask(
            "SELECT coalesce(obj_description(oid, 'pg_publication'), '') FROM pg_publication WHERE pubname = %s",
            self.name,
        )
        return rows[0][0] if rows else None

    def publish(self, table: SourceTable, owner: str) -> None:
        """Create the publication of the table anew, with its comment."""
        name, place = sql.Identifier(self.name), sql.Identifier(table.schema, table.name)
        self.ask(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(name))
        options = sql.SQL(" WITH (publish_via_partition_root = true)" if table.root else "")
        self.ask(sql.SQL("CREATE PUBLICATION {} FOR TABLE ONLY {}{}").format(name, place, options))
        self.claim(owner)

    def claim(self, owner: str) -> None:
        """Let the comment of the publication name its owner."""
        self.ask(sql.SQL("COMMENT ON PUBLICATION {} IS {}").format(sql.Identifier(self.name), sql.Literal(owner)))

    def drop_slot(self) -> None:
        """Drop the slot, if there is one. Waits ten seconds for its reader to end, then raises Unavailable."""
        patience = Patience(_READER_SECONDS, strict=True)
        while True:
            try:
                self.ask(_DROP, self.name)
                return
            except Unavailable as problem:
                time.sleep(patience.next(problem))

    def drop(self) -> bool:
        """Drop the slot and the publication. Returns whether there was a slot."""
        slot = self.slot() is not None
        self.drop_slot()
        self.ask(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(self.name)))
        return slot

    def nudge(self) -> None:
        """Write a message without content to the log."""
        self.ask("SELECT pg_logical_emit_message(false, 'psoup', '')")

    def end(self) -> int:
        """The LSN at the end of the log."""
        return lsn_of(self.ask("SELECT pg_current_wal_lsn()::text")[0][0])


@contextmanager
def naming_errors() -> Iterator[None]:
    """Raise errors of PostgreSQL as errors of PSoup."""
    try:
        yield
    except psycopg2.Error as problem:
        raise error_of(problem) from problem


def error_of(problem: psycopg2.Error) -> PSoupError:
    """Describe an error of PostgreSQL: Unavailable if the connection is lost, else FailedPrecondition."""
    text = " ".join(str(problem).split())
    code = problem.pgcode or ""
    lost = isinstance(problem, psycopg2.OperationalError | psycopg2.InterfaceError)
    if (lost and code[:2] in ("", "08", "57")) or code == "55006":  # 55006: the slot is active
        return Unavailable(f"PostgreSQL: {text}", reason="SOURCE_UNAVAILABLE")
    return FailedPrecondition(f"PostgreSQL refuses: {text}", reason="SOURCE_REFUSED")
