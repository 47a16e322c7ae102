"""The limit on work under way: a count of unanswered commands and a sum of bytes not yet applied.

    enter ──> [ waiting | being prepared ] ──> answered ──> [ queued for the writer ] ──> applied
              '------- pending --------'
              '-------------------------- bytes ----------------------------------'

Past a limit a caller is refused, or waits in line up to its patience: the first caller enters first, so the order of
calls is the order of commands. A command larger than all the bytes enters when it is alone. The size of each kind of
command, whether it fills the disk, and the stream whose order it must keep are defined here, once for all commands: the
type checker fails if a kind is forgotten.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from psoup.errors import PSoupError, ResourceExhausted
from psoup.events.access import IssueToken, RevokeToken
from psoup.events.commands import (
    AlterStream,
    Attach,
    Command,
    CreateStream,
    DropStream,
    Heartbeat,
    Locate,
    Push,
    Recall,
    Register,
    RegisterMany,
    Unregister,
    UnregisterMany,
)
from psoup.events.tenants import AlterTenant, CreateTenant, DropTenant
from psoup_service.host.worker import Outcome, deliver

StreamKey = tuple[str, str]
"""A tenant, and the name of its stream in lower case."""

COMMAND_BYTES = 1_000
"""Room of a command beside its tuples and its text."""
ROW_BYTES = 64
"""Room of the parameters of a query, about."""


def size_of(command: Command) -> int:
    """The room that a command takes, in bytes."""
    match command:
        case Push():
            return COMMAND_BYTES + int(command.table.get_total_buffer_size())
        case RegisterMany():
            texts = sum(map(len, command.statements))
            if command.rows is not None:
                texts = command.count * (texts + ROW_BYTES)
            return COMMAND_BYTES + texts
        case Register() | CreateStream():
            return COMMAND_BYTES + len(command.sql)
        case UnregisterMany():
            return COMMAND_BYTES + (0 if command.query_ids is None else command.query_ids.nbytes)
        case AlterStream() | DropStream() | Recall() | Locate() | Attach() | Heartbeat() | Unregister():
            return COMMAND_BYTES
        case IssueToken() | RevokeToken() | CreateTenant() | AlterTenant() | DropTenant():
            return COMMAND_BYTES
        case _:
            assert_never(command)


def grows(command: Command) -> bool:
    """Whether a store without room refuses a command; dropping and unregistering are the way out."""
    match command:
        case Push() | Register() | RegisterMany() | CreateStream() | Attach() | IssueToken() | CreateTenant():
            return True
        case AlterStream() | DropStream() | Recall() | Locate() | Heartbeat() | Unregister() | UnregisterMany():
            return False
        case RevokeToken() | AlterTenant() | DropTenant():
            return False
        case _:
            assert_never(command)


def tenant_of(command: Command) -> str:
    """The tenant whose time a command takes; "" for what operators do."""
    operators = IssueToken | RevokeToken | CreateTenant | AlterTenant | DropTenant
    return "" if isinstance(command, operators) else command.tenant


def stream_of(command: Command) -> StreamKey | None:
    """The stream whose commands must keep their order; None for a command that may overtake and be overtaken."""
    match command:
        case Push() | Recall() | Locate() | Heartbeat() | Attach():
            return command.tenant, command.stream.lower()
        case CreateStream() | AlterStream() | DropStream() | Register() | RegisterMany():
            return None
        case Unregister() | UnregisterMany() | IssueToken() | RevokeToken():
            return None
        case CreateTenant() | AlterTenant() | DropTenant():
            return None
        case _:
            assert_never(command)


RETRY_AFTER_MS = 50
"""The wait that a refused caller is told; a run of the writer takes some milliseconds."""


@dataclass(eq=False, slots=True)
class _Waiter:
    """A caller in line; `entered`: it was given room."""

    size: int
    turn: asyncio.Future[None]
    entered: bool = False


class TakenRoom:
    """Room that was taken, and is given back once: by `release`, or by the code that takes it over. Any thread."""

    def __init__(self, room: Room, size: int) -> None:
        self._room: Room | None = room
        self.size = size

    def grow(self, size: int) -> None:
        """Take `size` bytes more, even past the limit, for a size that could not be known before."""
        if self._room is not None and size > 0:
            self._room.leave(0, -size)
            self.size += size

    def take_over(self) -> int:
        """The size, which the caller must give back from now on."""
        self._room = None
        return self.size

    def release(self) -> None:
        """Give the room back; harmless if it was given back or taken over before."""
        room, self._room = self._room, None
        if room is not None:
            room.leave(1, self.size)


class Room:
    """Counts commands and bytes. `enter` is called on event loops, `leave` and `close` from any thread."""

    def __init__(self, pending: int, size: int) -> None:
        self._lock = threading.Lock()
        self._limits = (pending, size)
        self._commands = 0
        self._bytes = 0
        self._line: deque[_Waiter] = deque()
        self._resuming = 0  # let in from the line, but their tasks have not run yet: no caller may overtake them
        self._closed: Callable[[], PSoupError] | None = None

    @property
    def commands(self) -> int:
        """Commands that have entered and are not answered."""
        return self._commands

    @property
    def bytes(self) -> int:
        """Bytes that have entered and are not applied."""
        return self._bytes

    async def enter(self, size: int, patience: float) -> None:
        """Take room for one command of `size` bytes, waiting up to `patience` seconds for it.

        Raises ResourceExhausted with a `retry_after_ms` fact, or the error that `close` was given.
        """
        with self._lock:
            if self._closed is not None:
                raise self._closed()
            if not self._line and not self._resuming and self._fits(size):
                self._take(size)
                return
            if patience <= 0:
                raise self._full()
            waiter = _Waiter(size, asyncio.get_running_loop().create_future())
            self._line.append(waiter)
        try:
            async with asyncio.timeout(patience):
                await waiter.turn
        except TimeoutError:
            self._give_up(waiter)
            raise self._full() from None
        except BaseException:
            self._give_up(waiter)
            raise
        self._resume()

    def try_enter(self, size: int) -> bool:
        """Take room if there is some and no caller waits for it; returns whether it was taken."""
        with self._lock:
            if self._closed is not None or self._line or self._resuming or not self._fits(size):
                return False
            self._take(size)
            return True

    async def place(self, size: int, patience: float) -> TakenRoom:
        """Take room as `enter` does; returns an object that gives it back."""
        await self.enter(size, patience)
        return TakenRoom(self, size)

    def leave(self, commands: int, size: int) -> None:
        """Give back room, and let in the callers that fit now."""
        with self._lock:
            self._commands -= commands
            self._bytes -= size
            entered = self._admit()
        deliver(entered)

    def close(self, error: Callable[[], PSoupError]) -> None:
        """Refuse all callers from now on, those in line too."""
        with self._lock:
            self._closed = error
            refused: list[Outcome] = [(waiter.turn, error()) for waiter in self._line]
            self._line.clear()
        deliver(refused)

    def _admit(self) -> list[Outcome]:
        entered: list[Outcome] = []
        while self._line and self._fits(self._line[0].size):
            waiter = self._line.popleft()
            waiter.entered = True
            self._resuming += 1
            self._take(waiter.size)
            entered.append((waiter.turn, None))
        return entered

    def _resume(self) -> None:
        """Count a caller whose task runs again; callers that joined the line meanwhile may fit now."""
        with self._lock:
            self._resuming -= 1
            entered = self._admit()
        deliver(entered)

    def _give_up(self, waiter: _Waiter) -> None:
        """Leave the line, or the room if this caller was let in at the moment it stopped waiting."""
        with self._lock:
            if waiter.entered:
                self._resuming -= 1
                self._commands -= 1
                self._bytes -= waiter.size
            elif waiter in self._line:
                self._line.remove(waiter)
            entered = self._admit()
        deliver(entered)

    def _fits(self, size: int) -> bool:
        pending, limit = self._limits
        return self._commands < pending and (self._bytes == 0 or self._bytes + size <= limit)

    def _take(self, size: int) -> None:
        self._commands += 1
        self._bytes += size

    def _full(self) -> ResourceExhausted:
        pending, limit = self._limits
        return ResourceExhausted(
            f"the service is busy: {self._commands} of {pending} commands and {self._bytes:,} of {limit:,} bytes are"
            f" under way; try again in {RETRY_AFTER_MS} ms",
            reason="BUSY",
            retry_after_ms=RETRY_AFTER_MS,
            commands=self._commands,
            bytes=self._bytes,
        )
