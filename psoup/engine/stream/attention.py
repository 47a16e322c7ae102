"""Attention: the lists of streams that need publication, and of streams that maintenance must check.

    a part changes ── changed() ───> to publish ──> the engine makes a new view of the stream
                   └─ look_after() ─> may be due ──> the engine asks the rules of maintenance, until they find nothing
                                         └─ set_aside ─> an evaluation is due, and waits for its tenant's turn

Each part of a stream makes these calls in the method that changes the part, so that callers need not. `Engine.check`
finds a forgotten call: a view that differs from the stream's state, or due work without a call.
"""

from __future__ import annotations

from collections.abc import Collection


class Board:
    """The streams of one engine that need attention, by their IDs, in the order of their first call."""

    def __init__(self) -> None:
        self._changed: dict[int, None] = {}
        self._may_be_due: dict[int, None] = {}
        self._aside: dict[str, dict[int, None]] = {}
        """Streams that wait for a turn of their tenant. The tenant that was served longest ago comes first."""

    def change(self, stream_id: int) -> None:
        """Put the stream on the list for publication, as readers must see a change. O(1)."""
        self._changed[stream_id] = None

    def look_after(self, stream_id: int) -> None:
        """Put the stream on the list for maintenance. A stream that is on it keeps its place. O(1)."""
        self._may_be_due[stream_id] = None

    @property
    def changed(self) -> bool:
        """Whether a stream must be published."""
        return bool(self._changed)

    def take_changed(self) -> list[int]:
        """Return the streams to publish, and remove them from the board."""
        stream_ids = [*self._changed]
        self._changed.clear()
        return stream_ids

    def take_due(self) -> int | None:
        """Return the next stream to check, and remove it from the board. None if nothing may be due."""
        stream_id = next(iter(self._may_be_due), None)
        if stream_id is not None:
            del self._may_be_due[stream_id]
        return stream_id

    @property
    def aside(self) -> Collection[str]:
        """The tenants that wait for a turn. The tenant that was served longest ago comes first."""
        return self._aside.keys()

    def set_aside(self, stream_id: int, tenant: str) -> None:
        """Let the stream wait for a turn of its tenant. A stream that waits already keeps its place. O(1)."""
        self._aside.setdefault(tenant, {})[stream_id] = None

    def take_aside(self, tenant: str) -> int:
        """Return and remove the tenant's stream that has waited longest. The tenant must have one."""
        streams = self._aside.pop(tenant)
        stream_id = next(iter(streams))
        del streams[stream_id]
        if streams:
            self._aside[tenant] = streams
        return stream_id

    def may_be_due(self, stream_id: int) -> bool:
        """Whether maintenance will check the stream. O(tenants that wait)."""
        return stream_id in self._may_be_due or any(stream_id in streams for streams in self._aside.values())

    def forget(self, stream_id: int) -> None:
        """Remove a dropped stream from the board."""
        self._changed.pop(stream_id, None)
        self._may_be_due.pop(stream_id, None)
        for tenant, streams in [*self._aside.items()]:
            streams.pop(stream_id, None)
            if not streams:
                del self._aside[tenant]


class Attention:
    """The calls with which the parts of one stream ask for attention."""

    def __init__(self, stream_id: int, board: Board) -> None:
        self._stream_id = stream_id
        self._board = board

    def changed(self) -> None:
        """Put the stream on the list for publication, as readers must see a change."""
        self._board.change(self._stream_id)

    def look_after(self) -> None:
        """Put the stream on the list for maintenance, as work may be due."""
        self._board.look_after(self._stream_id)
