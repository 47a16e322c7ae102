"""The names and IDs that admission knows: tenants, their streams, queries and request IDs.

    tenant ── name (any case) ── StreamState ── how many queries use it, watermark, producers
       └──── request ID ──────── (digest of the text, query ID, sequence), the latest `kept_requests`

Plain state; the rules that change it are in `admission`.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from psoup.admission.attachment import Past
from psoup.admission.producers import Producers
from psoup.errors import Conflict, InvalidInput, NotFound
from psoup.events import (
    QueriesAcknowledgement,
    QueryAcknowledgement,
    Register,
    Registered,
    RegisteredMany,
    RegisterMany,
)
from psoup.model import StreamSpec
from psoup.sql import Template
from psoup.sql.forms import Forms

MAX_REQUEST_ID_BYTES = 256
_NAMES_COMPARED = 256
"""Names looked at for a suggestion: a tenant with many streams must not make a misspelling dear."""


@dataclass(slots=True)
class StreamState:
    """What the next event of a stream is judged by. `watermark`: see `psoup.events.Pushed`."""

    tenant: str
    stream_id: int
    spec: StreamSpec
    sql: str
    producers: Producers
    watermark: int | None = None
    past: Past = field(default_factory=Past)


@dataclass(slots=True)
class Tenant:
    """The streams of one tenant by folded name, and the registrations it has asked for by request ID."""

    streams: dict[str, StreamState] = field(default_factory=dict)
    requests: OrderedDict[str, tuple[bytes, int, int]] = field(default_factory=OrderedDict)
    templates: dict[str, tuple[Template, StreamSpec]] = field(default_factory=dict)
    """Prepared statements by their text, the least recently used first, and the stream they were prepared for."""
    forms: Forms = field(default_factory=Forms)

    def find(self, name: str) -> StreamState | None:
        """The stream of that name, in any case. O(1)."""
        return self.streams.get(name.lower())

    def stream(self, name: str) -> StreamState:
        """The stream of that name; raises NotFound that names the nearest."""
        state = self.find(name)
        if state is None:
            near = difflib.get_close_matches(name[:256].lower(), [known.lower() for known in self.names()], n=1)
            hint = f"did you mean {self.streams[near[0]].spec.name!r}?" if near else "create it with CREATE STREAM"
            raise NotFound(f"there is no stream {name[:256]!r}; {hint}", reason="UNKNOWN_STREAM", stream=name[:256])
        return state

    def names(self) -> list[str]:
        """The names of some streams, for suggestions."""
        return [state.spec.name for state in itertools.islice(self.streams.values(), _NAMES_COMPARED)]

    def earlier(self, command: Register) -> QueryAcknowledgement | None:
        """The answer to an earlier registration with this request ID, or None; raises Conflict on another text.

        It is the answer even if the query has been unregistered since: a retry must not bring it back.
        """
        known = self._known(command.request_id, lambda before: before == text_digest(command.sql))
        return None if known is None else QueryAcknowledgement(known[1], True, known[0])

    def earlier_many(self, command: RegisterMany, same: Callable[[bytes], bool]) -> QueriesAcknowledgement | None:
        """As `earlier`, of a block; `same` says whether a digest is its own."""
        known = self._known(command.request_id, same)
        return None if known is None else QueriesAcknowledgement(known[1], True, known[0], command.count)

    def _known(self, request_id: str, same: Callable[[bytes], bool]) -> tuple[int, int] | None:
        """(query ID, sequence) of an earlier call."""
        if len(request_id.encode("utf-8", "surrogatepass")) > MAX_REQUEST_ID_BYTES:
            raise InvalidInput(f"the request ID is longer than {MAX_REQUEST_ID_BYTES} bytes; take a shorter one")
        known = self.requests.get(request_id) if request_id else None
        if known is None:
            return None
        before, query_id, sequence = known
        if not same(before):
            raise Conflict(
                f"request ID {request_id!r} was used to register query {query_id} with another text;"
                " use a new request ID for a new query",
                reason="REQUEST_ID_REUSED",
                request_id=request_id,
                query_id=query_id,
            )
        return query_id, sequence

    def remember(self, event: Registered | RegisteredMany, limit: int) -> None:
        """Keep the outcome of a registration, and forget the oldest beyond `limit`."""
        if not event.request_id:
            return
        if isinstance(event, Registered):
            outcome = (text_digest(event.query.text), event.query_id, event.sequence)
        else:
            outcome = (event.digest, event.first_id, event.sequence)
        self.requests[event.request_id] = outcome
        while len(self.requests) > limit:
            self.requests.popitem(last=False)


def text_digest(text: str) -> bytes:
    """16 bytes that identify a statement's text: 65,536 texts of 64 KiB would be 4 GiB."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
