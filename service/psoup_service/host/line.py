"""Commands that wait for the sequencer, in two lines for each tenant, so that small commands overtake large pushes.

    quick   c1 p2(s) c4 p5(t)     first come, first served; neighbouring small pushes to one stream share an event
    large   P3(s) p6(s) P7(u)     pushes of `LARGE_BYTES` and more, and later commands for their streams

A large push takes tens of milliseconds to prepare and to write. So large pushes are taken one by one, each after the
last was written, with quick commands between them. Commands for one stream keep their order. A large push waits for the
commands before it. Later commands for its stream wait until the sequencer has prepared it (`release`). The spooler may
write its tuples before that. For one thread at a time.

    TenantLines   acme:  quick, large    tenants take turns by the time that preparing their commands took; the order
                  umbra: quick, large    inside a tenant is that of its own lines
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from psoup.admission.queries.bind_steps import Binding
from psoup.admission.together import MOST, MOST_BYTES, is_small, may_join
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import Command, CreateStream, Push
from psoup_service.figures.call_notes import CallTrace, moment
from psoup_service.figures.durations import Durations
from psoup_service.host.command_facts import StreamKey, stream_of, tenant_of
from psoup_service.host.commit_delay import CommitDelay
from psoup_service.host.spooler import Ahead
from psoup_service.host.turns.fair_turns import FairTurns, TenantTimes, Weight, equal

LARGE_BYTES = 1024 * 1024
"""A push that takes at least this many bytes of room is large."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A command that waits or is being prepared. `size`: the room that it takes, in bytes."""

    command: Command
    size: int
    answer: asyncio.Future[Acknowledgement]
    binding: Binding | None = None
    """The result of the binder; None if the command was not there."""
    bindings: int = 0
    """The number of times that the binder was given the command."""
    sender: Hashable = ""
    """The sender of the command: senders take turns at the binder."""
    ahead: Ahead | None = None
    """The result of the spooler; None if the command was not there."""
    came: float = 0.0
    """The time of `perf_counter` at which the command began to wait."""
    trace: CallTrace | None = None
    """The trace of the call that submits the command; None if it is not traced."""

    @property
    def tenant(self) -> str:
        """The tenant that is charged for the command."""
        return tenant_of(self.command)


class CommandLine:
    """The two lines of one tenant; see the module."""

    def __init__(self) -> None:
        self._quick: deque[tuple[int, Submission]] = deque()
        self._large: deque[tuple[int, Submission]] = deque()
        self._streams: Counter[StreamKey] = Counter()
        """Number of commands in the large line by stream, the held one included."""
        self._held: StreamKey | None = None
        """The stream of a large push that the sequencer took and has not decided. The large line waits meanwhile."""
        self._came = 0

    def __bool__(self) -> bool:
        return bool(self._quick or self._large)

    @property
    def streams(self) -> Iterable[StreamKey]:
        """The streams of the commands in the large line, and of the held push."""
        return self._streams

    @property
    def quick(self) -> Submission | None:
        """The first quick command."""
        return self._quick[0][1] if self._quick else None

    @property
    def large(self) -> Submission | None:
        """The first command of the large line; None if an earlier quick command waits, or a large push is held."""
        if not self._large or self._held is not None or (self._quick and self._quick[0][0] < self._large[0][0]):
            return None
        return self._large[0][1]

    def put(self, submission: Submission) -> None:
        """Put a command at the end of its line."""
        self._came += 1
        key = stream_of(submission.command)
        if key is None or not (key in self._streams or is_large(submission)):
            self._quick.append((self._came, submission))
            return
        self._streams[key] += 1
        self._large.append((self._came, submission))

    def put_first(self, submission: Submission) -> None:
        """Put a command that has waited already in front of all quick commands."""
        self._quick.appendleft((0, submission))

    def take_quick(self) -> list[Submission]:
        """Take the next quick command, and the following ones that can share its event. Empty if no command waits."""
        if not self._quick:
            return []
        taken, size = [self._quick.popleft()[1]], 0
        while self._quick and len(taken) < MOST and may_join(taken[0].command, self._quick[0][1].command):
            size += taken[-1].size
            if size + self._quick[0][1].size > MOST_BYTES:
                break
            taken.append(self._quick.popleft()[1])
        return taken

    def take_large(self) -> list[Submission]:
        """Take the first command of the large line, alone. The line must not be empty. A large push is held until
        `release`.
        """
        submission = self._large.popleft()[1]
        self._held = stream_of(submission.command)
        assert self._held is not None, "a command of the large line has a stream"
        if not is_large(submission):
            self.release()
        return [submission]

    def release(self) -> None:
        """Release the commands that wait for the held push. Harmless if none is held."""
        if self._held is None:
            return
        self._streams[self._held] -= 1
        if not self._streams[self._held]:
            del self._streams[self._held]
        self._held = None

    def drain(self) -> list[Submission]:
        """Take all commands, in the order in which they came; both lines are empty then."""
        left = sorted([*self._quick, *self._large], key=lambda numbered: numbered[0])
        self._quick.clear()
        self._large.clear()
        self._streams.clear()
        self._held = None
        return [submission for _, submission in left]


class TenantLines:
    """The lines of all tenants. `weight`: returns the weight of a tenant. `delay`: how long small pushes wait."""

    def __init__(self, weight: Weight = equal, delay: CommitDelay | None = None) -> None:
        self.delay = delay or CommitDelay()
        self.times = TenantTimes(weight)
        self._quick = FairTurns(self.times)
        self._large = FairTurns(self.times)
        self._lines: dict[str, CommandLine] = {}
        """The lines by tenant. Empty lines stay."""

    def __bool__(self) -> bool:
        return bool(self._quick or self._large)

    def others_wait(self, tenant: str) -> bool:
        """Whether commands of another tenant wait."""
        return any(len(turns) > (tenant in turns) for turns in (self._quick, self._large))

    @property
    def quick(self) -> Submission | None:
        """The first quick command of the tenant whose turn it is."""
        tenant = self._quick.first
        return None if tenant is None else self._lines[tenant].quick

    def may_take_large(self, under_way: bool) -> bool:
        """Whether the large command whose turn it is may be taken; `under_way`: a large push is being written.

        A small push, which is in that line only because of its stream, need not wait for the writing.
        """
        tenant = self._large.first
        first = None if tenant is None else self._lines[tenant].large
        return first is not None and not (under_way and is_large(first))

    def put(self, submission: Submission) -> None:
        """Put a command at the end of its tenant's line."""
        line = self._line(submission.tenant)
        line.put(submission)
        self._wait(submission.tenant, line)
        if is_small(submission.command):
            self.delay.come()
        elif not is_large(submission):
            self.delay.hurry()

    def put_first(self, submission: Submission) -> None:
        """Put a command that has waited already in front of all quick commands of its tenant."""
        line = self._line(submission.tenant)
        line.put_first(submission)
        self._wait(submission.tenant, line)

    def take_quick(self) -> list[Submission]:
        """Take the quick command whose turn it is, and its tenant's following ones that can share its event.

        Empty if no command waits.
        """
        if not self._quick:
            return []
        self.delay.join()
        return self._taken(self._quick.serve(), CommandLine.take_quick)

    def take_large(self) -> list[Submission]:
        """Take the large command whose turn it is, alone. The large lines must not be empty. After a large push, the
        large line of its tenant waits until `release`.
        """
        return self._taken(self._large.serve(), CommandLine.take_large)

    def release(self, tenant: str) -> None:
        """Let the large line of a tenant go on, as its held push is decided. Harmless if it has no held push."""
        line = self._line(tenant)
        line.release()
        self._wait(tenant, line)

    def waiting(self) -> frozenset[StreamKey]:
        """The streams of the commands in the large lines, and of held pushes. O(tenants + streams)."""
        return frozenset(key for line in self._lines.values() for key in line.streams)

    def charge(self, tenant: str, seconds: float) -> None:
        """Charge a tenant the time to prepare its commands. Waiting tenants that had less time come before it."""
        self.times.charge(tenant, seconds)

    def drain(self) -> list[Submission]:
        """Take all commands, in the order of arrival within each tenant. The lines are empty then."""
        left = [submission for line in self._lines.values() for submission in line.drain()]
        for tenant, line in [*self._lines.items()]:
            self._wait(tenant, line)
        return left

    def _taken(self, tenant: str, take: Callable[[CommandLine], list[Submission]]) -> list[Submission]:
        line = self._lines[tenant]
        taken = take(line)
        self._wait(tenant, line)
        return taken

    def _line(self, tenant: str) -> CommandLine:
        line = self._lines.get(tenant)
        if line is None:
            line = self._lines[tenant] = CommandLine()
        return line

    def _wait(self, tenant: str, line: CommandLine) -> None:
        """Let a tenant wait for a turn in each line that has a command to take, and only there."""
        if line.quick is not None:
            self._quick.wait(tenant)
        elif self._quick:
            self._quick.leave(tenant)
        if line.large is not None:
            self._large.wait(tenant)
        elif self._large:
            self._large.leave(tenant)


def is_large(submission: Submission) -> bool:
    """Whether a submission is a large push, or creates a table with much content."""
    return isinstance(submission.command, Push | CreateStream) and submission.size >= LARGE_BYTES


def add_waits(waits: Durations, taken: Iterable[Submission]) -> None:
    """Count the waits of submissions until now, each only when it is taken for the first time."""
    now = time.perf_counter()
    for submission in taken:
        if not submission.bindings and submission.ahead is None:
            waits.add(now - submission.came)


def add_steps(taken: Iterable[Submission], name: str, began: int) -> None:
    """Add a step that ends now to the traces of submissions. `began`: nanoseconds since 1970."""
    for submission in taken:
        if submission.trace is not None:
            submission.trace.step(name, began, moment())
