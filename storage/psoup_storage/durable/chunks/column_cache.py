"""A cache of columns of stored chunks, bounded in bytes and shared by all readers.

    known | get ──> the column, now the most recently used        put ──> the least recently used columns go

Any thread; no lock is held while the disk is read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from psoup_storage.formats.pages import PageMemory


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=_Sized)

_Key = tuple[str | int, ...]


class ColumnCache:
    """A cache of at most `limit` bytes. Two threads may read the same column at the same time.

    Keys: (file, name) for a column, (file, "") or (file, "/cover") for an index of matches. Longer keys stand for parts
    of a column.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self.reads = 0
        """The number of columns, or parts of columns, that were read from files."""
        self.pages = PageMemory()
        self._columns: OrderedDict[_Key, Any] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, key: _Key) -> Any:
        """The entry under a key; None if it is not in the cache."""
        with self._lock:
            column = self._columns.get(key)
            if column is not None:
                self._columns.move_to_end(key)
            return column

    def get(self, key: _Key, read: Callable[[], T]) -> T:
        """The entry under a key. If the cache has none, calls `read` and stores its result."""
        cached: T | None = self.known(key)
        if cached is not None:
            return cached
        column = read()
        self.put(key, column)
        return column

    def put(self, key: _Key, column: _Sized) -> None:
        """Store an entry in place of an earlier one with its key. Drops the least recently used ones over `limit`."""
        with self._lock:
            before = self._columns.pop(key, None)
            self.bytes += column.nbytes - (0 if before is None else before.nbytes)
            self._columns[key] = column
            while self.bytes > self.limit and self._columns:
                self.bytes -= self._columns.popitem(last=False)[1].nbytes
