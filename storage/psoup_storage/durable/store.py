"""The store on disk: events are in the database when `append` returns, and come back after a crash.

    append([e1, e2, e3])   one transaction, one wait for the disk        (group commit)
    read()                 the rows in order, as events

After an error of the disk it refuses everything until the next start: a disk that failed to sync has no known state.
A disk that is nearly full is noticed before that, and refuses commands while there is still room to unregister.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from psoup.errors import Internal, ResourceExhausted
from psoup.events import Event
from psoup_storage.durable.codec import Decoder, Row, encode
from psoup_storage.durable.database import Database
from psoup_storage.durable.directory import DataDirectory

RESERVE_BYTES = 64 * 1024 * 1024
_LOOK_SECONDS = 0.2
_COLUMNS = ", ".join(Row._fields)
_PLACES = ", ".join("?" * len(Row._fields))
_COPIES = 3
"""What a byte of an event may take on the disk at most: in the write-ahead log, in the database, in pages."""


class DurableStore:
    """Events in one data directory; see the module, and `DataDirectory` and `Database` for what opening raises.

    `reserve_bytes`: free space of the disk below which commands are refused. `vfs`: SQLite's file system, for tests.
    """

    name = "disk"
    durable = True

    def __init__(self, path: Path | str, *, reserve_bytes: int = RESERVE_BYTES, vfs: str | None = None) -> None:
        self._directory = DataDirectory(path)
        try:
            self._database = Database(self._directory, vfs)
            self.incarnation = self._database.meta("incarnation")
            self._last = next(self._database.query("SELECT ifnull(max(sequence), 0) FROM log"))[0]
        except BaseException:
            self._directory.close()
            raise
        self._reserve = reserve_bytes
        self._free = 0
        self._looked = -_LOOK_SECONDS

    @property
    def path(self) -> Path:
        """The data directory."""
        return self._directory.path

    @property
    def sequence(self) -> int:
        """The sequence of the last event appended."""
        return int(self._last)

    @property
    def bytes(self) -> int:
        """Bytes of the files."""
        return self._database.bytes

    def check_room(self, size: int) -> None:
        """Raise ResourceExhausted, reason DISK_FULL, if the disk would have less than its reserve left."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked, self._free = now, self._directory.free_bytes()
        self._free -= _COPIES * size
        if self._free < self._reserve:
            self._looked = -_LOOK_SECONDS
            raise ResourceExhausted(
                f"the disk of {self.path} is full: {self._directory.free_bytes():,} bytes are free, and"
                f" {self._reserve:,} are kept in reserve; free some space, and the service takes commands again",
                reason="DISK_FULL",
                reserve=self._reserve,
                retry_after_ms=1_000,
            )

    def append(self, events: Sequence[Event]) -> None:
        """Keep `events` in one transaction. Raises Internal for any error, and ever after."""
        self._database.refuse_if_failed()
        if not events:
            return
        with self._database.transaction() as connection:
            last = self._last
            for event in events:
                if event.sequence <= last:
                    raise Internal(f"the store takes no events: event {event.sequence} came after event {last}")
                last = event.sequence
            connection.executemany(f"INSERT INTO log ({_COLUMNS}) VALUES ({_PLACES})", map(encode, events))
        self._last = last

    def read(self, after: int = 0) -> Iterator[Event]:
        """The kept events with a sequence greater than `after`; raises Internal at one that is damaged."""
        decoder = Decoder()
        wanted = f"SELECT {_COLUMNS} FROM log WHERE sequence > ? OR kind = 'stream' ORDER BY sequence"
        for values in self._database.query(wanted, (after,)):
            event = decoder.decode(Row(*values))
            if event.sequence > after:
                yield event

    def close(self) -> None:
        """Close the files and give the directory up; idempotent."""
        self._database.close()
        self._directory.close()
