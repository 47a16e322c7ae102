"""The checks before a feed begins, and its names.

    table of PSoup          primary key ──────────────────────┐
    table of PostgreSQL     key, REPLICA IDENTITY, columns ───┴── they fit, or an error
    position, slot, owner   go on | begin with the first copy | refuse

Each error names the way out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from psoup_cdc.lsn import lsn_of, text_of
from psoup_cdc.source import FULL, NOTHING, PostgresSource, SourceTable
from psoup_cdc.target import Picker, TargetTable, quoted
from psoup_cdc.values import type_of
from psoup_client import Client, FailedPrecondition, NotFound

_MOST_NAME = 63
"""The most characters of a name in PostgreSQL."""


def producer_name(slot: str) -> str:
    """The name of the producer whose position belongs to a slot."""
    return f"cdc {slot}"


def slot_name(table: str) -> str:
    """The name of the slot of a table, unless another one is given.

    >>> slot_name("Customers 2")
    'psoup_customers_2'
    """
    return re.sub(r"[^a-z0-9_]", "_", f"psoup_{table.lower()}")[:_MOST_NAME]


def statement_for(name: str, table: SourceTable) -> str:
    """The statement that creates a table for a table of PostgreSQL, with all of its columns.

    Raises FailedPrecondition without a primary key, and for a column whose type must be chosen.
    """
    if not table.primary_key:
        raise FailedPrecondition(
            f"the table {table} of PostgreSQL has no primary key, by which PSoup would know its rows; add one, or"
            f" create the table {name} first, with the columns of its REPLICA IDENTITY as PRIMARY KEY",
            reason="SOURCE_KEY",
        )
    columns = [f"{quoted(column.name)} {type_of(column)}" for column in table.columns]
    key = ", ".join(map(quoted, table.primary_key))
    return f"CREATE TABLE {quoted(name)} ({', '.join(columns)}, PRIMARY KEY ({key}))"


@dataclass(frozen=True, slots=True)
class Start:
    """A feed's two tables, and the name of its producer. `left_out`: columns of the source that the table lacks."""

    target: TargetTable
    table: SourceTable
    producer: str
    left_out: tuple[str, ...]

    @staticmethod
    def of(target: TargetTable, source: PostgresSource, table: SourceTable) -> Start:
        """Check that a table can follow a table of PostgreSQL. Raises FailedPrecondition, which names the way out."""
        source.check_settings()
        _check_identity(table)
        _check_key(target, table)
        for name in Picker(target, table.columns).absent:
            generated = name in table.generated
            why = "is a generated column there, which PostgreSQL does not send" if generated else "is not there"
            raise FailedPrecondition(
                f"column {name!r} of table {target.name!r} {why} (table {table} of PostgreSQL); create the table"
                " without it; if it has rows, begin anew (--drop-slot, DROP TABLE)",
                reason="SOURCE_COLUMN",
                facts={"column": name},
            )
        names = {column.name.lower() for column in target.columns}
        left_out = tuple(column.name for column in table.columns if column.name.lower() not in names)
        return Start(target, table, producer_name(source.name), left_out)

    def recorded(self, client: Client) -> int | None:
        """The recorded LSN. None if nothing was copied."""
        try:
            at = client.position(self.target.name, self.producer)
        except NotFound as problem:
            if problem.reason != "UNKNOWN_PRODUCER":
                raise
            return None
        return lsn_of((at.source or b"0/0").decode())

    def prepare_copy(self, client: Client, source: PostgresSource) -> None:
        """Make room for the first copy: drop the slot of a copy that ended early, and create the publication."""
        if client.describe(self.target.name).next_tuple_id:
            raise FailedPrecondition(
                f"table {self.target.name!r} has rows, and no position of {source.name!r} is recorded; what was deleted"
                f" meanwhile would stay. Begin anew: psoup cdc {self.target.name} --drop-slot, DROP TABLE"
                f" {self.target.name}, and start again",
                reason="TABLE_HAS_ROWS",
            )
        slot, owner = source.slot(), source.owner()
        if slot is not None:
            if slot.active_pid is not None:
                raise FailedPrecondition(
                    f"process {slot.active_pid} of PostgreSQL reads the slot {source.name!r} now: another psoup cdc"
                    " runs; end it, or take another name (--slot)",
                    reason="SLOT_ACTIVE",
                )
            if owner != self.target.stream_id:
                raise FailedPrecondition(
                    f"the slot {source.name!r} belongs to another feed ({owner or 'unknown'}); take another name"
                    " (--slot), or drop it if that feed is gone (--drop-slot)",
                    reason="SLOT_OF_ANOTHER",
                )
            source.drop_slot()
        source.publish(self.table, self.target.stream_id)

    def check_slot(self, source: PostgresSource, lsn: int) -> None:
        """Raise FailedPrecondition if the slot is gone, or the service was put back behind the confirmed changes."""
        slot = source.slot()
        if slot is None:
            raise FailedPrecondition(
                f"PostgreSQL has no slot {source.name!r} any more, and what changed after {text_of(lsn)} is not known."
                f" Begin anew: DROP TABLE {self.target.name}, and start again",
                reason="SLOT_GONE",
            )
        if source.owner() == self.target.stream_id:  # a quiet slot is confirmed beyond the last change
            return
        if slot.confirmed > lsn:
            raise FailedPrecondition(
                f"the slot {source.name!r} is at {text_of(slot.confirmed)}, and the recorded position is"
                f" {text_of(lsn)}: the service was put back to an older state, and the changes between are lost. Begin"
                f" anew: psoup cdc {self.target.name} --drop-slot, DROP TABLE {self.target.name}, and start again",
                reason="SLOT_AHEAD",
            )
        source.claim(self.target.stream_id)


def _check_identity(table: SourceTable) -> None:
    if table.identity == NOTHING:
        raise FailedPrecondition(
            f"the table {table} of PostgreSQL has REPLICA IDENTITY NOTHING, so its deletions have no key: ALTER TABLE"
            f" {table} REPLICA IDENTITY DEFAULT (with a primary key), or FULL",
            reason="REPLICA_IDENTITY",
        )
    if not table.identity_key:
        raise FailedPrecondition(
            f"the table {table} of PostgreSQL has no primary key, so its updates and deletions have no key: add one, or"
            " ALTER TABLE … REPLICA IDENTITY USING INDEX or FULL",
            reason="REPLICA_IDENTITY",
        )


def _check_key(target: TargetTable, table: SourceTable) -> None:
    """Raise FailedPrecondition if the table's primary key is not a key of the source that its deletions tell."""
    wanted = {name.lower() for name in target.key_names}
    sent = {name.lower() for name in table.identity_key}
    keys = [table.primary_key] if table.identity == FULL else [table.primary_key, table.identity_key]
    if wanted <= sent and any(wanted == {name.lower() for name in key} for key in keys):
        return
    present = " or ".join(f"({', '.join(key)})" for key in dict.fromkeys(key for key in keys if key)) or "none"
    raise FailedPrecondition(
        f"table {target.name!r} has PRIMARY KEY ({', '.join(target.key_names)}), and {table} of PostgreSQL has no such"
        f" key; its key is {present}: create the table with that key",
        reason="SOURCE_KEY",
    )
