"""The calls that registered queries, by request ID, so that a repeated call gets the same answer.

    request ID ──> digest of the call, its queries, the event                     the latest `kept_requests`
    query ID   ──> request ID                                                    while one of its queries exists

A request ID is dropped with its last query. A later call with it registers new queries. The state depends only on
adopted events, so a replay gives the same state.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from sortedcontainers import SortedDict

from psoup.admission.queries.query_streams import Owners
from psoup.admission.spans import meeting
from psoup.errors import Conflict, FailedPrecondition, InvalidInput
from psoup.events.events import Registered, RegisteredMany
from psoup.events.tags import NO_TAG, Tag
from psoup.invariants import ensure
from psoup.phrases import counted, verb

MAX_REQUEST_ID_BYTES = 256
"""The most bytes of a request ID."""


@dataclass(frozen=True, slots=True)
class RegistrationOutcome:
    """The result of a call: its event `sequence` registered `count` queries with the IDs from `first_id` on."""

    digest: bytes
    first_id: int
    count: int
    sequence: int


@dataclass(slots=True)
class KnownRequests:
    """The request IDs of one tenant, oldest first."""

    _calls: OrderedDict[str, RegistrationOutcome] = field(default_factory=OrderedDict)
    _names: SortedDict[int, str] = field(default_factory=SortedDict)
    """The request IDs by the ID of their first query."""

    def items(self) -> Iterator[tuple[str, RegistrationOutcome]]:
        """Yield request IDs and the results of their calls, oldest first."""
        yield from self._calls.items()

    def knows(self, request_id: str) -> bool:
        """Whether a call with this ID registered queries, and one of them still exists. Any thread may call this."""
        return request_id in self._calls

    def earlier(self, request_id: str, same: Callable[[bytes], bool], owners: Owners) -> RegistrationOutcome | None:
        """The result of an earlier call with this ID, if all its queries exist. None if there was no such call.

        Raises Conflict if its content was different (`same` compares digests). Raises FailedPrecondition if only some
        of its queries exist. Then neither the old IDs nor new queries would be what the caller wants.
        """
        check_request_id(request_id)
        call = self._calls.get(request_id) if request_id else None
        if call is None:
            return None
        if not same(call.digest):
            holder = "another query" if call.count == 1 else f"{counted(call.count, 'query')} of another call"
            raise Conflict(
                f"request ID {request_id!r} was used to register {holder}; use a new request ID for a new query",
                reason="REQUEST_ID_REUSED",
                request_id=request_id,
                query_id=call.first_id,
                queries=call.count,
            )
        gone = call.count - owners.standing(call.first_id, call.count)
        if gone:
            raise FailedPrecondition(
                f"request ID {request_id!r} registered {counted(call.count, 'query')}, and {gone:,} of them"
                f" {verb(gone, 'is', 'are')} unregistered by now; use a new request ID to register all of them"
                " again, or go on with those that are left",
                reason="QUERIES_GONE",
                request_id=request_id,
                queries=call.count,
                gone=gone,
            )
        return call

    def remember(self, event: Registered | RegisteredMany, limit: int) -> None:
        """Keep the result of a registration. Drop the oldest results if there are more than `limit`."""
        if not event.request_id:
            return
        if isinstance(event, Registered):
            call = RegistrationOutcome(
                call_digest(event.query.text, event.tag, event.expires), event.query_id, 1, event.sequence
            )
        else:
            call = RegistrationOutcome(event.digest, event.first_id, len(event.queries), event.sequence)
        self._forget(event.request_id)
        self._calls[event.request_id] = call
        self._names[call.first_id] = event.request_id
        while len(self._calls) > limit:
            self._forget(next(iter(self._calls)))

    def unregistered(self, query_ids: Sequence[int], owners: Owners) -> None:
        """Record that queries (ascending) were removed from `owners`. Drops request IDs that have no query left.

        O(log n) for each of their calls.
        """
        for first_id, request_id, _ in meeting(query_ids, self._names, self._count_of):
            if not owners.stands_any(first_id, self._calls[request_id].count):
                self._forget(request_id)

    def _count_of(self, request_id: str) -> int:
        return self._calls[request_id].count

    def _forget(self, request_id: str) -> None:
        call = self._calls.pop(request_id, None)
        if call is not None:
            del self._names[call.first_id]

    def check(self, owners: Owners) -> None:
        """Check that each request ID has an existing query, and that both maps agree."""
        named = {call.first_id: name for name, call in self._calls.items()}
        ensure(named == dict(self._names), self, "both maps differ", first_ids=[*named], named=[*self._names])
        for call in self._calls.values():
            stands = owners.stands_any(call.first_id, call.count)
            ensure(stands, self, "all queries of a request are gone", first_id=call.first_id, count=call.count)


def check_request_id(request_id: str) -> None:
    """Raise InvalidInput for a request ID that is too long."""
    if len(request_id.encode("utf-8", "surrogatepass")) > MAX_REQUEST_ID_BYTES:
        raise InvalidInput(f"the request ID is longer than {MAX_REQUEST_ID_BYTES} bytes; take a shorter one")


def is_call(text: str, tag: Tag, expires: int, digest: bytes) -> bool:
    """Whether `digest` belongs to a call with this text, key and labels, and lifetime in days."""
    return digest == call_digest(text, tag, expires)


def call_digest(text: str, tag: Tag = NO_TAG, expires: int = 0) -> bytes:
    """The digest of the content of a call, 16 bytes. It is kept instead of the text, which may have 64 KiB."""
    more = [] if tag is NO_TAG else [tag.key, *(part for label in tag.labels for part in label)]
    whole = "\0".join([text, *more, *([f"expires {expires}"] if expires else [])])
    return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16).digest()
