"""Calls of the SyncService: changes bring copies of answers up to date.

copies ── wants with tokens, 1,000 at most ──> Sync ──> changes of the first k ──> each applied as a whole
                          ^                                     |
                          '── the remaining copies, and incomplete ones ──'
copies ── wants with tokens ──> Watch ──> changes as they come
"""

from __future__ import annotations

from collections.abc import Iterable

from psoup_client.arguments import checking_arguments
from psoup_client.copies.answer_copy import AnswerCopy, AnyCopy, Synced, copy_of_bytes, sync_copies
from psoup_client.copies.watch import MOST_WATCHED, Watching
from psoup_client.errors import InvalidRequest
from psoup_client.query import AnyQuery
from psoup_client.session import Session
from psoup_client.tags import check_key


@checking_arguments
class SyncCalls(Session):
    """Calls about copies of answers."""

    def copy(
        self,
        query: AnyQuery | str | None = None,
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
        name = query.id if isinstance(query, AnyQuery) else query or ""
        return AnswerCopy(self, name, key=key or "", window=window, accept_truncation=accept_truncation)

    def copy_from(self, data: bytes) -> AnswerCopy:
        """Make a copy again of its bytes (`AnswerCopy.to_bytes`): rows and token. Raises InvalidData for others."""
        return copy_of_bytes(self, data)

    def watch(self, copies: Iterable[AnyCopy], *, progress: int = 15, patience: float | None = None) -> Watching:
        """Keep at most a thousand copies up to date: iterating gives (copy, Synced) for each change as it comes.

        After `progress` seconds (1 to 300) without a change, a message with NOW comes nevertheless, and rows that left
        the windows are removed. The watch goes on by itself after a lost connection or a restart. It raises Unavailable
        if the service is away for `patience` seconds; the default is in `RetryOptions`. To end it, leave the loop or
        call `close()`. More copies raise InvalidRequest (TOO_MANY_COPIES).
        """
        watched = list(copies)
        if len(set(watched)) < len(watched):
            raise ValueError("a copy is given twice")
        if not watched:
            raise ValueError("there is no copy to watch; give at least one")
        if len(watched) > MOST_WATCHED:
            raise InvalidRequest(
                f"{len(watched):,} copies are too many for one watch, which takes at most {MOST_WATCHED:,}; open a"
                " watch for each thousand, each in a thread of its own, or call sync, which takes any number",
                reason="TOO_MANY_COPIES",
                facts={"limit": str(MOST_WATCHED), "used": str(len(watched))},
            )
        if not 1 <= progress <= 300:
            raise ValueError(f"progress is {progress}: give 1 to 300 seconds")
        return Watching(self, watched, progress, patience)

    def sync(
        self,
        copies: Iterable[AnyCopy],
        *,
        max_bytes: int | None = None,
        wait_for: int | None = None,
        timeout: float | None = None,
    ) -> list[Synced]:
        """Bring many copies up to date, a thousand in a call. Only changes are transferred.

        Returns the outcome of each copy, in order. If a query fails, its outcome has an `error`, and the copy stays as
        it was. `max_bytes`: stop after this many bytes. Copies come in order; copies that are not `complete` go on with
        the next sync. The copies of one reply belong to one snapshot.
        """
        return sync_copies(self, list(copies), max_bytes, wait_for, timeout)
