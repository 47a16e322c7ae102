"""Webhooks across kill -9: of the service, at any moment, and of the receiver.

Each ID has one body. The deliveries, each taken once, add up to the answer, in the order in which they first came.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from psoup_client import Client, ClientOptions, RetryOptions
from psoup_client.errors import PSoupError
from psoup_testing.oracles.questions import again
from psoup_testing.services.event_receivers import Assistant, Willing
from psoup_testing.services.receivers import Received, Receiver, closes, folded, replies, row_text
from psoup_testing.services.reply_wait import asked_until
from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.budget import SEED, replayable, scaled

pytestmark = pytest.mark.long
STATEMENT = "SELECT x, y FROM s WHERE x > 2 BEGIN (NOW - 30 ROWS)"
IMPATIENT = ClientOptions(retry=RetryOptions(attempts=1))


def sound(requests: list[Received]) -> None:
    """Check that each ID has one body, and that deliveries come in order."""
    bodies: dict[str, bytes] = {}
    for request in requests:
        assert bodies.setdefault(request.id, request.body) == request.body
    first = {request.id: request.data["sequence"] for request in reversed(requests)}
    sequences = [first[name] for name in dict.fromkeys(request.id for request in requests)]
    assert sequences == sorted(sequences)


@pytest.mark.parametrize("number", range(scaled(2)))
def test_deliveries_add_up_whoever_is_killed(number: int, tmp_path: Path) -> None:
    draw = random.Random(SEED + number)
    with replayable(SEED + number), Receiver() as receiver, Zygote(PSOUP_WEBHOOK_HOSTS=receiver.origin) as zygote:
        zygote.start(str(tmp_path / "data"))
        address = zygote.ready()
        with Client(address) as client:
            client.create_stream("CREATE STREAM s (x BIGINT, y TEXT)")
            client.register(STATEMENT, key="hot")
            client.add_webhook("hot", receiver.url)
        for _ in range(5):
            with Client(address, options=IMPATIENT) as client:
                for _ in range(draw.randrange(1, 12)):
                    if not receiver.script and draw.random() < 0.3:
                        receiver.script.append(draw.choice([replies(500), closes]))
                    rows = [{"x": draw.randrange(9), "y": draw.choice("abc")} for _ in range(draw.randrange(1, 6))]
                    client.push("s", rows)
            zygote.kill()
            zygote.start(str(tmp_path / "data"), port=int(address.rpartition(":")[2]))
            address = zygote.ready()
        with Client(address) as client:
            answer = again(client.query(key="hot").invoke)
            rows_now = Counter(map(row_text, answer.to_arrow().to_pylist()))
            sent = receiver.until(lambda requests: folded(requests) == rows_now)
            sound(sent)
            assert sum(request.data["reset"] for request in sent if request.id != sent[0].id) == 0


def test_a_receiver_that_is_dead_for_a_while_gets_the_same_delivery(tmp_path: Path) -> None:
    with Receiver() as receiver:
        port, origin = receiver.port, receiver.origin
        with Zygote(PSOUP_WEBHOOK_HOSTS=origin) as zygote:
            zygote.start(str(tmp_path / "data"))
            address = zygote.ready()
            with Client(address) as client:
                client.create_stream("CREATE STREAM s (x BIGINT, y TEXT)")
                client.register(STATEMENT, key="hot")
                client.add_webhook("hot", receiver.url)
                receiver.wait(1)
                receiver.__exit__()
                client.push("s", [{"x": 5, "y": "dead"}])
                waiting = asked_until(
                    lambda: client.webhooks()[0], lambda hook: bool(hook.waiting and hook.error)
                ).waiting
                client.push("s", [{"x": 6, "y": "later"}])
            zygote.kill()
            with Receiver(port) as receiver:
                zygote.start(str(tmp_path / "data"))
                zygote.ready()
                first, second = receiver.wait(2)[:2]
    assert first.id == waiting and [row["y"] for row in first.data["came"]] == ["dead"]
    assert [row["y"] for row in second.data["came"]] == ["later"]
    with pytest.raises(PSoupError), Client(address, options=IMPATIENT) as client:
        client.webhooks()


def test_a_subscription_of_an_assistant_outlives_its_service(tmp_path: Path) -> None:
    with Willing() as receiver:
        settings = {"PSOUP_WEBHOOK_HOSTS": receiver.origin, "PSOUP_MCP": "true", "PSOUP_WEB_PORT": "0"}
        with Zygote(**settings) as zygote:
            zygote.start(str(tmp_path / "data"))
            address = zygote.ready()
            with Client(address) as client:
                token = client.issue_token("ann", ["owner", "operator"], first=True).secret
            options = ClientOptions(token=token)
            with Client(address, options=options) as client:
                client.create_stream("CREATE STREAM s (x BIGINT, y TEXT)")
                client.register(STATEMENT, key="large")
                endpoint = client.info().web_address
                subscription = Assistant(endpoint, token).subscribed(receiver.url)
                receiver.script.append(closes)
                client.push("s", [{"x": 5, "y": "first"}])
                attempt = receiver.wait(2)[1]
            zygote.kill()
            zygote.start(str(tmp_path / "data"), port=int(address.rpartition(":")[2]))
            with Client(zygote.ready(), options=options) as client:
                client.push("s", [{"x": 6, "y": "second"}])
                receiver.until(lambda requests: b'"second"' in requests[-1].body)
                events = receiver.events
                assert {event.headers["x-mcp-subscription-id"] for event in events} == {subscription["id"]}
                assert [event.body for event in events if event.id == attempt.id][-1] == attempt.body
                assert sum(event.id == attempt.id for event in events) >= 2
                renewal = Assistant(client.info().web_address, token).subscribed(receiver.url)
                assert (renewal["id"], renewal["truncated"]) == (subscription["id"], False)
