"""What a tenant uses of each quota, gathered from those who have it.

admission   queries, their bytes, producers          meters   calls, rates, processor time
snapshot    streams, tuples in memory and on disk    wire     requests that come in, batches in parts, pinned bytes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from psoup.admission.quotas import Judge
from psoup.published.snapshot import Snapshot, StreamView
from psoup_service.gate.meters import Meters
from psoup_service.host.host import Host


def tell_usage(meters: Meters, host: Host[Snapshot], judge: Judge, receiving: Callable[[str], int]) -> None:
    """Make meters tell what is used of the quotas that they do not judge. `receiving`: bytes of requests."""

    def views(tenant: str) -> Iterator[StreamView]:
        return (view for view in host.snapshot().streams.values() if view.tenant == tenant)

    meters.sources |= {
        "streams": lambda tenant: sum(1 for _ in views(tenant)),
        "tuple_bytes": lambda tenant: sum(view.nbytes for view in views(tenant)),
        "archive_bytes": lambda tenant: sum(view.archived_bytes for view in views(tenant)),
        "queries": judge.queries,
        "query_bytes": judge.query_bytes,
        "producers": judge.producers,
        "receive_bytes": receiving,
        "pinned_bytes": host.pins.held_by,
    }
