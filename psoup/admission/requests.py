"""Registrations by the request IDs of their callers, so that a repeated call gets the same answer.

    request ID ──> digest of what was asked for, its queries, the event          the latest `kept_requests`
    query ID   ──> request ID                                                    while one of its queries stands

A request ID is forgotten with its last query: a call with it then registers anew, and is not given queries that are
gone. The state depends only on the adopted events, so a replay ends with the same.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from sortedcontainers import SortedDict

from psoup.admission.query_streams import Owners
from psoup.admission.spans import meeting
from psoup.errors import Conflict, FailedPrecondition, InvalidInput
from psoup.events.events import Registered, RegisteredMany
from psoup.events.tags import NO_TAG, Tag
from psoup.invariants import ensure
from psoup.wording import counted, verb

MAX_REQUEST_ID_BYTES = 256


@dataclass(frozen=True, slots=True)
class Asked:
    """The outcome of a call: `count` queries with the IDs from `first_id` on, by the event `sequence`."""

    digest: bytes
    first_id: int
    count: int
    sequence: int


@dataclass(slots=True)
class KnownRequests:
    """The request IDs of one tenant, oldest first."""

    _asked: OrderedDict[str, Asked] = field(default_factory=OrderedDict)
    _names: SortedDict[int, str] = field(default_factory=SortedDict)
    """The request IDs by the first of their queries."""

    def items(self) -> Iterator[tuple[str, Asked]]:
        """Request IDs and what they registered, oldest first."""
        yield from self._asked.items()

    def knows(self, request_id: str) -> bool:
        """Whether a call with this ID registered queries that still stand; from any thread."""
        return request_id in self._asked

    def earlier(self, request_id: str, same: Callable[[bytes], bool], owners: Owners) -> Asked | None:
        """The outcome of an earlier call with this ID, all of which stands; None if there was none, or it is gone.

        Raises Conflict if it asked for something else (`same` is asked about its digest), FailedPrecondition if some of
        its queries are gone and others stand: neither the old IDs nor new queries would be what the caller wants.
        """
        check_request_id(request_id)
        asked = self._asked.get(request_id) if request_id else None
        if asked is None:
            return None
        if not same(asked.digest):
            what = "another query" if asked.count == 1 else f"{counted(asked.count, 'query')} of another call"
            raise Conflict(
                f"request ID {request_id!r} was used to register {what}; use a new request ID for a new query",
                reason="REQUEST_ID_REUSED",
                request_id=request_id,
                query_id=asked.first_id,
                queries=asked.count,
            )
        gone = asked.count - owners.standing(asked.first_id, asked.count)
        if gone:
            raise FailedPrecondition(
                f"request ID {request_id!r} registered {counted(asked.count, 'query')}, and {gone:,} of them"
                f" {verb(gone, 'is', 'are')} unregistered by now; use a new request ID to register all of them"
                " again, or go on with those that are left",
                reason="QUERIES_GONE",
                request_id=request_id,
                queries=asked.count,
                gone=gone,
            )
        return asked

    def remember(self, event: Registered | RegisteredMany, limit: int) -> None:
        """Keep the outcome of a registration, and forget the oldest beyond `limit`."""
        if not event.request_id:
            return
        if isinstance(event, Registered):
            asked = Asked(call_digest(event.query.text, event.tag, event.expires), event.query_id, 1, event.sequence)
        else:
            asked = Asked(event.digest, event.first_id, len(event.queries), event.sequence)
        self._forget(event.request_id)
        self._asked[event.request_id] = asked
        self._names[asked.first_id] = event.request_id
        while len(self._asked) > limit:
            self._forget(next(iter(self._asked)))

    def unregistered(self, query_ids: Sequence[int], owners: Owners) -> None:
        """Note that queries (ascending) are gone from `owners`: with the last of its call, an ID is forgotten.

        O(log n) for each call.
        """
        for first_id, request_id, _ in meeting(query_ids, self._names, self._count_of):
            if not owners.stands_any(first_id, self._asked[request_id].count):
                self._forget(request_id)

    def _count_of(self, request_id: str) -> int:
        return self._asked[request_id].count

    def _forget(self, request_id: str) -> None:
        asked = self._asked.pop(request_id, None)
        if asked is not None:
            del self._names[asked.first_id]

    def check(self, owners: Owners) -> None:
        """Check that each request ID has a query that stands, and that both maps agree."""
        named = {asked.first_id: name for name, asked in self._asked.items()}
        ensure(named == dict(self._names), self, "both maps differ", first_ids=[*named], named=[*self._names])
        for asked in self._asked.values():
            stands = owners.stands_any(asked.first_id, asked.count)
            ensure(stands, self, "all queries of a request are gone", first_id=asked.first_id, count=asked.count)


def check_request_id(request_id: str) -> None:
    """Raise InvalidInput for a request ID that is too long."""
    if len(request_id.encode("utf-8", "surrogatepass")) > MAX_REQUEST_ID_BYTES:
        raise InvalidInput(f"the request ID is longer than {MAX_REQUEST_ID_BYTES} bytes; take a shorter one")


def is_call(text: str, tag: Tag, expires: int, digest: bytes) -> bool:
    """Whether a `digest` is that of a call with this text, this key and labels, and these days to live."""
    return digest == call_digest(text, tag, expires)


def call_digest(text: str, tag: Tag = NO_TAG, expires: int = 0) -> bytes:
    """16 bytes that identify what is asked for: 65,536 texts of 64 KiB would be 4 GiB."""
    more = [] if tag is NO_TAG else [tag.key, *(part for label in tag.labels for part in label)]
    whole = "\0".join([text, *more, *([f"expires {expires}"] if expires else [])])
    return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16).digest()
