"""Spools: the store writes the tuples of a large push in pieces, before the push has a sequence.

    spool      slices  -8  0 │ small pushes │ -8  1 │ small pushes │ -8  2     each piece a transaction of its own
    append     log   4713  push  tuples: none here, spool: -8                  the row of the event names the pieces
    forget     log   4713  push  spool: NULL                                   no row names the pieces any more
    clear      slices  -8  … │ small pushes │ -8  …                            the pieces are deleted, some at a time

A push gets its sequence only when its tuples are on the disk. So the committer appends other events meanwhile, in
order. Keys of spools are negative, unlike sequences, and are assigned downwards. Some spools are named by no row: the
log has forgotten their tuples, the sequencer has refused their pushes, or a crash came before the append. The store
removes such a spool while it runs, or at the next start.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import apsw

from psoup.errors import ResourceExhausted
from psoup.values.columns import Batch
from psoup_storage.contract import InTurn, Spooled
from psoup_storage.durable.log import log
from psoup_storage.durable.log.tuples import encode_tuples
from psoup_storage.durable.sqlite.database import Database

CLEARED = 4
"""The most pieces that one transaction removes: about 2 ms."""

_UNNAMED = "DELETE FROM slices WHERE sequence < 0 AND sequence NOT IN (SELECT spool FROM log WHERE spool IS NOT NULL)"
_NAMED = "SELECT 1 FROM log WHERE spool = ?"
_CLEAR = "DELETE FROM slices WHERE rowid IN (SELECT rowid FROM slices WHERE sequence = ? LIMIT ?)"
_OF = "SELECT spool FROM log WHERE spool IS NOT NULL AND "
_FORGET = "UPDATE log SET spool = NULL, tuples = NULL WHERE spool IS NOT NULL AND "


def forget_spooled(connection: apsw.Connection, condition: str, *values: Any) -> list[int]:
    """Forget the tuples of spooled pushes for which a condition holds. Returns the keys of their spools, whose pieces
    are removed later (`Spools.unnamed`). O(rows).
    """
    keys = [key for (key,) in connection.execute(_OF + condition, values)]
    if keys:
        connection.execute(_FORGET + condition, values)
    return keys


class Spools:
    """The spools of a database. Only one is written at a time."""

    def __init__(self, database: Database) -> None:
        """Remove spools that no row names. Raises the errors of a transaction."""
        self._database = database
        self._coming: int | None = None
        """The key of the spool that was written last, until an event names it."""
        self._unnamed = deque[int]()
        """Keys of spools to remove. `clear` checks each key first: its transaction may have been rolled back, so that a
        row still names it.
        """
        with database.transaction() as connection:
            connection.execute(_UNNAMED)
        self._key = min(0, next(database.query("SELECT ifnull(min(sequence), 0) FROM slices"))[0])

    @property
    def due(self) -> bool:
        """Whether there is something to `clear`. Any thread."""
        return bool(self._unnamed)

    def write(self, batch: Batch, in_turn: InTurn, pace: Callable[[], int]) -> Spooled | None:
        """Write a batch as pieces; returns None if `pace` gives up. O(bytes).

        `in_turn`: runs each transaction. `pace`: returns the number of pieces of the next one; 0 gives up. Raises the
        errors of a transaction, and ResourceExhausted, reason NO_MEMORY, without memory for the bytes. An earlier spool
        that no event names will be removed.
        """
        if self._coming is not None:
            self.unnamed((self._coming,))
        try:
            content = encode_tuples(batch)
        except MemoryError as problem:
            raise ResourceExhausted(
                f"there is no memory for {batch.nbytes:,} bytes of tuples on their way to the disk; send fewer at once",
                reason="NO_MEMORY",
                bytes=batch.nbytes,
            ) from problem
        self._key -= 1
        self._coming = self._key
        pieces = [content[at : at + log.SLICE_BYTES] for at in range(0, len(content), log.SLICE_BYTES)]
        first = 0
        while first < len(pieces):
            count = pace()
            if not count:
                return None
            in_turn(partial(self._write, self._key, first, pieces[first : first + count]))
            first += count
        return Spooled(batch.columns, self._key, zlib.crc32(content))

    def name(self, key: int) -> None:
        """Note that an event names a spool, and will be in the log."""
        if key == self._coming:
            self._coming = None

    def unnamed(self, keys: Iterable[int]) -> None:
        """Note that no row of the log names these spools any more, so that `clear` removes them."""
        self._unnamed.extend(keys)

    def clear(self) -> None:
        """Remove some pieces that no row names, when that is `due`. Without room they stay until the next start."""
        key = self._unnamed[0]
        cleared = 0
        with suppress(ResourceExhausted), self._database.transaction() as connection:
            if connection.execute(_NAMED, (key,)).get is None:
                connection.execute(_CLEAR, (key, CLEARED))
                cleared = connection.changes()
        if cleared < CLEARED:
            self._unnamed.popleft()

    def _write(self, key: int, first: int, pieces: list[memoryview]) -> None:
        with self._database.transaction() as connection:
            connection.executemany(log.NEW_SLICE, ((key, n, piece) for n, piece in enumerate(pieces, first)))
