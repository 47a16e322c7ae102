"""Attempts: a name is resolved once, all its addresses are checked, and the connection goes to a checked address."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import trustme

from psoup_service.gate import targets
from psoup_service.gate.targets import Target, origins_of, target_of
from psoup_service.webhooks import addresses as resolving
from psoup_service.webhooks import attempts
from psoup_service.webhooks.addresses import Addresses
from psoup_service.webhooks.attempts import Sender
from psoup_service.webhooks.outcomes import Outcome
from psoup_testing.histories.webhooks import SECRET
from psoup_testing.services.receivers import Receiver, replies
from psoup_testing.suite.sweeps import swept


class Names:
    """A name server: `addresses` of each look-up, the last of them for all later ones. `asked`: the names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses = [["127.0.0.1"]]
        self.asked = list[str]()
        monkeypatch.setattr(socket, "getaddrinfo", self._resolve)

    def _resolve(self, host: str, port: int, **kind: Any) -> list[tuple[Any, ...]]:
        self.asked.append(host)
        listed = self.addresses.pop(0) if len(self.addresses) > 1 else self.addresses[0]
        if not listed:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in listed]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


def sent(*urls: Target) -> list[Outcome]:
    """The outcomes of attempts, one after the other, by one sender."""

    async def send() -> list[Outcome]:
        addresses = Addresses()
        sender = Sender(addresses, "test")
        try:
            return [await sender.send(target, "msg_1", b"{}", [SECRET], 1_700_000_000_000_000) for target in urls]
        finally:
            addresses.close()

    return asyncio.run(send())


def test_a_name_is_resolved_once_for_each_attempt_and_stays_in_the_request(names: Names, receiver: Receiver) -> None:
    origin = f"http://hooks.test:{receiver.port}"
    target = target_of(f"{origin}/a?b=c", origins_of([origin]))
    assert sent(target, target) == [Outcome(204, "")] * 2
    assert names.asked == ["hooks.test"] * 2
    assert {(request.path, request.headers["host"]) for request in receiver.requests} == {
        ("/a?b=c", f"hooks.test:{receiver.port}")
    }


@pytest.mark.parametrize("listed", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::ffff:127.0.0.1"]])
def test_a_name_that_changes_its_address_leads_nowhere(names: Names, receiver: Receiver, listed: list[str]) -> None:
    names.addresses = [listed]
    (outcome,) = sent(target_of(f"https://rebound.example:{receiver.port}/", frozenset()))
    assert outcome.status == 0 and "which is not public; name the host" in outcome.error
    assert not receiver.requests


def test_this_machine_is_refused_also_by_a_public_address(
    names: Names, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "is_public", lambda address: True)
    (outcome,) = sent(target_of(f"https://self.example:{receiver.port}/", frozenset()))
    assert "its address 127.0.0.1 belongs to this machine" in outcome.error
    assert not receiver.requests
    assert not targets.is_public("127.0.0.1")


def test_tls_is_checked_by_the_name(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("hooks.test").configure_cert(context)
    create = ssl.create_default_context

    def trusting() -> ssl.SSLContext:
        made = create()
        authority.configure_trust(made)
        return made

    monkeypatch.setattr(attempts.ssl, "create_default_context", trusting)
    with Receiver(tls=context) as receiver:
        outcomes = []
        for name in ("hooks.test", "other.test"):
            origin = f"https://{name}:{receiver.port}"
            outcomes += sent(target_of(origin, origins_of([origin])))
    assert outcomes[0] == Outcome(204, "")
    assert (outcomes[1].status, outcomes[1].category) == (0, "tls_error")
    assert "certificate" in outcomes[1].error.lower()


def test_the_first_address_that_takes_the_connection_is_used(names: Names, receiver: Receiver) -> None:
    names.addresses = [["127.0.0.2", "127.0.0.1"]]
    origin = f"http://two.test:{receiver.port}"
    assert sent(target_of(origin, origins_of([origin]))) == [Outcome(204, "")]


def test_faults_of_names_and_receivers_have_short_errors(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    names.addresses = [[]]
    (unknown,) = sent(target_of("https://nowhere.example/", frozenset()))
    error = "the receiver cannot be reached: Name or service not known"
    assert unknown == Outcome(0, error, "connection_refused")


@pytest.mark.long
def test_slow_names_of_a_tenant_leave_threads_to_other_tenants(
    names: Names, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "RESOLVE_S", 1.0)
    replied, resolve = threading.Event(), socket.getaddrinfo

    def slow(host: str, port: int, **kind: Any) -> Any:
        if host.startswith("slow"):
            assert replied.wait(60)
        return resolve(host, port, **kind)

    monkeypatch.setattr(socket, "getaddrinfo", slow)

    async def script() -> list[Any]:
        addresses = Addresses()
        try:
            slow_ones = [target_of(f"https://slow{number}.example/", frozenset()) for number in range(40)]
            waiting = [asyncio.create_task(addresses.of(target, "a")) for target in slow_ones]
            await asyncio.sleep(0)
            resolved = await addresses.of(target_of("http://b.test", origins_of(["http://b.test"])), "b")
            return [resolved, *await asyncio.gather(*waiting, return_exceptions=True)]
        finally:
            replied.set()
            addresses.close()

    resolved, *outcomes = asyncio.run(script())
    assert resolved == ["127.0.0.1"] and all(isinstance(outcome, TimeoutError) for outcome in outcomes)


def test_a_receiver_that_does_not_reply_ends_in_time(
    names: Names, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "WHOLE_S", 0.2)
    origin = f"http://slow.test:{receiver.port}"
    receiver.script.append(lambda connection: connection.recv(1) and None)
    late = Outcome(0, "the receiver did not reply in time", "timeout")
    assert sent(target_of(origin, origins_of([origin]))) == [late]


def test_a_status_counts_although_the_time_for_the_attempt_ends_within_the_body(
    names: Names, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "_REST_S", 0.1)
    ended, bounds = threading.Event(), list[asyncio.Timeout]()
    timeout, read = asyncio.timeout, attempts._read

    def noted(seconds: float) -> asyncio.Timeout:
        bounds.append(timeout(seconds))
        return bounds[-1]

    async def late(response: Any) -> bytes:
        """Read the body. If the bound of the attempt still holds, its time is over now."""
        if bounds[0].when() is not None:
            bounds[0].reschedule(asyncio.get_running_loop().time())
        return await read(response)

    monkeypatch.setattr(asyncio, "timeout", noted)
    monkeypatch.setattr(attempts, "_read", late)

    def slow(connection: socket.socket) -> None:
        replies(200, "Content-Length: 2")(connection)
        ended.wait(30)

    receiver.script.append(slow)
    origin = f"http://slow.test:{receiver.port}"
    try:
        assert sent(target_of(origin, origins_of([origin]))) == [Outcome(200, "")]
    finally:
        ended.set()


def test_an_endless_reply_ends_at_a_bound(names: Names, receiver: Receiver) -> None:
    def endless(connection: socket.socket) -> None:
        replies(200, "X: y")(connection)
        try:
            while True:
                connection.sendall(b"x" * 65_536)
        except OSError:
            pass

    receiver.script.append(endless)
    origin = f"http://endless.test:{receiver.port}"
    assert sent(target_of(origin, origins_of([origin]))) == [Outcome(200, "", reply=b"x" * 1_024)]


@pytest.mark.parametrize(
    "line", swept(["HTTP/1.1 100 Continue\r\n\r\n", "X: y\r\n"], fast=1), ids=["interim replies", "a head"]
)
def test_a_head_that_does_not_end_is_left_at_a_bound(names: Names, receiver: Receiver, line: str) -> None:
    def endless(connection: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection.sendall(line.encode() * 1_000)

    receiver.script.append(endless)
    origin = f"http://endless.test:{receiver.port}"
    (outcome,) = sent(target_of(origin, origins_of([origin])))
    assert outcome.status == 0 and outcome.error.startswith("the receiver cannot be reached: ")
