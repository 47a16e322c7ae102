"""Incoming requests: each is read after its call was checked, within a time, and its bytes are charged.

    call ── what it names (metadata) ── refused: its body is never read
      └──> charge ──> read ── GRACE_S ──> charged in full, or ended ── deadline ──> ended
                       └── came: charged its bytes, until it is handled

gRPC reports a message only when it is complete, while an incomplete message already takes memory. Only the waiting
calls are known. So a call is charged the size that it declares, or else the most that its method takes. The declared
size is trusted for `GRACE_S`, in which nearly all requests arrive. After that the most is charged, and a call without
room is ended. An unread request takes the receive window (64 KiB) of its call.

A stream between two messages cannot be told from a stream within a message. So a waiting stream is charged, too. When
room is short, waiting streams are ended, the longest waiting first; their clients go on with a new stream.

Deadlines of calls share one timer, as nearly every call ends long before its own:

    within(30 s) ──> { call, call … } <── looked at every `TICK_S`, as long as there are any: the late are cancelled

A timer for each call would take a fifteenth of the loop's time for small calls. A deadline may be noticed a tick late.
"""

from __future__ import annotations

import asyncio
import mmap
from types import TracebackType
from typing import Any

import grpc

from psoup.errors import InvalidInput, PSoupError, ResourceExhausted, Unavailable
from psoup_service.gate.meters import Meters
from psoup_service.host.room import Division, Room
from psoup_service.host.turns.fair_turns import ONE_TENANT, Weights
from psoup_service.wire.limits import Limits

TICK_S = 0.05


class Deadline:
    """A context like `asyncio.timeout`: the task is cancelled when `end` has passed, and TimeoutError is raised."""

    __slots__ = ("_cancelling", "_others", "_task", "end", "expired")

    def __init__(self, end: float, others: set[Deadline]) -> None:
        self.end = end
        self._others = others
        self.expired = False
        """Whether this deadline has passed."""
        task = asyncio.current_task()
        assert task is not None, "a call is a task"
        self._task = task
        self._cancelling = task.cancelling()

    def __enter__(self) -> None:
        self._others.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None
    ) -> None:
        self._others.discard(self)
        if self.expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from problem

    def expire(self) -> None:
        """Cancel the task."""
        self.expired = True
        self._others.discard(self)
        self._task.cancel()


class Deadlines:
    """All deadlines of one event loop."""

    def __init__(self) -> None:
        self._open: set[Deadline] = set()
        self._ticking = False

    def within(self, seconds: float) -> Deadline:
        """A context that may last `seconds`. O(1)."""
        loop = asyncio.get_running_loop()
        if not self._ticking:
            self._ticking = True
            loop.call_later(TICK_S, self._tick, loop)
        return Deadline(loop.time() + seconds, self._open)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for late in [deadline for deadline in self._open if deadline.end <= now]:
            late.expire()
        self._ticking = bool(self._open)
        if self._ticking:
            loop.call_later(TICK_S, self._tick, loop)


STREAM_KEY = "psoup-stream-bin"
"""The key of the metadata that name the stream of a push."""

SIZE_KEY = "psoup-size"
"""The key of the metadata that declare an upper bound of a request's bytes."""

GRACE_S = 0.25
TICK_S = 0.05
SMALL_BYTES = 64 * 1024
"""Requests up to this size are not charged: the transport holds as much for a call that is not read."""

SLOWEST = 256 * 1024
"""The lowest rate, in bytes a second, at which a request of declared size must arrive."""

_UNCOUNTED = 2**62
_HALVES = Division(own=0.5, contended=0.5)

_MESSAGE_BYTES = 16 * 1024 * 1024
"""Bytes that `touch_memory` touches: enough for the longest message. gRPC holds two copies of it for a moment."""
_KEPT_BYTES = 31 * 1024 * 1024
"""A block size just below 32 MiB. The C library keeps freed blocks up to the largest size ever freed, if that size is
below 32 MiB."""


def touch_memory() -> None:
    """Prepare memory for long messages on the loop's thread, where gRPC copies messages.

    Copying 14 MiB takes 2 ms. Touching new memory for it takes 6 ms more on an idle machine, and far more on a busy
    one. This call saves half of that once; later messages reuse freed memory.
    """
    bytearray(_KEPT_BYTES)  # freed at once, so that the C library keeps the next block, too
    block = bytearray(_MESSAGE_BYTES)
    block[:: mmap.PAGESIZE] = bytes(_MESSAGE_BYTES // mmap.PAGESIZE)


class Waiting:
    """A context that waits for one message. The task is ended when its time is over, or when its room is needed."""

    __slots__ = ("_cancelling", "_task", "_waits", "charged", "cut", "ends", "idle", "most", "started", "tenant")

    def __init__(
        self, waits: dict[Waiting, None], tenant: str, started: float, seconds: float, limit: int, *, idle: bool
    ) -> None:
        self._waits = waits
        self.tenant = tenant
        self.started = started
        self.ends = started + seconds
        self.most = limit
        self.idle = idle
        self.charged = 0
        self.cut: PSoupError | None = None

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "a call is a task"
        self._task, self._cancelling = task, task.cancelling()
        self._waits[self] = None

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None
    ) -> None:
        self._waits.pop(self, None)
        if self.cut is not None and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise self.cut from problem

    def end(self, error: PSoupError) -> None:
        """Make the task raise `error`, if it still waits."""
        if self.cut is None:
            self.cut = error
            self._waits.pop(self, None)
            self._task.cancel()


class Receiving:
    """The budget of bytes for incoming requests, and all calls that wait for messages. For one event loop."""

    def __init__(self, limits: Limits, weights: Weights = ONE_TENANT, meters: Meters | None = None) -> None:
        """`weights`: divide half of the budget among the tenants. `meters`: check the tenants' quotas."""
        self._limits = limits
        self._meters = meters
        self._room = Room(_UNCOUNTED, limits.receive_bytes, weights, _HALVES)
        self._waits: dict[Waiting, None] = {}  # oldest first
        self._ticking = False

    @property
    def bytes(self) -> int:
        """Bytes that are charged for requests that are being received or handled."""
        return self._room.bytes

    def held(self, tenant: str) -> int:
        """The bytes that are charged to one tenant."""
        return self._room.held(tenant)

    def charge(self, tenant: str) -> Charge:
        """A new charge for a tenant's call. The caller gives it back at the end of the call."""
        return Charge(self, tenant)

    def drain(self, error: PSoupError) -> None:
        """End the streams that wait for their client's next message, which may never come."""
        for waiting in [waiting for waiting in self._waits if waiting.idle]:
            waiting.end(error)

    def wait(self, tenant: str, seconds: float, limit: int, *, idle: bool = False) -> Waiting:
        """A context that waits for one message of up to `limit` bytes. O(1)."""
        loop = asyncio.get_running_loop()
        if not self._ticking:
            self._ticking = True
            loop.call_later(TICK_S, self._tick, loop)
        return Waiting(self._waits, tenant, loop.time(), seconds, limit, idle=idle)

    async def take(self, tenant: str, size: int, patience: float) -> None:
        """Take room for `size` bytes, after waiting in line for at most `patience` seconds.

        If there is no room, the tenant's charged stream that has waited longest is ended. Raises ResourceExhausted.
        """
        self._check(tenant, size)
        if self._room.try_enter(tenant, size):
            return
        self._make_way(tenant)
        try:
            await self._room.enter(tenant, size, patience)
        except ResourceExhausted:
            raise self.full() from None

    def try_take(self, tenant: str, size: int) -> bool:
        """Take room if there is some; returns whether it was taken. Raises ResourceExhausted beyond a quota."""
        self._check(tenant, size)
        return self._room.try_enter(tenant, size)

    def give_back(self, tenant: str, size: int) -> None:
        """Give back room that was taken."""
        self._room.leave(tenant, 1, size)

    def full(self) -> ResourceExhausted:
        """The error for a call without room."""
        limit = self._limits.receive_bytes
        return ResourceExhausted(
            f"requests that are being received take {self._room.bytes:,} of {limit:,} bytes; try again in a moment, and"
            f" name the request's size ({SIZE_KEY})",
            reason="RECEIVE_FULL",
            limit=limit,
            retry_after_ms=100,
        )

    def _check(self, tenant: str, size: int) -> None:
        if self._meters is not None:
            way = "send fewer requests at a time, or smaller ones, and name their sizes"
            self._meters.check(tenant, "receive_bytes", lambda: self.held(tenant), size, way)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for waiting in list(self._waits):
            if now - waiting.started < GRACE_S:
                break
            if waiting.ends <= now:
                waiting.end(self._late(waiting))
            elif waiting.charged < waiting.most and self._room.try_enter(
                waiting.tenant, waiting.most - waiting.charged
            ):
                waiting.charged = waiting.most
            elif waiting.charged < waiting.most and not self._make_way(waiting.tenant):
                waiting.end(_idle("others need the room") if waiting.idle else self.full())
        self._ticking = bool(self._waits)
        if self._ticking:
            loop.call_later(TICK_S, self._tick, loop)

    def _make_way(self, tenant: str) -> bool:
        """End the tenant's charged stream that has waited longest; returns whether there was one."""
        for waiting in self._waits:
            if waiting.idle and waiting.charged and waiting.tenant == tenant:
                waiting.end(_idle("others need the room"))
                return True
        return False

    def _late(self, waiting: Waiting) -> PSoupError:
        seconds = waiting.ends - waiting.started
        if waiting.idle:
            return _idle(f"nothing moved for {seconds:g} s")
        return ResourceExhausted(
            f"the request did not come within {seconds:g} s; send smaller ones, or name its size ({SIZE_KEY}): then it"
            f" has a second more for each {SLOWEST // 1024} KiB",
            reason="RECEIVE_DEADLINE",
            seconds=f"{seconds:g}",
        )


class Charge:
    """Room that one call has taken for its request."""

    __slots__ = ("_receiving", "_tenant", "held")

    def __init__(self, receiving: Receiving, tenant: str) -> None:
        self._receiving = receiving
        self._tenant = tenant
        self.held = 0

    async def one(self, context: Any, named: int | None, limit: int, seconds: float, *, first: bool) -> bytes:
        """Read the single message of a call, of at most `limit` bytes.

        `named`: the declared size. `first`: without a declared size, `limit` is charged before the read. Raises
        InvalidInput if the message is missing, or longer than declared. Raises ResourceExhausted without room, or if
        the message does not arrive in time.
        """
        receiving, small = self._receiving, named is not None and named <= SMALL_BYTES
        if named is not None and not small:
            await receiving.take(self._tenant, named, seconds)
            self.held = named
        elif named is None and first and receiving.try_take(self._tenant, limit):
            self.held = limit
        waiting = receiving.wait(self._tenant, seconds + (0 if named is None else named / SLOWEST), limit)
        waiting.charged = self.held
        raw = await self._read(context, waiting)
        if raw is grpc.aio.EOF:
            raise InvalidInput("the call has no request message; send one", reason="NO_MESSAGE")
        if named is not None and len(raw) > named:
            raise InvalidInput(
                f"the request has {len(raw):,} bytes, and {SIZE_KEY} says {named:,}; declare its largest size",
                reason="SIZE_NAMED_WRONGLY",
            )
        return bytes(raw)

    async def next(self, context: Any, limit: int, seconds: float) -> bytes | None:
        """The next message of a stream, or None if the client has closed its side.

        Gives back the room of the message before.
        """
        self.give_back()
        raw = await self._read(context, self._receiving.wait(self._tenant, seconds, limit, idle=True))
        return None if raw is grpc.aio.EOF else bytes(raw)

    def give_back(self) -> None:
        """Give back all charged room. Does nothing the second time."""
        size, self.held = self.held, 0
        if size:
            self._receiving.give_back(self._tenant, size)

    async def _read(self, context: Any, waiting: Waiting) -> Any:
        try:
            with waiting:
                raw = await context.read()
        finally:
            self.held = waiting.charged
        if raw is not grpc.aio.EOF:
            self._keep(len(raw))
        return raw

    def _keep(self, size: int) -> None:
        """Replace the charge by the size of the message that arrived. Raises ResourceExhausted without room."""
        size = 0 if size <= SMALL_BYTES else size
        if size == self.held:
            return
        self.give_back()
        if size and not self._receiving.try_take(self._tenant, size):
            raise self._receiving.full()
        self.held = size


def named(metadata: Any) -> tuple[str | None, int | None]:
    """The stream and the size that the metadata of a call declare; each is None if it is missing.

    Raises InvalidInput for a size that is not a number.
    """
    stream: str | None = None
    size: int | None = None
    for key, value in metadata:
        if key == STREAM_KEY:
            stream = value.decode("utf-8", "replace")
        elif key == SIZE_KEY:
            if not (isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 12):
                raise InvalidInput(
                    f"{SIZE_KEY} is {value[:40]!r}; it is a number of bytes", reason="SIZE_NAMED_WRONGLY"
                )
            size = int(value)
    return stream, size


def _idle(why: str) -> Unavailable:
    return Unavailable(f"{why}, so it is ended; open a new one and go on", reason="STREAM_IDLE", retry_after_ms=0)
