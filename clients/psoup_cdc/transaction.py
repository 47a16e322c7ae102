"""The changes of one transaction, as the rows of one push.

    INSERT                    a row
    UPDATE                    the new row; if its key has changed, also a deletion of the key before
    DELETE                    a deletion of the key
    TRUNCATE                  deletions of all keys of the table and of the transaction
    unchanged TOAST           the value of the version before: of the transaction, else of the table

Later rows of a key count, so the order of the changes is kept. Rows become Arrow columns in pieces, as a transaction
may be long.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

import pyarrow as pa

from psoup_cdc.pgoutput import UNCHANGED, Cell, Delete, Insert, Update, decode
from psoup_cdc.row_columns import columns_of
from psoup_cdc.target import Key, Picker, TargetTable, deletions, plain_keys, typed, versions_in
from psoup_cdc.values import texts
from psoup_client import FailedPrecondition

PIECE_ROWS = 65_536
"""The most messages that become one piece of Arrow columns."""

PIECE_BYTES = 4 * 1024 * 1024
"""The bytes of messages that become one piece of Arrow columns."""


class PresentRows(Protocol):
    """The table as it is before the transaction. Both calls first wait for all rows that were pushed."""

    def versions(self, keys: set[tuple[Any, ...]]) -> dict[tuple[Any, ...], tuple[bytes | None, ...]]:
        """The present versions of some keys, in text form, by their keys as plain values."""
        ...

    def keys(self) -> pa.Table:
        """The keys of all rows."""
        ...


class Transaction:
    """The changes of one transaction."""

    def __init__(self, target: TargetTable, present: PresentRows) -> None:
        self._target = target
        self._present = present
        self._picker: Picker | None = None
        self._raw: list[bytes] = []
        """Messages that are not decoded yet."""
        self._size = 0
        """Bytes of these messages."""
        self._open: list[tuple[Cell, ...] | list[Cell]] = []
        self._deleted: list[bool] = []
        self._partial: dict[int, Key] = {}
        """The places of rows with unchanged values, and the keys of the versions before."""
        self._pieces: list[pa.Table] = []
        self._emptied = False
        """Whether the transaction has emptied the table, so that its earlier versions are gone."""

    def describe(self, picker: Picker) -> None:
        """Use another description of the source from here on."""
        if self._raw:
            self._close_piece()
        self._picker = picker

    def add(self, payload: bytes) -> None:
        """Add the message of a change."""
        self._raw.append(payload)
        self._size += len(payload)
        if self._size >= PIECE_BYTES or len(self._raw) >= PIECE_ROWS:
            self._close_piece()

    def truncate(self) -> None:
        """Delete all rows. O(rows of the table)."""
        self._close_piece()
        names = list(self._target.key_names)
        keys = [piece.select(names) for piece in self._pieces]
        if not self._emptied:
            keys.append(self._present.keys().select(names))
        self._emptied = True
        pieces = [deletions(self._target, each.combine_chunks()) for each in keys if each.num_rows]
        self._pieces += pieces

    def table(self) -> pa.Table:
        """The rows of the push. O(bytes)."""
        self._close_piece()
        return pa.concat_tables(self._pieces) if self._pieces else pa.table({})

    def _decode(self) -> None:
        """Decode the messages so far. O(bytes)."""
        assert self._picker is not None
        for payload in self._raw:
            change = decode(payload)
            if isinstance(change, Insert):
                self._add(self._picker.pick(change.row), False)
            elif isinstance(change, Delete):
                self._delete(self._picker.pick(change.before))
            elif isinstance(change, Update):
                self._update(change)

    def _add(self, row: tuple[Cell, ...] | list[Cell], deleted: bool) -> None:
        self._open.append(row)
        self._deleted.append(deleted)

    def _delete(self, row: tuple[Cell, ...]) -> None:
        """Delete the key of a row. The other values stay out."""
        gone: list[Cell] = [None] * len(row)
        for place in self._target.key:
            gone[place] = row[place]
        self._add(gone, True)

    def _update(self, change: Update) -> None:
        assert self._picker is not None
        row = self._picker.pick(change.row)
        before = None if change.before is None else self._picker.pick(change.before)
        if change.partial:
            whole = before if change.whole else None
            row = self._filled(row, whole, before)
        self._add(row, False)
        if before is not None and self._target.key_of(before) != self._target.key_of(row):
            self._delete(before)

    def _filled(self, row: tuple[Cell, ...], whole: tuple[Cell, ...] | None, before: tuple[Cell, ...] | None) -> Any:
        """Take unchanged values from the row before, if the source sent it whole. Else note the key to look it up."""
        if UNCHANGED not in row:  # a column that the table does not have
            return row
        if whole is not None:
            return tuple(old if new is UNCHANGED else new for new, old in zip(row, whole, strict=True))
        row = tuple(
            before[place] if before is not None and new is UNCHANGED and place in self._target.key else new
            for place, new in enumerate(row)
        )
        self._partial[len(self._open)] = cast(Key, self._target.key_of(row if before is None else before))
        return list(row)

    def _close_piece(self) -> None:
        """Make Arrow columns of the messages so far."""
        if not self._raw:
            return
        assert self._picker is not None
        columns, deleted = self._columns_at_once() or self._columns()
        self._pieces.append(typed(self._target, self._picker.type_ids, columns, deleted))
        self._raw, self._size, self._open, self._deleted, self._partial = [], 0, [], [], {}

    def _columns_at_once(self) -> tuple[list[pa.Array], Any] | None:
        """The columns of messages with one row each, in text form; None if there are other messages."""
        assert self._picker is not None
        read = columns_of(self._raw, self._picker.count)
        if read is None:
            return None
        nulls = pa.nulls(len(self._raw), pa.string())
        return [nulls if place is None else read[0][place] for place in self._picker.places], read[1]

    def _columns(self) -> tuple[list[pa.Array], Any]:
        """The columns of any messages, in text form."""
        self._decode()
        if self._partial:
            self._fill()
        return [texts(cast(Any, cells)) for cells in zip(*self._open, strict=True)], self._deleted

    def _fill(self) -> None:
        """Fill unchanged values from the versions before them, in the order of the changes."""
        earlier, latest = self._versions_before(), dict[Key, Any]()
        for place, row in enumerate(self._open):
            key = self._partial.get(place)
            if key is not None:
                version = latest.get(key) or earlier.get(key)
                if version is None:
                    named = ", ".join("NULL" if value is None else value.decode("utf-8", "replace") for value in key)
                    raise FailedPrecondition(
                        f"an update of key ({named}) leaves out a large value that has not changed, and table"
                        f" {self._target.name!r} has no row of this key; begin anew: drop the slot and the table",
                        reason="ROW_BEFORE_MISSING",
                        facts={"key": named},
                    )
                self._open[place] = row = [
                    old if new is UNCHANGED else new for new, old in zip(row, version, strict=True)
                ]
            if not self._deleted[place]:
                latest[cast(Key, self._target.key_of(row))] = row

    def _versions_before(self) -> dict[Key, tuple[bytes | None, ...]]:
        """The versions before the open rows, for the keys of partial ones: of earlier pieces, else of the table."""
        assert self._picker is not None
        keys = list(dict.fromkeys(self._partial.values()))
        plain = plain_keys(self._target, self._picker.type_ids, keys)
        rows = dict[Any, tuple[bytes | None, ...]]()
        for piece in self._pieces:
            rows |= versions_in(self._target, piece)
        missing = {key for key in plain if key not in rows}
        if missing and not self._emptied:
            rows |= self._present.versions(missing)
        return {key: rows[value] for key, value in zip(keys, plain, strict=True) if value in rows}
