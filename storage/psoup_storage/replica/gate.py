"""The most seconds that a copy may be behind: with more, nothing is acknowledged until it has caught up.

    lag  0 s ─────────── 60 s ──────────── the storage is back ─── 0 s
         acknowledged     │ refused, COPY_BEHIND │ acknowledged

So the loss of the machine loses no more than the events of that time.
"""

from __future__ import annotations

from psoup.errors import Unavailable
from psoup.phrases import counted
from psoup_storage.contract import CopyGate
from psoup_storage.replica.uploader import Uploader

COPY_BEHIND = "COPY_BEHIND"
"""The reason of a refusal while the copy is too far behind. The call may be repeated."""
_RETRY_MS = 1_000


class ReplicaGate(CopyGate):
    """The gate of one copy. `most_s`: seconds; infinite without a limit."""

    def __init__(self, uploader: Uploader, most_s: float) -> None:
        self._uploader = uploader
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
