"""The outcome of an attempt to send a message."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an attempt. `status`: 0 without a reply. `error`: "" if the receiver has taken the message."""

    status: int
    error: str

    @property
    def taken(self) -> bool:
        """Whether the receiver has taken the message."""
        return not self.error
