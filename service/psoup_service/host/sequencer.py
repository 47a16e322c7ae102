"""The first stage: the sequencer turns commands into events, in one order. The committer logs and acknowledges them.

    line     c1 c2 c3 c4 | c5 …            a group: waiting commands, until preparing has taken `GROUP_SECONDS`
             prepare each                  tenants take turns; a refusal is answered at once, other commands go on
             small pushes                  neighbours to one stream become one event, or are prepared alone if it is
                                           refused; they wait while a group is written, and for company
                                           (`commit_delay`), so more can share
             hand over e1 e2 e4            the committer logs the events, answers the callers, and feeds the writer
             hand over an errand           work of another thread: the committer does it alone, between two groups
             P7                            admission foresees the event of a large push, one push at a time
    spooler  P7                            writes its tuples to disk by errands; then the sequencer prepares the push
    binder   r6                            binds a long registration; then the sequencer prepares it

Only the sequencer owns admission, which is ahead of the log, as the log is ahead of the engine. If the log fails, no
command of the group is acknowledged. The stage then ends, because admission already counts the lost events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from psoup.admission import Admission
from psoup.admission.together import is_small, join, prepare_shared, share
from psoup.errors import PSoupError, ResourceExhausted, Unavailable
from psoup.events.acknowledgements import Prepared, PushAcknowledgement
from psoup.events.commands import Command, CreateStream, Push, RaiseWatermarks
from psoup.work.clock import Clock
from psoup_service.figures.call_notes import moment
from psoup_service.figures.durations import StageTimes
from psoup_service.host.binder import BindingJob, BindingThread
from psoup_service.host.command_facts import grows, registers
from psoup_service.host.commit_delay import CommitDelay
from psoup_service.host.committer import CommitGroup, Committer
from psoup_service.host.errands import Errands
from psoup_service.host.followed_events import FollowedEvents
from psoup_service.host.jumps import Jumps
from psoup_service.host.line import Submission, TenantLines, add_steps, add_waits, is_large
from psoup_service.host.reads.pins import Pins
from psoup_service.host.room import Room
from psoup_service.host.spooler import Ahead, Spooler, SpoolJob
from psoup_service.host.turns.fair_turns import TenantTimes, Weight, equal
from psoup_service.host.worker import Failure, StageThread, deliver
from psoup_service.host.writer import Writer
from psoup_storage.contract import Store

GROUP_SECONDS = 0.005
"""Time of preparing after which a group is closed: many registrations must not hold back the answers to pushes."""

MOST_BINDINGS = 3
"""The most times that the binder binds a registration whose streams change meanwhile. Then the sequencer refuses it."""


class Sequencer(StageThread):
    """The stage that turns commands into events. `error` makes the errors of commands that come after its end."""

    def __init__(
        self,
        admission: Admission,
        store: Store,
        clock: Clock,
        writer: Writer,
        room: Room,
        pins: Pins,
        error: Callable[[], PSoupError],
        failed: Failure,
        weight: Weight = equal,
        stages: StageTimes | None = None,
    ) -> None:
        """`weight`: returns a tenant's weight in turns among tenants. `stages`: the histograms of durations."""
        super().__init__("psoup-sequencer", failed)
        self._admission = admission
        self._store = store
        self._clock = clock
        self._writer = writer
        self._room = room
        self._pins = pins
        self._error = error
        stages = stages or StageTimes()
        self._waits = stages.waited
        self._committer = Committer(store, writer, room, error, failed, self._written, stages)
        self.shortage = self._committer.shortage
        self._taken = 0
        """The number of commands that the sequencer has taken from the lines."""
        self.binder = BindingThread(lambda: self._taken, failed, weight)
        self.jumps = Jumps()
        self._spooler = Spooler(store, failed)
        self._spooling = False
        """Whether the spooler has a large push, or has given it back and the sequencer has not decided it."""
        self._spooled: Submission | None = None
        """The large push that the spooler has given back."""
        self._beside = 0
        """The number of submissions that the binder and the spooler have."""
        self._line = TenantLines(weight, CommitDelay(lambda: 2 * (stages.synced.recent + stages.applied.recent)))
        self._registering = TenantTimes()
        self.errands = Errands(self.condition)
        self.followed = FollowedEvents(admission, store, self.condition)
        self._group: list[Submission] = []
        self._dozes = False
        """Whether this thread sleeps until the small pushes have waited for long enough, and wakes up by itself."""
        self._ended = False

    @property
    def registering(self) -> tuple[TenantTimes, ...]:
        """Processor time of tenants for registrations: on this thread, and on the binder's thread."""
        return self._registering, self.binder.times

    def counters(self) -> dict[str, int]:
        """Figures for the operator."""
        written = {"groups": self._committer.groups, "events": self._committer.events}
        written |= {"short_of_disk": int(self._committer.short_of_disk)}
        return written | {"spooled_pushes": self._spooler.count, "watermark_jumps": self.jumps.count}

    def start(self) -> None:
        """Start the threads; a store without a disk needs no committer."""
        self.binder.start()
        if self._store.durable:
            self._committer.start()
            self._spooler.start()
        self.errands.begin()
        super().start()

    def stop(self, *, finish: bool) -> None:
        """End after the work in hand, or (`finish`) once the last waiting command is answered."""
        super().stop(finish=finish)
        if not finish:
            for stage in (self.binder, self._spooler, self._committer):
                stage.stop(finish=False)

    def join(self, timeout: float | None = None) -> bool:
        """Wait for all threads; returns whether they have ended."""
        end = None if timeout is None else time.monotonic() + timeout
        ended = super().join(timeout)
        for stage in (self.binder, self._spooler, self._committer):
            ended = stage.join(None if end is None else max(0.0, end - time.monotonic())) and ended
        return ended

    def put(self, submission: Submission) -> None:
        """Queue a command; it is answered later. From any thread."""
        with self.condition:
            if not self._ended:
                self._line.put(submission)
                waits = self._line.delay.left() > 0  # before `has_work`: else it could end between the two
                if self.has_work() or (waits and not self._dozes):
                    self.condition.notify()
                return
        self._refuse([submission])

    def _come_back(self, submission: Submission, ahead: Ahead | None = None) -> None:
        """Take back a submission, on the binder's or the spooler's thread. It is before the tenant's waiting commands.

        `ahead`: the result of the spooler; None from the binder.
        """
        submission = replace(submission, ahead=ahead)
        with self.condition:
            self._beside -= 1
            if not self._ended:
                if ahead is None:
                    self._line.put_first(submission)
                else:
                    self._line.charge(submission.tenant, ahead.seconds)
                    self._spooled = submission
                self.condition.notify()
                return
        self._refuse([submission])

    def wait_for_work(self) -> bool:
        """Sleep until there is work. A stage that finishes also waits for the binder and the spooler."""
        with self.condition:
            while True:
                left = self._line.delay.left()  # before `has_work`, as in `put`
                if self.has_work() or (self._stopping and not (self._finishing and self._beside)):
                    return self.has_work() and (self._finishing or not self._stopping)
                self._dozes = left > 0
                self.condition.wait(left or None)
                self._dozes = False

    def has_work(self) -> bool:
        """Whether commands may be taken. A small push waits while a group is written, and for company: later ones may
        join its event.
        """
        if self._spooled is not None or self.followed or self._may_take_quick() or self._may_pause():
            return True
        return self._line.may_take_large(self._large_under_way)

    @property
    def _large_under_way(self) -> bool:
        return self._spooling or (self._committer.writing_large and not self._stopping)

    def _may_take_quick(self) -> bool:
        first = self._line.quick
        if first is None or self._stopping or not is_small(first.command):
            return first is not None
        return not self._committer.writing and not self._line.delay.left()

    def _may_pause(self) -> bool:
        return bool(self.errands or self._committer.due) and (self._stopping or not self._committer.writing_large)

    def _written(self) -> None:
        """Wake this stage if commands have waited for the committer; most groups leave none. On its thread."""
        with self.condition:
            if self.has_work():
                self.condition.notify()

    def run(self) -> None:
        """Prepare groups until stopped."""
        while self.wait_for_work():
            self._process()

    def wind_up(self) -> None:
        """Refuse waiting commands, and the group at which a defect struck; the committer ends after this thread."""
        with self.condition:
            self._ended = True
            left = [*self._group, *self._line.drain(), *filter(None, [self._spooled])]
            self.errands.end()
        self._refuse(left)
        self.followed.end(self._error)
        self.binder.stop(finish=False)
        self._spooler.stop(finish=False)
        self._committer.give_up()
        self._committer.stop(finish=self._finishing)

    def _process(self) -> None:
        self._admission.give_back(self._writer.take_freed())
        self._admission.give_back(self._pins.settle(self._admission.used_bytes))
        for group in self.followed.groups():
            self._committer.put(group)
        self._prepare_group(self._quick_ones())
        large_under_way = self._large_under_way  # if it ends meanwhile, an errand comes before the next one
        if self._may_pause():
            self._committer.put(CommitGroup(large=True, errand=self.errands.take()))
        else:
            self._prepare_group(self._large_one(large_under_way))

    def _quick_ones(self) -> Iterator[list[Submission]]:
        """Lists of quick commands to prepare together, until the group has taken long enough."""
        with self.condition:
            if not self._may_take_quick():
                return
            self._line.delay.begin()
        end = time.perf_counter() + GROUP_SECONDS
        while taken := self._take(self._line.take_quick):  # also those that have come meanwhile
            self._spooler.others_come()
            yield taken
            if time.perf_counter() >= end:
                return

    def _large_one(self, under_way: bool) -> Iterator[list[Submission]]:
        """The large push that has come back from the spooler, or the first of the large line if it is its turn.

        `under_way`: `_large_under_way`.
        """
        with self.condition:
            spooled, self._spooled = self._spooled, None
        if spooled is not None:
            self._spooling = False
            taken = [spooled]
        elif self._line.may_take_large(under_way):
            taken = self._take(self._line.take_large)
        else:
            return
        yield taken
        if not self._spooling:
            with self.condition:
                self._line.release(taken[0].tenant)

    def _take(self, take: Callable[[], list[Submission]]) -> list[Submission]:
        with self.condition:
            return take()

    def _prepare_group(self, takes: Iterator[list[Submission]]) -> None:
        """Prepare commands in order, answer refused ones, and hand the accepted ones over as one group."""
        group, refused = CommitGroup(), list[tuple[Submission, PSoupError]]()
        began, tenant = time.thread_time(), ""
        for taken in takes:
            tenant = taken[0].tenant
            self._taken += len(taken)
            self._group += taken
            add_waits(self._waits, taken)
            begun = moment()
            if len(taken) == 1 or not self._prepare_together(taken, group):
                for submission in taken:
                    registering = registers(submission.command)
                    before = time.thread_time() if registering else 0.0
                    self._prepare_alone(submission, group, refused)
                    if registering:
                        self._registering.charge(submission.tenant, time.thread_time() - before)
            add_steps(taken, "prepare", begun)
            if self._line.others_wait(tenant):
                began = self._charge(tenant, began)
        if tenant:
            self._charge(tenant, began)
        self._group = []
        if refused:
            self._room.leave_all((submission.tenant, 1, submission.size) for submission, _ in refused)
            deliver([(submission.answer, refusal) for submission, refusal in refused])
        if group.outcomes:
            self._committer.put(group)

    def _charge(self, tenant: str, began: float) -> float:
        """Charge a tenant the thread's time since `began`; returns the time now."""
        now = time.thread_time()
        with self.condition:
            self._line.charge(tenant, now - began)
        return now

    def _prepare_together(self, taken: list[Submission], group: CommitGroup) -> bool:
        """Prepare one event for all pushes. Returns False, without any change, if one of them is refused."""
        pushes = [submission.command for submission in taken if isinstance(submission.command, Push)]
        size = sum(submission.size for submission in taken)
        try:
            prepared = self._prepare(replace(taken[0], size=size), join(pushes))
        except PSoupError:  # the one at fault is found when each is prepared alone
            return False
        assert prepared.event is not None and isinstance(prepared.acknowledgement, PushAcknowledgement)
        group.add_together(taken, share(prepared.acknowledgement, pushes), prepared.event, size)
        return True

    def _prepare_alone(
        self, submission: Submission, group: CommitGroup, refused: list[tuple[Submission, PSoupError]]
    ) -> None:
        refusal: PSoupError | None
        try:
            if self._put_beside(submission):
                return
            prepared = prepare_shared(submission.command, partial(self._prepare, submission))
            group.add(submission, prepared)
            refusal = prepared.refusal
        except PSoupError as problem:
            refused.append((submission, refusal := problem))
        if isinstance(refusal, ResourceExhausted):  # so that the next command may find room
            self._writer.make_room(self._clock.now())

    def _put_beside(self, submission: Submission) -> bool:
        """Give a large push to the spooler, or a long registration to the binder, again if its streams have changed.

        Returns whether it was given. Raises the errors of `foresee` and `binding`, and Unavailable if the caller left.
        """
        if is_large(submission):
            return self._spool(submission)
        bound = submission.binding
        if bound is not None and submission.answer.cancelled():
            raise Unavailable("the caller has left", reason="CANCELLED")
        if bound is not None and (submission.bindings >= MOST_BINDINGS or self._admission.stands(bound)):
            return False
        binding = self._admission.binding(submission.command)
        if binding is None:
            return False
        with self.condition:
            self._beside += 1
        binding_submission = replace(submission, binding=binding, bindings=submission.bindings + 1)
        left, end = submission.answer.cancelled, partial(self._come_back, binding_submission)
        self.binder.put(BindingJob(submission.tenant, submission.sender, left, binding.advance, end))
        return True

    def _spool(self, submission: Submission) -> bool:
        """Give a large push to the spooler if it will have an event; returns whether it was given."""
        command = submission.command
        if submission.ahead is not None or not self._store.durable:
            return False
        assert isinstance(command, Push | CreateStream)
        self._store.copy_gate.check()
        self._check_room(submission.size)
        foreseen = self._admission.foresee(command, self._clock.now())
        if foreseen is None:
            return False
        with self.condition:
            self._beside += 1
        self._spooling = True
        self._spooler.put(SpoolJob(foreseen, partial(self._come_back, submission)))
        return True

    def _check_room(self, size: int) -> None:
        self._committer.check_room()
        self._store.check_room(size)

    def _prepare(self, submission: Submission, command: Command) -> Prepared:
        ahead = submission.ahead
        ready, foreseen = self._store.make_ready, None
        self._store.copy_gate.check()
        if ahead is not None:
            if ahead.refusal is not None:
                raise ahead.refusal
            ready, foreseen = partial(ready, spooled=ahead.spooled), ahead.foreseen
        elif grows(command):
            self._check_room(submission.size)
        if isinstance(command, RaiseWatermarks):
            with self.condition:
                command = replace(command, waiting=self._line.waiting())
        prepared = self._admission.prepare(command, self._clock.now(), ready, foreseen or submission.binding)
        self.jumps.see(command, prepared.event)
        return prepared

    def _refuse(self, submissions: list[Submission]) -> None:
        self._room.leave_all((submission.tenant, 1, submission.size) for submission in submissions)
        deliver([(submission.answer, self._error()) for submission in submissions])
