"""MCP Events by webhook: a receiver proves that it wants events, gets them signed, and gets none after the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

import jsonschema
import pytest
from standardwebhooks import WebhookVerificationError

from psoup_client import Client, ClientOptions
from psoup_service.assistants.subscriptions import key_of
from psoup_service.process.settings import Settings
from psoup_service.webhooks import deliveries
from psoup_testing.services.event_receivers import SECRET, Assistant, Willing, is_gone, repeats
from psoup_testing.services.receivers import replies
from psoup_testing.services.threaded_service import Serving, serving

OTHER = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Willing]:
    with Willing() as made:
        yield made


@pytest.fixture(scope="module")
def service(receiver: Willing) -> Iterator[Serving]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deliveries, "FIRST_PAUSE_S", 0.01)
        patch.setattr(deliveries, "PROGRESS_S", 0.05)
        settings = Settings(port=0, web_port=0, mcp=True, webhook_hosts=(receiver.origin,))
        with serving(settings) as made:
            yield made


@pytest.fixture(scope="module")
def client(service: Serving) -> Iterator[Client]:
    """The owner of the service, with a stream and a query."""
    with Client(service.address) as first:
        owner = first.issue_token("ann", ["owner", "operator"], first=True).secret
    with Client(service.address, options=ClientOptions(token=owner)) as made:
        made.create_stream("CREATE STREAM trades (sym TEXT, n INT)")
        made.register("SELECT sym, n FROM trades WHERE n >= 3", key="large")
        made.wait_for(made.last_sequence)
        yield made


@pytest.fixture(scope="module")
def endpoint(service: Serving) -> str:
    assert service.service.gateway is not None
    return service.service.gateway.address


@pytest.fixture(scope="module")
def assistant(client: Client, endpoint: str) -> Assistant:
    return Assistant(endpoint, client.issue_token("bot", ["registrar"]).secret)


def pushed(client: Client, *rows: tuple[str, int]) -> None:
    client.push("trades", [{"sym": sym, "n": n} for sym, n in rows])
    client.wait_for(client.last_sequence)


def test_a_receiver_is_asked_first_and_gets_each_change_as_an_event(
    client: Client, assistant: Assistant, receiver: Willing
) -> None:
    [kind] = assistant.asked("events/list")["result"]["events"]
    assert kind["delivery"] == ["push", "poll", "webhook"]
    pushed(client, ("before", 9))
    url = receiver.begin()
    given = assistant.subscribed(url, ttlMs=120_000)
    [challenge] = receiver.requests
    challenge.verify(SECRET)
    assert challenge.headers["x-mcp-subscription-id"] == given["id"]
    assert challenge.id.startswith("msg_verification_")
    ends = datetime.fromisoformat(given["refreshBefore"]) - datetime.now().astimezone()
    assert timedelta(seconds=90) < ends <= timedelta(seconds=120)
    assert given["truncated"] is False

    pushed(client, ("A", 5), ("B", 1), ("C", 7))
    event = receiver.wait(2)[1]
    event.verify(SECRET)
    body = json.loads(event.body)
    assert (body["eventId"], body["name"]) == (event.id, "answer_changed")
    assert event.headers["x-mcp-subscription-id"] == given["id"]
    jsonschema.validate(body["data"], kind["payloadSchema"])
    assert (body["data"]["came_count"], body["data"]["left_count"], body["data"]["more_rows"]) == (2, 0, 0)
    assert body["data"]["came"] == [{"sym": "A", "n": 5}, {"sym": "C", "n": 7}]
    arguments = {"key": "large"}
    polled = assistant.asked("events/poll", name="answer_changed", arguments=arguments, cursor=given["cursor"])
    rows = polled["result"]["events"][0]["data"]["came"]
    assert [row["sym"] for row in rows] == ["A", "C"], "one cursor serves all modes"
    later = assistant.asked("events/poll", name="answer_changed", arguments=arguments, cursor=body["cursor"])
    assert (later["result"]["events"], later["result"]["truncated"]) == ([], False)

    assert assistant.unsubscribed(url)["result"]["resultType"] == "complete"
    assert client.webhooks() == []
    assert assistant.unsubscribed(url)["error"]["data"] == {"kind": "subscription"}


def test_a_renewed_subscription_goes_on_with_the_new_secret(
    client: Client, assistant: Assistant, receiver: Willing
) -> None:
    url = receiver.begin()
    first = assistant.subscribed(url)
    pushed(client, ("A", 5))
    cursor = json.loads(receiver.wait(2)[1].body)["cursor"]
    again = assistant.subscribed(url, OTHER, cursor=cursor, ttlMs=None)
    assert (again["id"], again["truncated"]) == (first["id"], False)
    assert again["refreshBefore"] > first["refreshBefore"]
    assert len(client.webhooks()) == 1
    pushed(client, ("B", 6))
    event = receiver.wait(3)[2]
    event.verify(OTHER)
    with pytest.raises(WebhookVerificationError):
        event.verify(SECRET)
    assert [row["sym"] for row in json.loads(event.body)["data"]["came"]] == ["B"]
    assistant.unsubscribed(url)


def test_a_new_subscription_goes_on_from_a_cursor(client: Client, assistant: Assistant, receiver: Willing) -> None:
    cursor = assistant.asked("events/poll", name="answer_changed", arguments={"key": "large"})["result"]["cursor"]
    pushed(client, ("missed", 8))
    url = receiver.begin()
    given = assistant.subscribed(url, cursor=cursor)
    assert (given["cursor"], given["truncated"]) == (cursor, False)
    [row] = json.loads(receiver.wait(2)[1].body)["data"]["came"]
    assert row["sym"] == "missed"
    assistant.unsubscribed(url)


def test_a_refused_event_is_given_up_and_a_failed_one_comes_again(
    client: Client, assistant: Assistant, receiver: Willing
) -> None:
    url = receiver.begin()
    assistant.subscribed(url)
    receiver.script += [replies(410), replies(500)]
    pushed(client, ("gone", 4))
    receiver.wait(2)
    pushed(client, ("again", 4))
    _, gone, failed, taken = receiver.wait(4)
    assert json.loads(gone.body)["data"]["came"][0]["sym"] == "gone"
    assert failed.id == taken.id != gone.id
    assert json.loads(taken.body)["data"]["came"][0]["sym"] == "again"
    assistant.unsubscribed(url)


def test_a_query_that_is_registered_anew_is_told_as_a_gap(
    client: Client, assistant: Assistant, receiver: Willing
) -> None:
    client.register("SELECT sym FROM trades WHERE n = 33", key="anew")
    url = receiver.begin()
    assistant.subscribed(url, key="anew")
    client.register("SELECT sym, n FROM trades WHERE n = 33", key="anew", replace=True)
    gap = receiver.wait(2)[1]
    body = json.loads(gap.body)
    assert (body["type"], sorted(body)) == ("gap", ["cursor", "type"])
    assert gap.id.startswith("msg_gap_")
    pushed(client, ("N", 33))
    assert json.loads(receiver.wait(3)[2].body)["data"]["came_count"] == 1
    assistant.unsubscribed(url, key="anew")


def test_a_subscription_ends_with_its_time_and_with_its_token(
    client: Client,
    endpoint: str,
    assistant: Assistant,
    receiver: Willing,
    service: Serving,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    issued = client.issue_token("short", ["registrar"])
    url = receiver.begin()
    Assistant(endpoint, issued.secret).subscribed(url)
    client.revoke_token(issued.token.id)
    ended = json.loads(receiver.wait(2)[1].body)
    assert (ended["type"], ended["error"]["code"]) == ("terminated", -32024)
    assert client.webhooks() == []

    url = receiver.begin()
    assistant.subscribed(url, ttlMs=1)
    tools = service.service._servicers.webhooks.deliverer.tools
    clock = tools.clock
    monkeypatch.setattr(tools, "clock", lambda: clock() + 61_000_000)
    service.wait_until(lambda: not service.service.host.snapshot().webhooks)
    assert len(receiver.events) == 0


def test_a_subscription_to_sql_unregisters_its_query_at_its_end(
    client: Client, assistant: Assistant, receiver: Willing, service: Serving
) -> None:
    assert service.service.gateway is not None
    subscriptions = service.service.gateway._assistants._endpoint._subscriptions  # type: ignore[union-attr]
    subscriptions._grace_s = 0.0
    url, sql = receiver.begin(), "SELECT sym FROM trades WHERE n = 88"
    assistant.subscribed(url, arguments={"sql": sql})
    pushed(client, ("T", 88))
    assert json.loads(receiver.wait(2)[1].body)["data"]["came"] == [{"sym": "T"}]
    assert assistant.subscribed(url, arguments={"sql": sql})["truncated"] is False
    assistant.unsubscribed(url, sql=sql)
    service.wait_until(lambda: is_gone(service, key_of(sql)))


def test_wrong_subscriptions_and_unwilling_receivers_are_refused(
    client: Client, endpoint: str, assistant: Assistant, receiver: Willing
) -> None:
    for url in ("http://example.com/a", "https://127.0.0.1/a", "https://localhost/a", "https://u@example.com", "x"):
        code, facts = assistant.refused(url)
        assert (code, facts["reason"]) == (-32602, "WEBHOOK_URL"), url
    url = receiver.begin()
    assert assistant.refused(url, "")[0] == -32602
    assert assistant.refused(url, "whsec_short")[1]["reason"] == "WEBHOOK_SECRET"
    assert assistant.refused(url, delivery={"mode": "push"})[0] == -32026
    assert assistant.refused(url, arguments={"key": "nosuch"})[0] == -32023
    assert assistant.refused(url, arguments={})[0] == -32602
    error = assistant.asked("events/subscribe", name="answer_changed", arguments={"key": "large"})["error"]
    assert (error["code"], error["message"]) == (-32602, "the argument delivery.url is missing")
    assert receiver.requests == []
    for reply, reason in (
        (replies(404), "http_4xx"),
        (replies(503), "http_5xx"),
        (replies(302, "Location: /\r\nContent-Length: 0"), "http_4xx"),
        (replies(204), "challenge_failed"),
        (repeats("another"), "challenge_failed"),
        (replies(200, "Content-Length: 2", b"[]"), "challenge_failed"),
    ):
        receiver.script.append(reply)
        assert assistant.refused(url) == (-32027, {"reason": reason})
    reader = Assistant(endpoint, client.issue_token("eve", ["reader"]).secret)
    assert reader.asked("events/list")["result"]["events"][0]["delivery"] == ["push", "poll"]
    assert reader.refused(url)[0] == -32024
    assert client.webhooks() == []


def test_a_caller_without_a_credential_polls_but_gets_no_webhook(receiver: Willing) -> None:
    with serving(Settings(port=0, web_port=0, mcp=True, webhook_hosts=(receiver.origin,))) as open_to_all:
        assert open_to_all.service.gateway is not None
        stranger = Assistant(open_to_all.service.gateway.address, "")
        assert stranger.asked("events/list")["result"]["events"][0]["delivery"] == ["push", "poll"]
        assert stranger.refused(receiver.begin())[0] == -32024
        assert stranger.unsubscribed(receiver.url)["error"]["code"] == -32024
