"""The limit on work under way: a count of unanswered commands and a sum of bytes not yet applied.

    enter ──> [ waiting | being prepared ] ──> answered ──> [ queued for the writer ] ──> applied
              '------- pending --------'
              '-------------------------- bytes ----------------------------------'

Above a limit a caller is refused, or waits in line for up to its patience. The callers of a tenant enter in the order
of their calls. So this is also the order of their commands. A command that is larger than the limit of bytes enters
when no other bytes are there.

    [ acme's own | umbra's own | … |  shared: a tenant that is alone may take all, beside others its part by weight ]

A part of the room is reserved and divided among the tenants by weight. Waiting tenants enter in turns (`fair_turns`):
the joins of a tenant's tuples and queries are charged to it. A tenant that is ahead of a waiting one by more than
`LEAD_S` waits, too. Within that lead it may overtake a tenant that finds no room: that tenant's part may be full of
slow commands.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from psoup.errors import PSoupError, ResourceExhausted
from psoup_service.host.turns.fair_turns import ONE_TENANT, FairTurns, TenantTimes, Weights
from psoup_service.host.worker import Outcome, deliver

RETRY_AFTER_MS = 50
"""Milliseconds after which a refused caller should try again. A run of the writer takes some milliseconds."""

LEAD_S = 0.05
"""The lead, in seconds by weight, up to which a tenant may overtake a waiting tenant that does not fit.

So small pushes do not wait for a large push of another tenant whose part is full. Equal tenants that are never idle
differ by at most this time.
"""


@dataclass(frozen=True, slots=True)
class HostLimits:
    """The limits of a host."""

    queue_bytes: int = 256 * 1024 * 1024
    """The most bytes of commands that are accepted and not yet applied."""
    pending: int = 1_024
    """The most commands under way, and also the most reads under way."""
    readers: int = 2
    """The number of reader threads."""


DEFAULT_LIMITS = HostLimits()


class Entered(NamedTuple):
    """The room, in bytes, that a tenant's event holds until the writer has applied it."""

    tenant: str
    size: int


@dataclass(eq=False, slots=True)
class _Waiter:
    """A caller in line. `entered`: whether it was given room."""

    size: int
    turn: asyncio.Future[None]
    entered: bool = False


@dataclass(eq=False, slots=True)
class _TenantRoom:
    """A tenant's part of the room, and its callers in line. `own_commands`, `own_bytes`: reserved for this tenant.

    `resuming`: callers that were let in from the line, but whose tasks have not run yet: none may overtake them.
    """

    own_commands: int = 0
    own_bytes: int = 0
    weight: float = 1.0
    shares: object = None
    """The tenants among which the reserved room was divided, as published then."""
    commands: int = 0
    bytes: int = 0
    line: deque[_Waiter] = field(default_factory=deque)
    resuming: int = 0

    @property
    def idle(self) -> bool:
        """Whether the tenant holds no room and has no caller in line."""
        return not (self.commands or self.bytes or self.line or self.resuming)


class TakenRoom:
    """Room that was taken, and is given back once: by `release`, or by the code that takes it over. Any thread."""

    def __init__(self, room: Room, tenant: str, size: int, waited: float = 0.0) -> None:
        """`waited`: the seconds for which the caller waited for the room."""
        self._room: Room | None = room
        self._tenant = tenant
        self.size = size
        self.waited = waited

    def grow(self, size: int) -> None:
        """Take `size` bytes more, even past the limit, for a size that could not be known before."""
        if self._room is not None and size > 0:
            self._room.leave(self._tenant, 0, -size)
            self.size += size

    def take_over(self) -> int:
        """Take over the duty to give the room back. Returns its size."""
        self._room = None
        return self.size

    def release(self) -> None:
        """Give the room back; harmless if it was given back or taken over before."""
        room, self._room = self._room, None
        if room is not None:
            room.leave(self._tenant, 1, self.size)


@dataclass(frozen=True, slots=True)
class Division:
    """The division of a room. `own`: the part that is reserved for tenants by weight. `contended`: the part of the
    whole that present tenants divide if there are at least two. A single tenant may take everything but the reserved
    parts of other tenants.
    """

    own: float = 1 / 16
    contended: float = 1 / 8


class Room:
    """Counts commands and bytes. `enter` is called on event loops, `leave` and `close` from any thread."""

    def __init__(self, pending: int, size: int, weights: Weights = ONE_TENANT, division: Division = Division()) -> None:
        self._lock = threading.Lock()
        self._limits = (pending, size)
        self.weights = weights
        self._division = division
        self._tenants: dict[str, _TenantRoom] = {}
        """Tenants that are in the room, or in line."""
        self._commands = self._bytes = 0
        self._shared_commands = self._shared_bytes = 0
        self.times = TenantTimes(weights.of)
        self._turns = FairTurns(self.times)
        self._closed: Callable[[], PSoupError] | None = None

    @property
    def commands(self) -> int:
        """Commands that have entered and are not answered."""
        return self._commands

    @property
    def bytes(self) -> int:
        """Bytes that have entered and are not applied."""
        return self._bytes

    def held(self, tenant: str) -> int:
        """Bytes of one tenant's commands that have entered and are not applied."""
        place = self._tenants.get(tenant)
        return 0 if place is None else place.bytes

    def charge(self, tenant: str, seconds: float) -> None:
        """Charge the cost of a tenant's commands after they entered. Other waiting tenants then come before it."""
        with self._lock:
            self.times.charge(tenant, seconds)

    async def enter(self, tenant: str, size: int, patience: float) -> None:
        """Take room for one command of `size` bytes, waiting up to `patience` seconds for it.

        Raises ResourceExhausted with a `retry_after_ms` fact, or the error that `close` was given.
        """
        with self._lock:
            if self._closed is not None:
                raise self._closed()
            place = self._there(tenant)
            self._come(place)
            if self._may_enter(tenant, place, size):
                self._take(place, 1, size)
                return
            if patience <= 0:
                raise self._full(tenant, place)
            waiter = _Waiter(size, asyncio.get_running_loop().create_future())
            place.line.append(waiter)
            self._turns.wait(tenant)
        try:
            async with asyncio.timeout(patience):
                await waiter.turn
        except TimeoutError:
            with self._lock:
                error = self._full(tenant, place)
            self._give_up(tenant, place, waiter)
            raise error from None
        except BaseException:
            self._give_up(tenant, place, waiter)
            raise
        self._resume(tenant, place)

    def try_enter(self, tenant: str, size: int) -> bool:
        """Take room if there is some and no caller waits for it; returns whether it was taken."""
        with self._lock:
            place = self._there(tenant)
            self._come(place)
            if self._closed is not None or not self._may_enter(tenant, place, size):
                self._forget(tenant, place)
                return False
            self._take(place, 1, size)
            return True

    async def place(self, tenant: str, size: int, patience: float) -> TakenRoom:
        """Take room as `enter` does; returns an object that gives it back."""
        began = time.perf_counter()
        await self.enter(tenant, size, patience)
        return TakenRoom(self, tenant, size, time.perf_counter() - began)

    def leave(self, tenant: str, commands: int, size: int) -> None:
        """Give back room, and let in the callers that fit now."""
        with self._lock:
            self._give_back(tenant, commands, size)
            if not len(self._turns):
                return
            entered = self._admit()
        deliver(entered)

    def leave_all(self, parts: Iterable[tuple[str, int, int]]) -> None:
        """Give back room of several tenants, and let in the callers that fit now. A part: (tenant, commands, bytes)."""
        with self._lock:
            for tenant, commands, size in parts:
                self._give_back(tenant, commands, size)
            if not len(self._turns):
                return
            entered = self._admit()
        deliver(entered)

    def close(self, error: Callable[[], PSoupError]) -> None:
        """Refuse all callers from now on, those in line too."""
        with self._lock:
            self._closed = error
            refused: list[Outcome] = []
            for tenant, place in self._tenants.items():
                refused += [(waiter.turn, error()) for waiter in place.line]
                place.line.clear()
                self._turns.leave(tenant)
        deliver(refused)

    def _give_back(self, tenant: str, commands: int, size: int) -> None:
        place = self._tenants.get(tenant) or self._there(tenant)
        self._take(place, -commands, -size)
        if len(self._tenants) > 1:
            self._forget(tenant, place)

    def _there(self, tenant: str) -> _TenantRoom:
        place = self._tenants.get(tenant)
        if place is None:
            for other in [*self._tenants] if len(self._tenants) == 1 else ():
                self._forget(other, self._tenants[other], last=True)
            place = self._tenants[tenant] = _TenantRoom()
        if place.shares is not self.weights.tenants() and place.idle:
            pending, limit = self._limits
            part = self._division.own * self.weights.share(tenant)
            place.own_commands, place.own_bytes = ceil(pending * part), int(limit * part)
            place.weight, place.shares = self.weights.of(tenant), self.weights.tenants()
        return place

    def _come(self, place: _TenantRoom) -> None:
        """Note that a tenant comes, unless it is present. It saved no time while other tenants were in the room."""
        if place.idle:
            self.times.come(name for name, other in self._tenants.items() if not other.idle)

    def _forget(self, tenant: str, place: _TenantRoom, *, last: bool = False) -> None:
        """Forget an idle tenant. The last tenant stays, because it is likely to come back; `last`: forget it, too."""
        if (last or len(self._tenants) > 1) and place.idle and self._tenants.get(tenant) is place:
            del self._tenants[tenant]

    def _may_enter(self, tenant: str, place: _TenantRoom, size: int) -> bool:
        """Whether a caller enters without waiting. It overtakes no caller of its tenant.

        Among other tenants it overtakes none that is behind by more than `LEAD_S`.
        """
        if place.line or place.resuming or not self._fits(place, size):
            return False
        return not len(self._turns) or self.times.begins(tenant) <= self._turns.had + LEAD_S

    def _admit(self) -> list[Outcome]:
        entered: list[Outcome] = []
        while (tenant := self._next()) is not None:
            place = self._tenants[tenant]
            waiter = place.line.popleft()
            if not place.line:
                self._turns.leave(tenant)
            waiter.entered = True
            place.resuming += 1
            self._take(place, 1, waiter.size)
            entered.append((waiter.turn, None))
        return entered

    def _next(self) -> str | None:
        """Serve the tenant whose turn it is, or the next one that fits and is not far ahead; None if none fits."""
        tenant = self._turns.first
        if tenant is None:
            return None
        if self._head_fits(tenant):
            return self._turns.serve()
        for tenant in self._turns.behind(LEAD_S) if len(self._turns) > 1 else ():
            if self._head_fits(tenant):
                self._turns.serve_early(tenant)
                return tenant
        return None

    def _head_fits(self, tenant: str) -> bool:
        place = self._tenants[tenant]
        return self._fits(place, place.line[0].size)

    def _resume(self, tenant: str, place: _TenantRoom) -> None:
        """Note that the task of an admitted caller runs again. Lets in callers that joined the line meanwhile."""
        with self._lock:
            place.resuming -= 1
            self._forget(tenant, place)
            entered = self._admit()
        deliver(entered)

    def _give_up(self, tenant: str, place: _TenantRoom, waiter: _Waiter) -> None:
        """Leave the line, or the room if this caller was let in at the moment it stopped waiting."""
        with self._lock:
            if waiter.entered:
                place.resuming -= 1
                self._take(place, -1, -waiter.size)
            elif waiter in place.line:
                place.line.remove(waiter)
                if not place.line:
                    self._turns.leave(tenant)
            self._forget(tenant, place)
            entered = self._admit()
        deliver(entered)

    def _fits(self, place: _TenantRoom, size: int) -> bool:
        pending, limit = self._limits
        if self._bytes == 0 and self._commands < pending:
            return True
        # Never the reserved parts of other tenants.
        more = _beyond(place.own_commands, place.commands, 1)
        if more and self._shared_commands + more > pending - ceil(pending * self._division.own):
            return False
        more = _beyond(place.own_bytes, place.bytes, size)
        if more and self._shared_bytes + more > limit - int(limit * self._division.own):
            return False
        if len(self._tenants) == 1 or not place.commands + place.bytes:
            return True
        part = self._division.contended * place.weight / self._sum_of_weights()
        return place.commands < max(place.own_commands, ceil(pending * part)) and place.bytes + size <= max(
            place.own_bytes, limit * part
        )

    def _sum_of_weights(self) -> float:
        return sum(place.weight for place in self._tenants.values())

    def _take(self, place: _TenantRoom, commands: int, size: int) -> None:
        self._shared_commands += _beyond(place.own_commands, place.commands, commands)
        self._shared_bytes += _beyond(place.own_bytes, place.bytes, size)
        place.commands += commands
        place.bytes += size
        self._commands += commands
        self._bytes += size

    def _full(self, tenant: str, place: _TenantRoom) -> ResourceExhausted:
        pending, limit = self._limits
        self._forget(tenant, place)
        return ResourceExhausted(
            f"the service is busy: {self._commands} of {pending} commands and {self._bytes:,} of {limit:,} bytes are"
            f" under way; try again in {RETRY_AFTER_MS} ms",
            reason="BUSY",
            retry_after_ms=RETRY_AFTER_MS,
            commands=self._commands,
            bytes=self._bytes,
        )


def _beyond(share: int, size: int, more: int) -> int:
    """The growth of the excess of `size` over `share`, if `size` grows by `more`."""
    now = size + more
    return (now if now > share else share) - (size if size > share else share)
