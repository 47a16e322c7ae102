"""Tuples of large pushes, written before their events are decided: a piece at a time, so that nobody waits for all.

    spool      slices  -8  0 │ small pushes │ -8  1 │ small pushes │ -8  2     each piece a transaction of its own
    append     log   4713  push  tuples: none here, spool: -8                  the event; before, nobody knows of them
    forget     log   4713  push  spool: NULL                                   the pieces have no name any more
    clear      slices  -8  … │ small pushes │ -8  …                            and go, some at a time

A push gets its sequence only when its tuples are on the disk, so events go on meanwhile, in order. Keys of spools are
negative, which no sequence is, and are given out downwards. A spool that no row names is of tuples that the log has
forgotten, or of a push that was refused, or that a crash cut off and nobody was told of: it goes while the service
runs, or at the next start.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import apsw

from psoup.columns import Batch
from psoup.errors import ResourceExhausted
from psoup_storage.contract import InTurn, Spooled
from psoup_storage.durable.log import log
from psoup_storage.durable.log.tuples import encode_tuples
from psoup_storage.durable.sqlite.database import Database

CLEARED = 4
"""Pieces that are removed at once: some 2 ms."""

_UNNAMED = "sequence < 0 AND sequence NOT IN (SELECT spool FROM log WHERE spool IS NOT NULL)"
_CLEAR = "DELETE FROM slices WHERE rowid IN (SELECT rowid FROM slices WHERE sequence = ? LIMIT ?)"
_FORGET = "UPDATE log SET spool = NULL, tuples = NULL WHERE spool IS NOT NULL AND "


def forget_spooled(connection: apsw.Connection, condition: str, *values: Any) -> None:
    """Let the log forget the tuples of spooled pushes of which a condition holds. O(rows): their pieces go later."""
    connection.execute(_FORGET + condition, values)


class Spools:
    """The spools of a database; one is written at a time."""

    def __init__(self, database: Database) -> None:
        """Raises what a transaction raises: it removes spools that no row names."""
        self._database = database
        self._coming = set[int]()
        """Keys of spools whose events are not in the log, and may come."""
        self._named = set[int]()
        """Those of them that an event names."""
        self._look = False
        with database.transaction() as connection:
            connection.execute(f"DELETE FROM slices WHERE {_UNNAMED}")
        self._key = min(0, next(database.query("SELECT ifnull(min(sequence), 0) FROM slices"))[0])

    @property
    def due(self) -> bool:
        """Whether there may be pieces to `clear`. Any thread."""
        return self._look

    def write(self, batch: Batch, in_turn: InTurn, pace: Callable[[], int]) -> Spooled | None:
        """Write a batch `in_turn`, `pace` pieces at a time; None once that is 0. O(bytes).

        Raises what a transaction raises, and ResourceExhausted, reason NO_MEMORY, without memory for their bytes. An
        earlier spool that no event names will go.
        """
        self._look |= bool(self._coming - self._named)
        self._coming &= self._named
        try:
            content = encode_tuples(batch)
        except MemoryError as problem:
            raise ResourceExhausted(
                f"there is no memory for {batch.nbytes:,} bytes of tuples on their way to the disk; send fewer at once",
                reason="NO_MEMORY",
                bytes=batch.nbytes,
            ) from problem
        self._key -= 1
        self._coming.add(self._key)
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
        """Note that an event names a spool."""
        self._named.add(key)

    def appended(self, key: int) -> None:
        """Note that this event is in the log."""
        self._named.discard(key)
        self._coming.discard(key)

    def look(self) -> None:
        """Look for pieces to clear, as the log may have forgotten some."""
        self._look = True

    def clear(self) -> None:
        """Remove some pieces that no row names. Without room they stay until the next start."""
        self._look = False
        with suppress(ResourceExhausted), self._database.transaction() as connection:
            coming = ", ".join(map(str, list(self._coming)))
            found = f"SELECT sequence FROM slices WHERE {_UNNAMED} AND sequence NOT IN ({coming}) LIMIT 1"
            key = connection.execute(found).get
            if key is not None:
                connection.execute(_CLEAR, (key, CLEARED))
                self._look = True

    def _write(self, key: int, first: int, pieces: list[memoryview]) -> None:
        with self._database.transaction() as connection:
            connection.executemany(log.NEW_SLICE, ((key, n, piece) for n, piece in enumerate(pieces, first)))
