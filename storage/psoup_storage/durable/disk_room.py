"""The free space of the disk, and the reserve below which commands are refused.

    free 70 MiB, reserve 64 MiB     a push of 1 MiB takes up to 3 MiB       taken
                                    a push of 4 MiB takes up to 12 MiB      refused, in the log once

The disk is looked at every 0.2 s. Between two looks, the bytes of accepted commands are subtracted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from psoup_storage.formats.files import disk_full

COPIES = 3
"""An upper bound of bytes on the disk for a byte of an event: in the write-ahead log, in the database, in pages."""
_LOOK_SECONDS = 0.2
_TELL_SECONDS = 60.0
"""Seconds between two lines of the log while commands are refused."""

_log = logging.getLogger(__name__)


class DiskRoom:
    """The room of one data directory. `free_bytes` looks at the disk. Not safe for threads, and exact for none."""

    def __init__(self, path: Path, free_bytes: Callable[[], int], reserve: int) -> None:
        self._path = path
        self._free_bytes = free_bytes
        self._reserve = reserve
        self._free = 0
        """The free bytes at the last look, less the bytes of commands since then."""
        self._looked = -_LOOK_SECONDS
        self._told = -_TELL_SECONDS
        self._refused = 0
        """The number of commands refused since the last one that was accepted."""

    def look_again(self) -> None:
        """Look at the disk for the next command."""
        self._looked = -_LOOK_SECONDS

    def check(self, size: int) -> None:
        """Raise ResourceExhausted, reason DISK_FULL, if `size` bytes of events would leave less than the reserve."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked, self._free = now, self._free_bytes()
        left = self._free - COPIES * size
        if left < self._reserve:
            self._refuse(size, now)
        self._free = left
        if self._refused:
            _log.warning("the disk has room again", extra={"free_bytes": left, "refused": self._refused})
            self._refused, self._told = 0, -_TELL_SECONDS

    def shortage(self) -> str:
        """The reason why all commands are refused at present; "" if there is room. From any thread."""
        looked = time.monotonic() - self._looked < _LOOK_SECONDS
        free = self._free if looked else self._free_bytes()
        return "" if free >= self._reserve else disk_full(self._path, self._why(free)).message

    def _why(self, free: int) -> str:
        return f"{free:,} bytes are free, and {self._reserve:,} are kept in reserve"

    def _refuse(self, size: int, now: float) -> None:
        self.look_again()
        free = self._free_bytes()
        why = self._why(free)
        if free >= self._reserve:
            why += f"; a command of {size:,} bytes takes up to {COPIES * size:,} on the disk"
        if free - COPIES * size >= self._reserve:  # commands of the last moment have not reached the disk
            why += f", besides {free - self._free:,} of the commands before it"
        full = disk_full(self._path, why, reserve=self._reserve, free=free, size=size)
        self._refused += 1
        if now - self._told >= _TELL_SECONDS:
            self._told = now
            _log.error("no room on the disk: %s", full.message, extra={"refused": self._refused})
        raise full
