"""The definition of the source, as it changes in the stream of changes.

    RelationMessage ──> the same columns ──> the way from its rows to rows of the table
                    ──> a new, missing or changed column ──> an error with the way out

The messages of changes are not decoded here.
"""

from __future__ import annotations

from collections.abc import Callable

from psoup_cdc.pgoutput import RelationMessage, Truncate
from psoup_cdc.source import NOTHING, SourceTable
from psoup_cdc.target import Picker, TargetTable
from psoup_cdc.transaction import Transaction
from psoup_cdc.values import type_of
from psoup_client import FailedPrecondition, PSoupError


class Relations:
    """The present definition of the source, for the open transaction. `table`: the definition at the start."""

    def __init__(self, target: TargetTable, table: SourceTable) -> None:
        self._target = target
        self._table = table
        self._known = {column.name for column in table.columns}
        self._absent = set[str]()
        """Columns of the table that the last description did not have, as it was older."""
        self._picker: Picker | None = None
        self._relation = 0
        self._number = b""
        self._transaction: Transaction | None = None
        self._add: Callable[[bytes], None] = lambda payload: None

    def begin(self, transaction: Transaction) -> None:
        """Begin a transaction."""
        self._transaction, self._add = transaction, transaction.add
        if self._picker is not None:
            transaction.describe(self._picker)

    def describe(self, relation: RelationMessage) -> None:
        """Use a description. Raises FailedPrecondition, reason SOURCE_CHANGED, for a change that needs the operator.

        The descriptions of single partitions come, too, and are left out.
        """
        if self._table.root and relation.relation != self._table.root:
            return
        if relation.identity == NOTHING:
            raise self._changed(
                "has REPLICA IDENTITY NOTHING now, and deletions would be lost",
                f"ALTER TABLE {self._table} REPLICA IDENTITY DEFAULT in PostgreSQL, and begin anew",
            )
        columns = {column.name: column for column in relation.columns}
        for name in columns.keys() - self._known:
            raise self._changed(
                f"has the new column {name!r}",
                f"to follow it, ALTER TABLE {self._target.name} ADD COLUMN {name} {self._type(columns[name])} in PSoup;"
                " then start again. Without it, start again, and the column is left out",
            )
        picker = Picker(self._target, relation.columns)
        gone = set(picker.absent) - self._absent if self._picker is not None else set[str]()
        lacking = [name for name in self._target.key_names if name in picker.absent]
        for name in [*lacking, *sorted(gone)]:
            raise self._changed(
                f"has lost or renamed its column {name!r}",
                f"create the table {self._target.name} anew without it, or with the new name, and begin anew",
            )
        self._absent = set(picker.absent)
        self._picker, self._relation = picker, relation.relation
        self._number = self._relation.to_bytes(4, "big")
        if self._transaction is not None:
            self._transaction.describe(picker)

    def add(self, payload: bytes) -> None:
        """Add the message of a change to the transaction."""
        if payload[1:5] == self._number:
            self._add(payload)

    def truncate(self, message: Truncate) -> None:
        """Empty the table in the transaction."""
        assert self._transaction is not None
        if self._relation in message.relations:
            self._transaction.truncate()

    def _changed(self, change: str, way: str) -> FailedPrecondition:
        return FailedPrecondition(
            f"the table {self._table} of PostgreSQL {change}; all changes before are in. {way[:1].upper()}{way[1:]}",
            reason="SOURCE_CHANGED",
        )

    @staticmethod
    def _type(column: object) -> str:
        try:
            return type_of(column)  # type: ignore[arg-type]
        except PSoupError:
            return "TEXT"
