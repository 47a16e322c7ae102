"""The host: one engine, its admission and its store, run by threads and called from asyncio.

    submit ──> Room ──> Sequencer: prepare, log, answer ──> queue ──> Writer: apply, publish <──> Maintainer
                                                                        │
    read, snapshot <──────────── published snapshots ───────────────────┘

    starting ──> serving ──> draining ──> stopped          any ──> failed: a defect or a broken store, until restart

Fail-stop: if logging or applying raises, no command is acknowledged any more; published snapshots stay readable. The
host owns the store and closes it. No network, no engine logic.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from psoup.admission import Admission
from psoup.errors import Internal, OutOfRange, PSoupError, Unavailable
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import Command
from psoup.model import DEFAULT_TENANT
from psoup.work.clock import Clock
from psoup.work.read_budget import ReadBudget, ReadEnded
from psoup.work.runner import Runner, serial
from psoup_service.figures.call_notes import moment, trace_now
from psoup_service.figures.durations import StageTimes
from psoup_service.host.background import BackgroundBudgets
from psoup_service.host.command_facts import size_of, tenant_of
from psoup_service.host.line import Submission
from psoup_service.host.ports import EnginePort
from psoup_service.host.precautions import Guard
from psoup_service.host.pump_progress import PassedEvents
from psoup_service.host.reads.allowance import ReadLimits
from psoup_service.host.reads.held_snapshots import carried
from psoup_service.host.reads.pins import Pins
from psoup_service.host.reads.readers import Read, Readers
from psoup_service.host.reads.reads_under_way import ReadsUnderWay
from psoup_service.host.replay import replay
from psoup_service.host.room import DEFAULT_LIMITS, HostLimits, Room, TakenRoom
from psoup_service.host.sequencer import Sequencer
from psoup_service.host.turns.fair_turns import ONE_TENANT, Weights
from psoup_service.host.worker import Outcome, deliver
from psoup_service.host.writer import Writer
from psoup_storage.contract import Store

SnapshotT = TypeVar("SnapshotT")
T = TypeVar("T")

_log = logging.getLogger(__name__)


class Host(Generic[SnapshotT]):
    """All of a service but its network.

    `allowance`: limits of reads. `helpers`: threads that help maintenance. `weights`: weights of tenants in turns.
    """

    only_reads = ""
    """The reason why it never takes commands; "" if it does."""

    def __init__(
        self,
        engine: EnginePort[SnapshotT],
        admission: Admission,
        store: Store,
        clock: Clock,
        *,
        limits: HostLimits = DEFAULT_LIMITS,
        helpers: Runner = serial,
        quarantine: Sequence[str] = (),
        allowance: ReadLimits | None = None,
        weights: Weights = ONE_TENANT,
    ) -> None:
        self._engine = engine
        self._admission = admission
        self._store = store
        self.clock = clock
        self._lock = threading.Lock()
        self._state = "starting"
        self._failure = self.fenced = ""
        """The reason of a failure. `fenced`: the same if another service took over."""
        self._given_up = False
        self._enders: list[asyncio.Future[None]] = []
        self._reads = ReadsUnderWay(limits.pending, weights)
        self._closed = threading.Event()
        self.passed = PassedEvents()
        self._room = Room(limits.pending, limits.queue_bytes, weights)
        self._guard = Guard(store, quarantine)
        self.stages = StageTimes()
        self._writer = Writer(engine, self._room, admission.sequence, self._fail, self._guard, helpers, self.stages)
        self.pins = Pins(admission.limit, engine.snapshot, weights.of)
        self._sequencer = Sequencer(
            admission,
            store,
            clock,
            self._writer,
            self._room,
            self.pins,
            self._refusal,
            self._fail,
            weights.of,
            self.stages,
        )
        self.shortage = self._sequencer.shortage
        store.share(self._sequencer.errands.in_turn)
        self._allowance = allowance or ReadLimits()
        self.way = self._sequencer.binder.way
        self._writer.lend(BackgroundBudgets(self._allowance, self.way, lambda *_: None))  # a task's time is charged
        self._readers = Readers(limits.readers, self._allowance.cpu_s, weights.of, self.way)
        self.charge = self._readers.charge
        self.times = {"prepare_share": self._sequencer.registering, "join_share": (self._room.times,)}
        """Processor time and matches of tenants, by the quota that limits them."""
        self.times |= {"read_share": (self._readers.times,), "matches_per_second": (self._writer.matches,)}

    # Life -----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """`starting`, `serving`, `draining`, `stopped` or `failed`."""
        return self._state

    @property
    def failure(self) -> str:
        """The reason of a failure, for the operator; empty if the host has not failed."""
        return self._failure

    def start(self) -> None:
        """Re-apply all events of the store, then serve. Raises as `check_wanted`, and Internal when called twice."""
        if self._state != "starting":
            raise Internal(f"a host starts once; this one is {self._state}")
        parts = self._engine, self._admission, self._store, self._writer, self._guard
        replay(*parts, lambda: self._given_up)
        self.check_wanted()
        self._store.copy_gate.begin(self.check_wanted)
        self._writer.start()
        self._sequencer.start()
        self._become("serving")

    def give_up(self) -> None:
        """End a start that is under way, at the next event. From any thread."""
        self._given_up = True

    def fence(self, reason: str) -> None:
        """Fail, and refuse reads, too: another service took over, and these answers may be old. From any thread."""
        self.fenced = reason
        self._fail(reason)

    def check_wanted(self) -> None:
        """Raise Unavailable, reason DRAINING, after `give_up`."""
        if self._given_up:
            raise Unavailable("the start was given up; nothing is lost, start again", reason="DRAINING")

    async def drain(self, timeout: float) -> bool:
        """Refuse new commands and finish those accepted; returns whether that took at most `timeout` seconds.

        Afterwards only reads go on: answers under way can be finished until `close`.
        """
        if self._state not in ("starting", "serving"):
            return self._state == "stopped"
        self._become("draining")
        self._room.close(self._refusal)
        finishing = ThreadPoolExecutor(1, "psoup-drain")  # its own pool: the end must not wait for other work
        try:
            finished = await asyncio.get_running_loop().run_in_executor(finishing, self._finish, timeout)
        except BaseException:
            finishing.shutdown(wait=False)
            raise
        finishing.shutdown()  # its work is done
        return finished

    def close(self) -> None:
        """Stop after the work in hand, end all threads, close the store; blocks, idempotent."""
        if self._state in ("starting", "serving"):
            self._become("draining")
            self._room.close(self._refusal)
        self._sequencer.stop(finish=False)
        self._sequencer.join()
        self._writer.stop(finish=False)
        self._writer.join()
        self._writer.abandon(self._refusal)
        self._closed.set()
        self._readers.close()
        self._store.close()
        self._become("stopped")

    async def ended(self) -> None:
        """Return when the host has stopped or failed."""
        with self._lock:
            if self._state in ("stopped", "failed"):
                return
            end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._enders.append(end)
        await end

    # Commands -------------------------------------------------------------------------------------------------

    async def reserve(self, tenant: str, size: int, *, patience: float = 0.0) -> TakenRoom:
        """Take room for a tenant's command of `size` bytes before it is made; `submit` or the holder gives it back.

        Raises ResourceExhausted (`retry_after_ms`); Unavailable with reason STARTING or DRAINING.
        """
        if self._state != "serving":
            raise self._refusal()
        return await self._room.place(tenant, size, patience)

    async def submit(
        self, command: Command, *, patience: float = 0.0, place: TakenRoom | None = None, sender: Hashable = ""
    ) -> Acknowledgement:
        """Prepare and log `command`; returns when it is logged (on disk, if the store is durable), not yet applied.

        Without room it waits in line for up to `patience` seconds, unless it has its `place` already. Commands are
        sequenced in the order of the calls, except for slow registrations, where senders take turns. A cancelled call
        may still take effect. Raises the errors of prepare and of `reserve`, and Internal after a failure.
        """
        place = place or await self.reserve(tenant_of(command), size_of(command), patience=patience)
        answer: asyncio.Future[Acknowledgement] = asyncio.get_running_loop().create_future()
        came = time.perf_counter() - place.waited
        trace = trace_now()
        self._sequencer.put(Submission(command, place.take_over(), answer, sender=sender, came=came, trace=trace))
        return await answer

    # Reading --------------------------------------------------------------------------------------------------

    @property
    def applied(self) -> int:
        """The sequence of the last event that snapshots show."""
        return self._writer.applied

    @property
    def next_query(self) -> int:
        """The next query ID, above all IDs that were given out."""
        return self._admission.next_query

    def snapshot(self) -> SnapshotT:
        """The published snapshot, or the one that the call holds. O(1); never waits for the writer; any thread. Raises
        Unavailable: reason STARTING during the replay, as half of the log would give wrong answers, or COPY_FENCED.
        """
        if self._state == "starting" or self.fenced:
            raise self._refusal()
        return carried(self._engine.snapshot, self.pins)()

    def listen(self, published: Callable[[], None]) -> Callable[[], None]:
        """Let the writer's thread call `published` after each publication. The returned function ends these calls."""
        return self._writer.listen(published)

    def install(self, piece: object) -> None:
        """Queue a result that the writer installs in the engine between two runs. From any thread."""
        self._writer.put_aside(piece)

    def budget(self, tenant: str) -> ReadBudget:
        """The budget of a read over several calls of `evaluate`; the caller closes it."""
        return self._allowance.budget(tenant)

    async def read(self, fn: Callable[[SnapshotT], T]) -> T:
        """The result of `fn` with a fresh snapshot, on a reader thread; raises as `evaluate`."""
        return await self.evaluate(lambda snapshot, _: fn(snapshot))

    async def evaluate(
        self,
        fn: Callable[[SnapshotT, ReadBudget], T],
        *,
        budget: ReadBudget | None = None,
        long: bool = False,
        tenant: str = DEFAULT_TENANT,
    ) -> T:
        """The result of `fn` with a fresh snapshot and a budget, on a reader thread. `long`: it probably takes long.

        A `budget` of an earlier call goes on. If the caller is cancelled, `fn` ends at its next check of the budget.
        Raises the errors of `fn`, ResourceExhausted (too many reads, a used-up budget), and after `close` of `submit`.
        """
        if self._closed.is_set() or self.fenced:
            raise self._refusal()
        take, trace = carried(self.snapshot, self.pins), trace_now()

        def work(reading: Read) -> T:
            began = moment()
            granted = budget or self._allowance.budget(tenant)
            granted.ask, granted.wait = reading.ask, reading.before_long
            try:
                return fn(take(), granted)
            finally:
                granted.ask = granted.wait = None
                if trace is not None:
                    trace.step("read", began, moment())
                if budget is None:
                    granted.close()

        with self._reads.of(tenant):
            try:
                return await self._readers.read(work, tenant=tenant, long=long)
            except (RuntimeError, ReadEnded) as problem:
                if self._closed.is_set():  # the readers have dropped it
                    raise self._refusal() from problem
                raise

    async def bound(self, bind: Callable[[SnapshotT], T], tenant: str, sender: Hashable) -> T:
        """The result of `bind` with a fresh snapshot, on the binder's thread, in turn with long registrations.

        Raises the errors of `bind`, ResourceExhausted for too many reads, and while draining the errors of `submit`.
        """
        with self._reads.of(tenant):
            return await self._sequencer.binder.made(lambda: bind(self.snapshot()), tenant, sender, self._refusal)

    async def wait_for(self, sequence: int, timeout: float) -> None:
        """Return once `sequence` is applied, so that readers see the change that was acknowledged with it.

        Raises OutOfRange for a future sequence, TimeoutError, and Unavailable, reason STARTING, during the replay.
        """
        if self._state == "starting":
            raise self._refusal()
        if sequence > self._admission.sequence:
            last = self._admission.sequence
            raise OutOfRange(
                f"there is no event {sequence} yet, the last is {last}; wait for the sequence of an acknowledgement,"
                " from this run of the service",
                reason="UNKNOWN_SEQUENCE",
                sequence=sequence,
                last=last,
            )
        async with asyncio.timeout(timeout):
            await self._writer.reach(sequence)

    def counters(self) -> dict[str, int]:
        """Figures for the operator: totals since the start, and work under way."""
        return {
            "sequence": self._admission.sequence,
            "applied": self._writer.applied,
            **self._sequencer.counters(),
            "runs": self._writer.runs,
            "installed": self._writer.installed,
            "pending_commands": self._room.commands,
            "pending_reads": self._reads.count,
            "queued_events": self._writer.queued,
            "queued_bytes": self._room.bytes,
            "reserved_bytes": self._admission.reserved_bytes,
            "producer_bytes": self._admission.producer_bytes,
            **self.pins.counters(),
            "sort_bytes": self._allowance.sorts.used,
            "reads_aside": self._readers.aside,
            "store_bytes": self._store.bytes,
            "wal_bytes": self._store.wal_bytes,
            "clauses_left_index": self._guard.left,
        }

    def _finish(self, timeout: float) -> bool:
        end = time.monotonic() + timeout
        self._sequencer.stop(finish=True)
        finished = self._sequencer.join(timeout)
        self._sequencer.stop(finish=False)
        self._writer.stop(finish=finished)
        finished = self._writer.join(max(0.0, end - time.monotonic())) and finished
        if finished:
            self._writer.abandon(self._refusal)
            self._become("stopped")
        return finished and self._state == "stopped"

    def _become(self, state: str) -> None:
        """Change the state; `failed` and `stopped` are final."""
        with self._lock:
            if self._state in ("stopped", "failed"):
                return
            self._state = state
            ends = self._take_enders()
        deliver(ends)

    def _fail(self, reason: str) -> None:
        with self._lock:
            if self._state in ("stopped", "failed"):
                return
            self._state = "failed"
            self._failure = reason
            ends = self._take_enders()
        _log.critical("the service stops taking commands: %s", reason)
        self._room.close(self._refusal)
        self._sequencer.stop(finish=False)
        self._writer.stop(finish=False)
        self._writer.abandon(self._refusal)
        deliver(ends)

    def _take_enders(self) -> list[Outcome]:
        if self._state not in ("stopped", "failed"):
            return []
        ends, self._enders = self._enders, []
        return [(end, None) for end in ends]

    def _refusal(self) -> PSoupError:
        """The error for a command or a waiter in a state other than `serving`."""
        if self.fenced:
            return Unavailable(self.fenced, reason="COPY_FENCED")
        if self._state == "failed":
            return Internal("the service has stopped after a failure of its own; its log says which", reason="FAILED")
        if self._state == "starting":
            return Unavailable("the service is starting; try again in a moment", reason="STARTING")
        return Unavailable("the service is shutting down; try again when it is back", reason="DRAINING")
