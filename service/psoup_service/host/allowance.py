"""What one read may spend in this service, and what all of them together may hold.

    Allowance.budget() ──> ReadBudget     one for each read; `psoup_service.host.readers` watches the processor time

Read once at the composition root, from the settings.
"""

from __future__ import annotations

import threading

from psoup.reading import NO_LIMIT, ReadBudget
from psoup_service.host.archive_speed import ArchiveSpeed


class SharedBytes:
    """Bytes that all reads together hold. Any thread."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Take `size` bytes, if that is possible."""
        with self._lock:
            if self.used + size > self.limit:
                return False
            self.used += size
            return True

    def give_back(self, size: int) -> None:
        """Return what was taken."""
        with self._lock:
            self.used -= size


class Allowance:
    """`cpu_s`: processor time of one read. `sort_bytes`, `all_sort_bytes`: that sorts hold, each and together.

    `archive_s`: seconds that one read may take for tuples on disk that nothing has evaluated for its query.
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
        """Of a new read."""
        return ReadBudget(sort_bytes=self.sort_bytes, shared=self.sorts, archive=self.archive)
