"""Webhooks in the log: the newest row of each webhook stays, and a replay leads to the same state."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from psoup.admission import Admission
from psoup.errors import Internal
from psoup.events.commands import Register
from psoup.events.tags import Tag
from psoup.events.tenants import CreateTenant, DropTenant, Quotas
from psoup.events.webhooks import AddWebhook, AdvanceWebhook, DropWebhook, PauseWebhook, RotateWebhook, Subscription
from psoup_storage import DurableStore, MemoryStore, Store
from psoup_testing.engines.admission_gate import Gate
from psoup_testing.histories.webhooks import SECRET, delivery


def history() -> Gate:
    """Three webhooks. One is removed, and the tenant of another is dropped."""
    gate = Gate(now=3)
    gate.send(CreateTenant("acme", Quotas()))
    for tenant in ("default", "acme"):
        gate.create("CREATE STREAM s (x BIGINT)", tenant=tenant)
        gate.send(Register("SELECT x FROM s", tenant=tenant, tag=Tag("hot")))
    ids = [
        gate.send(AddWebhook("hot", f"https://ü.example/{url}", SECRET, tenant)).acknowledgement.sequence
        for url, tenant in ((1, "default"), (2, "default"), (3, "acme"))
    ]
    for number in range(1, 6):
        gate.send(AdvanceWebhook(ids[0], delivery(number).token, delivery(number + 1), taken=number > 1))
    gate.send(AdvanceWebhook(ids[2], b"", delivery(9), taken=False, tenant="acme"))
    gate.send(PauseWebhook(ids[0], "call"))
    gate.send(RotateWebhook(ids[0], "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"))
    gate.send(AddWebhook("hot", "https://a.example", SECRET, token=b"at", subscription=Subscription("sub_1", 50, "t")))
    gate.send(DropWebhook(ids[1]))
    gate.drop("s", cascade=True, tenant="acme")
    gate.send(DropTenant("acme"))
    return gate


@pytest.mark.parametrize("kind", ["memory", "durable"])
def test_the_newest_row_of_each_webhook_leads_to_the_same_state(kind: str, tmp_path: Path) -> None:
    gate = history()
    store: Store = MemoryStore() if kind == "memory" else DurableStore(tmp_path)
    for event in gate.events:
        store.append([event])
    if isinstance(store, DurableStore):
        store.close()
        store = DurableStore(tmp_path)
    replayed = list(store.read())
    assert sum(type(event).__name__ == "WebhookChanged" for event in replayed) <= 3, "two webhooks, at most one removal"
    admission = Admission()
    for event in replayed:
        admission.replay(event)
    assert admission.state()["webhooks"] == gate.admission.state()["webhooks"] != {}
    store.close()


@pytest.mark.parametrize("column", ["refused = x'ff000000'", "tuples = x'00'"])
def test_a_row_with_another_position_or_content_is_damaged(column: str, tmp_path: Path) -> None:
    gate = history()
    store = DurableStore(tmp_path)
    store.append(gate.events[:9])
    store.close()
    (database,) = tmp_path.glob("*.db")
    with apsw.Connection(str(database)) as connection:
        connection.execute(f"UPDATE log SET {column} WHERE sequence = 9 AND kind = 'webhook'")
    again = DurableStore(tmp_path)
    with pytest.raises(Internal, match="event 9 of the log is damaged"):
        list(again.read())
    again.close()
