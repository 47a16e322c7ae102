"""Several addresses of a client: their form, their order, and what goes on at the next one."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from psoup_client import Client, ClientOptions, InvalidRequest, RetryOptions, Unavailable
from psoup_client.aio import AsyncClient
from psoup_client.channel import routes
from psoup_client.channel.addresses import separated
from psoup_proto.v1 import admin_pb2, admin_pb2_grpc, server_pb2, server_pb2_grpc
from psoup_testing.services.authority import Authority
from psoup_testing.services.command import Psoup
from psoup_testing.services.threaded_service import Serving

TWICE = ClientOptions(
    channel_options=(("grpc.min_reconnect_backoff_ms", 300_000), ("grpc.keepalive_time_ms", 600_000)),
    retry=RetryOptions(attempts=2, restart_seconds=0, first_pause_seconds=0.01),
)
"""Two attempts. A machine that is slow is not taken for one that is gone."""


@pytest.fixture(autouse=True)
def rested(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that was away comes last, however long the test takes."""
    monkeypatch.setattr(routes, "REST_S", 1e9)


class Servicer(server_pb2_grpc.ServerServiceServicer, admin_pb2_grpc.AdminServiceServicer):
    """Counts calls. While it is `away` it ends them, and its client cannot know what it has done."""

    def __init__(self) -> None:
        self.calls, self.away = 0, False

    def _called(self, context: grpc.ServicerContext) -> None:
        self.calls += 1
        if self.away:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not there")

    def GetServerInfo(self, request: Any, context: grpc.ServicerContext) -> server_pb2.GetServerInfoResponse:
        self._called(context)
        return server_pb2.GetServerInfoResponse(version="9.9", state="serving")

    def IssueToken(self, request: Any, context: grpc.ServicerContext) -> admin_pb2.IssueTokenResponse:
        self._called(context)
        return admin_pb2.IssueTokenResponse(secret="s")


@contextmanager
def served(credentials: grpc.ServerCredentials | None = None) -> Iterator[tuple[Servicer, str]]:
    """A gRPC server, and its address."""
    servicer, server = Servicer(), grpc.server(ThreadPoolExecutor(2))  # type: ignore[abstract]
    server_pb2_grpc.add_ServerServiceServicer_to_server(servicer, server)
    admin_pb2_grpc.add_AdminServiceServicer_to_server(servicer, server)
    place = "127.0.0.1:0"
    port = server.add_secure_port(place, credentials) if credentials else server.add_insecure_port(place)
    server.start()
    try:
        yield servicer, f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@pytest.fixture
def dead() -> Iterator[str]:
    """An address at which nothing listens, and which no other program can take."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def two() -> Iterator[tuple[tuple[Servicer, str], tuple[Servicer, str]]]:
    with ExitStack() as opened:
        yield opened.enter_context(served()), opened.enter_context(served())


# Their form --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "addresses"),
    [
        ("a", ("a:7433",)),
        ("a,b:7434", ("a:7433", "b:7434")),
        ("a:1, b:2 ,https://c:3", ("a:1", "b:2", "https://c:3")),
        ("unix:/run/psoup.sock,[::1]", ("unix:/run/psoup.sock", "[::1]:7433")),
    ],
)
def test_commas_separate_addresses(given: str, addresses: tuple[str, ...]) -> None:
    assert separated(given) == addresses
    with Client(given) as client:
        assert client.address == ",".join(addresses)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a:1,", "'a:1,' has a comma without an address on both sides: write them as 'a:7433,b:7433'"),
        ("a,,b", "'a,,b' has a comma without an address on both sides"),
        ("a:1,b:x", "'a:1,b:x': 'b:x' is not an address: write HOST:PORT, such as '127.0.0.1:7433'"),
        ("a,b:1,a:7433", "'a,b:1,a:7433' has a:7433 twice: name each service once, write them as 'a:7433,b:7433'"),
    ],
)
def test_a_wrong_address_is_refused_with_its_text_and_an_example(given: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        Client(given)
    with pytest.raises(ValueError, match=re.escape(said)):
        AsyncClient(given)


def test_each_address_must_be_fit_for_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ClientOptions(token="psoup_secret")
    with pytest.raises(InvalidRequest, match=r"would go to 10\.0\.0\.5:7433 in plain text"):
        Client("127.0.0.1,10.0.0.5", options=options)
    monkeypatch.setenv("PSOUP_TOKEN", "psoup_secret")
    monkeypatch.setenv("PSOUP_TOKEN_ADDRESS", "https://a:1")
    with pytest.raises(InvalidRequest, match="is for https://a:1, and would go to https://b:1"):
        Client("https://a:1,https://b:1")


# Their order -------------------------------------------------------------------------------------------------


def test_a_call_goes_on_at_the_next_address(two: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (first, a), (second, b) = two
    first.away = True
    with Client(f"{a},{b}", timeout=300, options=TWICE) as client:
        for _ in range(3):
            assert client.info().version == "9.9"
        assert (first.calls, second.calls) == (1, 3)  # the first one rests
        assert client.connection.routes.last.address == b
        first.away = False
        monkeypatch.setattr(routes, "REST_S", 0.0)
        client.info()
        assert (first.calls, second.calls) == (2, 3)


def test_the_error_names_each_address_with_its_reason(two: Any, dead: str) -> None:
    (first, a), (second, b) = two
    first.away = second.away = True
    with Client(f"{a},{dead},{b}", timeout=300, options=TWICE) as client, pytest.raises(Unavailable) as problem:
        client.info()
    assert (first.calls, second.calls) == (2, 2)  # two rounds, with a pause between
    lines = problem.value.message.splitlines()
    assert lines[0] == "none of the 3 addresses takes the call:"
    assert lines[1] == f"    {a}: no PSoup service answers at {a} (not there)"
    assert lines[2].startswith(f"    {dead}: no PSoup service answers at {dead} (")
    assert lines[3] == f"    {b}: no PSoup service answers at {b} (not there)"


@pytest.mark.seeded("a call that may not be repeated and may be done goes to the next address")
def test_what_may_be_done_is_not_repeated_elsewhere(two: Any, dead: str) -> None:
    (first, a), (second, b) = two
    with Client(f"{dead},{a},{b}", timeout=300, options=TWICE) as client:
        assert client.issue_token("t", ["reader"]).secret == "s"  # nothing was sent to the first address
        assert (first.calls, second.calls) == (1, 0)
        first.away = True
        with pytest.raises(Unavailable):
            client.issue_token("t", ["reader"])
        assert (first.calls, second.calls) == (2, 0)
        assert client.info().version == "9.9"  # what may be repeated goes on
        assert (first.calls, second.calls) == (2, 1)


def test_the_asynchronous_client_goes_on_at_the_next_address(two: Any, dead: str) -> None:
    (first, a), (second, b) = two
    first.away = True

    async def run() -> str:
        async with AsyncClient(f"{dead},{a},{b}", timeout=300, options=TWICE) as client:
            await client.info()
            return (await client.info()).version

    assert asyncio.run(run()) == "9.9"
    assert (first.calls, second.calls) == (1, 2)


def test_ready_is_the_first_that_serves(two: Any, dead: str) -> None:
    (_, a), _ = two
    with Client(f"{dead},{a}", timeout=300) as client:
        assert client.wait_ready().version == "9.9"


def test_each_address_has_its_own_name_in_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("service", host="elsewhere.example")
    monkeypatch.setenv("PSOUP_CA", str(authority.ca))
    credentials = grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])
    with served(credentials) as (servicer, address):
        port = address.rpartition(":")[2]
        with Client(f"https://localhost:{port},https://127.0.0.1:{port}", timeout=300, options=TWICE) as client:
            assert client.info().version == "9.9"
            assert client.connection.routes.last.address == f"https://127.0.0.1:{port}"
    assert servicer.calls == 1


# Commands ----------------------------------------------------------------------------------------------------


def test_commands_take_several_addresses(psoup: Psoup, running: Serving, dead: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("PSOUP_ADDRESS", f"{dead},{running.address}")
    shown = psoup("status")
    assert shown.code == 0, shown.err
    assert f"{dead},{running.address}" in shown.out
    assert running.address in next(line for line in shown.out.splitlines() if line.startswith("answered"))
    wrong = psoup("status", "--address", "a:7433,")
    assert wrong.code == 2
    assert "has a comma without an address on both sides: write them as 'a:7433,b:7433'" in " ".join(wrong.err.split())
