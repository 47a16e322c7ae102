"""Limits of new clauses' work on the writer's thread before other events go on, by counts: a replay decides the same.

    one event     begin() ─> allows(work) of one stream after the other: together at most `most`
    one chunk     a stream adds up what was allowed while its chunk was open: at most `SEVERAL` times that

Work is that of `psoup.matching.old_work`: clauses over the tuples of open chunks. One that may not be done for a chunk
has it closed.
"""

from __future__ import annotations

SEVERAL = 8
"""Times what one event may take, that events one after the other may take over one chunk. Where queries come and go all
the time, chunks stay long."""


class Allowance:
    """The work of one event over the open chunks of all streams. The writer's."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._left = most

    def begin(self) -> None:
        """Begin with the next event."""
        self._left = self.most

    def allows(self, work: int) -> bool:
        """Whether so much more may be done; if so it is counted."""
        if work > self._left:
            return False
        self._left -= work
        return True
