"""The directory of a snapshot: its streams and queries. A catalogue compares two of them to find what has changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from weakref import ref

from psoup.model import SECOND, StreamSpec
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget
from psoup_service.host.host import Host

Work = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function on a thread, and returns its result."""


class Directory:
    """The streams and queries of a snapshot. Two are equal if no stream and no query differs."""

    __slots__ = ("_specs", "queries")

    def __init__(self, snapshot: Snapshot) -> None:
        self.queries = snapshot.queries
        self._specs = {view.stream_id: (view.tenant, view.spec) for view in snapshot.by_id.values()}

    def specs_of(self, tenant: str) -> dict[int, StreamSpec]:
        """The streams of a tenant, by their IDs."""
        return {stream_id: spec for stream_id, (owner, spec) in self._specs.items() if owner == tenant}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Directory)
            and self.queries is other.queries
            and self._specs.keys() == other._specs.keys()
            and all(spec is other._specs[stream_id][1] for stream_id, (_, spec) in self._specs.items())
        )

    __hash__ = None  # type: ignore[assignment]


class CatalogueSource:
    """The parts of a service that catalogues read."""

    def __init__(self, host: Host[Snapshot]) -> None:
        self._host = host
        self._latest: Callable[[], Snapshot | None] = lambda: None
        self._directory: Directory | None = None

    async def directory(self, work: Work) -> Directory:
        """The streams and queries of the published snapshot: the same object as before if it is the same snapshot.

        O(streams) for a new snapshot, by `work`, which runs a function on a thread. Raises Unavailable during the
        replay.
        """
        snapshot = self._host.snapshot()
        if self._latest() is snapshot and self._directory is not None:
            return self._directory
        directory: Directory = await work(lambda: Directory(snapshot))
        self._latest, self._directory = ref(snapshot), directory  # a reference would keep the rows of an old snapshot
        return directory

    def now(self) -> int:
        """The present time of the service's clock, in microseconds."""
        return self._host.clock.now()

    def moment(self) -> str:
        """The present time in UTC, as ISO 8601."""
        return datetime.fromtimestamp(self.now() / SECOND, UTC).isoformat()

    def budget(self, tenant: str) -> ReadBudget:
        """A new account of a tenant's reads, which the caller closes."""
        return self._host.budget(tenant)
