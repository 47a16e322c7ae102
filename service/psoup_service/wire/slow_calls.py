"""The log of slow calls: one entry for each call that took longer than `slow_call_ms`, with the form of its statement.

    slow call   call=StatementService/Ask protocol=grpc tenant=acme seconds=2.31 rows=12 code=OK
                statement=SELECT avg(x) FROM s WHERE name = ?

An entry never has a value of a statement, because `psoup.sql.statement_form` replaces each by `?`. The duration of a
call with many messages is the time of making them, without the waits for its client. Calls that wait for their client
are left out. After `BURST` entries at once, one entry a second is written. It has the number of slow calls before it
that were not written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from psoup.sql.statement_form import statement_form
from psoup_service.figures.call_notes import CallNotes
from psoup_service.wire.calls import Caller
from psoup_service.wire.status import OK

BURST = 20.0
"""Entries that may be written at once. After them, one a second is written."""

WAITING = frozenset(
    {
        "FollowService/Follow",
        "GroupService/TakeBatch",
        "Health/Watch",
        "IngestService/PushStream",
        "QueryService/WaitForSequence",
        "ServerReflection/ServerReflectionInfo",
        "SyncService/Watch",
    }
)
"""Calls that wait for their client, or for an event that the client names."""

StatementOf = Callable[[str, Any], str]
"""Returns the text of the statement of a tenant's request, or of the query that it names. "": there is none."""

_log = logging.getLogger(__name__)


class SlowCalls:
    """Logs slow calls, for one event loop. `least_s`: the shortest duration of a slow call, in seconds."""

    def __init__(self, least_s: float, statement_of: StatementOf, now: Callable[[], float] = time.monotonic) -> None:
        """`now`: seconds of a clock that never goes back."""
        self.least_s = least_s
        self._statement_of = statement_of
        self._now = now
        self._room, self._since = BURST, now()
        self._unwritten = 0
        self._thread = ThreadPoolExecutor(1, "psoup-slow-calls")

    def close(self) -> None:
        """Write the entries that wait, and end the thread."""
        self._thread.shutdown()

    def ended(self, notes: CallNotes, name: str, caller: Caller, code: str, taken: float) -> None:
        """Log a call that took at least `least_s`. `taken`: its duration in seconds."""
        if name in WAITING or not self._may_write():
            return
        facts: dict[str, Any] = {"call": name, "protocol": caller.protocol, "tenant": caller.principal.tenant}
        facts |= {"seconds": round(taken, 3), "rows": notes.rows, "code": code}
        if notes.stream:
            facts["stream"] = notes.stream
        if self._unwritten:
            facts["unwritten"], self._unwritten = self._unwritten, 0
        self._thread.submit(self._write, facts, notes.request)  # the form of a long text takes some 50 ms

    def _write(self, facts: dict[str, Any], request: Any) -> None:
        try:
            if text := self._statement_of(facts["tenant"], request):
                facts["statement"] = statement_form(text, refused=facts["code"] != OK)
        except Exception:  # such as a query that was unregistered since; the entry must not be lost
            facts["statement"] = "(cannot be read)"
        _log.warning("slow call", extra=facts)

    def _may_write(self) -> bool:
        """Whether the limit allows one more entry."""
        now = self._now()
        self._room, self._since = min(BURST, self._room + now - self._since), now
        if self._room < 1:
            self._unwritten += 1
            return False
        self._room -= 1
        return True
