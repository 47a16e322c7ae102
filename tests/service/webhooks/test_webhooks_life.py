"""Webhooks across restarts and restores, of several tenants, and in a service that has none."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standardwebhooks import WebhookVerificationError

from psoup.errors import FailedPrecondition, ResourceExhausted
from psoup.errors import NotFound as UnknownWebhook
from psoup.events.webhooks import BY_CALL, BY_FAILURES, OLD_SECRET_US, Delivery, PauseWebhook, Webhook
from psoup_client import AccessDenied, Client, ClientOptions, InvalidRequest, NotFound
from psoup_service.figures.call_notes import NOTES, CallNotes
from psoup_service.gate.audit import NAME
from psoup_service.process.settings import Settings
from psoup_service.webhooks import deliveries
from psoup_service.webhooks.deliverer import Deliverer
from psoup_service.webhooks.deliveries import PATIENCE_US, Deliveries
from psoup_service.webhooks.outcomes import Outcome
from psoup_service.webhooks.subscriptions import verify
from psoup_service.webhooks.tools import Figures, Tools
from psoup_storage import DurableStore
from psoup_storage.durable.tools.backup import restore
from psoup_testing.browser.page_requests import Page
from psoup_testing.services.receivers import Receiver, replies
from psoup_testing.services.threaded_service import Serving, serving

_OFF = """
import sys
import psoup_service.service
print([name for name in sys.modules if name.partition(".")[0] in ("httpcore", "certifi", "standardwebhooks")])
"""


@contextmanager
def at(path: Path, receiver: Receiver) -> Iterator[Serving]:
    settings = Settings(port=0, webhook_hosts=(receiver.origin,))
    with serving(settings, store=DurableStore(path)) as service:
        yield service


@pytest.mark.long
def test_a_service_without_webhooks_imports_no_client_of_http() -> None:
    shown = subprocess.run([sys.executable, "-c", _OFF], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"


@pytest.mark.long
def test_a_delivery_keeps_its_id_over_a_restart_and_gets_another_after_a_restore(tmp_path: Path) -> None:
    with Receiver() as receiver:
        receiver.script.append(replies(204, "X: y"))
        with at(tmp_path / "data", receiver) as service, Client(service.address) as client:
            client.create_stream("CREATE STREAM s (x BIGINT)")
            client.register("SELECT x FROM s BEGIN (NOW - 3 ROWS)", key="hot")
            client.add_webhook("hot", receiver.url)
            receiver.wait(1)
            receiver.script.extend([replies(500)] * 100)
            client.push("s", [{"x": 7}])
            receiver.wait(2)
        restore(tmp_path / "data", tmp_path / "copy")
        for folder, script in (("data", 1), ("copy", 0)):
            receiver.script.clear()
            receiver.script.extend([replies(500)] * script)
            count = len(receiver.requests)
            with at(tmp_path / folder, receiver):
                receiver.wait(count + 1 + script)
    first, tried = receiver.requests[:2]
    of_data = [request for request in receiver.requests[1:] if request.id == tried.id]
    assert len(of_data) >= 3 and {request.body for request in of_data} == {tried.body}
    last = receiver.requests[-1]
    assert last.id not in (first.id, tried.id)
    assert last.data["reset"] and last.data["came"] == [{"x": 7}]


def test_webhooks_belong_to_a_tenant_and_need_a_role(tmp_path: Path) -> None:
    with Receiver() as receiver, at(tmp_path / "data", receiver) as service:
        with Client(service.address) as client:
            secret = client.issue_token("owner", ["owner", "operator"]).secret
        options = ClientOptions(token=secret)
        with Client(service.address, options=options) as client:
            client.create_tenant("acme")
            other = client.issue_token("theirs", ["owner"], tenant="acme").secret
            reader = client.issue_token("reader", ["reader"]).secret
            client.create_stream("CREATE STREAM s (x BIGINT)")
            client.register("SELECT x FROM s BEGIN (NOW - 3 ROWS)", key="hot")
            added = client.add_webhook("hot", receiver.url)
            with Client(service.address, options=ClientOptions(token=other)) as theirs:
                assert theirs.webhooks() == []
                for call in (theirs.remove_webhook, theirs.pause_webhook, theirs.test_webhook):
                    with pytest.raises(NotFound, match="there is no webhook"):
                        call(added.webhook)
                with pytest.raises(NotFound, match="no query with key 'hot'"):
                    theirs.add_webhook("hot", receiver.url)
            with Client(service.address, options=ClientOptions(token=reader)) as reading:
                for refused in (reading.webhooks, lambda: reading.add_webhook("hot", receiver.url)):
                    with pytest.raises(AccessDenied):
                        refused()
            client.remove_webhook(added.webhook)
        log = (tmp_path / "data" / NAME).read_text()
    lines = [line for line in map(json.loads, log.splitlines()) if line["call"].startswith("WebhookService/")]
    done = [(line["call"].partition("/")[2], line["object"]) for line in lines if line["outcome"] == "OK"]
    assert done == [("AddWebhook", "hot"), ("RemoveWebhook", added.webhook.id)]
    assert added.secret not in log and receiver.url not in log


def test_a_webhook_that_is_removed_during_an_attempt_ends_without_a_fault() -> None:
    hook = Webhook("default", 7, "hot", "https://x.example/", "", 0, delivery=Delivery("msg_1", b"t", b"{}", 0, 0, 0))

    async def removed(*command: object, patience: float) -> None:  # the snapshot does not show it yet
        raise UnknownWebhook("there is no webhook 7", reason="UNKNOWN_WEBHOOK")

    async def taken(*message: object) -> Outcome:
        return Outcome(204, "")

    host = SimpleNamespace(snapshot=lambda: SimpleNamespace(sequence=9, webhooks={7: hook}), submit=removed)
    looking = SimpleNamespace(is_outdated=lambda *position: False)
    rounds = SimpleNamespace(listening=lambda watcher: nullcontext())
    parts = {"figures": Figures(), "logging": nullcontext(), "attempt": taken, "clock": lambda: 0}
    tools: Any = SimpleNamespace(host=host, looking=looking, rounds=rounds, **parts)
    asyncio.run(asyncio.wait_for(Deliveries(tools, hook).run(), 60))


def test_the_task_of_a_webhook_does_not_keep_the_call_that_added_it(monkeypatch: pytest.MonkeyPatch) -> None:
    notes, began = list[CallNotes | None](), threading.Event()
    run = Deliveries.run

    async def noted(deliveries: Deliveries) -> None:
        notes.append(NOTES.get())
        began.set()
        await run(deliveries)

    monkeypatch.setattr(Deliveries, "run", noted)
    with Receiver() as receiver:
        settings = Settings(port=0, webhook_hosts=(receiver.origin,))
        with serving(settings) as service, Client(service.address) as client:
            client.create_stream("CREATE STREAM s (x BIGINT)")
            client.register("SELECT x FROM s BEGIN (NOW - 3 ROWS)", key="hot")
            client.add_webhook("hot", receiver.url)
            assert began.wait(30)
    assert notes == [None]


@pytest.mark.parametrize("paused", [False, True], ids=["failing", "paused"])
def test_the_task_of_a_webhook_ends_with_its_tenant(paused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(deliveries, "MOST_PAUSE_S", 0.01)
    monkeypatch.setattr(deliveries, "PROGRESS_S", 0.01)
    with Receiver() as receiver, serving(Settings(port=0, webhook_hosts=(receiver.origin,))) as service:
        receiver.script.extend([replies(500)] * 100_000)
        with Client(service.address) as client:
            secret = client.issue_token("owner", ["owner", "operator"]).secret
        with Client(service.address, options=ClientOptions(token=secret)) as client:
            client.create_tenant("acme")
            issued = client.issue_token("theirs", ["owner"], tenant="acme")
            with Client(service.address, options=ClientOptions(token=issued.secret)) as theirs:
                theirs.create_stream("CREATE STREAM s (x BIGINT)")
                query = theirs.register("SELECT x FROM s BEGIN (NOW - 3 ROWS)", key="hot")
                added = theirs.add_webhook("hot", receiver.url)
                receiver.wait(2)
                if paused:
                    theirs.pause_webhook(added.webhook)
                query.unregister()
                theirs.drop("s")
            client.revoke_token(issued.token.id)
            client.drop_tenant("acme")
        tasks = service.service._servicers.webhooks.deliverer._tasks
        service.wait_until(lambda: not tasks)


def test_the_age_of_deliveries_leaves_out_paused_webhooks() -> None:
    waits = Webhook("default", 7, "hot", "https://x.example/", "", 0, delivery=Delivery("msg_1", b"t", b"{}", 0, 0, 0))
    late = replace(waits, webhook_id=8, delivery=replace(waits.delivery, created=90_000_000))  # type: ignore[type-var]
    hooks = {7: replace(waits, paused=BY_CALL), 8: late}
    host: Any = SimpleNamespace(snapshot=lambda: SimpleNamespace(webhooks=hooks), state="serving")
    nothing: Any = None
    deliverer = Deliverer(host, nothing, nothing, nothing, lambda: 100_000_000, frozenset())
    assert (deliverer.figures()["webhook_age_seconds"], deliverer.figures()["webhooks_waiting"]) == (10, 2)
    hooks[8] = replace(late, paused=BY_FAILURES)
    assert deliverer.figures()["webhook_age_seconds"] == 0


def test_a_pause_that_finds_no_room_is_no_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = Webhook("default", 7, "hot", "https://x.example/", "", 0, delivery=Delivery("msg_1", b"t", b"{}", 0, 0, 0))
    monkeypatch.setattr(deliveries, "PROGRESS_S", 0.01)
    hooks, submitted = {7: hook}, list[object]()

    async def submit(command: object, patience: float) -> None:
        submitted.append(command)
        if len(submitted) == 2:
            hooks.clear()
        raise ResourceExhausted("the line is full", reason="LINE")

    async def failed(*message: object) -> Outcome:
        return Outcome(500, "the receiver replied 500")

    host = SimpleNamespace(snapshot=lambda: SimpleNamespace(sequence=9, webhooks=hooks), submit=submit)
    looking = SimpleNamespace(is_outdated=lambda *position: False)
    rounds = SimpleNamespace(listening=lambda watcher: nullcontext())
    parts = {"figures": Figures(), "logging": nullcontext(), "attempt": failed, "clock": lambda: PATIENCE_US}
    tools: Any = SimpleNamespace(host=host, looking=looking, rounds=rounds, ids=SimpleNamespace(webhook=str), **parts)
    task = Deliveries(tools, hook)
    asyncio.run(asyncio.wait_for(task.run(), 60))
    assert submitted == [PauseWebhook(7, BY_FAILURES)] * 2
    assert task.progress.error == "the line is full"


def test_a_host_that_is_not_allowed_any_more_fails_the_challenge() -> None:
    nothing: Any = None
    tools = Tools(nothing, nothing, nothing, nothing, lambda: 0, frozenset(), nothing)
    hook = Webhook("default", 7, "hot", "http://127.0.0.1:9000/", "", 0)
    with pytest.raises(FailedPrecondition, match="did not prove that it wants deliveries: connection_refused"):
        asyncio.run(verify(tools, hook))


def test_webhooks_are_added_listed_and_removed_by_json() -> None:
    with Receiver() as receiver:
        settings = Settings(port=0, web_port=0, webhook_hosts=(receiver.origin,))
        with serving(settings) as service, Client(service.address) as client:
            client.create_stream("CREATE STREAM s (x BIGINT)")
            client.register("SELECT x FROM s BEGIN (NOW - 3 ROWS)", key="hot")
            page = Page(service.service)
            added = page.call("WebhookService/AddWebhook", {"key": "hot", "url": receiver.url})
            receiver.wait(1)[0].verify(added["secret"])
            name = {"webhookId": added["webhook"]["webhookId"]}
            page.call("WebhookService/PauseWebhook", name)
            (listed,) = page.call("WebhookService/ListWebhooks")["webhooks"]
            assert (listed["state"], listed["url"]) == ("WEBHOOK_STATE_PAUSED", receiver.url)
            assert page.call("WebhookService/TestWebhook", name)["status"] == 204
            page.call("WebhookService/ResumeWebhook", name)
            page.call("WebhookService/RemoveWebhook", name)
            assert client.webhooks() == []


@pytest.mark.long
def test_a_rotated_secret_signs_beside_the_old_one_also_after_a_restart(tmp_path: Path) -> None:
    def checked(client: Client, receiver: Receiver, secrets: list[str], outdated: list[str]) -> None:
        count = len(receiver.requests)
        client.push("s", [{"x": count}])
        request = receiver.wait(count + 1)[count]
        for secret in secrets:
            request.verify(secret)
        for secret in outdated:
            with pytest.raises(WebhookVerificationError):
                request.verify(secret)

    with Receiver() as receiver:
        with at(tmp_path / "data", receiver) as service, Client(service.address) as client:
            client.create_stream("CREATE STREAM s (x BIGINT)")
            client.register("SELECT x FROM s BEGIN (NOW - 3 ROWS)", key="hot")
            added = client.add_webhook("hot", receiver.url)
            receiver.wait(1)[0].verify(added.secret)
            rotated = client.rotate_webhook(added.webhook)
            assert rotated.secret != added.secret and rotated.secret.startswith("whsec_")
            assert rotated.webhook.old_secret_until is not None
            checked(client, receiver, [rotated.secret, added.secret], [])
            with pytest.raises(InvalidRequest, match="the secret is not valid"):
                client.rotate_webhook(added.webhook, secret="whsec_short")
        with at(tmp_path / "data", receiver) as service, Client(service.address) as client:
            checked(client, receiver, [rotated.secret, added.secret], [])
            last = client.rotate_webhook(added.webhook.id).secret
            checked(client, receiver, [last, rotated.secret], [added.secret])
            tools = service.service._servicers.webhooks.deliverer.tools
            clock = tools.clock
            tools.clock = lambda: clock() + OLD_SECRET_US
            (hook,) = service.service.host.snapshot().webhooks.values()
            assert hook.secrets(tools.clock()) == [last]
