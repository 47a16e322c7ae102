"""The second half of the first stage: prepared commands go to the log; only then are their callers answered.

    sequencer ──group──> [ g3 g4 g5 ] ──all at once──> append ──> answer all ──> writer
                           these were prepared while g1 and g2 were on their way to the disk

    committer   large │ small │ errand │ small │ large │ small │ …     between any two of them small pushes have gone
    maintenance ─ asks ───────┤ forget ├──

This is group commit: the slower the disk, the more commands share one wait for it. A command never waits for a large
push that came later: the committer appends that push in a later transaction. Between two groups it also does other
writes. One kind is an `Errand`, a transaction of maintenance that takes the turn of a large push. The committer does
it, because the waiting thread has a low priority. The other kind is work that the store has postponed, such as a
checkpoint (`settle`).

A full store refuses the events and stores none of them. So does a store whose copy is too far behind. The groups then
wait, and the sequencer refuses new commands until the store takes events. It also refuses them while stored events
wait too long for their copy. Any other error ends the stage. A store without a disk makes no command wait. So there the
sequencer's thread appends the events itself.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from psoup.errors import PSoupError, ResourceExhausted, Unavailable
from psoup.events.acknowledgements import Prepared, PushAcknowledgement
from psoup.events.events import Event
from psoup_service.figures.call_notes import moment
from psoup_service.figures.durations import StageTimes
from psoup_service.host.errands import Errand
from psoup_service.host.line import Submission, is_large
from psoup_service.host.room import Entered, Room
from psoup_service.host.worker import Failure, Outcome, StageThread, deliver
from psoup_service.host.writer import Traced, Writer
from psoup_storage.contract import Store

RETRY_SECONDS = 0.5
"""Seconds between two attempts to write to a store that had no room."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class CommitGroup:
    """Commands that the sequencer prepared as one group: their answers, their events, and the room of each event.

    `leaving`: by tenant, the commands and bytes that leave the room when the committer answers. `errand`: work of
    another thread. `large`: True for a large push, an errand, or a group that only lets the store settle. `traces`: of
    the calls that are traced.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    events: list[tuple[Event, Entered]] = field(default_factory=list)
    leaving: dict[str, tuple[int, int]] = field(default_factory=dict)
    large: bool = False
    errand: Errand | None = None
    traces: list[Traced] = field(default_factory=list)

    def add(self, submission: Submission, prepared: Prepared) -> None:
        """Add a command that was prepared alone. The last of its events gives back its room."""
        self.outcomes.append((submission.answer, prepared.acknowledgement))
        events, ahead = prepared.events, submission.ahead
        self.large |= is_large(submission) and not (ahead and any(map(ahead.has, events)))
        self.answered(submission.tenant, 1, 0 if events else submission.size)
        if submission.trace is not None and events:
            self.traces.append((events[-1].sequence, submission.trace))
        for event in events:
            size = submission.size if event is events[-1] else 0
            self.events.append((event, Entered(submission.tenant, size)))

    def add_together(
        self, taken: Sequence[Submission], answers: Iterable[PushAcknowledgement], event: Event, size: int
    ) -> None:
        """Add pushes that share one event. `answers`: their acknowledgements. `size`: the room of all, in bytes."""
        tenant = taken[0].tenant
        self.outcomes += [(submission.answer, answer) for submission, answer in zip(taken, answers, strict=True)]
        self.events.append((event, Entered(tenant, size)))
        self.traces += [(event.sequence, each.trace) for each in taken if each.trace is not None]
        self.answered(tenant, len(taken), 0)

    def answered(self, tenant: str, commands: int, size: int) -> None:
        """Note commands that the committer will answer. `size`: the bytes of room that their answers free."""
        before, bytes_before = self.leaving.get(tenant, (0, 0))
        self.leaving[tenant] = before + commands, bytes_before + size

    def left(self) -> list[tuple[str, int, int]]:
        """The room to give back when the commands are answered: (tenant, commands, bytes)."""
        return [(tenant, commands, size) for tenant, (commands, size) in self.leaving.items()]


class Committer(StageThread):
    """Logs and answers groups in the order they come. `error` makes the errors of callers whose groups cannot be
    logged.

    `written` is called when `writing` may have ended, on the committer's thread. `stages`: the histograms of durations.
    """

    def __init__(
        self,
        store: Store,
        writer: Writer,
        room: Room,
        error: Callable[[], PSoupError],
        failed: Failure,
        written: Callable[[], None],
        stages: StageTimes,
    ) -> None:
        super().__init__("psoup-committer", failed)
        self._store = store
        self._writer = writer
        self._room = room
        self._error = error
        self._written = written
        self._times = stages.synced
        self._groups: deque[CommitGroup] = deque()
        self._taken: list[CommitGroup] = []
        self._large = 0
        """The number of large groups that wait or are being written."""
        self._pausing = self._at_gate = False
        self._behind = False
        """Whether the groups at the gate wait for a copy that is too far behind."""
        self._ended = False
        self._full: ResourceExhausted | Unavailable | None = None
        """The error of a store that refuses the events that wait."""
        self.groups = 0
        self.events = 0

    @property
    def writing(self) -> bool:
        """Whether groups are on their way to the disk, and the store takes them. From any thread."""
        return bool(self._taken or self._groups or self._pausing) and self._takes

    @property
    def writing_large(self) -> bool:
        """Whether a large group waits or is being written, and the store takes it. From any thread."""
        return self._large > 0 and self._takes

    @property
    def _takes(self) -> bool:
        """Whether the store takes events. While it does not, the sequencer refuses commands: none may wait for it."""
        return self._full is None and not self._behind

    @property
    def due(self) -> bool:
        """Whether the store has something to settle, and takes events. From any thread."""
        return self._store.due and self._takes

    def check_room(self) -> None:
        """Raise ResourceExhausted or Unavailable while groups wait for the store to take them. From any thread."""
        full = self._full
        if full is not None:
            raise type(full)(full.message, reason=full.reason, retry_after_ms=round(1_000 * RETRY_SECONDS))

    def shortage(self) -> str:
        """The reason why the store refuses events at present; "" if it takes them. From any thread."""
        full = self._full
        return self._store.shortage() if full is None else full.message

    @property
    def short_of_disk(self) -> bool:
        """Whether events are refused because the disk has no room. From any thread."""
        return isinstance(self._full, ResourceExhausted) or bool(self._store.disk_shortage())

    def put(self, group: CommitGroup) -> None:
        """Queue a group, or log it at once if the store is not durable. From the sequencer's thread."""
        if not self._store.durable:
            self._taken = [group]
            self._commit()
            return
        with self.condition:
            if not self._ended:
                if self._full is not None or self._at_gate:
                    _waive([group])
                self._large += group.large
                self._groups.append(group)
                self.condition.notify()
                return
        self._refuse([group])

    def has_work(self) -> bool:
        """Whether groups wait."""
        return bool(self._groups)

    def run(self) -> None:
        """Log until stopped."""
        while self.wait_for_work():
            with self.condition:
                self._taken = self._next_groups()
                large = sum(group.large for group in self._taken)
            taken, self._pausing = self._taken, any(group.large and not group.outcomes for group in self._taken)
            self._commit()
            if self._pausing and not self._taken:
                self._pause(taken)
            with self.condition:
                self._large -= large
            self._written()

    def _next_groups(self) -> list[CommitGroup]:
        """Take the groups for the next append: all, or all before a large push that another tenant would wait for."""
        taken = [self._groups.popleft()]
        tenants = set(taken[0].leaving)
        while self._groups:
            group = self._groups[0]
            if group.large and group.outcomes and not tenants <= group.leaving.keys():
                break
            tenants |= group.leaving.keys()
            taken.append(self._groups.popleft())
        return taken

    def _pause(self, taken: list[CommitGroup]) -> None:
        """Let the store settle, then do the errands of the `taken` groups, whose events are logged already.

        If the store fails, the waiting threads do their errands themselves.
        """
        try:
            if self._store.due:
                self._store.settle()
        except BaseException:
            _waive(taken)
            raise
        for group in taken:
            if group.errand is not None:
                group.errand.do()
        self._pausing = False

    def wind_up(self) -> None:
        """Refuse the groups that are left."""
        with self.condition:
            self._ended = True
            left = [*self._taken, *self._groups]
            self._groups.clear()
        self._refuse(left)

    def give_up(self) -> None:
        """Refuse the group at which a store without a disk failed, on the caller's thread."""
        if self._store.durable:
            return
        left, self._taken = self._taken, []
        self._refuse(left)

    def _commit(self) -> None:
        events = [event for group in self._taken for event, _ in group.events]
        began = moment()
        if events and not (self._append(events) and self._pass_gate(events[-1].sequence)):
            return
        taken, self._taken = [group for group in self._taken if group.outcomes], []
        if not taken:
            return
        self.groups += 1
        self.events += len(events)
        traces = [traced for group in taken for traced in group.traces]
        for _, trace in traces:
            trace.step("log", began, moment())
        self._room.leave_all(part for group in taken for part in group.left())
        deliver([outcome for group in taken for outcome in group.outcomes])
        self._writer.put([entry for group in taken for entry in group.events], traces)

    def _append(self, events: list[Event]) -> bool:
        """Log events; while the store refuses them, try again. Returns False if the stage is stopped meanwhile."""
        while True:
            began = time.perf_counter()
            try:
                self._store.append(events)
            except (ResourceExhausted, Unavailable) as full:
                self._log_full(full)
                with self.condition:
                    if self._stopping and not self._finishing:
                        return False
                    self.condition.wait(RETRY_SECONDS)
            else:
                self._times.add(time.perf_counter() - began)
                if self._full is not None:
                    _log.warning("the store takes events again")
                    self._full = None
                return True

    def _pass_gate(self, sequence: int) -> bool:
        """Wait until the copy of the events lets them be acknowledged. Returns False if the stage is stopped meanwhile.

        Errands do not wait for the copy.
        """
        while not self._store.copy_gate.passed(sequence, RETRY_SECONDS):
            with self.condition:
                self._at_gate = True
                _waive([*self._taken, *self._groups])
                if self._stopping and not self._finishing:
                    return False
            if not self._behind and self._store.copy_gate.reason():
                self._behind = True
                self._written()
        self._at_gate = self._behind = False
        return True

    def _log_full(self, full: ResourceExhausted | Unavailable) -> None:
        first, self._full = self._full is None, full
        with self.condition:
            _waive([*self._taken, *self._groups])  # errands may make room
        if first:
            _log.error("commands wait for the store to take events: %s", full.message)
            self._written()

    def _refuse(self, groups: list[CommitGroup]) -> None:
        _waive(groups)
        for group in groups:
            self._room.leave_all([*group.left(), *((entered.tenant, 0, entered.size) for _, entered in group.events)])
            deliver([(answer, self._error()) for answer, _ in group.outcomes])


def _waive(groups: list[CommitGroup]) -> None:
    for group in groups:
        if group.errand is not None:
            group.errand.waive()
