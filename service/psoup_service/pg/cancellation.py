"""Cancel requests: a client opens a second connection, and names the first one by its number and its secret key.

    BackendKeyData(number, key) ─> client ─> CancelRequest(number, key) ─> the statement of that connection ends

A request with a wrong key does nothing and gets no answer. So a stranger learns nothing about other connections.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass

_KEY_BYTES = 4
_NUMBERS = 1 << 31


@dataclass(frozen=True, slots=True)
class CancelKey:
    """The number of a connection, and its secret key of four bytes."""

    number: int
    key: bytes


class Cancelling:
    """The connections that can be cancelled, by number."""

    def __init__(self) -> None:
        self._next = secrets.randbelow(_NUMBERS)
        self._open: dict[int, tuple[bytes, Callable[[], None]]] = {}

    def add(self, cancel: Callable[[], None]) -> CancelKey:
        """Give a connection a number and a key. `cancel`: ends its present statement."""
        while self._next in self._open or not self._next:
            self._next = (self._next + 1) % _NUMBERS
        made = CancelKey(self._next, secrets.token_bytes(_KEY_BYTES))
        self._next = (self._next + 1) % _NUMBERS
        self._open[made.number] = made.key, cancel
        return made

    def remove(self, number: int) -> None:
        """Forget a connection."""
        self._open.pop(number, None)

    def cancel(self, given: CancelKey) -> None:
        """End the statement of the connection that has this key. Does nothing for another key."""
        key, cancel = self._open.get(given.number, (b"", None))
        if hmac.compare_digest(key, given.key) and cancel is not None:
            cancel()
