"""The change of an event, for code that reads events but does not apply them.

    event ──change_of──> rows 3             tuples that it brings
                         stream 2, spec …   a stream's new definition
                         dropped 2          a dropped stream
                         queries, ended     registered queries, IDs of removed ones

Three readers use it. The doctor counts tuples and queries, the log decides which events it may drop, and a rehearsed
start learns names. Only this module distinguishes the kinds of events for them. The type checker fails if a kind is
missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from psoup.events.events import (
    Attached,
    Event,
    Pushed,
    QueriesAltered,
    Registered,
    RegisteredMany,
    Replaced,
    StreamAltered,
    StreamCreated,
    StreamDropped,
    Unregistered,
    UnregisteredMany,
    WatermarkRaised,
    WatermarksRaised,
)
from psoup.events.lists import ListEvent
from psoup.model import StreamSpec
from psoup.plan.standing_query import StandingQuery
from psoup.values.columns import Array


class Change(NamedTuple):
    """The change of one event. `rows`: its tuples, without those that a replay already has in stored chunks."""

    rows: int = 0
    stream: int = 0
    """The ID of the stream that `spec` defines."""
    spec: StreamSpec | None = None
    dropped: int = 0
    first: int = 0
    """The ID of the first query in `queries`. The IDs of the other queries follow it."""
    queries: Sequence[StandingQuery] = ()
    ended: Sequence[int] = ()
    """The IDs of removed queries. In a replay, some of them may have been removed earlier."""


class Replacements(NamedTuple):
    """The IDs of the queries that an event replaces, and of their replacements: int64[n] each."""

    earlier: Array
    later: Array


_NONE: Array = np.zeros(0, np.int64)


def replacements(event: Registered | RegisteredMany | Replaced) -> Replacements:
    """The replacements of an event. `later` ascends. A replay may no longer know some of `earlier`. O(n)."""
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
        case WatermarkRaised() | WatermarksRaised() | Attached() | Replaced() | QueriesAltered():
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
            return _of_list(event)


def _of_list(event: ListEvent) -> Change:
    """The change of an event about a list: none. Its type makes the checker name a kind that `change_of` forgot."""
    return _NOTHING


def rows_of(event: Event) -> int:
    """The number of tuples of an event. Hosts limit the tuples that they log or apply at once by it."""
    return len(event.batch) if isinstance(event, Pushed) else 0
