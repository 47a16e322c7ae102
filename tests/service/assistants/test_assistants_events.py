"""MCP Events: polls and streams tell of changes of an answer."""

from __future__ import annotations

import asyncio
import datetime as dt
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import jsonschema
import pytest

from psoup_client import Client
from psoup_proto.v1.types_pb2 import Completeness
from psoup_service.assistants.facts import CompletenessFacts
from psoup_service.assistants.subscriptions import key_of
from psoup_service.servicers.webhooks import WebhookServicer
from psoup_testing.services.event_receivers import is_gone
from psoup_testing.services.threaded_service import Serving

_VERSION = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": _VERSION,
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/events": {}}},
}
_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": _VERSION,
}


def body(method: str, request_id: int = 5, **params: Any) -> dict[str, Any]:
    """A request."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**params, "_meta": _META}}


def asked(url: str, method: str, **params: Any) -> dict[str, Any]:
    """The reply to a request."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request("POST", "/mcp", json.dumps(body(method, **params)), {**_HEADERS, "mcp-method": method})
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def polled(url: str, cursor: str | None = None, **params: Any) -> dict[str, Any]:
    """The result of a poll."""
    reply = asked(url, "events/poll", name="answer_changed", cursor=cursor, **params)
    assert "result" in reply, reply
    result: dict[str, Any] = reply["result"]
    return result


@contextmanager
def streamed(url: str, cursor: str | None = None, **params: Any) -> Iterator[Iterator[dict[str, Any]]]:
    """The messages of a stream, without heartbeats."""
    request = body("events/stream", name="answer_changed", cursor=cursor, **params)
    headers = {**_HEADERS, "mcp-method": "events/stream"}
    with (
        httpx2.Client(timeout=60, trust_env=False, verify=False) as client,
        client.stream("POST", url, json=request, headers=headers) as reply,
    ):

        def messages() -> Iterator[dict[str, Any]]:
            for line in reply.iter_lines():
                if line.startswith("data: "):
                    message = json.loads(line.removeprefix("data: "))
                    if message.get("method") != "notifications/events/heartbeat":
                        yield message

        yield messages()


@pytest.fixture(scope="module")
def client(running: Serving) -> Iterator[Client]:
    """A client of the same service, with queries over the trades."""
    with Client(running.address, timeout=60) as made:
        made.register("SELECT sym, n FROM trades WHERE n >= 3", key="large")
        made.register("SELECT sym, count(*) AS c FROM trades GROUP BY sym", key="counts")
        made.wait_for(made.last_sequence)
        yield made


def pushed(client: Client, *rows: dict[str, Any]) -> None:
    """Push rows of trades, and wait until all calls see them."""
    client.push("trades", list(rows))
    client.wait_for(client.last_sequence)


def test_the_event_type_is_listed_with_its_schemas(url: str) -> None:
    discovered = asked(url, "server/discover")["result"]
    assert discovered["capabilities"]["extensions"] == {"io.modelcontextprotocol/events": {}}
    [kind] = asked(url, "events/list")["result"]["events"]
    assert (kind["name"], kind["delivery"]) == ("answer_changed", ["push", "poll"])
    jsonschema.validate({"key": "x"}, kind["inputSchema"])
    for wrong in ({}, {"key": "x", "sql": "y"}, {"keys": "x"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, kind["inputSchema"])


def test_polls_go_on_from_the_cursor(url: str, client: Client) -> None:
    [kind] = asked(url, "events/list")["result"]["events"]
    start = polled(url, arguments={"key": "large"})
    assert (start["events"], start["hasMore"], start["truncated"]) == ([], False, False)
    nothing = polled(url, start["cursor"], arguments={"key": "large"})
    assert nothing["events"] == []
    pushed(client, {"sym": "A", "n": 7}, {"sym": "B", "n": 1}, {"sym": "C", "n": 8, "price": None})
    first = polled(url, nothing["cursor"], arguments={"key": "large"})
    [event] = first["events"]
    assert event["name"] == "answer_changed"
    assert event["data"]["came_count"] == 2
    assert [(row["sym"], row["n"]) for row in event["data"]["came"]] == [("A", 7), ("C", 8)]
    assert event["data"]["completeness"]["said"].startswith("The answer reflects event ")
    jsonschema.validate(event["data"], kind["payloadSchema"])
    [again] = polled(url, nothing["cursor"], arguments={"key": "large"})["events"]
    assert again["eventId"] == event["eventId"], "a poll that is repeated tells of the same event"
    assert polled(url, first["cursor"], arguments={"key": "large"})["events"] == []


def test_an_answer_that_is_compared_as_a_whole_tells_how_many_rows_left(url: str, client: Client) -> None:
    start = polled(url, arguments={"key": "counts"})
    pushed(client, {"sym": "B", "n": 1})
    [event] = polled(url, start["cursor"], arguments={"key": "counts"})["events"]
    assert (event["data"]["came_count"], event["data"]["left_count"]) == (1, 1)


def test_rows_with_ids_leave_by_the_intervals_of_those_that_stay(url: str, client: Client) -> None:
    client.register("SELECT _id, sym FROM trades WHERE n = 66 BEGIN (NOW - 2 ROWS)", key="last")
    pushed(client, {"sym": "A", "n": 66}, {"sym": "B", "n": 66})
    start = polled(url, arguments={"key": "last"})
    pushed(client, {"sym": "C", "n": 66})
    [event] = polled(url, start["cursor"], arguments={"key": "last"})["events"]
    data = event["data"]
    ((begin, end),) = data["stays"]["_id"]
    assert (data["came_count"], data["left_count"], end - begin) == (1, None, 1)
    assert data["came"][0]["_id"] == end, "the row that stays came just before"


def test_one_fact_has_one_name_in_all_protocols(url: str, client: Client) -> None:
    assert set(CompletenessFacts.model_fields) - {"said"} <= set(Completeness.DESCRIPTOR.fields_by_name)
    start = polled(url, arguments={"key": "large"})
    pushed(client, {"sym": "A", "n": 9})
    data = polled(url, start["cursor"], arguments={"key": "large"})["events"][0]["data"]
    assert {"key", "sequence", "came_count", "left_count", "came", "completeness"} <= set(data)
    assert data["completeness"]["now"].endswith("Z")


def test_an_answer_that_shows_now_comes_whole_with_each_event(url: str, client: Client) -> None:
    client.register("SELECT sym, NOW AS at FROM trades WHERE n = 55", key="shows-now")
    pushed(client, {"sym": "N", "n": 55})
    start = polled(url, arguments={"key": "shows-now"})
    pushed(client, {"sym": "O", "n": 55})
    changed = polled(url, start["cursor"], arguments={"key": "shows-now"})
    [event] = changed["events"]
    assert changed["truncated"] is False
    assert (event["data"]["reset"], event["data"]["came_count"], event["data"]["left_count"]) == (True, 2, None)


def test_many_rows_are_counted_and_the_first_ones_told(url: str, client: Client) -> None:
    start = polled(url, arguments={"key": "large"})
    pushed(client, *({"sym": "M", "n": n + 3} for n in range(1_000)))
    [event] = polled(url, start["cursor"], arguments={"key": "large"})["events"]
    assert (event["data"]["came_count"], len(event["data"]["came"]), event["data"]["more_rows"]) == (1_000, 20, 980)


def test_an_old_cursor_begins_anew_and_says_so(url: str, client: Client) -> None:
    start = polled(url, arguments={"key": "large"})
    pushed(client, {"sym": "A", "n": 9})
    quiet = polled(url, polled(url, arguments={"key": "large"})["cursor"], arguments={"key": "large"}, maxAgeMs=0)
    assert quiet["truncated"] is False, "nothing was missed"
    late = polled(url, start["cursor"], arguments={"key": "large"}, maxAgeMs=0)
    assert (late["events"], late["truncated"]) == ([], True)
    assert polled(url, late["cursor"], arguments={"key": "large"})["events"] == []
    foreign = polled(url, arguments={"key": "counts"})["cursor"]
    reply = asked(url, "events/poll", name="answer_changed", cursor=foreign, arguments={"key": "large"})
    assert reply["error"]["data"]["reason"] == "TOKEN_QUERY"


def test_wrong_subscriptions_are_refused_with_the_codes_of_the_extension(url: str) -> None:
    def code(name: str = "answer_changed", **params: Any) -> tuple[int, Any]:
        for method in ("events/poll", "events/stream"):
            error = asked(url, method, name=name, **params)["error"]
        return error["code"], error.get("data")

    assert code("nosuch", arguments={"key": "x"}) == (-32023, {"kind": "event"})
    assert code(arguments={"key": "nosuch"})[0] == -32023
    assert code(arguments={})[0] == -32602
    assert code(arguments={"key": "large"}, cursor="?")[0] == -32602
    assert code(arguments={"key": "large"}, cursor="AA")[0] == -32602
    number, facts = code(arguments={"sql": "SELECT nosuch FROM trades"})
    assert (number, facts["column"], facts["reason"]) == (-32602, 8, "UNKNOWN_COLUMN")


def test_a_stream_tells_each_change_until_its_query_is_gone(url: str, client: Client) -> None:
    query = client.register("SELECT sym FROM trades WHERE n = 77", key="seventy")
    client.wait_for(client.last_sequence)
    with streamed(url, arguments={"key": "seventy"}) as messages:
        active = next(messages)
        assert active["method"] == "notifications/events/active"
        assert active["params"]["truncated"] is False
        pushed(client, {"sym": "S", "n": 77})
        event = next(messages)
        assert event["method"] == "notifications/events/event"
        assert event["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 5}
        assert (event["params"]["data"]["came_count"], event["params"]["data"]["came"][0]["sym"]) == (1, "S")
        query.unregister()
        ended = next(messages)
        assert ended["method"] == "notifications/events/terminated"
        assert ended["params"]["error"]["code"] == -32023
        assert next(messages)["result"]["resultType"] == "complete"
        assert next(messages, None) is None


def test_a_stream_goes_on_from_a_cursor_of_a_poll(url: str, client: Client) -> None:
    start = polled(url, arguments={"key": "large"})
    pushed(client, {"sym": "A", "n": 10})
    with streamed(url, start["cursor"], arguments={"key": "large"}) as messages:
        assert next(messages)["params"]["truncated"] is False
        event = next(messages)["params"]
        assert event["data"]["came_count"] == 1
    [again] = polled(url, start["cursor"], arguments={"key": "large"})["events"]
    assert again["eventId"] == event["eventId"]
    assert polled(url, event["cursor"], arguments={"key": "large"})["events"] == []


def keys(client: Client) -> list[str]:
    """The keys of queries that stand for subscriptions."""
    return [query.key for query in client.queries() if query.key and query.key.startswith("mcp-event-")]


def test_a_subscription_by_sql_registers_its_query_until_it_ends(url: str, client: Client, running: Serving) -> None:
    sql = "SELECT sym FROM trades WHERE n = 88"
    assert running.service.gateway is not None
    subscriptions = running.service.gateway._assistants._endpoint._subscriptions  # type: ignore[union-attr]
    subscriptions._grace_s = 0.0
    with streamed(url, arguments={"sql": sql}) as messages:
        next(messages)
        [key] = keys(client)
        assert client.query(key=key).info.expires_after == dt.timedelta(days=7)
        pushed(client, {"sym": "T", "n": 88})
        assert next(messages)["params"]["data"]["came_count"] == 1
    running.wait_until(lambda: is_gone(running, key))
    start = polled(url, arguments={"sql": sql})
    [key] = keys(client)
    client.query(key=key).unregister()
    client.wait_for(client.last_sequence)
    anew = polled(url, start["cursor"], arguments={"sql": sql})
    assert anew["truncated"] is True
    with streamed(url, anew["cursor"], arguments={"sql": f" {sql} "}) as messages:
        next(messages)
    pushed(client, {"sym": "T", "n": 88})
    assert keys(client) == [key], "a poll of the same statement goes on after the end of a stream"


def test_a_query_that_is_used_again_while_it_is_ended_stays(
    url: str, client: Client, running: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client comes back after the grace time, while the service looks for webhooks of the query."""
    sql = "SELECT sym FROM trades WHERE n = 99"
    assert running.service.gateway is not None
    subscriptions = running.service.gateway._assistants._endpoint._subscriptions  # type: ignore[union-attr]
    monkeypatch.setattr(subscriptions, "_grace_s", 0.0)
    looking, may_end = threading.Event(), asyncio.Event()
    listed = WebhookServicer.ListWebhooks

    async def slow(servicer: WebhookServicer, request: Any, caller: Any) -> Any:
        looking.set()
        await may_end.wait()
        return await listed(servicer, request, caller)

    monkeypatch.setattr(WebhookServicer, "ListWebhooks", slow)
    with streamed(url, arguments={"sql": sql}) as messages:
        cursor = next(messages)["params"]["cursor"]
    assert looking.wait(30)
    with streamed(url, cursor, arguments={"sql": sql}) as messages:
        assert next(messages)["params"]["truncated"] is False
        running._loop.call_soon_threadsafe(may_end.set)
        pushed(client, {"sym": "U", "n": 99})
        message = next(messages)
        assert message["method"] == "notifications/events/event", message
        assert not is_gone(running, key_of(sql))
    running.wait_until(lambda: is_gone(running, key_of(sql)))
