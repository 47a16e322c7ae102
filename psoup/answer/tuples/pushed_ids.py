"""The tuple IDs that the rows of a push got. A row that still waits for the watermark has no ID yet.

    event 41, rows 0 1 2 ──> numbers 7 8 9 in order of arrival ──> tuple IDs 12, 10, and a row that waits

The writer notes them in `psoup.data.arrivals`. An ID stays valid after its tuple has passed the retention.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psoup.data.arrivals import KEPT_PUSHES, UNKNOWN, WAITS
from psoup.errors import InvalidInput, OutOfRange
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array


@dataclass(frozen=True, slots=True)
class Arrived:
    """The tuple IDs of some rows, int64; WAITS for a row without an ID yet."""

    ids: Array

    @property
    def waits(self) -> Array:
        """Whether each row still waits."""
        return self.ids == WAITS

    @property
    def follow(self) -> bool:
        """Whether all rows have IDs, and the IDs are consecutive."""
        ids = self.ids
        return bool(len(ids) and ids[0] != WAITS and (ids[1:] - ids[:-1] == 1).all())

    def listed(self) -> range | list[int | None]:
        """The IDs for Python: a range if they are consecutive; None for a row that waits."""
        if self.follow:
            return range(int(self.ids[0]), int(self.ids[-1]) + 1)
        return [None if waits else tuple_id for tuple_id, waits in zip(self.ids.tolist(), self.waits, strict=True)]


def tuple_ids(snapshot: Snapshot, stream: str, sequence: int, first_row: int, rows: int, *, tenant: str) -> Arrived:
    """The tuple IDs of `rows` rows of a push, from `first_row` on, in the order they were sent.

    `sequence`: the event of the push. Raises NotFound for the stream; InvalidInput for rows that the push does not
    have. Raises OutOfRange, reason UNKNOWN_PUSH, if the event is not a push to the stream, or is too old. O(rows), or
    O(rows + newest tuples) if tuples came out of order.
    """
    view = snapshot.stream(stream, tenant)
    pushed = view.arrivals.push(sequence)
    if pushed is None or pushed[1] < 0:
        raise OutOfRange(_unknown(view, sequence, pushed), reason="UNKNOWN_PUSH", stream=stream, sequence=sequence)
    first, count = pushed
    if min(first_row, rows) < 0 or first_row + rows > count:
        raise InvalidInput(
            f"event {sequence} has {count:,} rows, and rows {first_row:,} to {first_row + rows - 1:,} were asked for",
            field="first_row",
        )
    ids = view.arrivals.ids(first + first_row, rows)
    if len(ids) and int(ids.min()) == UNKNOWN:
        lost = int((ids == UNKNOWN).sum())
        raise OutOfRange(
            f"{lost:,} of the rows of event {sequence} were released too long ago: where times come out of order, tuple"
            " IDs are known of the newest million tuples in memory; find the rows by what is in them",
            reason="UNKNOWN_PUSH",
            stream=stream,
            sequence=sequence,
        )
    if gone := _gone(view, ids):
        raise OutOfRange(
            f"{gone:,} of the rows of event {sequence} have left stream {stream!r}, and have no tuple ID any more; find"
            " the rows by what is in them",
            reason="UNKNOWN_PUSH",
            stream=stream,
            sequence=sequence,
        )
    return Arrived(np.asarray(ids))


def _gone(view: StreamView, ids: Array) -> int:
    """The number of IDs whose tuples have left their chunks. O(IDs * thinned chunks)."""
    left = [entry.data for entry in view.chunks if entry.data.places.left is not None] if view.thinned else []
    inside = [ids[(ids >= chunk.first_id) & (ids < chunk.end_id)] for chunk in left]
    return sum(int((~chunk.places.has(some)).sum()) for chunk, some in zip(left, inside, strict=True))


def _unknown(view: StreamView, sequence: int, pushed: tuple[int, int] | None) -> str:
    """The message for an event whose rows are not known."""
    name, oldest = view.spec.name, view.arrivals.first_sequence
    if pushed is not None:
        return f"rows of event {sequence} were stored before the service started, and their IDs are not known any more"
    if oldest is not None and sequence >= oldest:
        return f"event {sequence} is not a push that stream {name!r} took rows of"
    since = "of none" if oldest is None else f"from event {oldest} on"
    return (
        f"event {sequence} is not known to stream {name!r}: tuple IDs are known of its newest {KEPT_PUSHES:,} pushes"
        f" that the service has taken or read from its log, which is {since}"
    )
