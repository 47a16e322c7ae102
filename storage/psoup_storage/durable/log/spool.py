"""Tuples of large pushes, written before their events are decided: a piece at a time, so that nobody waits for all.

    spool      slices  -8  0 │ small pushes │ -8  1 │ small pushes │ -8  2     each piece a transaction of its own
    append     log   4713  push  tuples: the first piece, spool: -8            the event; before, nobody knows of them

A push gets its sequence only when the rest is on the disk, so events go on meanwhile, in order. Keys of spools are
negative, which no sequence is, and are given out downwards. A spool that no row names was of a push that was refused,
or that a crash cut off: it was never acknowledged, and goes with the next spool, or at the next start.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial

from psoup.columns import Batch
from psoup.errors import ResourceExhausted
from psoup_storage.contract import InTurn, Spooled
from psoup_storage.durable.log import log
from psoup_storage.durable.log.tuples import encode_tuples
from psoup_storage.durable.sqlite.database import Database

_UNNAMED = "DELETE FROM slices WHERE sequence < 0 AND sequence NOT IN (SELECT spool FROM log WHERE spool IS NOT NULL)"
_FORGET = "DELETE FROM slices WHERE sequence = ?"


class Spools:
    """The spools of a database; one is written at a time."""

    def __init__(self, database: Database) -> None:
        """Raises what a transaction raises: it removes spools that no row names."""
        self._database = database
        self._unnamed: list[int] = []
        """Spools that were begun, and that no event names so far."""
        with database.transaction() as connection:
            connection.execute(_UNNAMED)
        self._key = min(0, next(database.query("SELECT ifnull(min(sequence), 0) FROM slices"))[0])

    def write(self, batch: Batch, in_turn: InTurn, left: Callable[[], bool]) -> Spooled | None:
        """Write all but the first piece of a batch `in_turn`; None if the caller has `left` meanwhile. O(bytes).

        Raises what a transaction raises, and ResourceExhausted, reason NO_MEMORY, without memory for their bytes. An
        earlier spool that was not named is removed.
        """
        try:
            content = encode_tuples(batch)
        except MemoryError as problem:
            raise ResourceExhausted(
                f"there is no memory for {batch.nbytes:,} bytes of tuples on their way to the disk; send fewer at once",
                reason="NO_MEMORY",
                bytes=batch.nbytes,
            ) from problem
        self._key -= 1
        self._unnamed.append(self._key)
        for number, at in enumerate(range(log.SLICE_BYTES, len(content), log.SLICE_BYTES)):
            if left():
                return None
            in_turn(partial(self._write, self._key, number, content[at : at + log.SLICE_BYTES]))
        return Spooled(batch.columns, self._key, zlib.crc32(content), bytes(content[: log.SLICE_BYTES]))

    def name(self, spooled: Spooled) -> None:
        """Note that an event names a spool."""
        self._unnamed.remove(spooled.key)

    def _write(self, key: int, number: int, content: memoryview) -> None:
        with self._database.transaction() as connection:
            connection.executemany(_FORGET, [(unnamed,) for unnamed in self._unnamed if unnamed != key])
            connection.execute(log.NEW_SLICE, (key, number, content))
        self._unnamed = [key]
