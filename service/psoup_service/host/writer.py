"""The second stage: the only thread that changes the engine.

    queue    e1 e2 e3 e4 …       the writer takes runs of about `RUN_ROWS` tuples; a run ends before a long event of
                                 another tenant
    results  of maintenance      the writer installs them between two runs; so it does with clauses to take out of the
                                 index

After each run the writer advances `applied`, wakes callers that waited for it, gives the tuples' room back, calls
`published`, and asks the engine for maintenance. Readers never wait for the writer, because they have snapshots. If
tuples come faster than full chunks are sealed and stored, they would fill the memory. Then the writer waits for one
such task before each run, the queue fills, and callers wait for room.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from sortedcontainers import SortedDict

from psoup.errors import PSoupError
from psoup.events.change import rows_of
from psoup.events.events import Event, RegisteredMany
from psoup.work.runner import Runner, serial
from psoup_service.figures.call_notes import CallTrace, moment
from psoup_service.figures.durations import StageTimes
from psoup_service.host.background import BackgroundBudgets
from psoup_service.host.maintainer import Maintainer
from psoup_service.host.ports import EnginePort
from psoup_service.host.precautions import Guard
from psoup_service.host.room import Entered, Room
from psoup_service.host.turns.evaluation_turns import EvaluationTurns
from psoup_service.host.turns.fair_turns import TenantTimes
from psoup_service.host.turns.interpreter import ShortTurns
from psoup_service.host.worker import Failure, Outcome, StageThread, deliver

RUN_ROWS = 65_536
"""Tuples after which a run is closed: larger runs gain nothing, and are published later."""
RUN_EVENTS = 1_024
"""Events after which a run is closed."""

LONG_ROWS = 8_192
"""An event with at least this many tuples is long. A run ends before a long event, so that earlier events of other
tenants need not wait for it.
"""

GIVES_BACK = ("seal", "store")
"""The kinds of maintenance that give memory back. The writer waits for one piece at a time while it is `behind`."""

FAR_BEHIND = 2.0
"""Multiple of the allowed backlog above which the writer waits for a task of any kind; the kinds take turns."""


Traced = tuple[int, CallTrace]
"""The sequence of the last event of a call, and the trace of the call."""


class Writer(StageThread):
    """Applies runs of events and installs results of maintenance. `run`: the threads that help maintenance.

    `stages`: the histograms of durations.
    """

    def __init__(
        self,
        engine: EnginePort[Any],
        room: Room,
        applied: int,
        failed: Failure,
        guard: Guard,
        run: Runner = serial,
        stages: StageTimes | None = None,
    ) -> None:
        super().__init__("psoup-writer", failed)
        self._engine = engine
        self._room = room
        self._queue: deque[tuple[Event, Entered]] = deque()
        self._traces: deque[Traced] = deque()
        self._results: deque[Any] = deque()
        self._guard = guard
        self._turns = EvaluationTurns(room.charge, room.weights.of)
        self._maintainer = Maintainer(self.post, failed, guard, self._turns, run)
        self._asides: deque[Any] = deque()
        """Results to install that do not come from maintenance."""
        self._maintaining = self._giving_back = False
        self._held = False
        self._waiters: SortedDict[tuple[int, int], asyncio.Future[None]] = SortedDict()
        self._tickets = 0
        self._over: Callable[[], PSoupError] | None = None
        self._applied = applied
        self._freed = 0
        self._asked = False
        self._clock: int | None = None
        self.matches = TenantTimes()
        """The number of matches by tenant, for tenants that have a quota of matches."""
        self._times = (stages or StageTimes()).applied
        self.runs = 0
        self.installed = 0
        self._listeners: tuple[Callable[[], None], ...] = ()

    def listen(self, published: Callable[[], None]) -> Callable[[], None]:
        """Call `published` on this thread after each publication; it must return at once.

        Returns a function that ends these calls. Only the event loop adds and removes listeners.
        """
        self._listeners = (*self._listeners, published)

        def end() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not published)

        return end

    @property
    def applied(self) -> int:
        """The sequence of the last event that is applied and published."""
        return self._applied

    @property
    def queued(self) -> int:
        """Events that wait to be applied."""
        return len(self._queue)

    def replay(self, run: list[Event]) -> None:
        """Apply logged events before the threads are started."""
        self._apply(run, {})

    def put(self, events: Sequence[tuple[Event, Entered]], traces: Sequence[Traced] = ()) -> None:
        """Queue consecutive events, each with the room in bytes to give back once it is applied. From any thread.

        `traces`: of the calls that are traced.
        """
        with self.condition:
            self._traces.extend(traces)
            self._queue.extend(events)
            self.condition.notify()

    def post(self, result: Any) -> None:
        """Queue a result of maintenance. From any thread."""
        with self.condition:
            self._results.append(result)
            self.condition.notify()

    def put_aside(self, result: Any) -> None:
        """Queue a result that does not come from maintenance, to be installed. From any thread."""
        with self.condition:
            self._asides.append(result)
            self.condition.notify()

    def make_room(self, clock: int) -> None:
        """Ask the writer to drop tuples past their retention at `clock`. From any thread."""
        with self.condition:
            self._clock = clock
            self.condition.notify()

    def take_freed(self) -> int:
        """Bytes of tuples that the engine has dropped since the last call. From any thread."""
        with self.condition:
            freed, self._freed = self._freed, 0
            return freed

    async def reach(self, sequence: int) -> None:
        """Return once `sequence` is applied. Raises the error of `abandon`. O(log waiters), also when cancelled."""
        with self.condition:
            if sequence <= self._applied:
                return
            if self._over is not None:
                raise self._over()
            self._tickets += 1
            ticket = (sequence, self._tickets)
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters[ticket] = reached
        try:
            await reached
        finally:
            with self.condition:
                self._waiters.pop(ticket, None)

    def abandon(self, error: Callable[[], PSoupError]) -> None:
        """Raise `error` in all callers that wait for a sequence, now and later."""
        with self.condition:
            self._over = error
            outcomes: list[Outcome] = [(reached, error()) for reached in self._waiters.values()]
            self._waiters.clear()
        deliver(outcomes)

    def start(self) -> None:
        """Start both threads."""
        self._maintainer.start()
        super().start()

    def stop(self, *, finish: bool) -> None:
        """End after the work in hand, or (`finish`) after the last queued event; maintenance is not waited for."""
        super().stop(finish=finish)
        self._maintainer.stop(finish=False)

    def lend(self, budgets: BackgroundBudgets) -> None:
        """Give the maintenance thread its budgets. Called before `start`."""
        self._maintainer.budgets = budgets

    def join(self, timeout: float | None = None) -> bool:
        """Wait for both threads."""
        return super().join(timeout) and self._maintainer.join(timeout)

    def has_work(self) -> bool:
        """Whether there are events to apply, results to install or tuples to expire.

        Also True before the writer has asked the engine for maintenance for the first time.
        """
        events = bool(self._queue) and self._may_apply()
        return events or bool(self._results) or bool(self._asides) or self._clock is not None or not self._asked

    def run(self) -> None:
        """Install and apply until stopped."""
        while self.wait_for_work():
            self._install_all()
            while self._asides:
                self._put_in(self._asides.popleft())
            self._expire()
            run, entered = self._take_run() if self._may_apply() else ([], {})
            if run:
                self._apply(run, entered)
            self._ask()

    def _may_apply(self) -> bool:
        """Whether the writer may apply events: not while it waits for maintenance, unless it is stopping."""
        return not self._held or self._stopping

    def _install_all(self) -> None:
        if self._results:
            while self._results:
                self._install(self._results.popleft())
            self._ask()

    def _take_run(self) -> tuple[list[Event], dict[str, int]]:
        """Take the events of the next run. Also returns the bytes of room that each tenant holds for them."""
        run, rows, entered = list[Event](), 0, dict[str, int]()
        while self._queue and rows < RUN_ROWS and len(run) < RUN_EVENTS:
            event, (tenant, size) = self._queue[0]
            if run and rows_of(event) >= LONG_ROWS and entered.keys() != {tenant}:
                break
            self._queue.popleft()
            run.append(event)
            entered[tenant] = entered.get(tenant, 0) + size
            rows += rows_of(event)
        return run, entered

    def _apply(self, run: list[Event], entered: dict[str, int]) -> None:
        # A block of statements is applied in Python, which may take long; other events mostly by kernels.
        began, begun = time.perf_counter(), moment()
        with ShortTurns() if any(isinstance(event, RegisteredMany) for event in run) else nullcontext():
            effects = self._engine.apply(run)
        if entered:  # events of a replay have no room
            self._times.add(time.perf_counter() - began)
        while self._traces and self._traces[0][0] <= effects.sequence:
            self._traces.popleft()[1].step("apply", begun, moment())
        self.runs += 1
        self._tell()
        for tenant, seconds in effects.spent.items() if entered else ():  # a replay is charged to no tenant
            self._room.charge(tenant, seconds)
        for tenant, count in effects.matches.items() if entered else ():
            self.matches.charge(tenant, count)
        self._room.leave_all((tenant, 0, size) for tenant, size in entered.items())
        reached = list[Outcome]()
        with self.condition:  # after the room: a caller that sees the sequence sees that it is free, too
            self._applied = effects.sequence
            self._freed += effects.freed_bytes
            while self._waiters and self._waiters.peekitem(0)[0][0] <= self._applied:
                reached.append((self._waiters.popitem(0)[1], None))
        deliver(reached)
        self._say_published()

    def _install(self, result: Any) -> None:
        self._put_in(result)
        self._maintaining = False
        self.installed += 1

    def _put_in(self, result: Any) -> None:
        freed = self._engine.install(result)
        with self.condition:
            self._freed += freed
        self._tell()
        self._say_published()

    def _say_published(self) -> None:
        for published in self._listeners:
            published()

    def _tell(self) -> None:
        """Tell the guard about clauses that could not be evaluated and left the index."""
        news = self._engine.news()
        if news:
            self._guard.tell(news, self._engine.kept_out())

    def _expire(self) -> None:
        with self.condition:
            clock, self._clock = self._clock, None
        if clock is not None:
            freed = self._engine.expire(clock)
            with self.condition:
                self._freed += freed

    def _ask(self) -> None:
        self._asked = True
        if not self._maintaining:
            task = self._engine.maintenance(self._turns.first)
            if task is not None:
                self._maintaining = True
                self._giving_back = task.name in GIVES_BACK
                self._maintainer.put(task)
        self._held = self._maintaining and self._engine.behind() > (1.0 if self._giving_back else FAR_BEHIND)
