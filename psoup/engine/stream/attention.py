"""Attention of the writer: streams of which readers must see something new, and streams that maintenance looks after.

    a part changes ── changed() ───> to publish ──> the engine makes the stream's view anew
                   └─ look_after() ─> may be due ──> the engine asks the rules of maintenance, until they find nothing
                                         └─ set_aside ─> evaluation for a tenant is due, which waits for its turn

Each part of a stream calls for it in the method that changes the part; no caller has to remember it. A forgotten call
is found by `Engine.check`: a view that is not what the stream would publish now, or due work that was not called for.
"""

from __future__ import annotations

from collections.abc import Collection


class Board:
    """All streams of one engine that call for attention, by their IDs, in the order in which they first did."""

    def __init__(self) -> None:
        self._changed: dict[int, None] = {}
        self._may_be_due: dict[int, None] = {}
        self._aside: dict[str, dict[int, None]] = {}
        """Streams that wait for a turn of their tenant. The tenant that was served longest ago is the first."""

    def change(self, stream_id: int) -> None:
        """Have the stream published: readers must see something new. O(1)."""
        self._changed[stream_id] = None

    def look_after(self, stream_id: int) -> None:
        """Have maintenance look at the stream. A stream that is waiting keeps its turn. O(1)."""
        self._may_be_due[stream_id] = None

    @property
    def changed(self) -> bool:
        """Whether something must be published."""
        return bool(self._changed)

    def take_changed(self) -> list[int]:
        """Return the streams to publish, and take them off the board."""
        stream_ids = [*self._changed]
        self._changed.clear()
        return stream_ids

    def take_due(self) -> int | None:
        """Return the stream whose turn it is, and take it off the board; None if nothing may be due."""
        stream_id = next(iter(self._may_be_due), None)
        if stream_id is not None:
            del self._may_be_due[stream_id]
        return stream_id

    @property
    def aside(self) -> Collection[str]:
        """The tenants that wait for a turn; the one that was served longest ago is the first."""
        return self._aside.keys()

    def set_aside(self, stream_id: int, tenant: str) -> None:
        """Let the stream wait for a turn of its tenant. A stream that waits keeps its place. O(1)."""
        self._aside.setdefault(tenant, {})[stream_id] = None

    def take_aside(self, tenant: str) -> int:
        """Return the stream of a tenant that has waited longest, and take it off the board. The tenant must wait."""
        streams = self._aside.pop(tenant)
        stream_id = next(iter(streams))
        del streams[stream_id]
        if streams:
            self._aside[tenant] = streams
        return stream_id

    def may_be_due(self, stream_id: int) -> bool:
        """Whether maintenance will look at the stream. O(tenants that wait)."""
        return stream_id in self._may_be_due or any(stream_id in streams for streams in self._aside.values())

    def forget(self, stream_id: int) -> None:
        """Take a stream that was dropped off the board."""
        self._changed.pop(stream_id, None)
        self._may_be_due.pop(stream_id, None)
        for tenant, streams in [*self._aside.items()]:
            streams.pop(stream_id, None)
            if not streams:
                del self._aside[tenant]


class Attention:
    """The way in which the parts of one stream call for attention."""

    def __init__(self, stream_id: int, board: Board) -> None:
        self._stream_id = stream_id
        self._board = board

    def changed(self) -> None:
        """Have the stream published: readers must see something new."""
        self._board.change(self._stream_id)

    def look_after(self) -> None:
        """Have maintenance look at the stream: something may be due."""
        self._board.look_after(self._stream_id)
