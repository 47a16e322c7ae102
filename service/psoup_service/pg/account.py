"""The memory that a connection keeps for its client: prepared statements, arguments, rows of portals and cursors.

The bytes count against the service's memory for requests (`Receiving`). Each tenant has a share of it.
"""

from __future__ import annotations

from psoup.errors import ResourceExhausted
from psoup_service.wire.request_bodies import SMALL_BYTES, Receiving

MOST_BYTES = 32 * 1024 * 1024
"""The most bytes of a connection's prepared statements, portals, cursors and rows that wait.

A message has up to 16 MiB. The rows of an INSERT take as many once more, while its arguments are kept.
"""


class Account:
    """The bytes that one connection keeps. The first SMALL_BYTES are not charged, as for requests."""

    def __init__(self, receiving: Receiving, tenant: str) -> None:
        self._receiving = receiving
        self._tenant = tenant
        self._kept = self._charged = 0

    def add(self, size: int) -> None:
        """Charge bytes. Raises ResourceExhausted beyond the limit of the connection, or without free memory."""
        if self._kept + size > MOST_BYTES:
            raise ResourceExhausted(
                f"the prepared statements, portals, cursors and waiting rows of this connection take {self._kept:,}"
                f" bytes, and {size:,} more exceed the limit of {MOST_BYTES:,}; close some of them",
                reason="MEMORY",
                limit=MOST_BYTES,
            )
        wanted = _steps(self._kept + size)
        if wanted > self._charged:
            if not self._receiving.try_take(self._tenant, wanted - self._charged):
                raise self._receiving.full()
            self._charged = wanted
        self._kept += size

    def give_back(self, size: int) -> None:
        """Give back bytes."""
        self._kept -= size
        wanted = _steps(self._kept)
        if wanted < self._charged:
            self._receiving.give_back(self._tenant, self._charged - wanted)
            self._charged = wanted


def _steps(size: int) -> int:
    """The bytes to charge for `size` bytes: rounded up, so that most small changes need no call."""
    return 0 if size <= SMALL_BYTES else -(-size // SMALL_BYTES) * SMALL_BYTES
