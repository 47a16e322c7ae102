"""Binds statements beside the sequencer: what takes long must not hold back what is quick.

    sequencer ──long registration──> sender s [ r1 r2 r4 ] ──a slice of r1, r3, r2, …──> bound ──> sequencer, which
                                     sender t [ r3 ]                                              decides

A block of thousands of statements takes seconds, and one statement may take a fifth of one; a push waits for neither.
Senders take turns, and the registrations of each among themselves: who sends a hundred at once has the time of one.
They compete for the interpreter only: turns are short meanwhile (`ShortTurns`), and while others have something to do,
each slice is followed by a rest. A caller who has left is left out. Knows nothing of what is decided.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from psoup.admission.binding import Binding
from psoup_service.host.worker import Failure, StageThread
from psoup_service.turns import ShortTurns

if TYPE_CHECKING:
    from psoup_service.host.line import Submission

SLICE_SECONDS = 0.005
"""After which the next registration has its turn."""

REST_SECONDS = 0.005
"""Between two slices while others are busy: a push asks for the interpreter some twenty times (each step of SQLite
gives it up), and what comes in a rest has it at once."""


class BindingThread(StageThread):
    """`bound` is called with each submission when its binding has ended, or is given up, on the binder's thread.

    `others`: how many commands of others have been taken up so far.
    """

    def __init__(self, bound: Callable[[Submission], None], others: Callable[[], int], failed: Failure) -> None:
        super().__init__("psoup-binder", failed)
        self._bound = bound
        self._others = others
        self._works: OrderedDict[Hashable, deque[tuple[Submission, Binding]]] = OrderedDict()
        """By sender; the first registration of the first one is next."""
        self._ended = False

    def put(self, submission: Submission, binding: Binding) -> None:
        """Take a registration in. From any thread."""
        with self.condition:
            if not self._ended:
                self._works.setdefault(submission.sender, deque()).append((submission, binding))
                self.condition.notify()
                return
        self._bound(submission)

    def has_work(self) -> bool:
        """Whether something is being bound."""
        return bool(self._works)

    def run(self) -> None:
        """Bind until stopped."""
        while self.wait_for_work():
            with ShortTurns():
                self._bind()

    def _bind(self) -> None:
        """Slice after slice, until nothing is left, or the stage is to end."""
        before = self._others()
        while self._works and (self._finishing or not self._stopping):
            submission, binding = self._next()
            if submission.answer.cancelled() or binding.advance(_until(time.perf_counter() + SLICE_SECONDS)):
                self._take_out(submission)
                self._bound(submission)
            if self._others() != before:
                with self.condition:
                    self.condition.wait(REST_SECONDS)
            before = self._others()

    def _next(self) -> tuple[Submission, Binding]:
        """Whose turn it is; it is the last of its sender's next time, and its sender the last of all."""
        with self.condition:
            sender, own = next(iter(self._works.items()))
            work = own[0]
            own.rotate(-1)
            self._works.move_to_end(sender)
            return work

    def _take_out(self, submission: Submission) -> None:
        """One whose turn it was needs no other."""
        with self.condition:
            own = self._works[submission.sender]
            at = next(at for at in reversed(range(len(own))) if own[at][0] is submission)
            del own[at]
            if not own:
                del self._works[submission.sender]

    def wind_up(self) -> None:
        """Give back what is left."""
        with self.condition:
            self._ended = True
            left = [submission for own in self._works.values() for submission, _ in own]
            self._works.clear()
        for submission in left:
            self._bound(submission)


def _until(end: float) -> Callable[[], bool]:
    return lambda: time.perf_counter() < end
