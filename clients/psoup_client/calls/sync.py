"""Calls of the SyncService: copies of answers that are kept up to date by what has changed.

copies ── wants with tokens, 1,000 at most ──> Sync ──> changes of the first k ──> each applied as a whole
                          ^                                     |
                          '── those after them, and those that are not complete ──'
"""

from __future__ import annotations

from collections.abc import Iterable

from psoup_client.arguments import checking_arguments
from psoup_client.copies import AnswerCopy, Synced, copy_of_bytes, sync_copies
from psoup_client.query import Query
from psoup_client.session import Session
from psoup_client.tags import check_key


@checking_arguments
class SyncCalls(Session):
    """Calls about copies of answers."""

    def copy(
        self,
        query: Query | str | None = None,
        *,
        key: str | None = None,
        window: str = "",
        accept_truncation: bool = False,
    ) -> AnswerCopy:
        """Make a copy of the answer of a query, named by its ID or its key. It holds nothing before its first `sync`.

        `window` ("BEGIN … END …") and `accept_truncation` are those of `Query.invoke`.
        """
        check_key(key)
        if (query is None) == (key is None):
            raise ValueError("give the query, or its key")
        name = query.id if isinstance(query, Query) else query or ""
        return AnswerCopy(self, name, key=key or "", window=window, accept_truncation=accept_truncation)

    def copy_from(self, data: bytes) -> AnswerCopy:
        """Make a copy again of its bytes (`AnswerCopy.to_bytes`): rows and token. Raises InvalidData for others."""
        return copy_of_bytes(self, data)

    def sync(
        self,
        copies: Iterable[AnswerCopy],
        *,
        max_bytes: int | None = None,
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> list[Synced]:
        """Bring many copies up to date, a thousand in a call: only what has changed comes.

        Returns what became of each, in their order; what is wrong with a query is in its `error`, and its copy stays
        as it was. `max_bytes`: stop once so many have come; copies come in their order, and those that are not
        `complete` go on with the next sync. The copies of one reply are of one snapshot.
        """
        return sync_copies(self, list(copies), max_bytes, wait_for, timeout)
