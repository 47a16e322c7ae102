"""Reads under way: a limit of all, and some more for a tenant that has few."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from psoup.errors import ResourceExhausted
from psoup.events.tenants import Quotas, Tenant
from psoup_service.host.reads.reads_under_way import ReadsUnderWay
from psoup_service.host.turns.fair_turns import Weights


def test_who_has_few_may_read_where_others_have_taken_all() -> None:
    tenants = {name: Tenant(name, Quotas(weight=weight)) for name, weight in (("loud", 1.0), ("quiet", 3.0))}
    reads = ReadsUnderWay(8, Weights(lambda: tenants))
    with ExitStack() as held:
        for _ in range(8):
            held.enter_context(reads.of("loud"))
        with pytest.raises(ResourceExhausted, match="8 reads are under way"), reads.of("loud"):
            pass
        for _ in range(3):
            held.enter_context(reads.of("quiet"))
        with pytest.raises(ResourceExhausted) as caught, reads.of("quiet"):
            pass
        assert (caught.value.reason, "retry_after_ms" in caught.value.facts) == ("BUSY", True)
        assert reads.count == 11
    assert (reads.count, reads._tenants) == (0, {})


def test_a_single_tenant_has_the_limit() -> None:
    reads = ReadsUnderWay(2)
    with reads.of("default"), reads.of("default"):
        with pytest.raises(ResourceExhausted), reads.of("default"):
            pass
        assert reads.count == 2
    with reads.of("default"):
        assert reads.count == 1
