"""Events of an answer: the changes since a position, merged into one event.

cursor ─> pages of Sync ─> event, next cursor
                         └─ reset ─> `truncated`, no event
"""

from __future__ import annotations

from typing import Any, NamedTuple

import xxhash

from psoup.errors import ResourceExhausted
from psoup_proto.v1 import sync_pb2
from psoup_service.assistants.calls import Bounds, McpCalls
from psoup_service.assistants.copies import MOST_BYTES, Page, next_page
from psoup_service.assistants.cursors import Cursor
from psoup_service.assistants.facts import CompletenessFacts, Facts, completeness_facts
from psoup_service.assistants.rows import fitting_rows
from psoup_service.wire.json_answers import instant_text

NAME = "answer_changed"
"""The name of the event type."""

MOST_ROWS = 20
"""Rows of an event at most. An assistant reads the other rows by its tools."""
_MOST_PAGES = 16
"""Pages of Sync in one event at most. The changes after them come with the next event."""
_MOST_FIRST_PAGES = 64
"""Pages of Sync that may be read to get a first position."""
_NO_GAP = frozenset({sync_pb2.RESET_UNSPECIFIED, sync_pb2.RESET_WHOLE})
"""Resets after which no change was missed. An answer that shows NOW is sent whole each time."""
ROW_BYTES = 1_024
"""Bytes of rows that an event may have, for each row."""


class AnswerChanged(Facts):
    """A change of an answer.

    `came_count`: the number of rows that came. `came`: the first of them. `more_rows`: the number of rows left out.
    `left_count`: the number of rows that left, or null if the service does not know it. `stays`: intervals of IDs, each
    without its end. An earlier row left if its ID is in none of them. `reset`: true if the rows that came are the whole
    answer, and all earlier rows left.
    """

    key: str
    sequence: int
    came_count: int
    left_count: int | None
    came: list[dict[str, Any]]
    more_rows: int
    stays: dict[str, list[tuple[int, int]]] | None = None
    reset: bool | None = None
    completeness: CompletenessFacts


class Changes(NamedTuple):
    """The changes since a position. `event`: None if nothing has changed. `more`: whether there are more changes."""

    event: dict[str, Any] | None
    cursor: Cursor
    truncated: bool
    more: bool


class Merged:
    """Changes that make one event. `key`: the key of the query. `since`: the position before them."""

    def __init__(self, key: str, since: bytes, bounds: Bounds) -> None:
        self.complete = True
        self.token = since
        self.was_reset = False
        self._key = key
        self._hash = xxhash.xxh3_128(since)
        self._bounds = Bounds(min(bounds.rows, MOST_ROWS), min(bounds.size // 2, MOST_ROWS * ROW_BYTES))
        self._whole = False
        self._came = 0
        self._left: int | None = 0
        self._rows = list[dict[str, Any]]()
        self._last: Page | None = None

    async def add(self, page: Page, calls: McpCalls) -> None:
        """Add a page. Pages after a reset make no event: they lead to a first position."""
        change = page.change
        self._whole = self._whole or change.reset == sync_pb2.RESET_WHOLE
        self.was_reset = self.was_reset or change.reset not in _NO_GAP
        self.complete, self.token = change.complete, page.token
        if not change.token or self.was_reset:
            return
        counted = sync_pb2.Change(rows=change.rows, keep=change.keep, removed=change.removed)
        self._hash.update(counted.SerializeToString())
        for raw in change.batches:
            self._hash.update(raw)
        left = page.left()
        self._came += change.rows
        self._left = None if left is None or self._left is None else self._left + left
        if len(self._rows) < self._bounds.rows and change.rows:
            first = page.table().slice(0, self._bounds.rows - len(self._rows))
            self._rows += await calls.made(first.nbytes, lambda: fitting_rows(first, self._bounds.size))
        self._last = page

    def event(self, clock: int) -> dict[str, Any] | None:
        """The event of the changes; None if there are none. `clock`: the time of the service."""
        page = self._last
        if page is None or (not self._came and self._left == 0 and not self._whole):
            return None
        facts = AnswerChanged(
            key=self._key,
            sequence=page.body.sequence,
            came_count=self._came,
            left_count=self._left,
            came=self._rows,
            more_rows=self._came - len(self._rows),
            completeness=completeness_facts(page.completeness()),
        )
        if self._whole:
            facts.left_count, facts.reset = None, True
        elif self._left is None:
            facts.stays = page.stays()
        return occurrence(f"evt_{self._hash.hexdigest()}", clock, facts)


def occurrence(event_id: str, clock: int, facts: AnswerChanged) -> dict[str, Any]:
    """An event in the form of the extension. `clock`: its time, in microseconds since 1970."""
    return {
        "eventId": event_id,
        "name": NAME,
        "timestamp": instant_text(clock),
        "data": facts.model_dump(exclude_unset=True),
    }


async def first_position(calls: McpCalls, key: str) -> Cursor:
    """The present position of an answer. Raises a PSoupError. Reads all rows of the answer, and keeps none."""
    return (await _pages(calls, sync_pb2.Want(key=key), Merged(key, b"", calls.bounds), _MOST_FIRST_PAGES))[0]


async def changes_since(calls: McpCalls, key: str, cursor: Cursor) -> Changes:
    """The changes since a position. Raises a PSoupError."""
    merged = Merged(key, cursor.token, calls.bounds)
    position, clock = await _pages(calls, sync_pb2.Want(key=key, token=cursor.token), merged, _MOST_PAGES)
    if merged.was_reset:
        return Changes(None, position, truncated=True, more=False)
    return Changes(merged.event(clock), position, truncated=False, more=not merged.complete)


async def _pages(calls: McpCalls, want: sync_pb2.Want, merged: Merged, limit: int) -> tuple[Cursor, int]:
    """Read pages until the position is complete, or `limit` pages. Returns it and the time of the service."""
    want.max_bytes, pages = MOST_BYTES, 0
    while True:
        page = await next_page(calls, want)
        await merged.add(page, calls)
        pages += 1
        cursor = Cursor(page.body.clock, merged.token)
        if merged.complete or (pages >= limit and not merged.was_reset):
            return cursor, page.body.clock
        if pages >= _MOST_FIRST_PAGES:
            raise ResourceExhausted(
                f"the answer of query {want.key!r} takes more than {pages} replies; watch a smaller answer",
                reason="ANSWER_TOO_LARGE",
            )
        want.token = page.token
