"""The thread of the pumps: it derives the rows of derived streams after publications (`psoup.pumps`).

    writer publishes ──> wakes the thread, if there are derived streams ──> each pump that is due does a step
           ^                                                                      │ CloseInstants, PushDerived
           └────────────────────────────── sequencer <────────────────────────────┘

The writer and the event loop do none of this work. A step that finds no room in memory waits for it; readers do not. A
step that fails is done again after the seconds in `RETRIES_S`. One more failure stops the pump, until ALTER STREAM x
RESUME. Pumps that have not run for longer than LAG AT MOST let go what sources keep for them. So do pumps that have
found no room for so long. Once in `INSTANT_S` seconds, the last closed instant of each stream is logged, if queries
stand on the stream. Steps with rows come between.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, TypeVar

from psoup.errors import NotFound, PSoupError, ResourceExhausted, Unavailable
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import PumpCommand, PushDerived, ReleasePins, StopPump
from psoup.model import SECOND
from psoup.published.snapshot import Snapshot
from psoup.pumps import NO_ROOM, Due, Pump, Pumps, advance, mark_of
from psoup.pumps.progress import Progress
from psoup.work.read_budget import NO_LIMIT
from psoup_service.host.host import Host
from psoup_service.host.pump_progress import Passed
from psoup_service.host.turns.fair_turns import TenantTimes

T = TypeVar("T")

INSTANT_S = 1.0
"""The least seconds between two events of one stream that only say which instant is closed."""
RETRIES_S = (1.0, 10.0)
"""Seconds of rest after the failures of a step. One more failure stops the pump."""
_TICK_S = 0.01
"""The least seconds between two looks for ticks of EVERY that the clock closes."""
REST_S = 60.0
"""Seconds of rest of a pump whose stop could not be logged."""
_PATIENCE_S = 60.0
_NO_ROOM_S = 0.05
"""Seconds of pause of a pump after a step that found no room."""
PACE_S = 0.01
"""The least seconds between the beginnings of two rounds of steps, unless a pump is behind. More tuples come then."""
_REST = 7
"""The pause after a round while clients push, as a multiple of the processor time of the round. A step over thousands
of tuples takes little longer than one over ten. If a pump is behind, the pause is as long as the round."""
MOST_REST_S = 0.05
"""The most seconds of a pause. A reader that waits ends it."""
STEP_S = 0.25
"""Seconds after which a step is given up and divided, if other tenants have derived streams."""
_ROUND_S = 0.05
"""Seconds after which a round of steps ends, so that a tenant waits no longer for its turn. A round is longer if
the look at many pumps takes long."""
_LOOKED = 4
"""The least time of a round, as a multiple of the time in which the due pumps are found."""

_log = logging.getLogger(__name__)


class DerivedStreams:
    """The pumps of one service. `start` and `stop` are called once, on the event loop; `stop` also without `start`."""

    def __init__(self, host: Host[Snapshot], edge: Callable[[], int | None] = lambda: None) -> None:
        """`edge`: the time after which no pin is released yet, None without a limit (`ExpiryWait`)."""
        self._host = host
        self._edge = edge
        self._pumps = Pumps()
        self._streams = self._published_streams = tuple[int, ...]()
        """The marks of the streams that the thread has looked at, and of those that were published last."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end_listening: Callable[[], None] = lambda: None
        self._wake, self._stopping, self._hurry = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="psoup-pumps")
        self._waiting: Future[Any] | None = None
        self._failures: dict[int, int] = {}
        self._resting: dict[int, float] = {}
        self._without_room: dict[int, float] = {}
        """The time until which a pump waits for room in memory, by stream ID."""
        self._without_room_since: dict[int, float] = {}
        self._times = TenantTimes()
        self._instant_at = self._released_at = 0.0
        self._instants = deque[int]()
        """The streams whose last closed instant is still to be logged in this turn."""
        self._pushes = 0
        """The pushes of derived rows in this round."""
        self.steps = self.failed = 0
        """Steps that were done, and that failed, since the start."""
        self.reasons: dict[int, str] = {}
        """The reason why a stream is not derived further, by stream ID."""

    @property
    def pumps(self) -> dict[int, Pump]:
        """The pumps by stream ID. Another thread changes them."""
        return self._pumps.by_id

    def progress(self, stream_id: int) -> Progress | None:
        """The present counts of the pump of a stream, from any thread. None if there is none."""
        pump = self.pumps.get(stream_id)
        if pump is None:
            return None
        return pump.progress._replace(failure=self.reasons.get(stream_id, ""), clock=self._host.clock.now())

    def start(self) -> None:
        """Start the thread. It first derives what came before the start."""
        self._loop = asyncio.get_running_loop()
        self._host.passed.progress = self.progress
        self._end_listening = self._host.listen(self._published)
        self._host.passed.hurry = self._hurry.set
        self._wake.set()
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and the step under way, which is not pushed if it is not logged yet."""
        self._end_listening()
        self._stopping.set()
        self._wake.set()
        self._hurry.set()
        waiting = self._waiting
        if waiting is not None:
            waiting.cancel()

    def join(self) -> None:
        """Wait until the thread has ended. Returns at once if it was never started."""
        if self._thread.ident is not None:
            self._thread.join()

    def figures(self) -> dict[str, int]:
        """Figures for the operator."""
        pumps = list(self.pumps.values())
        return {
            "derived_streams": len(pumps),
            "derived_steps": self.steps,
            "derived_rows": sum(pump.rows for pump in pumps),
            "derived_failures": self.failed,
        }

    def _published(self) -> None:
        """Wake the thread if there are derived streams, and readers that may wait for a dropped one.

        On the writer's thread: some microseconds.
        """
        mark = mark_of(self._host.snapshot().by_id)
        if mark != self._published_streams:
            self._published_streams = mark
            self._host.passed.wake()
        if self.pumps or mark != self._streams:
            self._wake.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(self._rest_s())
            self._wake.clear()
            try:
                while not self._stopping.is_set() and self._round():
                    pass
            except (Unavailable, CancelledError):  # the service stops
                self._stopping.wait(_NO_ROOM_S)
            except Exception:
                self.failed += 1
                _log.exception("derived streams are late: their thread goes on")
                self._stopping.wait(INSTANT_S)

    def _rest_s(self) -> float | None:
        """The most seconds until the next look at the pumps. None without pumps."""
        if not self.pumps:
            return None
        rest = self._pumps.rest(self._host.clock.now())
        return INSTANT_S if rest is None else max(_TICK_S, min(INSTANT_S, rest / SECOND))

    def _round(self) -> bool:
        """Do a round of steps, and wait a moment for more tuples. Returns False if no step was due."""
        began, at, events = time.thread_time(), time.monotonic(), self._host.applied
        self._pushes = 0
        if not self._step():
            return False
        behind = any(pump.behind for pump in self.pumps.values())
        rest = 0.0 if behind else at + PACE_S - time.monotonic()
        if self._host.applied - events > self._pushes:  # clients push, too
            rest = max(rest, (1 if behind else _REST) * (time.thread_time() - began))
        if rest > 0:
            self._hurry.wait(min(rest, MOST_REST_S))
        self._hurry.clear()
        return True

    def _step(self) -> bool:
        """Do a round of steps: one of each pump that is due, as far as the time of a round allows.

        Returns False if none is due.
        """
        snapshot, now = self._host.snapshot(), time.monotonic()
        self._streams = mark_of(snapshot.by_id)
        if now - self._released_at >= INSTANT_S:
            self._released_at = now
            self._release(snapshot)
        resting, waiting = _until(self._resting, now), _until(self._without_room, now)
        steps = self._pumps.due(snapshot, self._host.clock.now(), resting | waiting, self._times.begins)
        moved, left, until = False, deque(steps), now + max(_ROUND_S, _LOOKED * (time.monotonic() - now))
        while left:
            moved |= self._done(*left.popleft())
            if self._stopping.is_set() or time.monotonic() >= until:
                break
        self._log_instants(snapshot, resting | waiting)
        self._note(snapshot, resting, {pump.stream_id for pump, due in left if due.instant})
        if not steps and waiting:
            self._stopping.wait(_NO_ROOM_S)
        return moved or bool(waiting or self._instants)

    def _release(self, snapshot: Snapshot) -> None:
        """Release the pins of pumps that have not run for too long. What fails is done again in a second."""
        edge, now = self._edge(), self._host.clock.now()
        for command in self._pumps.releases(snapshot, now if edge is None else min(now, edge)):
            if self._tried(command) and command.halt is not None:
                self._not_waiting(command.stream_id)
                why = {"stream": command.stream_id, "why": command.halt.why}
                _log.error("a derived stream stops: it has found no room in memory for too long", extra=why)

    def _tried(self, command: StopPump | ReleasePins) -> bool:
        """Log a command. Returns False, and reports it, if that is refused now."""
        try:
            self._submit(command)
        except NotFound:  # dropped meanwhile
            pass
        except (Unavailable, CancelledError):
            raise
        except (PSoupError, TimeoutError) as problem:
            _log.warning("a derived stream could not be changed: %s", problem, extra={"stream": command.stream_id})
            return False
        return True

    def _log_instants(self, snapshot: Snapshot, without: set[int]) -> None:
        """Log the last closed instant of streams with queries, each once in `INSTANT_S` at most.

        A round logs as many as `_ROUND_S` allows, but one at least; the next round goes on. `without`: the streams
        whose pumps rest or wait.
        """
        now = time.monotonic()
        if not self._instants and now - self._instant_at >= INSTANT_S:
            self._instant_at, queried = now, _queried(snapshot)
            self._instants.extend([i for i in self.pumps if i in queried and i not in without])
        while self._instants and not self._stopping.is_set():
            pump = self.pumps.get(self._instants.popleft())
            due = None if pump is None else pump.due(self._host.snapshot(), self._host.clock.now(), instant=True)
            if pump is not None and due is not None:
                self._done(pump, due)
                if time.monotonic() - now >= _ROUND_S:
                    break

    def _done(self, pump: Pump, due: Due) -> bool:
        """Do a step of a pump. Returns whether it has moved."""
        began, budget = time.thread_time(), self._host.budget(pump.tenant)
        alone = all(other.tenant == pump.tenant for other in self.pumps.values())
        budget.ask = partial(self._check, pump, time.monotonic() + (NO_LIMIT if alone else STEP_S))
        try:
            moved = advance(pump, due, self._host.snapshot, self._submit, budget)
        except (Unavailable, CancelledError):
            raise
        except Exception as problem:
            if not isinstance(problem, PSoupError):
                _log.exception("a step of a derived stream failed", extra={"stream": pump.stream_id})
            if not isinstance(problem, ResourceExhausted) or problem.reason != NO_ROOM:
                self._failed(pump, problem)
                return True
            self.reasons[pump.stream_id] = problem.message
            self._without_room_since.setdefault(pump.stream_id, time.monotonic())
            self._host.snapshot().waits.begin(pump.stream_id, self._host.clock.now(), problem.message)
            self._without_room[pump.stream_id] = time.monotonic() + (_NO_ROOM_S if pump.holds else INSTANT_S)
            return True
        finally:
            budget.close()
            self._charge(pump.tenant, time.thread_time() - began)
        if time.thread_time() - began > _ROUND_S:
            pump.calm()
        self.steps += 1
        self._failures.pop(pump.stream_id, None)
        self._not_waiting(pump.stream_id)
        return moved

    def _not_waiting(self, stream_id: int) -> None:
        """Note that a stream does not wait for room in memory: its last step was done, or it is stopped."""
        self._without_room_since.pop(stream_id, None)
        self._host.snapshot().waits.end(stream_id)
        self.reasons.pop(stream_id, None)

    def _check(self, pump: Pump, until: float) -> None:
        """End a step whose service stops: a restart makes its rows again. Divide a step that takes too long."""
        if self._stopping.is_set():
            raise Unavailable("the service is shutting down", reason="DRAINING")
        if time.monotonic() > until and pump.divisible:
            raise ResourceExhausted("the step takes long, and other tenants wait; divide it", reason="STEP_TOO_LONG")

    def _charge(self, tenant: str, seconds: float) -> None:
        """Charge a tenant for a step, and give the next turn to another one."""
        self._host.charge(tenant, seconds)
        self._times.now = self._times.begins(tenant)
        self._times.charge(tenant, seconds)

    def _failed(self, pump: Pump, problem: Exception) -> None:
        """Count a failed step. The pump rests, or is stopped after several."""
        self.failed += 1
        failures = self._failures[pump.stream_id] = self._failures.get(pump.stream_id, 0) + 1
        kind = "" if isinstance(problem, PSoupError) else f"{type(problem).__name__}: "
        self.reasons[pump.stream_id] = kind + str(problem)
        view = self._host.snapshot().by_id.get(pump.stream_id)
        if view is not None:
            pump.again(view)
        rest = REST_S
        if failures <= len(RETRIES_S):
            rest = RETRIES_S[failures - 1]
        else:
            self._failures.pop(pump.stream_id)
            name = str(pump.stream_id) if view is None else view.spec.name
            _log.error("a derived stream stops: its step fails", extra={"stream": name, "why": str(problem)})
            if self._tried(StopPump(pump.stream_id, self.reasons[pump.stream_id], pump.tenant)):
                self.reasons.pop(pump.stream_id)
                return
        self._resting[pump.stream_id] = time.monotonic() + rest

    def _note(self, snapshot: Snapshot, resting: set[int], awaited: set[int]) -> None:
        """Tell waiting readers what the pumps have passed. `awaited`: streams that hold a join back.

        No reader waits for a stream that has found no room for `INSTANT_S` seconds: it may never find it.
        """
        passed, since = dict[int, Passed](), time.monotonic() - INSTANT_S
        self._without_room_since = {i: at for i, at in self._without_room_since.items() if i in self.pumps}
        full = {i for i, began in self._without_room_since.items() if began <= since}
        awaited |= self._pumps.holding_back(self._host.snapshot(), self._host.clock.now())
        for stream_id, pump in self.pumps.items():
            passed[stream_id] = Passed(
                0 if stream_id in awaited else pump.passed,
                pump.pushed_at,
                pump.source_ids,
                stream_id in resting or stream_id in full or pump.halt is not None,
                snapshot.sequence,
            )
        self._host.passed.note(passed)

    def _submit(self, command: PumpCommand) -> Acknowledgement:
        """Log a command, and wait until readers see its event. Rows that are logged stay pushed if that takes long."""
        acknowledgement = self._on_loop(self._logged(command))
        self._pushes += isinstance(command, PushDerived)
        return acknowledgement

    async def _logged(self, command: PumpCommand) -> Acknowledgement:
        acknowledgement = await self._host.submit(command, patience=_PATIENCE_S)
        try:
            await self._host.wait_for(acknowledgement.sequence, _PATIENCE_S)
        except TimeoutError:
            if not isinstance(command, PushDerived):
                raise  # a promise holds only for a snapshot that has all earlier events
        return acknowledgement

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        self._waiting = waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
        if self._stopping.is_set():
            waiting.cancel()
        try:
            return waiting.result()
        finally:
            self._waiting = None


def _until(ends: dict[int, float], now: float) -> set[int]:
    """The streams whose time has not ended. The remaining ones are removed."""
    for stream_id in [stream_id for stream_id, end in ends.items() if end <= now]:
        del ends[stream_id]
    return set(ends)


def _queried(snapshot: Snapshot) -> set[int]:
    """The streams with queries, and the streams from which they derive. O(streams)."""
    queried, ahead = set[int](), [stream_id for stream_id, view in snapshot.by_id.items() if view.queries]
    while ahead:
        stream_id = ahead.pop()
        view = snapshot.by_id.get(stream_id)
        if view is not None and stream_id not in queried:
            queried.add(stream_id)
            ahead += () if view.spec.derived is None else view.spec.derived.source_ids
    return queried
