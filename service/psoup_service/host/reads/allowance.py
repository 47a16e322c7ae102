"""Limits of one read, and of all reads together.

ReadLimits.budget(tenant) ──> ReadBudget    one for each read; settings are read once, where the service is composed
"""

from __future__ import annotations

from psoup.model import DEFAULT_TENANT
from psoup.work.read_budget import NO_LIMIT, ReadBudget
from psoup_service.host.reads.archive_speed import ArchiveSpeed
from psoup_service.host.shared_bytes import SharedBytes
from psoup_service.host.turns.fair_turns import ONE_TENANT, Weights


class ReadLimits:
    """The limits of reads. `cpu_s`: the most processor seconds of one read. `sort_bytes`: the most bytes of its sorts.

    `all_sort_bytes`: the most bytes of the sorts of all reads. Half of them are reserved, and divided among the tenants
    by `weights`. `archive_s`: the most seconds of one read for tuples on disk that its query has not met yet.
    """

    def __init__(
        self,
        *,
        cpu_s: float = 60.0,
        sort_bytes: int = NO_LIMIT,
        all_sort_bytes: int = NO_LIMIT,
        archive_s: float = 10.0,
        weights: Weights = ONE_TENANT,
    ) -> None:
        self.cpu_s = cpu_s
        self.sort_bytes = sort_bytes
        self.sorts = SharedBytes(all_sort_bytes, weights)
        self.archive = ArchiveSpeed(archive_s)

    def budget(self, tenant: str = DEFAULT_TENANT) -> ReadBudget:
        """The budget of a new read."""
        sorts, speed = self.sorts.of(tenant), self.archive.of(tenant)
        return ReadBudget(sort_bytes=self.sort_bytes, shared=sorts, archive=speed, cpu_s=self.cpu_s)
