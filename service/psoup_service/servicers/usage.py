"""The use of each of a tenant's quotas, gathered from the parts of the service that count it.

admission   queries, their bytes, producers          meters   calls, rates, processor time
snapshot    streams, tuples in memory and on disk    wire     requests that come in, batches in parts, pinned bytes
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from psoup.admission.quotas import Judge
from psoup.published.snapshot import Snapshot
from psoup_service.gate.meters import Meters
from psoup_service.host.host import Host


def tell_usage(meters: Meters, host: Host[Snapshot], judge: Judge, receiving: Callable[[str], int]) -> None:
    """Give `meters` the sources for quotas that other parts of the service judge.

    `receiving`: the bytes of requests.
    """

    def of_streams(tenants: Collection[str]) -> dict[str, dict[str, float]]:
        none = dict.fromkeys(("streams", "tuple_bytes", "archive_bytes", "kept_bytes"), 0.0)
        usage = {tenant: none | {"tuple_bytes": float(judge.producer_bytes(tenant))} for tenant in tenants}
        for view in host.snapshot().streams.values():
            if (figures := usage.get(view.tenant)) is not None:
                if not figures["streams"]:
                    figures["kept_bytes"] = view.folds.kept_bytes.held(view.tenant)
                figures["streams"] += 1
                figures["tuple_bytes"] += view.nbytes
                figures["archive_bytes"] += view.archived_bytes
        return usage

    meters.together = of_streams
    meters.sources |= {
        "queries": judge.queries,
        "query_bytes": judge.query_bytes,
        "producers": judge.producers,
        "receive_bytes": receiving,
        "pinned_bytes": host.pins.held_by,
    }
