"""Commands that wait for the sequencer, in two lines: no command waits for all the large pushes of others.

    quick   c1 p2(s) c4 p5(t)     first come, first served; small pushes behind each other are taken together
    large   P3(s) p6(s) P7(u)     pushes of `LARGE_BYTES` and more, and later commands for their streams

A large push takes tens of milliseconds to prepare and to write. So large pushes are taken one by one, the next when the
last is written, and quick commands between them. Commands for one stream keep the order in which they came: a large
push waits for the commands before it, and later commands for its stream wait behind it. For one thread at a time.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Hashable
from dataclasses import dataclass

from psoup.admission.binding import Binding
from psoup.admission.together import MOST, MOST_BYTES, may_join
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.commands import Command, Push
from psoup_service.host.room import StreamKey, stream_of

LARGE_BYTES = 1024 * 1024
"""Room of the smallest large push."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A command on its way; `size`: the room it takes, in bytes."""

    command: Command
    size: int
    answer: asyncio.Future[Acknowledgement]
    binding: Binding | None = None
    """The binder's result, if it was bound beside."""
    bindings: int = 0
    """The number of times it was bound."""
    sender: Hashable = ""
    """The sender, as senders take turns."""


class CommandLine:
    """The two lines; see the module."""

    def __init__(self) -> None:
        self._quick: deque[tuple[int, Submission]] = deque()
        self._large: deque[tuple[int, Submission]] = deque()
        self._streams: Counter[StreamKey] = Counter()
        """Commands in the large line, by stream."""
        self._came = 0

    def __bool__(self) -> bool:
        return bool(self._quick or self._large)

    @property
    def quick(self) -> Submission | None:
        """The first quick command."""
        return self._quick[0][1] if self._quick else None

    def may_take_large(self, under_way: bool) -> bool:
        """Whether the first of the large line may be taken; `under_way`: a large push is being written.

        It is not taken before quick commands that came earlier. A small push, which is in that line only because of its
        stream, need not wait for the writing.
        """
        if not self._large or (self._quick and self._quick[0][0] < self._large[0][0]):
            return False
        return not (under_way and is_large(self._large[0][1]))

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
        """Put a command that has waited already before all quick commands."""
        self._quick.appendleft((0, submission))

    def take_quick(self) -> list[Submission]:
        """Take the next quick command, with those right behind it that can share its event; empty if none waits."""
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
        """Take the first command of the large line, alone; the line must not be empty."""
        submission = self._large.popleft()[1]
        key = stream_of(submission.command)
        assert key is not None, "a command of the large line has a stream"
        self._streams[key] -= 1
        if not self._streams[key]:
            del self._streams[key]
        return [submission]

    def drain(self) -> list[Submission]:
        """Take all commands, in the order in which they came; both lines are empty then."""
        left = sorted([*self._quick, *self._large], key=lambda numbered: numbered[0])
        self._quick.clear()
        self._large.clear()
        self._streams.clear()
        return [submission for _, submission in left]


def is_large(submission: Submission) -> bool:
    """Whether a submission is a large push."""
    return isinstance(submission.command, Push) and submission.size >= LARGE_BYTES
