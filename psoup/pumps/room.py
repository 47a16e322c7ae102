"""The memory of derived streams: half of the budget for their rows, and beside the budget as much for their states.

    half of memory_bytes    [ reserved: tenant 1 | tenant 2 | …  |  shared: first come ]
                              x | y | z            one half each

Each tenant with derived streams has an equal part of the reserved half. Each of its streams has an equal part of that.
A stream within its part always finds room. The states of streams with equal plans have the parts of all these streams.

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
from psoup.pumps.plan_bytes import PlanBytes

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
        self._plans = dict[int, PlanBytes]()
        """The bytes that the streams of a plan keep, by stream ID. A plan belongs to one tenant."""
        if before is not None:
            self._plans.update({i: plan for i, plan in before._plans.items() if i in tenants})

    def join(self, stream_id: int, plan: PlanBytes) -> None:
        """Let a stream that keeps nothing be one of a plan. Then the streams of the plan have their parts in common."""
        self.leave(stream_id)
        self._plans[stream_id] = plan
        plan.streams.add(stream_id)

    def leave(self, stream_id: int) -> None:
        """Let a stream keep nothing, and take its part from its plan."""
        plan = self._plans.pop(stream_id, None)
        if plan is not None:
            plan.clear(stream_id)
            plan.streams.discard(stream_id)

    def has_state(self, stream_id: int, number: int, size: int, waiting: int = 0) -> None:
        """Note the number of a stream's state, its bytes, and the bytes of rows that wait for room. O(1).

        The streams of a plan with the same number have one state.
        """
        if stream_id not in self._plans:
            self.join(stream_id, PlanBytes())
        self._plans[stream_id].put(stream_id, number, size, waiting)

    def has_nothing(self, stream_id: int) -> None:
        """Note that a stream has neither a state nor rows that wait. O(1)."""
        if stream_id in self._plans:
            self._plans[stream_id].clear(stream_id)

    def held_by(self, tenant: str) -> int:
        """The bytes of the states of a tenant, each counted once, and of its rows that wait for room.

        They count in its quota `kept_bytes`. From any thread. O(streams).
        """
        plans = {id(plan): plan for i, plan in list(self._plans.items()) if self._tenants.get(i) == tenant}
        return sum([plan.nbytes for plan in plans.values()])

    def fits(self, snapshot: Snapshot, stream_id: int, more: int = 0) -> bool:
        """Whether the states of a stream's plan fit beside the other ones, with so many bytes `more`.

        O(1) for small states, else O(streams).
        """
        limit, group = _limit(snapshot), self._plans.get(stream_id)
        plans = {id(plan): (i, plan) for i, plan in self._plans.items() if plan is not group}
        remaining = ((plan.nbytes, self._part(limit, i) * len(plan.streams)) for i, plan in plans.values())
        size, streams = (0, 1) if group is None else (group.nbytes, len(group.streams))
        return _fits(limit, size + more, self._part(limit, stream_id) * streams, remaining)

    def _part(self, limit: int, stream_id: int) -> int:
        """The reserved bytes of one stream."""
        return limit // self._divisors.get(stream_id, 2)

    def check_state(
        self, snapshot: Snapshot, stream_id: int, spec: StreamSpec, number: int, size: int, waiting: int = 0
    ) -> None:
        """Record the bytes of a state, as `has_state`. Raises ResourceExhausted, reason STATE_LIMIT, without room."""
        self.has_state(stream_id, number, size, waiting)
        view, limits, ways = snapshot.by_id.get(stream_id), "", _WAYS
        if not self.fits(snapshot, stream_id):
            limits = f"states of derived streams may take {_limit(snapshot):,} bytes, half of the memory"
        elif view is not None and (over := view.folds.kept_bytes.over(view.tenant)):
            limits, ways = (
                f"the quota kept_bytes of the tenant lacks {over:,} bytes for states",
                f"{_WAYS}, or the quota",
            )
        if limits:
            raise ResourceExhausted(
                f"{limits}; the state of {spec.name!r} needs {size + waiting:,}. So the stream stops: {ways}; then"
                f" ALTER STREAM {spec.name} RESUME",
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
        remaining = (
            (other.nbytes, self._part(limit, i))
            for i, other in snapshot.by_id.items()
            if other.spec.derived is not None and i != command.stream_id
        )
        if _fits(limit, view.nbytes + needed, self._part(limit, command.stream_id), remaining):
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


def _fits(limit: int, size: int, part: int, remaining: Iterable[tuple[int, int]]) -> bool:
    """Whether `size` bytes fit. `part`: the bytes reserved for them.

    `remaining`: the bytes of all other streams or plans, and the bytes reserved for each.
    """
    if size <= part:
        return True
    beyond = sum([max(other - reserved, 0) for other, reserved in remaining])
    return beyond + size - part <= limit // 2


def _limit(snapshot: Snapshot) -> int:
    """The most bytes of rows of all derived streams, and the most bytes of all their states."""
    return snapshot.config.memory_bytes // _SHARE
