"""The gate of a copy: whether events may be acknowledged.

`local`: they may, until the copy has been behind for too long. Then nothing is acknowledged until it has caught up.

    lag  0 s ─────────── 60 s ──────────── the storage is back ─── 0 s
         acknowledged     │ refused, COPY_BEHIND │ acknowledged

So the loss of the machine loses no more than the events of that time.

`remote`: an event is acknowledged, applied and shown once a restore from the copy reaches it. So are events that a
start replays. The loss of the machine, or a takeover, loses none of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from psoup.errors import FailedPrecondition, Unavailable
from psoup.phrases import counted
from psoup_storage.contract import CopyGate
from psoup_storage.replica.uploader import Uploader

COPY_BEHIND = "COPY_BEHIND"
"""The reason of a refusal while the copy is too far behind. The call may be repeated."""
_RETRY_MS = 1_000
_LOOK_S = 0.25
"""Seconds between two looks whether a start was given up."""


class ReplicaGate(CopyGate):
    """The gate of one copy. `most_s`: seconds; infinite without a limit. `remote`: see the module."""

    def __init__(self, uploader: Uploader, most_s: float = math.inf, *, remote: bool = False) -> None:
        self._uploader = uploader
        self._remote = remote
        self.most_s = most_s

    def reason(self) -> str:
        """See `CopyGate`. Names the way out."""
        uploader = self._uploader
        (events, seconds), place = uploader.lag(), uploader.target.place
        if seconds <= self.most_s:
            return ""
        why = uploader.failure or uploader.trouble or "it has not caught up"
        ways = "set replicate_lag_most to off, and start the service again"
        ways = (
            f"name an empty prefix, or {ways}" if uploader.failure else f"it goes on once the copy has them, or {ways}"
        )
        return (
            f"nothing is acknowledged, because the copy at {place} has lacked {counted(events, 'event')}"
            f" for {seconds:,.0f} s, and replicate_lag_most allows {self.most_s:g} s ({why}): {ways}"
        )

    def check(self) -> None:
        """See `CopyGate`. The reason is COPY_BEHIND."""
        why = self.reason()
        if why:
            raise Unavailable(why, reason=COPY_BEHIND, retry_after_ms=_RETRY_MS)

    def begin(self, check: Callable[[], None]) -> None:
        """See `CopyGate`. With `remote`, starts the uploader; raises FailedPrecondition if it stops."""
        if not self._remote:
            return
        self._uploader.start()
        while not self._uploader.reached(self._uploader.last_event(), _LOOK_S):
            check()
            if self._uploader.failure:
                raise FailedPrecondition(self._uploader.failure, reason="COPY_STOPPED")

    def passed(self, sequence: int, seconds: float) -> bool:
        """See `CopyGate`."""
        return not self._remote or self._uploader.reached(sequence, seconds)

    def acknowledged(self, sequence: int) -> int:
        """See `CopyGate`."""
        return min(sequence, self._uploader.reach) if self._remote else sequence
