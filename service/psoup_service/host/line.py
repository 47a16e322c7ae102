"""Commands that wait for the sequencer, in two lines: nobody waits for all the large pushes of others.

    quick   c1 p2(s) c4 p5(t)     first come, first served; small pushes behind each other are taken together
    large   P3(s) p6(s) P7(u)     pushes of `LARGE_BYTES` and more, and what came for the stream of one that waits

A large push takes tens of milliseconds to prepare and to write. So they are taken one by one, the next when the last is
written, and quick commands between them. Commands for one stream keep the order in which they came: a large push waits
for what was there before it, and what comes behind it for its stream waits with it. For one thread at a time.
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
"""The room that a push takes, from which on it is large."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A command on its way; `size` is the room it takes, in bytes."""

    command: Command
    size: int
    answer: asyncio.Future[Acknowledgement]
    binding: Binding | None = None
    """What the binder has made of it."""
    bindings: int = 0
    """How often it was bound."""
    sender: Hashable = ""
    """Whose it is, among those who take turns."""


class CommandLine:
    """See the module."""

    def __init__(self) -> None:
        self._quick: deque[tuple[int, Submission]] = deque()
        self._large: deque[tuple[int, Submission]] = deque()
        self._streams: Counter[StreamKey] = Counter()
        """Of the large line."""
        self._came = 0

    def __bool__(self) -> bool:
        return bool(self._quick or self._large)

    @property
    def quick(self) -> Submission | None:
        """The first of the quick ones."""
        return self._quick[0][1] if self._quick else None

    def may_take_large(self, under_way: bool) -> bool:
        """Whether the first of the large line may be taken; `under_way`: a large push is being written.

        Not before quick ones that came before it. What only waits for its stream need not wait for the writing.
        """
        if not self._large or (self._quick and self._quick[0][0] < self._large[0][0]):
            return False
        return not (under_way and is_large(self._large[0][1]))

    def put(self, submission: Submission) -> None:
        """It goes to the end of its line."""
        self._came += 1
        key = stream_of(submission.command)
        if key is None or not (key in self._streams or is_large(submission)):
            self._quick.append((self._came, submission))
            return
        self._streams[key] += 1
        self._large.append((self._came, submission))

    def put_first(self, submission: Submission) -> None:
        """It has waited already: it is the first of the quick ones."""
        self._quick.appendleft((0, submission))

    def take_quick(self) -> list[Submission]:
        """The next quick command, with those right behind it that can be in one event with it; empty if none waits."""
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
        """The next of the large line, alone; there must be one."""
        submission = self._large.popleft()[1]
        key = stream_of(submission.command)
        assert key is not None, "what waits there has a stream"
        self._streams[key] -= 1
        if not self._streams[key]:
            del self._streams[key]
        return [submission]

    def drain(self) -> list[Submission]:
        """All that wait, in the order in which they came; none does then."""
        left = sorted([*self._quick, *self._large], key=lambda one: one[0])
        self._quick.clear()
        self._large.clear()
        self._streams.clear()
        return [submission for _, submission in left]


def is_large(submission: Submission) -> bool:
    """Whether it is a large push."""
    return isinstance(submission.command, Push) and submission.size >= LARGE_BYTES
