"""Which access tokens are issued and revoked, and that every store gives them back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from psoup.admission import Admission
from psoup.engine.engine import Engine
from psoup.errors import AlreadyExists, FailedPrecondition, InvalidInput, NotFound, ResourceExhausted
from psoup.events.access import AccessToken, IssueToken, RevokeToken
from psoup.events.tenants import GENEROUS, CreateTenant
from psoup.model import SECOND
from psoup_storage import DurableStore, MemoryStore, Store
from psoup_testing.engines.admission_gate import Gate


def issue(gate: Gate, number: int, *roles: str, first: bool = False, expires: int = 0) -> None:
    digest, streams = bytes([number]) * 32, ("s*",) if number == 2 else ()
    token = AccessToken(f"id{number}", f"holder {number}", roles, digest, streams=streams, expires=expires * SECOND)
    gate.send(IssueToken(token, first))


@pytest.fixture
def gate() -> Gate:
    """A clock at 10 s, an operator and a reader."""
    gate = Gate(now=10)
    issue(gate, 0, "operator", first=True)
    issue(gate, 1, "reader")
    return gate


def test_the_first_token_is_an_operators_and_there_is_one_first() -> None:
    gate = Gate()
    for roles, expires in (("owner", "reader"), 0), (("operator",), 100):
        with pytest.raises(InvalidInput, match="role operator and no end"):
            issue(gate, 0, *roles, first=True, expires=expires)
    issue(gate, 0, "operator", first=True)
    with pytest.raises(AlreadyExists, match="psoup token issue"):
        issue(gate, 1, "operator", first=True)


def test_a_token_that_has_expired_or_is_one_too_many_is_not_issued(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="expired already"):
        issue(gate, 2, "reader", expires=10)
    with pytest.raises(AlreadyExists, match="id1"):
        issue(gate, 1, "reader")
    monkeypatch.setattr("psoup.admission.access.MOST_TOKENS", 2)
    with pytest.raises(ResourceExhausted, match="2 tokens stand"):
        issue(gate, 2, "reader")


def test_no_tenant_takes_the_places_of_all_others_tokens(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator of any tenant could issue all tokens that there may be, and nobody else got one."""
    monkeypatch.setattr("psoup.admission.access.MOST_OF_TENANT", 1)
    for tenant in "ab":
        gate.send(CreateTenant(tenant, GENEROUS))
        gate.send(IssueToken(AccessToken(f"of {tenant}", "holder", ("reader",), bytes(32), tenant)))
    with pytest.raises(ResourceExhausted, match="1 tokens of tenant 'a' stand"):
        gate.send(IssueToken(AccessToken("another", "holder", ("reader",), bytes(32), "a")))
    issue(gate, 2, "reader")


def test_tenants_together_leave_places_for_one_without_tokens_and_for_the_operator(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten tenants could issue all tokens that there may be, a thousand each."""
    monkeypatch.setattr("psoup.admission.access.MOST_TOKENS", 120)
    monkeypatch.setattr("psoup.admission.access.MOST_OF_TENANT", 12)
    monkeypatch.setattr("psoup.admission.access.RESERVED", 10)
    count = dict.fromkeys("abcdefghijz", 0)
    for tenant in count:
        gate.send(CreateTenant(tenant, GENEROUS))

    def issued(tenant: str) -> None:
        number = sum(count.values())
        gate.send(IssueToken(AccessToken(f"t{number}", "holder", ("reader",), bytes(32), tenant)))
        count[tenant] += 1

    refusals = list[ResourceExhausted]()
    for tenant in "abcdefghij" * 12:
        try:
            issued(tenant)
        except ResourceExhausted as refusal:
            refusals.append(refusal)
    assert sorted(count.values()) == [0, *[7] * 3, *[8] * 7], "a quarter of what they leave"
    facts = {"tenant": "j", "used": "7", "limit": "7"}
    assert (refusals[-1].reason, refusals[-1].facts) == ("TOO_MANY_TOKENS", facts)
    assert "one tenant may have 7 while 79 of 120 stand" in refusals[-1].message
    for _ in range(5):
        issued("z")
    for number in range(100, 136):
        issue(gate, number, "reader")
    with pytest.raises(ResourceExhausted, match="120 tokens stand"):
        issue(gate, 200, "reader")
    with pytest.raises(ResourceExhausted, match="one tenant may have 0 while 120 of 120 stand"):
        issued("z")


def test_an_operator_stays(gate: Gate) -> None:
    gate.send(RevokeToken("id1"))
    with pytest.raises(NotFound, match="'id1'"):
        gate.send(RevokeToken("id1"))
    issue(gate, 2, "operator", expires=11)
    gate.now = 11
    with pytest.raises(FailedPrecondition, match="the last token of an operator"):
        gate.send(RevokeToken("id0"))
    issue(gate, 3, "operator", expires=12)
    gate.send(RevokeToken("id0"))


@pytest.fixture(params=["memory", "all in memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    make = {"memory": MemoryStore, "all in memory": lambda: MemoryStore(keep_pushes=True)}
    store = make.get(request.param, lambda: DurableStore(tmp_path / "data"))()
    yield store
    store.close()


@pytest.mark.seeded("the log keeps revoked tokens")
def test_every_store_gives_tokens_back_and_forgets_what_is_revoked(gate: Gate, store: Store) -> None:
    for number in range(2, 6):
        issue(gate, number, "reader", expires=100)
    for number in (1, 4, 5):
        gate.send(RevokeToken(f"id{number}"))
    for event in gate.events:
        store.append([event])
    read = list(store.read())
    if not isinstance(store, MemoryStore) or len(read) < len(gate.events):
        assert len(read) <= 4, "two tokens less are three revocations less, but for the last row"
    admission, engine = Admission(), Engine(verify="all")
    for event in read:
        admission.replay(event)
        engine.apply([event])
    stand = engine.snapshot().tokens
    assert stand == gate.admission.state()["tokens"] == admission.state()["tokens"]
    assert [*stand] == ["id0", "id2", "id3"]
    assert (stand["id2"].streams, stand["id2"].digest, stand["id2"].issued) == (("s*",), bytes([2]) * 32, 10 * SECOND)


def test_a_snapshot_keeps_the_tokens_of_its_moment(gate: Gate) -> None:
    engine = Engine()
    engine.apply(gate.events)
    before = engine.snapshot()
    gate.send(RevokeToken("id1"))
    engine.apply(gate.events[-1:])
    assert ([*before.tokens], [*engine.snapshot().tokens]) == (["id0", "id1"], ["id0"])
