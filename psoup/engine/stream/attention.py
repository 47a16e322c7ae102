"""What calls for the writer's attention: streams of which readers must see something new, and streams to look after.

    a part changes ── changed() ───> to publish ──> the engine makes the stream's view anew
                   └─ look_after() ─> may be due ──> the engine asks the rules of maintenance, until they find nothing

A part tells it itself, in the method that changes it; nobody else has to remember. What is forgotten all the same is
found by `Engine.check`: a view that is not what the stream would publish now, or work that is due and not known.
"""

from __future__ import annotations


class Board:
    """All streams of one engine that call for attention, by their IDs, in the order in which they first did."""

    def __init__(self) -> None:
        self._changed: dict[int, None] = {}
        self._may_be_due: dict[int, None] = {}

    def change(self, stream_id: int) -> None:
        """Readers must see something new of the stream. O(1)."""
        self._changed[stream_id] = None

    def look_after(self, stream_id: int) -> None:
        """Maintenance may find something due. A stream that is known keeps its turn. O(1)."""
        self._may_be_due[stream_id] = None

    @property
    def changed(self) -> bool:
        """Whether something must be published."""
        return bool(self._changed)

    def take_changed(self) -> list[int]:
        """The streams to publish, which are published now."""
        stream_ids = [*self._changed]
        self._changed.clear()
        return stream_ids

    def take_due(self) -> int | None:
        """The stream whose turn it is, which goes to the end if it is named again; None if nothing may be due."""
        stream_id = next(iter(self._may_be_due), None)
        if stream_id is not None:
            del self._may_be_due[stream_id]
        return stream_id

    def may_be_due(self, stream_id: int) -> bool:
        """Whether maintenance will look at the stream."""
        return stream_id in self._may_be_due

    def forget(self, stream_id: int) -> None:
        """The stream is gone."""
        self._changed.pop(stream_id, None)
        self._may_be_due.pop(stream_id, None)


class Attention:
    """What the parts of one stream tell the engine."""

    def __init__(self, stream_id: int, board: Board) -> None:
        self._stream_id = stream_id
        self._board = board

    def changed(self) -> None:
        """Readers must see something new."""
        self._board.change(self._stream_id)

    def look_after(self) -> None:
        """Maintenance may find something due."""
        self._board.look_after(self._stream_id)
