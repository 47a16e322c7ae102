"""The memory that rows of derived streams may take: half of the budget, so that the pushes of clients find room.

    half of memory_bytes    [ reserved: x | y | …  |  shared: first come ]
                            '- a half, equal parts -'

A step that finds no room waits, and so does its stream alone: a stream within its reserved part finds room, whatever
the other derived streams have. A push of a client is refused only once all streams fill the budget.
"""

from __future__ import annotations

from psoup.budgets import MEMORY
from psoup.errors import ResourceExhausted
from psoup.events.commands import PushDerived
from psoup.published.snapshot import Snapshot

NO_ROOM = "MEMORY_BUDGET"
"""The reason of a refusal if memory is full. The step is repeated later."""
_SHARE = 2
"""The divisor of the budget for rows of all derived streams: a half."""


def check_room(snapshot: Snapshot, command: PushDerived) -> None:
    """Raise ResourceExhausted, reason NO_ROOM, if the rows of a step do not fit beside the rows of all derived streams.

    O(1) for a small stream, else O(streams).
    """
    view, needed = snapshot.by_id.get(command.stream_id), command.batch.nbytes
    if view is None or not len(command.batch):
        return
    limit = snapshot.config.memory_bytes // _SHARE
    shared = limit // 2
    if view.nbytes + needed <= (limit - shared) // len(snapshot.by_id):
        return
    sizes = [other.nbytes for other in snapshot.by_id.values() if other.spec.derived is not None]
    reserved = (limit - shared) // len(sizes)
    beyond = sum([max(size - reserved, 0) for size in sizes]) - max(view.nbytes - reserved, 0)
    if view.nbytes + needed <= reserved or beyond + max(view.nbytes + needed - reserved, 0) <= shared:
        return
    raise ResourceExhausted(
        f"rows of derived streams may take {limit:,} bytes, half of the memory; stream {view.spec.name!r} has"
        f" {view.nbytes:,}, and its next rows need {needed:,} more. So it waits: give it more conditions, shorter"
        " windows or a RETENTION, drop it or other derived streams, or raise memory_mib",
        reason=NO_ROOM,
        stream=view.spec.name,
        needed=needed,
        **MEMORY.facts(limit),
    )
