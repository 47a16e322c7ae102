"""The IDs that are given next. After each promotion of a standby they come from a range of their own.

    promotion      streams             queries             webhooks
    0              1, 2, …             1, 2, …             the sequence of the event
    1              2**20, …            2**32, …            2**40 + the sequence, …
    2              2 * 2**20, …        2 * 2**32, …        2 * 2**40 + the sequence, …

The older writer may have given IDs that the copy lacks. They stay unknown, and never name anything else. That holds
while one writer gives fewer IDs than a range has. IDs of streams stay below 2**31, and IDs of queries below 2**40.
Restored data keeps its IDs. So its first promotion has the number after the range that the data has reached.
"""

from __future__ import annotations

from psoup.events.webhooks import WEBHOOK_IDS

_STREAMS, _QUERIES = 2**20, 2**32


class NextIds:
    """The IDs of the next stream, query and webhook."""

    def __init__(self) -> None:
        self.stream = self.query = 1
        self._webhooks = 0

    def begin(self, promotion: int) -> None:
        """Give IDs from the range of a promotion on, which has the number `promotion`, from 1; 0 without one.

        Called after the replay, before the next command.
        """
        self.stream = max(self.stream, promotion * _STREAMS)
        self.query = max(self.query, promotion * _QUERIES)
        self._webhooks = promotion * WEBHOOK_IDS

    @property
    def range(self) -> int:
        """The range from which the next IDs are given. Of the ranges of streams and queries, the later one."""
        return max(self.stream // _STREAMS, self.query // _QUERIES)

    def webhook(self, sequence: int) -> int:
        """The ID of the webhook that the event `sequence` adds."""
        return self._webhooks + sequence

    def note_stream(self, stream_id: int) -> None:
        """Note the ID of a stream."""
        self.stream = max(self.stream, stream_id + 1)

    def note_query(self, query_id: int) -> None:
        """Note the ID of a query."""
        self.query = max(self.query, query_id + 1)
