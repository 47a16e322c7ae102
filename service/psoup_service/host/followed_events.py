"""Events of the copy that a standby follows, on their way to the log: another service has decided them.

put ──> FollowedEvents ──> admission and store take each event ──> a group for the committer
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from psoup.admission import Admission
from psoup.errors import PSoupError
from psoup.events.acknowledgements import Acknowledgement
from psoup.events.events import Event
from psoup_service.host.committer import CommitGroup
from psoup_service.host.room import Entered
from psoup_service.host.worker import deliver
from psoup_storage.contract import Store

Answer = asyncio.Future[Acknowledgement]


class FollowedEvents:
    """Events that wait for the sequencer, in order. `condition`: the sequencer sleeps on it."""

    def __init__(self, admission: Admission, store: Store, condition: threading.Condition) -> None:
        self._admission, self._store, self._condition = admission, store, condition
        self._waiting = deque[tuple[Sequence[Event], Answer]]()
        self._error: Callable[[], PSoupError] | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, events: Sequence[Event], answer: Answer) -> None:
        """Queue events. `answer` is set when they are logged. They take no room, so the caller waits for it."""
        with self._condition:
            if self._error is None:
                self._waiting.append((events, answer))
                self._condition.notify()
                return
        deliver([(answer, self._error())])

    def groups(self) -> Iterator[CommitGroup]:
        """The groups of all waiting events. Raises Internal for events that are out of order. On the sequencer."""
        while self._waiting:
            events, answer = self._waiting[0]
            group = CommitGroup()
            for event in events:
                self._admission.replay(event)
                self._store.make_ready(event)
                group.events.append((event, Entered("", 0)))
            group.outcomes.append((answer, Acknowledgement(events[-1].sequence)))
            self._waiting.popleft()
            yield group

    def end(self, error: Callable[[], PSoupError]) -> None:
        """Refuse what waits, and what comes later, with an error that `error` makes."""
        with self._condition:
            self._error = error
            answers = [answer for _, answer in self._waiting]
            self._waiting.clear()
        deliver([(answer, error()) for answer in answers])
