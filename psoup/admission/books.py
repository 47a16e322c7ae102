"""The whole state of admission, as values that can be compared, and the invariants between its parts.

This module neither decides nor changes state. Tests use it, and the service with `PSOUP_VERIFY`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from psoup.admission.budget import MemoryBudget, stream_charge
from psoup.admission.catalog import KnownStream, KnownTenant
from psoup.admission.lists import KnownLists
from psoup.admission.queries.known_keepings import KnownKeepings
from psoup.admission.queries.query_streams import Owners
from psoup.admission.queries.tags import KnownTags
from psoup.invariants import ensure
from psoup.plan.sides import query_of


@dataclass(frozen=True, slots=True)
class Books:
    """The parts of admission's state, which admission shares and changes."""

    budget: MemoryBudget
    streams: Mapping[int, KnownStream]
    tenants: Mapping[str, KnownTenant]
    queries: Owners
    keepings: KnownKeepings
    tags: KnownTags
    lists: KnownLists

    def state(self, sequence: int, following: tuple[int, int]) -> dict[str, object]:
        """The state as plain values that can be compared. `following`: the next stream ID and the next query ID."""
        budget, tenants = self.budget, self.tenants.items()
        return {
            "sequence": sequence,
            "next": following,
            "reserved": (budget.tuples, budget.queries),
            "shared": (dict(budget.streams.held), dict(budget.producers.held)),
            "queries": dict(self.queries.items()),
            "keepings": dict(self.keepings.items()),
            "tags": list(self.tags.items()),
            "tokens": dict(self.lists.tokens),
            "tenants": dict(self.lists.tenants),
            "groups": dict(self.lists.groups),
            "webhooks": dict(self.lists.webhooks),
            "use": {name: (t.use.queries, t.use.query_bytes, t.use.producers) for name, t in tenants},
            "replaced": {name: list(tenant.replaced.items()) for name, tenant in tenants},
            "removals": {name: list(tenant.removals.items()) for name, tenant in tenants},
            "requests": {name: list(tenant.requests.items()) for name, tenant in tenants},
            "streams": {
                stream.stream_id: (
                    stream.tenant,
                    stream.spec,
                    stream.sql,
                    stream.watermark,
                    self.queries.count(stream.stream_id),
                    stream.producers.state(),
                    stream.past.state(),
                    stream.live,
                )
                for stream in self.streams.values()
            },
        }

    def check(self, owner: object, next_stream: int, next_query: int) -> None:
        """Raise Corrupt, naming `owner`, if an invariant does not hold. O(streams + queries + producers)."""
        budget, streams = self.budget, self.streams
        ensure(budget.tuples >= 0 <= budget.queries, owner, "more bytes given back than taken", tuples=budget.tuples)
        charges = _by_tenant(streams.values(), lambda stream: stream.producers.nbytes)
        ensure(budget.producers.held == charges, owner, "producers are charged otherwise than they are", held=charges)
        ensure(budget.producers.counted(), owner, "what producers are charged is added up wrongly", held=charges)
        charges = _by_tenant(streams.values(), lambda stream: stream_charge(stream.spec))
        ensure(budget.streams.held == charges, owner, "streams are charged otherwise than they are", held=charges)
        ensure(budget.streams.counted(), owner, "what streams are charged is added up wrongly", held=charges)
        named = {s.stream_id: s for tenant in self.tenants.values() for s in tenant.streams.values()}
        ensure(named == streams, owner, "streams by name and by ID differ", named=[*named], ids=[*streams])
        again = [i for i in streams if not 0 < i < next_stream]
        ensure(not again, owner, "a stream ID could be used again", ids=again, next=next_stream)
        self.queries.check()
        users = dict(self.queries.items())
        again = [i for i in map(query_of, users) if not 0 < i < next_query]
        ensure(not again, owner, "a query ID could be used again", ids=again, next=next_query)
        gone = set(users.values()) - streams.keys()
        ensure(not gone, owner, "a query is on a stream that is gone", streams=gone)
        strangers = [i for i, _ in self.keepings.items() if self.queries.get(i) is None]
        ensure(not strangers, owner, "the keeping of a query is known that is gone", queries=strangers)
        self._check_use(owner)
        self._check_lists(owner)
        for stream in streams.values():
            stream.producers.check()
        self.tags.check(self.queries)
        for tenant in self.tenants.values():
            tenant.requests.check(self.queries)
            tenant.replaced.check()

    def _check_lists(self, owner: object) -> None:
        """Raise Corrupt if an entry of a list stands under another key, or follows a stream that is gone."""
        lists = self.lists
        strange = [i for i, token in lists.tokens.items() if token.token_id != i]
        ensure(not strange, owner, "a token stands under the ID of another", tokens=strange)
        strange = [name for name, tenant in lists.tenants.items() if tenant.name != name]
        ensure(not strange, owner, "a tenant stands under the name of another", tenants=strange)
        moved = [key for key, group in lists.groups.items() if key != (group.stream_id, group.name)]
        ensure(not moved, owner, "a group stands under the key of another", groups=moved)
        gone = {stream_id for stream_id, _ in lists.groups} - self.streams.keys()
        ensure(not gone, owner, "a group follows a stream that is gone", streams=gone)
        strays = [i for i, webhook in lists.webhooks.items() if webhook.webhook_id != i]
        ensure(not strays, owner, "a webhook stands under the ID of another", webhooks=strays)

    def _check_use(self, owner: object) -> None:
        """Raise Corrupt if a tenant's counters differ from its queries and producers."""
        queries: dict[str, set[int]] = {name: set() for name in self.tenants}
        for query_id, stream_id in self.queries.items():
            queries[self.streams[stream_id].tenant].add(query_of(query_id))
        for name, tenant in self.tenants.items():
            use, producers = tenant.use, sum(len(stream.producers) for stream in tenant.streams.values())
            registered = len(queries[name])
            ensure(
                use.queries == registered, owner, "queries of a tenant are miscounted", tenant=name, found=registered
            )
            ensure(use.producers == producers, owner, "producers of a tenant are miscounted", tenant=name)
        charged = sum(tenant.use.query_bytes for tenant in self.tenants.values())
        ensure(charged == self.budget.queries, owner, "queries are charged to no tenant", charged=charged)


def _by_tenant(streams: Iterable[KnownStream], size: Callable[[KnownStream], int]) -> dict[str, int]:
    """The sizes of streams, added up by tenant. Tenants with a sum of 0 are left out."""
    sizes = Counter[str]()
    for stream in streams:
        sizes[stream.tenant] += size(stream)
    return dict(+sizes)
