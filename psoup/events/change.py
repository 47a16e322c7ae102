"""The change of an event, for code that keeps account of events without applying them.

    event ──change_of──> rows 3             tuples that it brings
                         stream 2, spec …   a stream's new definition
                         dropped 2          a dropped stream
                         queries, ended     registered queries, IDs of removed ones

The doctor counts with it, the log decides what it may drop, a rehearsed start learns names. Only this module handles
each kind of event for them; the type checker fails if a kind is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, assert_never

import numpy as np

from psoup.events.access import TokenIssued, TokenRevoked
from psoup.events.events import (
    Attached,
    Event,
    Pushed,
    Registered,
    RegisteredMany,
    Replaced,
    StreamAltered,
    StreamCreated,
    StreamDropped,
    Unregistered,
    UnregisteredMany,
    WatermarkRaised,
)
from psoup.events.tenants import TenantAltered, TenantCreated, TenantDropped
from psoup.model import StreamSpec
from psoup.plan.standing_query import StandingQuery
from psoup.values.columns import Array


class Change(NamedTuple):
    """The change of one event. `rows`: without rows stored in chunks."""

    rows: int = 0
    stream: int = 0
    """The stream that `spec` defines."""
    spec: StreamSpec | None = None
    dropped: int = 0
    first: int = 0
    """The ID of the first of `queries`; the IDs of the rest follow."""
    queries: Sequence[StandingQuery] = ()
    ended: Sequence[int] = ()
    """IDs of removed queries; in a replay some may have been removed before."""


class Replacements(NamedTuple):
    """The queries that an event replaces, and their replacements: int64[n] each."""

    earlier: Array
    later: Array


_NONE: Array = np.zeros(0, np.int64)


def replacements(event: Registered | RegisteredMany | Replaced) -> Replacements:
    """The replacements of an event, `later` ascending. O(n). A replay may no longer know some of `earlier`."""
    if isinstance(event, Replaced):
        return Replacements(event.earlier, event.later)
    if isinstance(event, RegisteredMany):
        if event.replaced is None:
            return Replacements(_NONE, _NONE)
        rows = np.flatnonzero(event.replaced >= 0)
        return Replacements(event.replaced[rows], rows + event.first_id)
    if not event.replaced:
        return Replacements(_NONE, _NONE)
    return Replacements(np.array([event.replaced]), np.array([event.query_id]))


_NOTHING = Change()


def change_of(event: Event) -> Change:
    """The change of `event`. O(1), or O(removed queries of a block)."""
    match event:
        case Pushed():
            return Change(rows=len(event.batch))
        case WatermarkRaised() | Attached() | Replaced() | TokenIssued() | TokenRevoked():
            return _NOTHING
        case TenantCreated() | TenantAltered() | TenantDropped():
            return _NOTHING
        case StreamCreated() | StreamAltered():
            return Change(stream=event.stream_id, spec=event.spec)
        case StreamDropped():
            return Change(dropped=event.stream_id, ended=event.query_ids.tolist())
        case Registered():
            return Change(first=event.query_id, queries=(event.query,), ended=replacements(event).earlier.tolist())
        case RegisteredMany():
            gone = [event.first_id + position for position in event.gone]
            replaced = replacements(event).earlier.tolist()
            return Change(first=event.first_id, queries=event.queries, ended=[*gone, *replaced])
        case Unregistered():
            return Change(ended=(event.query_id,))
        case UnregisteredMany():
            return Change(ended=event.query_ids.tolist())
        case _:
            assert_never(event)


def rows_of(event: Event) -> int:
    """The number of tuples of an event; runs of events are limited by them."""
    return len(event.batch) if isinstance(event, Pushed) else 0
