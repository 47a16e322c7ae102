"""Webhooks in admission and in the engine: which may be added, and how their positions advance."""

from __future__ import annotations

import pytest

from psoup.admission import webhooks
from psoup.engine.engine import Engine
from psoup.errors import AlreadyExists, FailedPrecondition, NotFound, ResourceExhausted
from psoup.events.commands import Register
from psoup.events.tags import Tag
from psoup.events.tenants import CreateTenant, DropTenant, Quotas
from psoup.events.webhooks import (
    BY_FAILURES,
    OLD_SECRET_US,
    AddWebhook,
    AdvanceWebhook,
    DropWebhook,
    PauseWebhook,
    ResumeWebhook,
    RotateWebhook,
    Subscription,
    Webhook,
    WebhookCommand,
)
from psoup_testing.engines.admission_gate import Gate
from psoup_testing.histories.webhooks import SECRET, delivery

URL = "https://example.com/hook"
OTHER = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture
def gate() -> Gate:
    made = Gate(now=7)
    made.create("CREATE STREAM s (x BIGINT)")
    for key in ("hot", "cold"):
        made.send(Register("SELECT x FROM s", tag=Tag(key)))
    return made


def added(gate: Gate, key: str = "hot", url: str = URL) -> int:
    return gate.send(AddWebhook(key, url, SECRET)).acknowledgement.sequence


def known(gate: Gate) -> dict[int, Webhook]:
    """The webhooks of the engine, which equal the ones of admission."""
    engine = Engine()
    engine.apply(gate.events)
    snapshot = dict(engine.snapshot().webhooks)
    assert snapshot == gate.admission.state()["webhooks"]
    return snapshot


def test_deliveries_move_the_position(gate: Gate) -> None:
    number = added(gate)
    gate.send(AdvanceWebhook(number, b"", delivery(1), taken=False))
    gate.now = 9
    gate.send(AdvanceWebhook(number, delivery(1).token, delivery(2), taken=True))
    webhook = known(gate)[number]
    assert (webhook.token, webhook.delivery, webhook.delivered) == (delivery(1).token, delivery(2), 1)
    assert (webhook.created, webhook.delivered_at) == (7_000_000, 9_000_000)


def test_a_paused_webhook_goes_on_where_it_stopped_and_failures_count_anew(gate: Gate) -> None:
    number = added(gate)
    gate.send(AdvanceWebhook(number, b"", delivery(1), taken=False))
    gate.send(PauseWebhook(number, BY_FAILURES))
    assert gate.send(PauseWebhook(number, "call")).event is None
    assert known(gate)[number].paused == BY_FAILURES
    gate.now = 11
    gate.send(ResumeWebhook(number))
    webhook = known(gate)[number]
    assert webhook.delivery is not None and webhook.delivery.body == delivery(1).body
    assert (webhook.paused, webhook.delivery.since) == ("", 11_000_000)
    assert gate.send(ResumeWebhook(number)).event is None


def test_a_webhook_needs_a_query_and_stands_once(gate: Gate) -> None:
    added(gate)
    with pytest.raises(NotFound, match="there is no query with key 'warm'; register the query"):
        added(gate, "warm")
    with pytest.raises(NotFound, match="no query with key 'hot'"):
        gate.send(AddWebhook("hot", URL, SECRET, "acme"))
    with pytest.raises(AlreadyExists, match="sends the changes of 'hot' to this URL already"):
        added(gate)
    assert added(gate, "cold") and added(gate, url=f"{URL}/2")


def test_a_subscription_is_renewed_where_it_stands_and_each_has_its_own_webhook(gate: Gate) -> None:
    added(gate)
    number, other = (
        gate.send(
            AddWebhook("hot", URL, SECRET, token=token, subscription=Subscription(named, 50, "t"))
        ).acknowledgement.sequence
        for token, named in ((b"at", "sub_1"), (b"b", "sub_2"))
    )
    gate.send(AdvanceWebhook(number, b"later", delivery(1), taken=False))
    gate.send(PauseWebhook(number, BY_FAILURES))
    gate.now = 9
    gate.send(AddWebhook("hot", URL, "whsec_new", token=b"old", subscription=Subscription("sub_1", 90, "t")))
    webhook = known(gate)[number]
    assert (webhook.subscription, webhook.secret) == (Subscription("sub_1", 90, "t"), "whsec_new")
    assert (webhook.token, webhook.paused, webhook.created) == (b"later", "", 7_000_000)
    assert webhook.delivery is not None and webhook.delivery.since == 9_000_000
    assert len(known(gate)) == 3 and known(gate)[other].token == b"b"
    with pytest.raises(AlreadyExists):
        added(gate)


@pytest.mark.parametrize("make", [PauseWebhook, ResumeWebhook, DropWebhook, AdvanceWebhook])
def test_another_tenant_does_not_reach_a_webhook(gate: Gate, make: type[WebhookCommand]) -> None:
    number = added(gate)
    parts = {PauseWebhook: ("call",), AdvanceWebhook: (b"", None, False)}.get(make, ())
    for tenant, webhook_id in (("acme", number), ("default", number + 1)):
        with pytest.raises(NotFound, match=f"there is no webhook {webhook_id}"):
            gate.send(make(webhook_id, *parts, tenant))  # type: ignore[call-arg, arg-type]


def test_a_removed_webhook_and_the_webhooks_of_a_dropped_tenant_are_gone(gate: Gate) -> None:
    gate.send(CreateTenant("acme", Quotas()))
    gate.create("CREATE STREAM a (x BIGINT)", tenant="acme")
    gate.send(Register("SELECT x FROM a", tenant="acme", tag=Tag("hot")))
    gate.send(AddWebhook("hot", URL, SECRET, "acme"))
    gate.drop("a", cascade=True, tenant="acme")
    number = added(gate)
    gate.send(DropTenant("acme"))
    assert list(known(gate)) == [number]
    gate.send(DropWebhook(number))
    assert known(gate) == {}


def test_the_number_of_webhooks_is_bounded(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MOST_OF_KEY", 2)
    monkeypatch.setattr(webhooks, "MOST_WEBHOOKS", 3)
    for key, url in (("hot", "1"), ("hot", "2"), ("cold", "1")):
        added(gate, key, url)
    for key, place in (("hot", "the key 'hot' has 2 webhooks"), ("cold", "the service has 3 webhooks")):
        with pytest.raises(ResourceExhausted, match=place):
            added(gate, key, "3")


def test_a_secret_is_not_in_the_text_of_a_webhook(gate: Gate) -> None:
    number = added(gate)
    for record in (AddWebhook("hot", URL, SECRET), known(gate)[number]):
        assert "hot" in repr(record) and SECRET not in repr(record)


def test_the_old_secret_is_valid_for_a_day_after_a_rotation(gate: Gate) -> None:
    number = added(gate)
    gate.send(RotateWebhook(number, OTHER))
    webhook = known(gate)[number]
    day = 7_000_000 + OLD_SECRET_US
    assert (webhook.secret, webhook.secrets(day - 1), webhook.secrets(day)) == (OTHER, [OTHER, SECRET], [OTHER])
    assert OTHER not in repr(webhook) and SECRET not in repr(webhook)
    assert gate.send(RotateWebhook(number, OTHER)).event is None
    subscribed = AddWebhook("hot", URL, SECRET, subscription=Subscription("sub_1", 10**15))
    number = gate.send(subscribed).acknowledgement.sequence
    with pytest.raises(FailedPrecondition, match="changes the secret by events/subscribe"):
        gate.send(RotateWebhook(number, OTHER))
