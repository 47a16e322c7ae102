"""From a thread to the event loop: many futures resolved with one wake-up of each loop.

A wake-up costs a write to the loop's socket; a group of commands shares one. A future whose caller has gone, and a
loop that is closed, are passed over: the outcome stands whether or not anybody listens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from psoup_service.host.frames import let_go

Outcome = tuple["asyncio.Future[Any]", Any]
"""A future, and its result or the exception to raise there."""


def deliver(outcomes: Iterable[Outcome]) -> None:
    """Resolve the futures in their own loops, in order. From any thread; never blocks, never raises."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome[0].get_loop(), []).append(outcome)
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, group)
        except RuntimeError:  # the loop is closed: nobody waits there any more
            continue


def _resolve(group: list[Outcome]) -> None:
    for future, outcome in group:
        failed = isinstance(outcome, BaseException)
        if failed:
            let_go(outcome)
        if future.done():
            continue
        if failed:
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
