"""What one read may use, and what all reads may together.

Allowance.budget() ──> ReadBudget     one for each read; the settings are read once, where the service is composed
"""

from __future__ import annotations

import threading

from psoup.reading import NO_LIMIT, ReadBudget
from psoup_service.host.archive_speed import ArchiveSpeed


class SharedBytes:
    """The bytes that all reads together hold. Any thread."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Take `size` bytes; returns False if the limit does not allow it."""
        with self._lock:
            if self.used + size > self.limit:
                return False
            self.used += size
            return True

    def give_back(self, size: int) -> None:
        """Give back bytes that were taken."""
        with self._lock:
            self.used -= size


class Allowance:
    """The limits of reads. `cpu_s`: processor time of one; `sort_bytes`, `all_sort_bytes`: of one sort, and of all.

    `archive_s`: seconds that one read may take for tuples on disk that were not evaluated for its query yet.
    """

    def __init__(
        self,
        *,
        cpu_s: float = 60.0,
        sort_bytes: int = NO_LIMIT,
        all_sort_bytes: int = NO_LIMIT,
        archive_s: float = 10.0,
    ) -> None:
        self.cpu_s = cpu_s
        self.sort_bytes = sort_bytes
        self.sorts = SharedBytes(all_sort_bytes)
        self.archive = ArchiveSpeed(archive_s)

    def budget(self) -> ReadBudget:
        """The budget of a new read."""
        return ReadBudget(sort_bytes=self.sort_bytes, shared=self.sorts, archive=self.archive, cpu_s=self.cpu_s)
