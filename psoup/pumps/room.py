"""The memory of derived streams: half of the budget for their rows, and beside the budget as much for their states.

    half of memory_bytes    [ reserved: tenant 1 | tenant 2 | …  |  shared: first come ]
                              x | y | z            one half each

Each tenant with derived streams has an equal part of the reserved half. Each of its streams has an equal part of that.
A stream within its part always finds room.

A step whose rows find no room waits, and so does its stream alone. A push of a client is refused only once all streams
fill the budget. A stream whose state finds no room stops. Then a restart does not rebuild the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from psoup.budgets import MEMORY
from psoup.errors import ResourceExhausted
from psoup.events.commands import PushDerived
from psoup.model import StreamSpec
from psoup.published.snapshot import Snapshot

NO_ROOM = "MEMORY_BUDGET"
"""The reason of a refusal if memory is full. The step is repeated later."""
STATE_LIMIT = "STATE_LIMIT"
"""The reason of a step whose state has more bytes than it may have: the pump stops."""
_SHARE = 2
"""The divisor of the budget for rows of all derived streams: a half."""
_WAYS = "give its sources shorter windows, drop it or other derived streams, or raise memory_mib"


class Room:
    """The parts of the memory that derived streams have. All pumps share it."""

    def __init__(self, tenants: Mapping[int, str], before: Room | None = None) -> None:
        """`tenants`: the tenant of each derived stream, by its ID. `before`: the room before a CREATE or DROP."""
        streams, self._tenants = Counter(tenants.values()), tenants
        self._divisors = {i: 2 * len(streams) * streams[tenant] for i, tenant in tenants.items()}
        self._states = dict[int, int]()
        """The bytes of state by stream ID, with the rows that wait for room."""
        if before is not None:
            self._states.update({i: size for i, size in before._states.items() if i in tenants})

    def has_state(self, stream_id: int, size: int) -> None:
        """Note the bytes that a pump keeps."""
        self._states[stream_id] = size

    def held_by(self, tenant: str) -> int:
        """The bytes of the states of a tenant. They count in its quota `kept_bytes`. From any thread. O(streams)."""
        return sum([size for i, size in list(self._states.items()) if self._tenants.get(i) == tenant])

    def fits(self, snapshot: Snapshot, stream_id: int, size: int) -> bool:
        """Whether a state of `size` bytes fits beside the other ones. O(1) for a small state, else O(streams)."""
        return self._fits(_limit(snapshot), stream_id, size, self._states.items())

    def check_state(self, snapshot: Snapshot, stream_id: int, spec: StreamSpec, size: int) -> None:
        """Note the bytes of a state. Raise ResourceExhausted, reason STATE_LIMIT, if they do not fit.

        Then the stream stops, and its state takes no room from the states that are checked next.
        """
        self.has_state(stream_id, size)
        view, limits, ways = snapshot.by_id.get(stream_id), "", _WAYS
        if not self.fits(snapshot, stream_id, size):
            limits = f"states of derived streams may take {_limit(snapshot):,} bytes, half of the memory"
        elif view is not None and (over := view.folds.kept_bytes.over(view.tenant)):
            limits, ways = (
                f"the quota kept_bytes of the tenant lacks {over:,} bytes for states",
                f"{_WAYS}, or the quota",
            )
        if limits:
            self.has_state(stream_id, 0)
            raise ResourceExhausted(
                f"{limits}; the state of {spec.name!r} needs {size:,}. So the stream stops: {ways}; then ALTER STREAM"
                f" {spec.name} RESUME",
                reason=STATE_LIMIT,
                stream=spec.name,
            )

    def check_rows(self, snapshot: Snapshot, command: PushDerived) -> None:
        """Raise ResourceExhausted if the rows of a step do not fit beside the rows of all derived streams.

        The reason is NO_ROOM, or INSTANT_BYTES if the rows are of one instant, and can never fit. O(1) for a small
        stream, else O(streams).
        """
        view, needed, limit = snapshot.by_id.get(command.stream_id), command.batch.nbytes, _limit(snapshot)
        if view is None or not len(command.batch):
            return
        derived = ((i, other.nbytes) for i, other in snapshot.by_id.items() if other.spec.derived is not None)
        if self._fits(limit, command.stream_id, view.nbytes + needed, derived):
            return
        times, may = command.batch.times, f"rows of derived streams may take {limit:,} bytes, half of the memory"
        if needed > limit and times[0] == times[-1]:
            problem = f"{may}; stream {view.spec.name!r} needs {needed:,} for the rows of one instant: {_WAYS}"
            raise ResourceExhausted(problem, reason="INSTANT_BYTES", stream=view.spec.name)
        raise ResourceExhausted(
            f"{may}; stream {view.spec.name!r} has {view.nbytes:,}, and its next rows need {needed:,} more. So it"
            " waits: give it more conditions, shorter windows or a RETENTION, drop it or other derived streams, or"
            " raise memory_mib",
            reason=NO_ROOM,
            stream=view.spec.name,
            needed=needed,
            **MEMORY.facts(limit),
        )

    def _fits(self, limit: int, stream_id: int, size: int, sizes: Iterable[tuple[int, int]]) -> bool:
        """Whether `size` bytes of a stream fit. `sizes`: the present bytes of all streams by ID."""
        part = limit // self._divisors.get(stream_id, 2)
        if size <= part:
            return True
        beyond = sum([max(other - limit // self._divisors.get(i, 2), 0) for i, other in sizes if i != stream_id])
        return beyond + size - part <= limit // 2


def _limit(snapshot: Snapshot) -> int:
    """The most bytes of rows of all derived streams, and the most bytes of all their states."""
    return snapshot.config.memory_bytes // _SHARE
