"""The quotas that follow from events: what each tenant has, and the refusal of what would be more than it may have.

    counted at each event           streams, queries, their bytes, producers
    asked of what is published      bytes of tuples in memory and on disk, and what was accepted since
    both                            bytes of tuples in memory, with what is remembered of producers

Only what makes more is judged, after everything else: what is there stays when a quota is lessened. Without a quota an
event pays a look at some numbers. What is published is added up only when the last sum, and all that came since, would
be too much: O(streams of the tenant) then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from psoup.admission.budget import charge_of
from psoup.admission.catalog import KnownStream, KnownTenant, Use
from psoup.admission.shared_room import SharedRoom
from psoup.admission.tenants import KnownTenants
from psoup.events.change import replacements
from psoup.events.events import Attached, Event, Pushed, Registered, RegisteredMany, StreamCreated
from psoup.events.tenants import Tenant, over_quota
from psoup.published.snapshot import Snapshot, StreamView

LOOK = 64
"""Events between two looks at what is on disk: tuples get there long after they were accepted."""

_LESS = "drop streams, or lessen a RETENTION"


class Judge:
    """Judges events that are not adopted yet, by the quotas of their tenants. One thread, admission's.

    `known`: the tenants with their quotas; `tenants`, `streams`: what there is of each, by name and by ID;
    `remembered`: bytes of what their producers sent last.
    """

    def __init__(
        self,
        known: KnownTenants,
        tenants: Mapping[str, KnownTenant],
        streams: Mapping[int, KnownStream],
        remembered: SharedRoom,
    ) -> None:
        self._known, self._tenants, self._streams, self._remembered = known, tenants, streams, remembered
        self._published: Callable[[], Snapshot] | None = None

    def share(self, published: Callable[[], Snapshot]) -> None:
        """Take bytes of tuples from `published`; before, they are not judged."""
        self._published = published

    def queries(self, tenant: str) -> int:
        """Queries that stand. From any thread, as the next ones."""
        return self._of(tenant).use.queries

    def query_bytes(self, tenant: str) -> int:
        """Bytes that they are charged."""
        return self._of(tenant).use.query_bytes

    def producers(self, tenant: str) -> int:
        """Producers that are remembered."""
        return self._of(tenant).use.producers

    def producer_bytes(self, tenant: str) -> int:
        """Bytes of what they sent last, which count as tuples do."""
        return self._remembered.of(tenant)

    def check(self, event: Event) -> None:
        """Raise ResourceExhausted, reason QUOTA, for what is more than the event's tenant may have. Changes nothing
        but sums that are remembered.
        """
        if isinstance(event, Pushed):
            self._check_push(event)
        elif isinstance(event, Registered | RegisteredMany):
            self._check_queries(event)
        elif isinstance(event, StreamCreated):
            tenant, streams = self._known.get(event.tenant), len(self._of(event.tenant).streams)
            if tenant is not None and 0 < tenant.quotas.streams <= streams:
                raise over_quota(tenant, "streams", streams, 1, "drop a stream")
        elif isinstance(event, Attached):
            tenant = self._known.get(event.tenant)
            if tenant is not None and tenant.quotas.archive_bytes:
                self._check_disk(tenant, event.sequence, sum(chunk.source.nbytes for chunk in event.chunks))

    def note(self, event: Event) -> None:
        """Note an event that was accepted. O(1) in the mean."""
        if not isinstance(event, Pushed) or self._published is None:
            return
        tenant, size = self._known.get(event.tenant), event.batch.nbytes
        if tenant is not None and tenant.quotas.tuple_bytes:
            use = self._of(event.tenant).use
            use.most += size
            use.coming.append((event.sequence, size))
            _forget(use, self._published().sequence)

    def _check_queries(self, event: Registered | RegisteredMany) -> None:
        tenant = self._known.get(event.tenant)
        if tenant is None or not (tenant.quotas.queries or tenant.quotas.query_bytes):
            return
        quotas, use = tenant.quotas, self._of(event.tenant).use
        count = 1 if isinstance(event, Registered) else len(event.queries)
        more = count - len(replacements(event).earlier)
        if quotas.queries and more > 0 and use.queries + more > quotas.queries:
            raise over_quota(tenant, "queries", use.queries, more, "unregister queries")
        charge = charge_of(event) if quotas.query_bytes else 0
        if use.query_bytes + charge > quotas.query_bytes > 0:
            raise over_quota(tenant, "query_bytes", use.query_bytes, charge, "unregister queries, or make them smaller")

    def _check_push(self, event: Pushed) -> None:
        tenant = self._known.get(event.tenant)
        if tenant is None:
            return
        quotas, needed = tenant.quotas, event.batch.nbytes
        if quotas.producers and event.producer:
            use, producers = self._of(event.tenant).use, self._streams[event.stream_id].producers
            if use.producers >= quotas.producers and not event.forgotten and event.producer not in producers:
                way = "use a name that is known with a greater epoch, or wait until an idle one is forgotten"
                raise over_quota(tenant, "producers", use.producers, 1, way)
        if quotas.tuple_bytes:
            self._check_tuples(tenant, event)
        if quotas.archive_bytes and needed and self._streams[event.stream_id].spec.retention.archive:
            self._check_disk(tenant, event.sequence, 0)

    def _check_tuples(self, tenant: Tenant, event: Pushed) -> None:
        """Raise ResourceExhausted for more bytes of tuples, with what producers sent last, than the tenant may have."""
        quotas, held, needed = tenant.quotas, self._remembered.of(event.tenant), event.batch.nbytes
        if event.producer and not event.forgotten:  # who makes way for another has more than a batch needs
            needed += self._streams[event.stream_id].producers.needed(event)
        if not needed:
            return
        use = self._of(event.tenant).use
        if use.judged is not quotas or use.most + held + needed > quotas.tuple_bytes:
            self._add_up(event.tenant, use)
            use.judged = quotas
        if use.most + held + needed > quotas.tuple_bytes:
            some = f", or send from fewer producers: {held:,} are what they sent last" if held else ""
            raise over_quota(tenant, "tuple_bytes", use.most + held, needed, _LESS + some)

    def _add_up(self, tenant: str, use: Use) -> None:
        use.most = 0
        if self._published is not None:
            snapshot = self._published()
            _forget(use, snapshot.sequence)
            held = sum(view.nbytes for view in self._views(tenant, snapshot))
            use.most = held + sum(size for _, size in use.coming)

    def _check_disk(self, tenant: Tenant, sequence: int, needed: int) -> None:
        """Raise ResourceExhausted if there is more on disk, with `needed` bytes that are sure to come."""
        if self._published is None:
            return
        use = self._of(tenant.name).use
        if needed or use.looked is None or sequence >= use.looked + LOOK:
            views = self._views(tenant.name, self._published())
            use.on_disk, use.looked = sum(view.archived_bytes for view in views), sequence
        if use.on_disk + needed > tenant.quotas.archive_bytes:
            raise over_quota(tenant, "archive_bytes", use.on_disk, needed, _LESS)

    def _views(self, tenant: str, snapshot: Snapshot) -> Iterator[StreamView]:
        found = (snapshot.by_id.get(stream.stream_id) for stream in self._of(tenant).streams.values())
        return (view for view in found if view is not None)

    def _of(self, tenant: str) -> KnownTenant:
        return self._tenants.get(tenant) or KnownTenant()


def _forget(use: Use, sequence: int) -> None:
    """Forget pushes up to an event, which are published."""
    while use.coming and use.coming[0][0] <= sequence:
        use.coming.popleft()
