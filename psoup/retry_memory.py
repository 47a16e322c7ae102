"""Limits of the past calls that admission and the log remember, to recognise a client's retries."""

from __future__ import annotations

from dataclasses import dataclass

from psoup.model import SECOND


@dataclass(frozen=True, slots=True)
class Remembered:
    """Limits of the past calls that admission remembers, to recognise a client's retries.

    The log shares these limits, so it keeps all that admission needs.
    """

    acknowledgements: int = 1_024
    """The most batches of each producer whose numbers admission remembers, to recognise the producer's retries."""

    idle: int = 7 * 86_400 * SECOND
    """Microseconds after which admission forgets a producer that sends nothing."""

    removals: int = 256
    """The most UnregisterMany calls of each tenant that admission remembers, so that a retry gets the first answer."""

    key_idle: int = 86_400 * SECOND
    """Microseconds after which admission forgets an idempotency key."""


REMEMBERED = Remembered()

KEY_FORM = "idempotency-key:" + 32 * "[0-9a-f]"
"""A pattern of the names of producers that stand for idempotency keys. It is valid for `re`, and for GLOB of SQLite."""
