"""A client reads its own writes: every read waits for the last event that the client knows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from psoup_client import Client, OutOfRange, Query
from psoup_testing.services.threaded_service import Serving

MakeStream = Callable[[str], str]


@contextmanager
def held_writer(running: Serving) -> Iterator[None]:
    """Nothing is applied before somebody waits for it, or the block ends."""
    host = running.service.host
    go, apply, wait_for = threading.Event(), host._engine.apply, host.wait_for

    def held(events: Any) -> Any:
        go.wait()
        return apply(events)

    async def waiting(sequence: int, timeout: float) -> None:
        go.set()
        await wait_for(sequence, timeout)

    host._engine.apply, host.wait_for = held, waiting
    try:
        yield
    finally:
        go.set()
        host._engine.apply, host.wait_for = apply, wait_for


READS: dict[str, Callable[[Client, str, Query], Any]] = {
    "describe": lambda client, stream, query: client.describe(stream).tuples,
    "streams": lambda client, stream, query: {info.name: info.tuples for info in client.streams()}[stream],
    "matches": lambda client, stream, query: 100 * (client.matches(stream, 99) == [query.id]),
    "matches_many": lambda client, stream, query: 100 * (client.matches_many(stream, [7, 99]) == [[query.id]] * 2),
    "explain": lambda client, stream, query: query.explain().details["matches_in_window"],
    "top_queries": lambda client, stream, query: client.top_queries(stream=stream)[0].matched,
    "memory": lambda client, stream, query: 100 * (client.memory().items[0].count >= 100),
    "invoke": lambda client, stream, query: len(query.invoke()),
    "ask": lambda client, stream, query: len(client.ask(f"SELECT a FROM {stream}")),
    "execute": lambda client, stream, query: len(client.execute(f"SELECT a FROM {stream}")),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_reflects_what_the_client_pushed(
    name: str, running: Serving, client: Client, make_stream: MakeStream
) -> None:
    stream = make_stream("(a BIGINT)")
    query = client.register(f"SELECT a FROM {stream} WHERE a >= 0 BEGIN (START)")
    with held_writer(running):
        client.push(stream, {"a": list(range(100))})
        assert READS[name](client, stream, query) == 100


def test_what_a_producer_sent_is_there(running: Serving, client: Client, make_stream: MakeStream) -> None:
    stream = make_stream("(a BIGINT)")
    with held_writer(running):
        with client.producer(stream) as producer:
            producer.push({"a": list(range(100))})
        assert client.describe(stream).tuples == 100


def test_another_client_reflects_what_it_is_told(running: Serving, client: Client, make_stream: MakeStream) -> None:
    stream = make_stream("(a BIGINT)")
    query = client.register(f"SELECT a FROM {stream} WHERE a >= 0 BEGIN (START)")
    with Client(client.address) as other, held_writer(running):
        done = client.push(stream, {"a": [1]})
        assert other.describe(stream).tuples == 0
        with pytest.raises(OutOfRange, match="tuple 0 is not in stream"):
            other.matches(stream, 0)
        assert other.matches(stream, 0, wait_for=done.sequence) == [query.id]
        assert other.matches_many(stream, [0], wait_for=done.sequence) == [[query.id]]
        assert other.describe(stream, wait_for=done.sequence).tuples == 1
        assert other.query(query.id).explain(wait_for=done.sequence).details["matches_in_window"] == 1
        for read in (other.matches, other.describe):
            with pytest.raises(OutOfRange, match="there is no event 1000000 yet"):
                read(stream, *([0] if read == other.matches else []), wait_for=1_000_000)


def test_a_restarted_service_is_not_waited_for(client: Client, make_stream: MakeStream) -> None:
    stream = make_stream("(a BIGINT)")
    client.note_sequence(10**9)  # of a life whose data are gone
    assert client.describe(stream).tuples == 0
    assert client.last_sequence == 0


ROW = b'{"id": 77, "at": "2024-05-01T15:00:00Z"}\n'


def test_the_command_waits_for_an_event(psoup: Any, filled: str, running: Serving) -> None:
    query = psoup("register", f"SELECT id FROM {filled} BEGIN (START)").out.strip()
    with held_writer(running):
        pushed = psoup("push", filled, "-", "--format", "json", "--json", stdin=ROW)
        event = str(pushed.rows[0]["sequence"])
        assert psoup("stream", "describe", filled, "--json", "--wait-for", event).rows[0]["tuples"] == 4
        assert psoup("matches", filled, "3", "--wait-for", event).out.split() == [query]
        assert len(psoup("invoke", query, "--json", "--wait-for", event).rows) == 4
        assert psoup("explain", query, "--json", "--wait-for", event).rows[0]["matches_in_window"] == 4
        assert psoup("invoke", query, "--wait-for", "999999").code == 1


def test_a_command_ends_when_all_see_what_it_did(psoup: Any, filled: str, running: Serving) -> None:
    query = psoup("register", f"SELECT id FROM {filled} BEGIN (START)").out.strip()
    with held_writer(running):
        assert psoup("push", filled, "-", "--format", "json", stdin=ROW).code == 0
        assert len(psoup("invoke", query, "--json").rows) == 4


def test_a_command_that_waits_in_vain_says_so(
    psoup: Any, filled: str, running: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did is done: it is no error."""

    async def late(sequence: int, timeout: float) -> None:
        raise TimeoutError

    with held_writer(running), monkeypatch.context() as patched:
        patched.setattr(running.service.host, "wait_for", late)
        pushed = psoup("push", filled, "-", "--format", "json", stdin=ROW)
    assert pushed.code == 0
    assert "1 row taken in 1 batch" in pushed.err
    assert "may not be in all answers yet" in pushed.err
