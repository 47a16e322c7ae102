"""Which tenants are made, changed and dropped, and that every store gives them back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from psoup.admission import Admission
from psoup.admission.queries.known_removals import Removed
from psoup.engine.engine import Engine
from psoup.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidInput,
    NotFound,
    PSoupError,
    ResourceExhausted,
)
from psoup.events.access import AccessToken, IssueToken, RevokeToken
from psoup.events.commands import CreateStream, DropStream
from psoup.events.events import UnregisteredMany
from psoup.events.tenants import (
    FIRST_TENANT,
    GENEROUS,
    AlterTenant,
    CreateTenant,
    DropTenant,
    Quotas,
    Tenant,
)
from psoup.model import SECOND
from psoup_storage import DurableStore, MemoryStore, Store
from psoup_testing.engines.admission_gate import Gate

OPERATOR = AccessToken("op", "operator", ("operator",), bytes(32))
ACME = AccessToken("a1", "of acme", ("owner", "operator"), b"\x01" * 32, "acme")


@pytest.fixture
def gate() -> Gate:
    """A clock at 10 s and a tenant beside the first."""
    gate = Gate(now=10)
    gate.send(CreateTenant("acme"))
    return gate


def tenants(gate: Gate) -> dict[str, Tenant]:
    engine = Engine()
    engine.apply(gate.events)
    return dict(engine.snapshot().tenants)


def test_there_is_a_first_tenant_without_limits_and_others_have_generous_ones(gate: Gate) -> None:
    assert tenants(gate) == {"default": FIRST_TENANT, "acme": Tenant("acme", GENEROUS, 10 * SECOND)}
    assert FIRST_TENANT.quotas == Quotas()


def test_quotas_change_one_by_one(gate: Gate) -> None:
    gate.send(AlterTenant("acme", {"queries": 5, "join_share": 0.5}))
    gate.send(AlterTenant("acme", {"streams": 0.0, "weight": 3}))
    assert tenants(gate)["acme"].quotas == replace(GENEROUS, queries=5, join_share=0.5, streams=0, weight=3.0)
    gate.send(AlterTenant("default", {"queries": 7}))
    assert tenants(gate)["default"] == Tenant("default", Quotas(queries=7))


@pytest.mark.seeded("another tenant's operator counts as the one who must stay")
@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        (CreateTenant("acme"), AlreadyExists, "psoup tenant set"),
        (CreateTenant("default"), AlreadyExists, "'default'"),
        *(
            (CreateTenant(name), InvalidInput, "lower-case letters")
            for name in ("", "Acme", "-a", "a/b", "..", "a" * 64)
        ),
        (CreateTenant("b", Quotas(queries=-1)), InvalidInput, "queries is -1"),
        (AlterTenant("acme", {"queries": 1.5}), InvalidInput, "a whole number"),
        (AlterTenant("acme", {"join_share": float("nan")}), InvalidInput, "join_share is nan"),
        (AlterTenant("acme", {"weight": 0}), InvalidInput, "0.01 to 100"),
        (AlterTenant("acme", {"colour": 1}), InvalidInput, "no quota 'colour'"),
        (AlterTenant("other", {"queries": 1}), NotFound, "'other'"),
        (DropTenant("other"), NotFound, "'other'"),
        (DropTenant("default"), FailedPrecondition, "always there"),
        (IssueToken(replace(ACME, tenant="other")), NotFound, "'other'"),
        (IssueToken(ACME, first=True), InvalidInput, "role operator"),
    ],
)
def test_what_is_not_valid_is_refused_by_name(
    gate: Gate, command: CreateTenant, error: type[PSoupError], message: str
) -> None:
    with pytest.raises(error, match=message):
        gate.send(command)


def test_there_is_a_most_of_tenants(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psoup.admission.tenants.MOST_TENANTS", 2)
    with pytest.raises(ResourceExhausted, match="2 tenants"):
        gate.send(CreateTenant("third"))


@pytest.mark.seeded("a tenant is dropped while it has tokens")
def test_a_tenant_goes_once_nothing_of_it_stands(gate: Gate) -> None:
    gate.send(CreateStream("CREATE STREAM s (x BIGINT)", "acme"))
    gate.send(IssueToken(OPERATOR))
    gate.send(IssueToken(ACME))
    for left in (DropStream("s", "acme"), RevokeToken("a1")):
        with pytest.raises(FailedPrecondition, match="'acme' has"):
            gate.send(DropTenant("acme"))
        gate.send(left)
    gate.send(DropTenant("acme"))
    assert [*tenants(gate)] == ["default"]
    gate.send(CreateTenant("acme", Quotas()))
    assert tenants(gate)["acme"].quotas == Quotas()


def test_an_operator_of_a_tenant_is_none_of_the_service(gate: Gate) -> None:
    """He cannot be the one who is left, and revokes no token of another tenant."""
    gate.send(IssueToken(OPERATOR))
    gate.send(IssueToken(ACME))
    with pytest.raises(FailedPrecondition, match="last token of an operator"):
        gate.send(RevokeToken("op"))
    with pytest.raises(NotFound) as foreign:
        gate.send(RevokeToken("op", "acme"))
    with pytest.raises(NotFound) as missing:
        gate.send(RevokeToken("no", "acme"))
    assert foreign.value.message == missing.value.message.replace("'no'", "'op'")
    gate.send(RevokeToken("a1", "acme"))


@pytest.fixture(params=["memory", "all in memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    make = {"memory": MemoryStore, "all in memory": lambda: MemoryStore(keep_pushes=True)}
    store = make.get(request.param, lambda: DurableStore(tmp_path / "data"))()
    yield store
    store.close()


@pytest.mark.seeded("the log keeps what a tenant was")
def test_every_store_gives_tenants_back_and_forgets_what_they_were(gate: Gate, store: Store) -> None:
    for number in range(5):
        gate.send(AlterTenant("acme", {"queries": number, "weight": 2}))
        gate.send(CreateTenant(f"brief{number}"))
        gate.send(DropTenant(f"brief{number}"))
    gate.send(IssueToken(OPERATOR))
    gate.send(IssueToken(ACME))
    for event in gate.events:
        store.append([event])
    read = list(store.read())
    if not isinstance(store, MemoryStore) or len(read) < len(gate.events):
        assert len(read) <= 4, "a tenant, two tokens, and the last drop"
    admission, engine = Admission(), Engine(verify="all")
    for event in read:
        admission.replay(event)
        engine.apply([event])
    assert engine.snapshot().tenants == gate.admission.state()["tenants"] == admission.state()["tenants"]
    assert engine.snapshot().tenants["acme"] == Tenant("acme", replace(GENEROUS, queries=4, weight=2.0), 10 * SECOND)


def test_what_a_tenant_asked_for_comes_back_without_its_streams() -> None:
    """The log may forget all streams of a tenant before the answer to a call of it that may be sent again."""
    admission, none = Admission(), np.zeros(0, np.int64)
    admission.replay(UnregisteredMany(7, "acme", none, 2, "again", b"digest"))
    told = admission.prepare(CreateTenant("acme"), 0).acknowledgement
    assert (told.sequence, admission.state()["removals"]) == (8, {"acme": [("again", Removed(b"digest", 2, 7))]})
