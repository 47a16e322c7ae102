"""The threads that evaluate answers: the reads that run, and the reads that wait.

    quick  r r r r ──┐      n reads are under way at most, n - 1 of them long: one thread is always free for quick reads
    long   R R       ┴──>   [ n threads ]      tenants take turns by processor time; each one's own: first come, first
                                 │ a read that turns out to be long
                                 └──> keeps its thread, and waits there until a place for long reads is free

A read is not interrupted. After the work of each chunk it calls `Read.ask` (the port of `psoup.work.read_budget`).
There it ends if its caller has left, and moves to the long reads if it takes long. There a long read also rests while
calls of other tenants are under way (`giving_way`). It gives its place to a long read of a tenant that had less time.
If there is only one thread, it takes long reads, too.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

from psoup.budgets import READ_CPU
from psoup.errors import ResourceExhausted
from psoup.expressions import supplied_functions
from psoup.work.read_budget import ReadEnded
from psoup_service.host.turns.fair_turns import FairTurns, TenantTimes, Weight, equal
from psoup_service.host.turns.giving_way import GivingWay, Rests
from psoup_service.host.turns.interpreter import ShortTurns
from psoup_service.host.worker import deliver

T = TypeVar("T")

LONG_S = 0.02
"""The seconds of processor time after which a read is long."""

_ASIDE = 32
"""The most reads that have stepped aside: each holds a thread and its matches."""


class Read:
    """A read, which waits in a line, is under way, or has stepped aside."""

    def __init__(self, readers: Readers, tenant: str, long: bool, work: Callable[[Read], Any]) -> None:
        self.tenant = tenant
        self.long = long
        self.ticket = 0
        self.gone = False
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._readers = readers
        self._work = work
        self._caller = supplied_functions.caller.get()
        self._thread = 0
        self.used = 0.0
        """Processor time of its work, in seconds, once that is done."""
        self._began = 0.0
        self._charged = 0.0
        self._look = 0.0
        self._rests = Rests(readers.way)
        self._turns = ExitStack()
        self.turn: threading.Event | None = None
        """Set when a read that has stepped aside may go on; None for other reads."""

    def ask(self) -> None:
        """Raise ReadEnded if the caller has left, ResourceExhausted if the read has used up its time.

        A quick read that has become long waits here for its turn.
        """
        if self.gone:
            raise ReadEnded
        if threading.get_ident() != self._thread:
            return
        if self.long:
            self._rests.rest()
        now = time.perf_counter()
        if now < self._look:
            return
        used = time.thread_time() - self._began
        if used > self._readers.most_s:
            raise _used_up(used, self._readers.most_s)
        if used > LONG_S:
            self._readers.charge(self.tenant, self.uncharged(used))
            if self.long:
                self._readers.let_others(self)
            else:
                self._be_long()
            self._rests.begin(self.tenant)
        # Processor time is at most elapsed time, and reading the clock of elapsed time takes a fifth as long.
        self._look = now + (min(LONG_S, self._readers.most_s - used) if self.long else LONG_S - used)

    def uncharged(self, used: float) -> float:
        """The part of the processor time `used` that its tenant was not charged yet."""
        charged, self._charged = self._charged, used
        return used - charged

    def before_long(self) -> None:
        """Call `ask`, then make a quick read a long one, whatever time it has used."""
        self.ask()
        if threading.get_ident() == self._thread:
            self._be_long()
            self._rests.begin(self.tenant)

    def _be_long(self) -> None:
        if not self.long:
            self._readers.step_aside(self)
            self._turns.enter_context(ShortTurns())

    def do(self) -> Any:
        """Do the work; returns its result, or its exception."""
        self._thread, self._began = threading.get_ident(), time.thread_time()
        self._rests.begin(self.tenant)
        supplied_functions.caller.set(self._caller)
        try:
            with self._turns:
                if self.long:
                    self._turns.enter_context(ShortTurns())
                return self._work(self)
        except BaseException as problem:
            return problem
        finally:
            self._thread = 0
            self.used = time.thread_time() - self._began


class Readers:
    """The reader threads. Event loops call `read`.

    `threads`: the most reads under way. `most_s`: the most seconds of processor time of one read. `weight`: returns a
    tenant's weight.
    """

    def __init__(self, threads: int, most_s: float, weight: Weight = equal, way: GivingWay | None = None) -> None:
        """`way`: the calls for which long reads rest."""
        self.most_s = most_s
        self.way = way or GivingWay()
        self.times = TenantTimes(weight)
        self._places = threads
        self._long_places = max(threads - 1, 1)
        self._under_way = self._long = 0
        self._aside: set[Read] = set()
        self._quick_line = _ReadLine(self.times)
        self._long_line = _ReadLine(self.times)
        self._tickets = 0
        self._lock = threading.Condition()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closed = False

    @property
    def aside(self) -> int:
        """The number of reads that have stepped aside."""
        return len(self._aside)

    async def read(self, work: Callable[[Read], T], *, tenant: str, long: bool) -> T:
        """The result of `work` on one of the threads. If the caller is cancelled, `work` ends at its next `ask`."""
        reading = Read(self, tenant, long, work)
        with self._lock:
            if self._closed:
                raise RuntimeError("the readers are closed")
            self._tickets += 1
            reading.ticket = self._tickets
            (self._long_line if long else self._quick_line).put(reading)
            self._call_thread()
        try:
            answer: T = await reading.answer
            return answer
        except asyncio.CancelledError:
            self._forget(reading)
            raise

    def charge(self, tenant: str, seconds: float) -> None:
        """Charge processor time to a tenant. Waiting tenants that had less time come before it."""
        with self._lock:
            self.times.charge(tenant, seconds)

    def step_aside(self, reading: Read) -> None:
        """Make a running read a long one. It goes on at once if a place for long reads is free; else it waits."""
        with self._lock:
            reading.long = True
            if self._long < self._long_places:
                self._long += 1
                self._lock.notify()
                return
            if len(self._aside) >= _ASIDE:
                self._long += 1  # it is counted as a long read until this error has ended it
                raise _busy()
            reading.turn = threading.Event()
            self._under_way -= 1
            self._aside.add(reading)
            self._long_line.put(reading)
            self._call_thread()
        reading.turn.wait()
        if reading.gone:
            raise ReadEnded

    def let_others(self, reading: Read) -> None:
        """Let a long read give its place to a waiting one of a tenant that had less time. Returns when its turn comes
        again.
        """
        with self._lock:
            line, had = self._long_line, self.times.had.get(reading.tenant, 0.0)
            if not line or len(self._aside) >= _ASIDE or line.first.tenant == reading.tenant or line.had >= had:
                return
            reading.turn = threading.Event()
            self._under_way -= 1
            self._long -= 1
            self._aside.add(reading)
            line.put(reading, first=True)
            self._call_thread()
        reading.turn.wait()
        if reading.gone:
            raise ReadEnded

    def close(self) -> None:
        """Finish the reads under way, drop those that wait, end all threads."""
        with self._lock:
            self._closed = True
            waiting = [*self._quick_line.drain(), *self._long_line.drain()]
            for reading in waiting:
                self._drop(reading)
            self._lock.notify_all()
            threads = list(self._threads)
        deliver([(reading.answer, ReadEnded()) for reading in waiting])
        for thread in threads:
            thread.join()

    def _forget(self, reading: Read) -> None:
        """Drop a read whose caller has left."""
        with self._lock:
            waited = (self._long_line if reading.long else self._quick_line).remove(reading)
            reading.gone = True
            if waited:
                self._drop(reading)

    def _drop(self, reading: Read) -> None:
        """Drop a read that was taken out of its line. A read that had stepped aside wakes up and ends."""
        reading.gone = True
        if reading.turn is not None:
            self._resume(reading)

    def _resume(self, reading: Read) -> None:
        """Let a read that has stepped aside go on, or end if it was dropped."""
        self._aside.discard(reading)
        self._under_way += 1
        self._long += 1
        assert reading.turn is not None
        reading.turn.set()

    def _call_thread(self) -> None:
        """Wake or start a thread that looks at the lines."""
        if self._idle:
            self._lock.notify()
        elif len(self._threads) < self._places + len(self._aside):
            thread = threading.Thread(target=self._live, name=f"psoup-reader_{len(self._threads)}", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _live(self) -> None:
        """The body of a thread: read after read."""
        while (reading := self._wait()) is not None:
            outcome = reading.do()
            with self._lock:
                self._under_way -= 1
                self._long -= reading.long
                self.times.charge(reading.tenant, reading.uncharged(reading.used))
                if self._idle and (self._quick_line or self._long_line):
                    self._lock.notify()
            deliver([(reading.answer, outcome)])
            del reading, outcome  # an answer must not live as long as an idle thread

    def _wait(self) -> Read | None:
        """Wait for the next read; None ends this thread."""
        with self._lock:
            while (reading := self._next()) is None:
                if self._closed or len(self._threads) > self._places + len(self._aside):
                    self._threads.discard(threading.current_thread())
                    return None
                self._idle += 1
                try:
                    self._lock.wait()
                finally:
                    self._idle -= 1
            return reading

    def _next(self) -> Read | None:
        """The read whose turn it is; reads that had stepped aside go on in their own threads."""
        while self._under_way < self._places:
            lines = [line for line in (self._quick_line, self._long_line) if line]
            if self._long >= self._long_places and self._long_line in lines:
                lines.remove(self._long_line)
            if not lines:
                return None
            reading = min(lines, key=lambda line: (line.had, line.first.ticket)).take()
            if reading.turn is not None:
                self._resume(reading)
                continue
            self._under_way += 1
            self._long += reading.long
            return reading
        return None


class _ReadLine:
    """Reads that wait. Tenants take turns by the time that they used, and a tenant's first read is served first."""

    def __init__(self, times: TenantTimes) -> None:
        self._tenants: dict[str, deque[Read]] = {}
        self._turns = FairTurns(times)

    def __bool__(self) -> bool:
        return bool(self._tenants)

    @property
    def first(self) -> Read:
        """The read whose turn it is; the line must not be empty."""
        tenant = self._turns.first
        assert tenant is not None, "the line is empty"
        return self._tenants[tenant][0]

    @property
    def had(self) -> float:
        """The time that the first read's tenant used (`TenantTimes.had`). The line must not be empty."""
        return self._turns.had

    def put(self, reading: Read, *, first: bool = False) -> None:
        """Let a read wait, before (`first`) or after the others of its tenant."""
        reads = self._tenants.setdefault(reading.tenant, deque())
        (reads.appendleft if first else reads.append)(reading)
        self._turns.wait(reading.tenant)

    def take(self) -> Read:
        """Take the first read. Tenants with equal times alternate."""
        tenant = self._turns.serve()
        reading = self._tenants[tenant].popleft()
        self._clear(tenant)
        return reading

    def remove(self, reading: Read) -> bool:
        """Take a read out; returns whether it was in the line."""
        waiting = self._tenants.get(reading.tenant)
        if waiting is None or reading not in waiting:
            return False
        waiting.remove(reading)
        self._clear(reading.tenant)
        return True

    def drain(self) -> list[Read]:
        """Take all reads; the line is empty then."""
        reads = [reading for waiting in self._tenants.values() for reading in waiting]
        for tenant in [*self._tenants]:
            self._tenants[tenant].clear()
            self._clear(tenant)
        return reads

    def _clear(self, tenant: str) -> None:
        if not self._tenants[tenant]:
            del self._tenants[tenant]
            self._turns.leave(tenant)


def _used_up(used: float, limit: float) -> ResourceExhausted:
    return ResourceExhausted(
        f"this read has used {used:.1f} s of processor time, and one read may use {limit:g} s (read_cpu_s); narrow the"
        " window or the WHERE clause",
        reason="READ_CPU",
        **READ_CPU.over(f"{used:.1f}", f"{limit:g}"),
    )


def _busy() -> ResourceExhausted:
    return ResourceExhausted(
        f"{_ASIDE} long reads wait for their turn, which is the limit; try again in a second",
        reason="BUSY",
        retry_after_ms=1_000,
    )
