"""Limits on the work of new clauses on the writer's thread. They are counted, not timed, so a replay decides the same.

    one event     begin() ─> allows(work) of one stream after the other: together at most `most`
    one chunk     a stream adds up what was allowed while its chunk was open: at most `SEVERAL` times that

The work is that of `psoup.matching.old_work`: clauses over the tuples of open chunks. If it is not allowed, the chunk
is closed instead.
"""

from __future__ import annotations

SEVERAL = 8
"""Multiple of one event's limit that several events may use for one chunk. It keeps chunks long while queries come and
go."""


class Allowance:
    """The allowed work of one event over the open chunks of all streams. For the writer."""

    def __init__(self, limit: int) -> None:
        self.most = limit
        self._left = limit

    def begin(self) -> None:
        """Start the next event."""
        self._left = self.most

    def allows(self, work: int) -> bool:
        """Whether `work` more is allowed; if so it is counted."""
        if work > self._left:
            return False
        self._left -= work
        return True
