"""Deliveries of webhooks to receivers that take them, fail, redirect, or end in the middle of a reply."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from psoup.events.webhooks import AddWebhook
from psoup_client import AddedWebhook, Client, InvalidRequest, NotFound
from psoup_proto.v1 import webhooks_pb2
from psoup_service.host.command_facts import COMMAND_BYTES, size_of
from psoup_service.process.settings import Settings
from psoup_service.sync.tokens import MOST_BYTES
from psoup_service.webhooks import deliveries
from psoup_testing.oracles.questions import again
from psoup_testing.services.receivers import Receiver, Reply, closes, folded, replies, row_text
from psoup_testing.services.threaded_service import Serving, serving
from psoup_testing.suite.budget import SEED, replayable


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


@pytest.fixture(scope="module")
def service(receiver: Receiver) -> Iterator[Serving]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deliveries, "FIRST_PAUSE_S", 0.01)
        patch.setattr(deliveries, "PROGRESS_S", 0.05)
        with serving(Settings(port=0, webhook_hosts=(receiver.origin,))) as made:
            yield made


@pytest.fixture(scope="module")
def client(service: Serving) -> Iterator[Client]:
    with Client(service.address) as made:
        made.create_stream("CREATE STREAM s (x BIGINT, y TEXT)")
        made.create_stream("CREATE TABLE t (k BIGINT, v DOUBLE, PRIMARY KEY (k))")
        yield made


@pytest.fixture
def hook(client: Client, receiver: Receiver) -> Iterator[AddedWebhook]:
    """A webhook whose receiver has the first delivery."""
    url = receiver.begin()
    client.register("SELECT x, y FROM s WHERE x > 0 BEGIN (NOW - 6 ROWS)", key="hot", replace=True)
    added = client.add_webhook("hot", url)
    receiver.wait(1)
    yield added
    client.remove_webhook(added.webhook)


def test_a_delivery_is_signed_and_tells_which_rows_came_and_left(
    client: Client, hook: AddedWebhook, receiver: Receiver
) -> None:
    client.push("s", [{"x": 2**60, "y": "ü"}, {"x": 0, "y": "no"}, {"x": 1, "y": None}])
    receiver.until(lambda requests: folded(requests).total() == 2)
    client.push("s", [{"x": 0, "y": str(number)} for number in range(6)])
    sent = receiver.until(lambda requests: sum(request.data["left_count"] for request in requests) >= 2)
    for request in sent:
        request.verify(hook.secret)
        assert request.headers["content-type"] == "application/json"
    (first, *later), names = sent, {request.id for request in sent}
    assert first.data["reset"] and not any(request.data["reset"] for request in later)
    assert len(names) == len(sent) and all(name.startswith("msg_") for name in names)
    came = [row for request in later for row in request.data["came"]]
    assert came[-2:] == [{"x": str(2**60), "y": "ü"}, {"x": 1, "y": None}]
    assert later[-1].data["query_id"] == client.query(key="hot").id and later[-1].data["key"] == "hot"
    assert folded(sent) == Counter()


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (replies(500), "the receiver replied 500"),
        (replies(302, "Location: http://127.0.0.1:1/\r\nContent-Length: 0"), "replied 302, a redirect"),
        (replies(199, "Content-Length: 0"), "the receiver"),
        (closes, "the receiver cannot be reached"),
        (lambda connection: connection.sendall(b"SMTP ready\r\n"), "the receiver cannot be reached"),
        (lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Le"), "the receiver cannot be reached"),
    ],
    ids=["500", "redirect", "199", "closes", "not HTTP", "half a head"],
)
def test_a_delivery_comes_again_with_the_same_id_and_body(
    client: Client, hook: AddedWebhook, receiver: Receiver, reply: Reply, error: str
) -> None:
    receiver.script.extend([reply, reply])
    client.push("s", [{"x": 7, "y": "a"}])
    first, second, third = receiver.wait(4)[1:4]
    assert first.id == second.id == third.id and first.body == second.body == third.body
    for request in (first, second, third):
        request.verify(hook.secret)
    (listed,) = client.webhooks("hot")
    assert listed.state in ("delivering", "up to date") and (not listed.error or error in listed.error)


@pytest.mark.parametrize(
    "reply",
    [
        replies(200, "Content-Length: 10", b"short"),
        replies(200, "Content-Length: 2", b"much longer than that"),
        replies(299, "Transfer-Encoding: chunked", b"zz\r\n"),
        replies(200, "X: y"),
    ],
    ids=["closes early", "wrong length", "not chunks", "no length"],
)
def test_a_status_counts_whatever_the_receiver_does_after_it(
    client: Client, hook: AddedWebhook, receiver: Receiver, reply: Reply
) -> None:
    receiver.script.append(reply)
    client.push("s", [{"x": 7, "y": "a"}])
    client.push("s", [{"x": 8, "y": "b"}])
    sent = receiver.until(lambda requests: any({"x": 8, "y": "b"} in request.data["came"] for request in requests))
    assert len({request.id for request in sent}) == len(sent)


def test_changes_wait_for_a_paused_webhook_and_come_merged(
    client: Client, hook: AddedWebhook, receiver: Receiver
) -> None:
    client.pause_webhook(hook.webhook)
    client.pause_webhook(hook.webhook.id)
    for number in range(1, 4):
        client.push("s", [{"x": number, "y": "p"}])
    assert client.webhooks("hot")[0].state == "paused"
    test = client.test_webhook(hook.webhook)
    assert (test.status, test.error) == (204, "")
    client.resume_webhook(hook.webhook)
    sent = receiver.until(lambda requests: any(b'"x":3' in request.body for request in requests))
    assert [row["x"] for row in sent[-1].data["came"]] == [1, 2, 3]
    assert b'"type":"webhook.test"' in sent[1].body
    sent[1].verify(hook.secret)


def test_after_three_days_of_failures_a_webhook_is_paused_until_it_is_resumed(
    client: Client, hook: AddedWebhook, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, service: Serving
) -> None:
    monkeypatch.setattr(deliveries, "PATIENCE_US", 30_000)
    receiver.script.extend([replies(503)] * 50)
    client.push("s", [{"x": 9, "y": "f"}])
    service.wait_until(lambda: service.service._figures()["webhooks_failed"] == 1)
    (listed,) = client.webhooks("hot")
    assert listed.status == 503 and listed.waiting and listed.next_attempt is None
    receiver.script.clear()
    client.resume_webhook(hook.webhook)
    sent = receiver.until(lambda requests: requests[-1].id == listed.waiting and not receiver.script)
    assert sent[-1].body == sent[1].body


def test_another_query_with_the_key_begins_anew(
    client: Client, hook: AddedWebhook, receiver: Receiver, service: Serving
) -> None:
    client.unregister(client.query(key="hot"))
    deliverer = service.service._servicers.webhooks.deliverer
    service.wait_until(lambda: any(task.progress.no_query for task in deliverer._open.values()))
    assert client.webhooks("hot")[0].state == "no query"
    client.register("SELECT count(*) AS n FROM s WHERE x > 0 BEGIN (NOW - 6 ROWS)", key="hot")
    sent = receiver.until(lambda requests: any("n" in row for r in requests for row in r.data["came"]))
    assert sent[-1].data["reset"]


def test_a_body_beyond_the_limit_has_the_numbers_of_rows(
    client: Client, hook: AddedWebhook, receiver: Receiver
) -> None:
    client.register("SELECT x, y FROM s WHERE x > 0 BEGIN (NOW - 400 ROWS)", key="hot", replace=True)
    client.push("s", [{"x": number + 1, "y": "y" * 1_000} for number in range(300)])
    sent = receiver.until(lambda requests: requests[-1].data["came_count"] >= 300)
    data = sent[-1].data
    assert data["counts_only"] and "came" not in data and "left" not in data
    assert len(sent[-1].body) < 2_000


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT x, y FROM s WHERE x > 3 BEGIN (NOW - 20 ROWS)",
        "SELECT x % 3 AS k, count(*) AS n FROM s GROUP BY k BEGIN (NOW - 20 ROWS)",
        "SELECT a.x, b.y FROM s AS a, s AS b WHERE a.x = b.x AND a.x > 5 BEGIN (NOW - 12 ROWS)",
        "SELECT k, v FROM t WHERE v > 3",
    ],
    ids=["selection", "groups", "join", "table"],
)
def test_deliveries_add_up_to_the_answer(
    client: Client, receiver: Receiver, statement: str, request: pytest.FixtureRequest
) -> None:
    key = request.node.callspec.id
    query = client.register(statement, key=key)
    added = client.add_webhook(key, receiver.begin())
    with replayable(SEED):
        draw = random.Random(SEED)
        for step in range(12):
            if step % 3 == 0:
                receiver.script.append(draw.choice([replies(500), closes]))
            client.push("s", [{"x": draw.randrange(9), "y": draw.choice("abc")} for _ in range(draw.randrange(1, 5))])
            client.upsert("t", [{"k": draw.randrange(6), "v": float(draw.randrange(9))}])
        rows = Counter(map(row_text, again(query.invoke).to_arrow().to_pylist()))
        receiver.until(lambda requests: folded(requests) == rows)
    client.remove_webhook(added.webhook)


def test_bad_input_is_refused_by_name(client: Client, hook: AddedWebhook, service: Serving) -> None:
    cases: list[tuple[type[Exception], str, tuple[Any, ...]]] = [
        (NotFound, "there is no query with key 'cold'", ("cold", "https://example.org")),
        (InvalidRequest, "127.0.0.1 is not a public address", ("hot", "https://127.0.0.1/")),
        (InvalidRequest, "over https only", ("hot", f"http://{service.address}/")),
    ]
    for kind, message, arguments in cases:
        with pytest.raises(kind, match=message):
            client.add_webhook(*arguments)
    for secret in ("whsec_short", "a" * 40, "whsec_" + "ä" * 40):
        with pytest.raises(InvalidRequest, match="the secret is not valid: write 'whsec_'") as refused:
            client.add_webhook("hot", "https://example.org/", secret=secret)
        assert secret not in str(refused.value)
    for webhook_id, kind in (("w-1", InvalidRequest), (hook.webhook.id[:-1] + "9999", NotFound), ("", InvalidRequest)):
        with pytest.raises(kind):
            client.pause_webhook(webhook_id)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"key": "k" * 1_025}, "key has 1,025 characters; the limit is 1,024"),
        ({"subscription": {"token": b"x" * (MOST_BYTES + 1)}}, "subscription.token has .* bytes; the limit is"),
        (
            {"subscription": {"arguments": "ü" * 70_000}},
            "subscription.arguments has 140,000 bytes; the limit is 131,072",
        ),
    ],
    ids=["key", "token", "arguments"],
)
def test_fields_that_are_too_long_are_refused_with_their_limit(
    client: Client, hook: AddedWebhook, fields: dict[str, Any], message: str
) -> None:
    request = webhooks_pb2.AddWebhookRequest(**{"key": "hot", "url": "https://example.org/", **fields})
    with pytest.raises(InvalidRequest, match=message):
        client.connection.call(client.connection.webhooks.AddWebhook, request)


def test_a_command_takes_room_for_all_its_texts() -> None:
    assert size_of(AddWebhook("k" * 900, "u" * 2_000, "s" * 90, token=b"t" * 10)) == COMMAND_BYTES + 3_000
