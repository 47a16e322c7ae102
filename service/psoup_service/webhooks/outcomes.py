"""The outcome of an attempt to send a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Category = Literal["", "connection_refused", "timeout", "tls_error", "http_4xx", "http_5xx", "challenge_failed"]
"""The categories of failures in MCP Events. "" stands for success."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an attempt. `status`: 0 without a reply. `error`: "" if the receiver has taken the message.

    `category`: the part of a failure that assistants may see. `reply`: the beginning of the reply.
    """

    status: int
    error: str
    category: Category = ""
    reply: bytes = b""

    @property
    def taken(self) -> bool:
        """Whether the receiver has taken the message."""
        return not self.error
