"""Warnings of rows that a sender did not bring in, for callers that look at no reply.

    an exception leaves `with client.producer(…)` ──> "… ends before 180 rows in 3 batches are acknowledged"
    the interpreter ends without `close`          ──> the same text
    `close`, without `on_refused`                 ──> "12 of 1,000 rows were refused"

A caller filters the warnings by the category RowsNotTaken.
"""

from __future__ import annotations

import atexit
import os
import warnings
from typing import Protocol

from psoup_client.errors import Cancelled
from psoup_client.ingest.push import PushResult
from psoup_client.phrases import counted, verb


class RowsNotTaken(UserWarning):
    """Rows that were given to a producer or a stage, and that are not in the stream."""


class Sender(Protocol):
    """A sender that may hold rows when the interpreter ends."""

    def abandon(self) -> str:
        """Stop at once, without waiting. Returns a sentence about the rows that may be lost; "" if there are none."""
        ...


_open: set[Sender] = set()
"""The senders that have not ended. They stay here when their caller has dropped them."""


def watch(sender: Sender) -> None:
    """Warn at the end of the interpreter if the sender still holds rows."""
    _open.add(sender)


def ended(sender: Sender) -> None:
    """Forget a sender that holds no rows any more."""
    _open.discard(sender)


def warn(text: str) -> None:
    """Give a warning, if there is a text. The place that it names is the caller's."""
    if text:
        warnings.warn(text, RowsNotTaken, stacklevel=3)


def interrupted(stream: str, number: int) -> Cancelled:
    """Make the error that ends a producer whose caller left a push before its reply. No other batch may have the
    number.
    """
    return Cancelled(
        f"a push to {stream!r} was interrupted, and its batch {number} may be taken or not: ask `position`, and go on"
        " in a new producer"
    )


def refused_text(stream: str, result: PushResult, way: str) -> str:
    """Describe the rows that the service refused among those it replied to; "" if there are none.

    `way`: where the caller finds them.
    """
    refused = result.late + result.ahead
    if not refused:
        return ""
    why = [f"{n:,} {reason}" for n, reason in ((result.late, "too late"), (result.ahead, "too far ahead")) if n]
    rows = result.accepted + refused
    return (
        f"{refused:,} of {counted(rows, 'row')} for stream {stream!r} {verb(refused, 'was', 'were')} refused:"
        f" {', '.join(why)}; {way}"
    )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open.clear)  # a child has no senders of its own, and their locks may be held


@atexit.register
def _at_exit() -> None:
    for sender in list(_open):
        warn(sender.abandon())
