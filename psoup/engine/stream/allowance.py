"""Limits on the writer's work for new clauses. The work is counted, not timed, so a replay makes the same decisions.

    one event     begin() ─> allows(work) of one stream after the other: the sum is at most `most`
    one chunk     a stream adds up its work while the chunk is open: the sum is at most `SEVERAL` times `most`

The work is the evaluation of new clauses over the tuples of open chunks; `psoup.matching.old_work` counts it. If it is
not allowed, the stream closes its open chunk instead.
"""

from __future__ import annotations

SEVERAL = 8
"""The events of one open chunk may use this multiple of one event's limit. It keeps chunks long while queries come and
go."""


class Allowance:
    """The work for new clauses that one event may still cause, over the open chunks of all streams."""

    def __init__(self, limit: int) -> None:
        self.most = limit
        self._left = limit

    def begin(self) -> None:
        """Begin the next event, which may cause work of `most` again."""
        self._left = self.most

    def allows(self, work: int) -> bool:
        """Whether the event may cause this work, too. If so, it is subtracted from what is left."""
        if work > self._left:
            return False
        self._left -= work
        return True
