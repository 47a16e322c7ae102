"""The quotas of tenants that admission checks: it refuses an event that would exceed one.

    counted at each event           streams, queries, their bytes, producers
    read from published state       bytes of tuples in memory and on disk, plus bytes accepted since
    both                            bytes of tuples in memory, with producers' last batches

Only events that add something are checked, after all other checks. An alteration that puts queries into the index adds
to their bytes; it is checked also in a dry run. A smaller quota removes nothing. Without a quota an
event costs a few comparisons. Admission keeps the last sum of published bytes, and adds all bytes accepted since. If
this bound exceeds the quota, it computes the sum again, in O(streams of the tenant).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from psoup.admission.budget import charge_of
from psoup.admission.catalog import KnownStream, KnownTenant, QuotaUse
from psoup.admission.shared_room import SharedRoom
from psoup.admission.tenants import KnownTenants
from psoup.events.change import replacements
from psoup.events.events import Attached, Event, Pushed, Registered, RegisteredMany, StreamCreated
from psoup.events.tenants import Tenant, over_quota
from psoup.published.snapshot import Snapshot, StreamView

LOOK = 64
"""The number of events between two counts of bytes on disk. Tuples get there long after they were accepted."""

_LESS = "drop streams, or lessen a RETENTION"
_LESS_OF_TABLES = "drop tables or streams, or lessen a HISTORY or RETENTION"


class Judge:
    """Checks events against the quotas of their tenants, before admission adopts them. Only the sequencer uses it.

    `quotas_of_tenants`: the tenants with their quotas. `tenants`, `streams`: their states, by name and by ID.
    `remembered`: the bytes of producers' last batches for each tenant.
    """

    def __init__(
        self,
        quotas_of_tenants: KnownTenants,
        tenants: Mapping[str, KnownTenant],
        streams: Mapping[int, KnownStream],
        remembered: SharedRoom,
    ) -> None:
        self._known = quotas_of_tenants
        self._tenants = tenants
        self._streams = streams
        self._remembered = remembered
        self._published: Callable[[], Snapshot] | None = None

    def share(self, published: Callable[[], Snapshot]) -> None:
        """Read bytes of tuples from the snapshots that `published` returns. Before that, they are not checked."""
        self._published = published

    def queries(self, tenant: str) -> int:
        """The number of a tenant's registered queries. Any thread may call this and the next three methods."""
        return self._of(tenant).use.queries

    def query_bytes(self, tenant: str) -> int:
        """Bytes charged for a tenant's queries."""
        return self._of(tenant).use.query_bytes

    def producers(self, tenant: str) -> int:
        """The number of a tenant's remembered producers."""
        return self._of(tenant).use.producers

    def producer_bytes(self, tenant: str) -> int:
        """Bytes of the remembered batches of a tenant's producers. They count as bytes of tuples."""
        return self._remembered.of(tenant)

    def check(self, event: Event) -> None:
        """Raise ResourceExhausted with the reason QUOTA if an event would exceed a quota of its tenant. Changes only
        cached sums."""
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

    def check_entering(self, tenant_name: str, count: int, needed: int) -> None:
        """Raise ResourceExhausted with the reason QUOTA if `count` idle queries of a tenant may not enter the index.

        `needed`: the bytes by which their charges grow.
        """
        tenant, used = self._known.get(tenant_name), self.query_bytes(tenant_name)
        if tenant is not None and used + needed > tenant.quotas.query_bytes > 0:
            cause = f"this call, which keeps more of {count:,} {'query' if count == 1 else 'queries'},"
            way = "leave queries inactive or with the amount NONE, or unregister some"
            raise over_quota(tenant, "query_bytes", used, needed, way, cause=cause)

    def note(self, event: Event) -> None:
        """Record the bytes of an accepted push, if its tenant has a quota of tuple bytes. Amortised O(1)."""
        if not isinstance(event, Pushed) or self._published is None:
            return
        tenant, size = self._known.get(event.tenant), event.charged
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
        stream = self._streams.get(event.stream_id)  # None for the content of a new table
        if quotas.archive_bytes and needed and stream is not None and stream.spec.retention.archive:
            self._check_disk(tenant, event.sequence, 0)

    def _check_tuples(self, tenant: Tenant, event: Pushed) -> None:
        """Raise ResourceExhausted if a push and the tenant's tuples and producers would exceed its quota of bytes."""
        quotas, remembered, needed = tenant.quotas, self._remembered.of(event.tenant), event.charged
        if event.producer and not event.forgotten:  # a forgotten producer frees more bytes than this batch needs
            needed += self._streams[event.stream_id].producers.needed(event)
        if not needed:
            return
        use = self._of(event.tenant).use
        if use.judged is not quotas or use.most + remembered + needed > quotas.tuple_bytes:
            self._add_up(event.tenant, use)
            use.judged = quotas
        if use.most + remembered + needed > quotas.tuple_bytes:
            some = f", or send from fewer producers: {remembered:,} are what they sent last" if remembered else ""
            way, batch = self._remedy(event)
            raise over_quota(tenant, "tuple_bytes", use.most + remembered, needed, way + some, cause=batch)

    def _remedy(self, event: Pushed) -> tuple[str, str]:
        """The way to free bytes, and the name of the batch that lacks them."""
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return _LESS_OF_TABLES, "the content of this new table"
        spec = stream.spec
        return _LESS if spec.table is None else _LESS_OF_TABLES, f"this batch to {spec.noun} {spec.name!r}"

    def _add_up(self, tenant: str, use: QuotaUse) -> None:
        use.most = 0
        if self._published is not None:
            snapshot = self._published()
            _forget(use, snapshot.sequence)
            in_memory = sum(view.nbytes for view in self._views(tenant, snapshot))
            use.most = in_memory + sum(size for _, size in use.coming)

    def _check_disk(self, tenant: Tenant, sequence: int, needed: int) -> None:
        """Raise ResourceExhausted if the tenant's bytes on disk plus `needed` bytes exceed its quota."""
        if self._published is None:
            return
        use = self._of(tenant.name).use
        if needed or use.looked is None or sequence >= use.looked + LOOK:
            views = self._views(tenant.name, self._published())
            use.on_disk, use.looked = sum(view.archived_bytes for view in views), sequence
        if use.on_disk + needed > tenant.quotas.archive_bytes:
            raise over_quota(tenant, "archive_bytes", use.on_disk, needed, _LESS)

    def _views(self, tenant: str, snapshot: Snapshot) -> Iterator[StreamView]:
        views = (snapshot.by_id.get(stream.stream_id) for stream in self._of(tenant).streams.values())
        return (view for view in views if view is not None)

    def _of(self, tenant: str) -> KnownTenant:
        return self._tenants.get(tenant) or KnownTenant()


def _forget(use: QuotaUse, sequence: int) -> None:
    """Drop the recorded pushes up to the event `sequence`, as the writer has published them."""
    while use.coming and use.coming[0][0] <= sequence:
        use.coming.popleft()
