"""Calls in JSON: what they say, which there are, and bodies that no page sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf import descriptor_pool

from psoup_client import Client
from psoup_service.gate import client_sockets
from psoup_service.gate.listeners import Listener
from psoup_service.gate.roles import ALLOWED as ROLES_OF
from psoup_service.web import connections
from psoup_service.web.bodies import MOST_BYTES, MOST_DEPTH, MOST_VALUES
from psoup_service.web.calls import WebCalls
from psoup_service.web.gateway import Gateway
from psoup_service.web.methods import ALLOWED
from psoup_service.web.refusals import STATUSES
from psoup_service.wire.call_steps import Answering
from psoup_service.wire.status import CODES, OWN_CODES
from psoup_testing.browser.page_requests import CALL, Page, WebRefusal, path_of
from psoup_testing.services.threaded_service import Serving

INFO = "ServerService/GetServerInfo"
GARBAGE = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 100,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
)
"""A handshake of TLS, the preface of HTTP/2, a length below zero, and two lengths."""


class Hurried(Page):
    """A page of a gateway of its own."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway.address)
        self.gateway = gateway


@contextmanager
def hurried(served: Serving, head_s: float = 30, **limits: Any) -> Iterator[Hurried]:
    """Another gateway of the same service, with other limits."""

    async def start() -> Gateway:
        answering: Answering = served.service._answering
        other = Answering(answering.calls, replace(answering.limits, **limits))
        assert served.service.gateway is not None
        calls = WebCalls(other, served.service.gateway._calls._methods)
        gateway = Gateway(calls, served.service._serving, (), lambda: "serving")
        await gateway.start(Listener("127.0.0.1", 0), None, head_s)
        return gateway

    async def end(gateway: Gateway) -> None:
        gateway.close()

    gateway = asyncio.run_coroutine_threadsafe(start(), served._loop).result()
    try:
        yield Hurried(gateway)
    finally:
        asyncio.run_coroutine_threadsafe(end(gateway), served._loop).result()


def refused(page: Page, call: str, body: bytes | str) -> tuple[int, str]:
    response = page.post(call, body)
    return response.status, response.json.get("reason", "")


def wait_for_none(served: Serving, watching: int = 0) -> None:
    """Wait until so many watch."""
    served.wait_until(lambda: served.service._answering.calls.under_way.watching <= watching)


def test_a_query_is_registered_read_explained_and_forgotten(page: Page) -> None:
    made = page.call("QueryService/Register", {"statement": "SELECT n FROM s WHERE n > 41", "key": "k"})["query"]
    assert [column["name"] for column in made["columns"]] == ["n"]
    assert page.call("QueryService/GetQuery", {"key": "k"})["query"]["queryId"] == made["queryId"]
    assert made["queryId"] in [each["queryId"] for each in page.call("QueryService/ListQueries")["queries"]]
    assert page.call("QueryService/Explain", {"key": "k"})["nodes"]
    assert page.call("QueryService/InvokeRows", {"queryId": made["queryId"]})["columns"]
    assert page.call("SyncService/Sync", {"wants": [{"key": "k"}], "compression": "COMPRESSION_GZIP"})["body"]
    assert page.call("QueryService/Unregister", {"queryId": made["queryId"]})["sequence"].isdecimal()
    with pytest.raises(WebRefusal) as gone:
        page.call("QueryService/GetQuery", {"key": "k"})
    assert (gone.value.status, gone.value.told["code"]) == (404, "NOT_FOUND")


def test_metrics_tell_calls_of_pages_from_others(served: Serving, page: Page) -> None:
    def calls(protocol: str) -> tuple[float, ...]:
        labels, read = {"method": INFO, "protocol": protocol}, served.service._metrics.registry.get_sample_value
        ended = read("psoup_calls_total", {**labels, "code": "OK"})
        return ended or 0, read("psoup_call_seconds_count", labels) or 0

    others, pages = calls("grpc"), calls("http")
    page.call(INFO)
    served.wait_until(lambda: calls("http") == tuple(count + 1 for count in pages))  # counted after its reply
    assert calls("grpc") == others
    with Client(served.address) as client:
        client.info()
    served.wait_until(lambda: calls("grpc") > others)


def test_a_wrong_statement_is_told_with_its_place_and_a_hint(page: Page) -> None:
    with pytest.raises(WebRefusal) as wrong:
        page.call("QueryService/Register", {"statement": "SELECT n\nFROM s WHERE m > 1"})
    told = wrong.value.told
    assert (wrong.value.status, told["code"], told["reason"]) == (400, "INVALID_ARGUMENT", "UNKNOWN_COLUMN")
    assert (told["line"], told["column"], told["hint"]) == (2, 14, "its columns are n, t")
    assert told["problem"] in told["message"] and "line 2" not in told["problem"]


def test_every_code_has_a_status() -> None:
    codes = {code.name for code in (*CODES.values(), *OWN_CODES)} - {"CANCELLED"}
    assert codes == set(STATUSES), "who has cancelled is told nothing"


@pytest.mark.seeded("every call of the contract is there")
def test_only_the_calls_of_the_list_are_there(page: Page) -> None:
    """Tuples come in as a few rows only, and no backup, job or token leaves."""
    listed = {f"{service.rpartition('.')[2]}/{name}" for service, names in ALLOWED.items() for name in names}
    pool, others = descriptor_pool.Default(), 0
    for name in ROLES_OF:
        service = name.partition("/")[0]
        if service in ("Health", "ServerReflection") or name in listed:
            continue
        assert pool.FindServiceByName(f"psoup.v1.{service}")
        assert refused(page, name, "{}") == (404, "UNKNOWN_CALL"), name
        others += 1
    assert others > 20
    assert [name for name in listed if "Push" in name] == ["IngestService/PushRows"]
    for word in ("Stage", "Part", "Heartbeat", "Backup", "Token", "Attach", "Cover", "InvokeStream"):
        assert not [name for name in listed if word in name]
    for path in (
        "/api/",
        "/api/psoup.v1.QueryService",
        "/api/QueryService/GetQuery",
        "/api//x",
        "/api/%2e%2e/GetQuery",
    ):
        assert page.send("POST", path, "{}", CALL).status == 404, path


@pytest.mark.parametrize(
    "body",
    [
        "[]", "1", "null", '"x"', "{", "{}{}", '{"pageSize": "x"}', '{"pageSize": 1e99}', '{"pageSize": NaN}',
        '{"nothing": 1}', '{"pageSize": 1, "pageSize": 2}', '{"labels": {"a": {}}}', b'{"stream": "\xff"}', "\x00",
        '{"pageSize": 99999999999999999999999999}', '{"stream": "\\ud800"}', '{"stream": ["x"]}',
    ],
)  # fmt: skip
def test_a_body_that_is_no_message_is_refused(page: Page, body: str | bytes) -> None:
    raw = body if isinstance(body, bytes) else body.encode()
    assert refused(page, "QueryService/ListQueries", raw) == (400, "NOT_PROTOBUF")


def test_an_empty_body_is_an_empty_message(page: Page) -> None:
    assert page.post(INFO, b"").status == 200


@pytest.mark.seeded("bodies may be as long, as deep, or of as many values as they like")
def test_big_bodies_are_refused_before_they_come(page: Page) -> None:
    with page.raw() as opened:
        opened.sendall(head(length=MOST_BYTES + 1))
        assert status_of(opened.recv(65_536)) == 413, "nothing of the body was sent"
    with page.raw() as opened:
        opened.sendall(head(length=10**15))
        assert status_of(opened.recv(65_536)) == 413


def test_a_body_without_a_length_is_refused(page: Page) -> None:
    with page.raw() as opened:
        opened.sendall(head("Transfer-Encoding: chunked\r\n") + b"2\r\n{}\r\n0\r\n\r\n")
        assert status_of(opened.recv(65_536)) == 411
    with page.raw() as opened:  # a length of two bytes, and a body without an end
        opened.sendall(head("Transfer-Encoding: chunked\r\n", length=2) + b"100000\r\n")
        assert status_of(opened.recv(65_536)) == 411
        assert ended(opened), "and the connection with them"


@pytest.mark.seeded("bodies may be as long, as deep, or of as many values as they like")
@pytest.mark.parametrize("depth", [MOST_DEPTH + 1, 20_000])
def test_deep_bodies_are_refused(page: Page, depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        body = '{"wants": ' + opening * depth + closing * depth + "}"
        assert refused(page, "SyncService/Sync", body) == (400, "NOT_PROTOBUF")
    assert "within one another" in page.post("SyncService/Sync", '{"a":' * depth).json["message"]
    text = json.dumps({"statement": "[" * 1_000 + '"' + "{" * 1_000})
    assert refused(page, "QueryService/Register", text)[1] != "NOT_PROTOBUF", "brackets in a text mean nothing"


@pytest.mark.seeded("bodies may be as long, as deep, or of as many values as they like")
def test_bodies_of_many_values_are_refused(page: Page) -> None:
    assert refused(page, "SyncService/Sync", '{"wants":[' + "{}," * MOST_VALUES + "{}]}") == (400, "NOT_PROTOBUF")
    thousand = {"wants": [{"queryId": "q-0-1", "token": "", "maxRows": "1", "maxBytes": 1, "window": ""}] * 1_000}
    assert page.post("SyncService/Sync", json.dumps(thousand)).status == 200


@pytest.mark.seeded("a body, or a head, may come as slowly as it likes")
@pytest.mark.seeded("a connection may be silent")
def test_slow_bodies_are_cut(served: Serving) -> None:
    with hurried(served, receive_s=0.2) as page, page.raw() as opened:
        opened.sendall(head(length=100) + b'{"pageS')
        assert status_of(opened.recv(65_536)) == 408
        assert opened.recv(1) == b"", "and the connection with them"


@pytest.mark.seeded("a body, or a head, may come as slowly as it likes")
@pytest.mark.seeded("a connection may be silent")
def test_slow_and_long_heads_and_silence_are_cut(served: Serving) -> None:
    with hurried(served, head_s=0.2) as page:
        for beginning in (b"", b"POST /api/x HTTP/1.1\r\nHost: loc"):
            with page.raw() as opened:
                opened.sendall(beginning)
                assert ended(opened), beginning
        with page.answered(head(length=2) + b"{}") as opened:
            opened.sendall(b"POST /api/x")
            assert drained(opened), "the second request of a connection is cut, too"
    with hurried(served) as page, page.raw() as opened:
        opened.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 32_768)
        assert status_of(opened.recv(65_536)) == 400


def test_long_heads_are_refused_also_if_they_come_at_once(page: Page) -> None:
    lines = "".join(f"X-{number}: {'x' * 50}\r\n" for number in range(500))
    for path, more in (("/", {"x": "x" * 17_000}), (f"/?{'x' * 17_000}", {}), ("/" + "x" * 17_000, {})):
        assert page.send("GET", path, headers=more).status == 431
    with page.raw() as opened:
        opened.sendall(head(lines, length=2) + b"{}")
        assert status_of(opened.recv(65_536)) == 431


def test_connections_that_are_too_many_are_cut_and_others_go_on(
    served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    with hurried(served) as page, ExitStack() as stack:
        opened = [stack.enter_context(page.raw()) for _ in range(3)]
        for each in opened:
            each.sendall(head(length=2) + b"{}")
            assert status_of(each.recv(65_536)) == 200
        with page.raw() as more:
            assert ended(more)
        opened[0].close()
        served.wait_until(lambda: page.gateway.connections < 3)
        assert page.call(INFO)["state"] == "serving", "there is room again"
    monkeypatch.setattr(client_sockets.resource, "getrlimit", lambda _: (8, 8))
    assert connections.most_connections() == 2, "the rest of the files are for the data"


def test_what_a_body_takes_is_given_back(served: Serving, page: Page) -> None:
    """Bodies of more than 64 KiB are charged while they come and are handled, whatever becomes of them."""
    receiving = served.service._answering.receiving
    long = json.dumps({"statement": "SELECT n FROM s WHERE n IN (" + "1, " * 30_000 + "1)"})
    assert refused(page, "QueryService/Check", long)[0] == 400
    assert refused(page, "QueryService/Check", long[:-1]) == (400, "NOT_PROTOBUF")
    with page.raw() as opened:
        opened.sendall(head(length=len(long)) + long[:1_000].encode())
        served.wait_until(lambda: receiving.bytes >= len(long))
    served.wait_until(lambda: receiving.bytes == 0)


def test_what_is_not_http_is_refused(page: Page) -> None:
    for garbage in GARBAGE:
        with page.raw() as opened:
            opened.sendall(garbage)
            opened.shutdown(1)
            reply = opened.recv(65_536)
            assert not reply or status_of(reply) >= 400, garbage


def test_requests_in_a_row_are_answered_in_order(page: Page) -> None:
    """Pipelined: the second waits for the first, and nothing of it is taken for the first's body."""
    with page.raw() as opened:
        opened.sendall(
            (head(length=2) + b"{}") * 3 + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        replies = b"".join(iter(lambda: opened.recv(65_536), b""))
    assert replies.count(b"HTTP/1.1 200") == 4 and replies.endswith(b"serving\n")


@pytest.mark.long
def test_a_watch_tells_what_comes_and_how_it_ends(page: Page, served: Serving) -> None:
    made = page.call("QueryService/Register", {"statement": "SELECT n FROM s WHERE n > 5"})["query"]["queryId"]
    with page.events("SyncService/Watch", {"wants": [{"queryId": made}], "progressSeconds": 1}) as events:
        assert events.response.getheader("content-type") == "text/event-stream"
        assert events.response.getheader("cache-control") == "no-store"
        told = iter(events)
        kind, first = next(told)
        assert kind == "message" and first["body"]
        assert next(told)[1]["size"], "a word after a second without news"
        page.call("QueryService/Unregister", {"queryId": made})
        assert [kind for kind, _ in told if kind != "message"] == [], "its want has failed, so it ends"
    wait_for_none(served)


def test_a_watch_that_is_refused_has_the_status_of_its_error(page: Page) -> None:
    for request, reason in (
        ({"wants": []}, "INVALID_INPUT"),
        ({"wants": [{}], "progressSeconds": 999}, "INVALID_INPUT"),
    ):
        assert refused(page, "SyncService/Watch", json.dumps(request)) == (400, reason)


def test_a_watch_ends_at_its_age_with_the_error_as_its_last_event(served: Serving, query: str) -> None:
    with hurried(served, stream_age_s=0.3) as page, page.events("SyncService/Watch", wants(query)) as events:
        *_, (kind, last) = events
        assert (kind, last["code"], last["reason"]) == ("error", "UNAVAILABLE", "STREAM_AGE")
        assert last["retryAfterMs"] == 1_000


@pytest.mark.seeded("a watcher stays when its page leaves early")
def test_pages_that_leave_at_any_moment_leave_no_watcher(served: Serving, page: Page, query: str) -> None:
    """Before the head, in the body, before the first message, after it: nothing is left of them."""
    whole = (
        head(length=len(json.dumps(wants(query))), path=path_of("SyncService/Watch"))
        + json.dumps(wants(query)).encode()
    )
    for end in (*range(0, len(whole), 16), len(whole), len(whole)):
        with page.raw() as opened:
            opened.sendall(whole[:end])
    for _ in range(20):
        with page.events("SyncService/Watch", wants(query)) as events:
            next(iter(events))
    wait_for_none(served)
    assert not served.service._servicers.sync._rounds._watchers


@pytest.mark.long
@pytest.mark.seeded("a page that does not read is waited for, with its messages or with the last word")
def test_a_page_that_does_not_read_is_cut_and_others_are_not(served: Serving, query: str) -> None:
    page = Page(served.service)
    with hurried(served, stream_idle_s=0.3) as other, other.raw() as stalled:
        body = json.dumps(wants(query)).encode()
        stalled.sendall(head(length=len(body), path=path_of("SyncService/Watch")) + body)
        with page.events("SyncService/Watch", wants(query)) as healthy:
            next(iter(healthy))
            push(served, 60)
            wait_for_none(served, watching=1)
            served.wait_until(lambda: not other.gateway.connections)
            push(served, 1)
            assert next(iter(healthy))[0] == "message"
    wait_for_none(served)


def push(served: Serving, batches: int) -> None:
    """Push batches of half a megabyte, more than systems hold for a reader."""
    from psoup_client import Client

    with Client(served.address) as client:
        for _ in range(batches):
            client.push("s", {"n": [1] * 500, "t": ["t" * 1_000] * 500})


def wants(query: str) -> dict[str, Any]:
    return {"wants": [{"queryId": query}], "progressSeconds": 300, "maxBytes": 1_000_000}


def head(more: str = "", length: int | None = None, path: str = path_of(INFO)) -> bytes:
    size = "" if length is None else f"Content-Length: {length}\r\n"
    lines = "".join(f"{name}: {value}\r\n" for name, value in CALL.items())
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{lines}{more}{size}\r\n".encode()


def status_of(reply: bytes) -> int:
    return int(reply.split(maxsplit=2)[1])


def ended(opened: Any) -> bool:
    try:
        return bool(opened.recv(1) == b"")
    except ConnectionResetError:
        return True


def drained(opened: Any) -> bool:
    """Whether the connection ends, after the rest of a reply."""
    try:
        while opened.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    return True
