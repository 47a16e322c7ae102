"""Metrics by tenant: use, quotas and refusals, in separate rows for a limited number of tenants."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

import grpc
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from psoup.errors import PSoupError, ResourceExhausted
from psoup.events.tenants import FIRST_TENANT, Quotas, Tenant, over_quota
from psoup_proto.v1 import admin_pb2 as admin
from psoup_service.figures.tenant_figures import NAMED, OTHERS, TenantFigures
from psoup_service.gate.roles import OPERATOR
from psoup_testing.services.gated_service import Door, behind
from psoup_testing.services.wire import refused

FULL = grpc.StatusCode.RESOURCE_EXHAUSTED
DOCS = Path(__file__).parents[3] / "docs/operations.md"

Rows = dict[tuple[str, str, str], float]


class Many:
    """Tenants, each of which uses 3 of its `queries`."""

    def __init__(self, *tenants: Tenant) -> None:
        self.there = {tenant.name: tenant for tenant in tenants}

    def tenants(self) -> Mapping[str, Tenant]:
        return self.there

    def used_by(self, names: Collection[str]) -> Mapping[str, Mapping[str, float]]:
        return {name: {"queries": 3, "join_share": 0.25} for name in names}


def rows_of(text: str) -> Rows:
    """Rows by the name of the metric, tenant and quota."""
    return {
        (sample.name, sample.labels["tenant"], sample.labels["quota"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "tenant" in sample.labels
    }


def scraped(figures: TenantFigures) -> Rows:
    registry = CollectorRegistry()
    registry.register(figures)
    return rows_of(generate_latest(registry).decode())


def error(tenant: Tenant, quota: str = "queries") -> PSoupError:
    return over_quota(tenant, quota, 3, 1, "unregister queries")


def test_the_first_tenants_have_rows_and_all_others_one_together() -> None:
    made = [Tenant(f"t{number}", Quotas(queries=10), created=1_000 - number) for number in range(2 * NAMED)]
    many = Many(FIRST_TENANT, *made)
    figures = TenantFigures(many)
    for tenant in (made[0], made[0], made[1], made[-1]):
        figures.refused(error(tenant))
    rows = scraped(figures)
    labels = {tenant for _, tenant, _ in rows}
    assert len(labels) == NAMED + 1
    assert {OTHERS, "default", "t199", "t101"} <= labels
    assert rows["psoup_tenant_used", "t199", "queries"] == 3
    assert rows["psoup_tenant_used", OTHERS, "queries"] == 3 * (NAMED + 1)
    assert rows["psoup_tenant_limit", OTHERS, "queries"] == 10 * (NAMED + 1)
    assert rows["psoup_tenant_refused_total", "t199", "queries"] == 1
    assert rows["psoup_tenant_refused_total", OTHERS, "queries"] == 3
    assert ("psoup_tenant_limit", "default", "queries") not in rows
    assert ("psoup_tenant_limit", "t199", "join_share") not in rows


def test_refusals_of_a_tenant_that_is_gone_are_among_the_others_and_their_number_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("psoup_service.figures.tenant_figures._COUNTED", 2)
    figures = TenantFigures(Many(FIRST_TENANT, Tenant("acme")))
    for name in ("acme", "gone", "lost", "mist", "acme"):
        figures.refused(error(Tenant(name)))
    figures.refused(ResourceExhausted("the service is busy", reason="BUSY"))
    counts = {key: value for key, value in scraped(figures).items() if key[0] == "psoup_tenant_refused_total"}
    assert counts == {
        ("psoup_tenant_refused_total", "acme", "queries"): 2,
        ("psoup_tenant_refused_total", OTHERS, "queries"): 3,
    }
    assert len(figures._refused) == 3


def test_a_service_of_one_tenant_without_quotas_has_no_rows() -> None:
    assert scraped(TenantFigures(Many(FIRST_TENANT))) == {}
    limited = Tenant("default", Quotas(queries=5))
    assert scraped(TenantFigures(Many(limited)))["psoup_tenant_limit", "default", "queries"] == 5


def test_a_scrape_tells_what_usage_tells_and_counts_what_was_refused() -> None:
    async def script(door: Door) -> None:
        def scrape() -> Rows:
            return rows_of(generate_latest(door.wire.service._metrics.registry).decode())

        assert scrape() == {}
        await door.admin.CreateTenant(admin.CreateTenantRequest(name="acme"), metadata=door.operator)
        quotas = admin.Quotas(calls_per_second=0.01)
        _, owner = await door.issue("owner", OPERATOR, tenant="acme")
        await door.admin.AlterTenant(admin.AlterTenantRequest(name="acme", quotas=quotas), metadata=door.operator)
        await door.list(owner)
        for _ in range(2):
            assert (await refused(door.list(owner), FULL)).facts["quota"] == "calls_per_second"
        asked = admin.TenantUsageRequest(name="acme")
        told = await door.admin.TenantUsage(asked, metadata=door.operator)
        rows = scrape()
        of_acme = {quota for name, tenant, quota in rows if (name, tenant) == ("psoup_tenant_used", "acme")}
        assert of_acme == {field.name for field, _ in told.used.ListFields()}
        assert rows["psoup_tenant_used", "acme", "calls_per_second"] > 0
        assert rows["psoup_tenant_limit", "acme", "calls_per_second"] == 0.01
        assert rows["psoup_tenant_refused_total", "acme", "calls_per_second"] == 2

        named = set(re.findall(r"psoup_tenant_\w+", DOCS.read_text()))
        assert named == {name for name, _, _ in rows}

    behind(script)
