"""The processor time of a run of events for each tenant, added up until the engine reports it in `Effects`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from psoup.clauses.quarantine import Precautions
from psoup.engine.stream.state import StreamState
from psoup.events.acknowledgements import Effects
from psoup.events.tenants import Tenant
from psoup.work.runner import Runner


class Spent:
    """Each tenant's seconds of work, and the matches of new tuples for tenants with a quota of matches."""

    def __init__(self, timer: Callable[[], float]) -> None:
        self.now = timer
        self._seconds = defaultdict[str, float](float)
        self._matches = defaultdict[str, int](int)

    def begin(self, state: StreamState, tenants: Mapping[str, Tenant]) -> None:
        """Start counting the matches of a stream if its tenant has a quota of matches. Otherwise stop counting."""
        tenant = tenants.get(state.tenant)
        state.count_matches(wanted=tenant is not None and bool(tenant.quotas.matches_per_second))

    def end(self, state: StreamState, began: float) -> float:
        """Add the time since `began` and the counted matches to the stream's tenant. Returns the present time."""
        ended = self.now()
        self._seconds[state.tenant] += ended - began
        if state.matches:
            self._matches[state.tenant] += state.matches
        return ended

    def cover_new(self, states: Iterable[StreamState], run: Runner, precautions: Precautions) -> None:
        """Evaluate new clauses over the open chunks of some streams, and add the time to the streams' tenants."""
        for state in states:
            began = self.now()
            state.cover_new(run, precautions)
            self._seconds[state.tenant] += self.now() - began

    def put_back(self, effects: Effects) -> None:
        """Add the values of `effects`, which `taken` has returned for a part of the run."""
        for tenant, seconds in effects.spent.items():
            self._seconds[tenant] += seconds
        for tenant, count in effects.matches.items():
            self._matches[tenant] += count

    def taken(self, effects: Effects) -> Effects:
        """Return a copy of `effects` with the added values, and reset these to 0."""
        with_costs = replace(effects, spent=dict(self._seconds), matches=dict(self._matches))
        self._seconds.clear()
        self._matches.clear()
        return with_costs
