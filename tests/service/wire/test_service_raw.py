"""Connections that speak no HTTP/2 that a client would (T16), many that say nothing (T17), and some that never end what
they begin (T19): the service lives, its memory is bounded, and a neighbour is served all the while without a refusal.

Each is bounded by counts, which `make soak` multiplies, and by two seconds.
"""

from __future__ import annotations

import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.attacks.frames import (
    END_HEADERS,
    HEADERS,
    PREFACE,
    WINDOW_UPDATE,
    data,
    frame,
    headers,
    message,
    request,
    settings,
)
from benchmarks.tool.processes import resident
from psoup_client import Client
from psoup_proto.v1 import queries_pb2 as queries
from psoup_service.process.settings import Settings
from psoup_testing.http2 import hostile_connections
from psoup_testing.http2.hostile_connections import Victim, connected, flood, wait_closed
from psoup_testing.services.authority import Authority
from psoup_testing.services.threaded_service import serving
from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.budget import scaled
from psoup_testing.suite.sweeps import swept

MIB = 1024 * 1024
CONNECTIONS = 5
ROUNDS = 3
"""How often the neighbour is served after an attack, beside what it is served meanwhile."""

METHOD = "ServerService/GetServerInfo"
GONE_S = 8.0
"""How long the end of a connection is waited for: it comes after one second, and by default after ten."""


class Place:
    """A service in a process of its own, and its neighbour."""

    def __init__(self, zygote: Zygote, address: str) -> None:
        self.pid, self.address = zygote.pid, address
        with Client(address) as client:
            client.create_stream("CREATE STREAM big (x BIGINT, t TEXT)")
            query = client.register("SELECT x, t FROM big")
            done = client.push("big", pa.table({"x": range(20_000), "t": ["t" * 100] * 20_000}))
            client.wait_for(done.sequence)
        self.answer = queries.InvokeStreamRequest(query_id=query.id).SerializeToString()


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as folder, Zygote() as zygote:
        zygote.start(folder)
        yield Place(zygote, zygote.ready())
        assert zygote.stop() == 0  # none of the attacks has ended it


FLOODS: dict[str, tuple[int, Callable[[Place], hostile_connections.Flood]]] = {
    "rapid reset": (1_000, lambda place: hostile_connections.rapid_reset(place.address)),
    "headers without an end": (200, lambda place: hostile_connections.endless_headers(place.address)),
    "empty headers without an end": (5_000, lambda place: hostile_connections.empty_headers(place.address)),
    "replies without a window": (300, lambda place: hostile_connections.no_window(place.address, METHOD, b"")),
    "answers without a window": (
        300,
        lambda place: hostile_connections.no_window(place.address, "QueryService/InvokeStream", place.answer),
    ),
    "pings": (10_000, lambda place: hostile_connections.pings()),
    "settings": (10_000, lambda place: hostile_connections.many_settings()),
    "empty frames": (5_000, lambda place: hostile_connections.empty_frames(place.address)),
}
"""Units that a connection sends, and what they are."""

ROOM = {"headers without an end": 512 * MIB, "answers without a window": 512 * MIB}
"""What memory may grow by meanwhile, where it is more than `LITTLE`: see "What an attacker can still do" in
docs/security.md, and calls under way, which hold two messages of an answer each."""

LITTLE = 96 * MIB


@pytest.mark.long
@pytest.mark.parametrize("name", swept(FLOODS, fast=(0, 2, 4, 5)))
def test_floods(place: Place, name: str) -> None:
    units, make = FLOODS[name]
    with Victim(place.address) as victim, ThreadPoolExecutor(CONNECTIONS) as pool:
        assert victim.served(1)
        before = resident(place.pid)
        floods = [pool.submit(flood, place.address, make(place), scaled(units)) for _ in range(CONNECTIONS)]
        most = before
        while not all(work.done() for work in floods):
            most = max(most, resident(place.pid))
            victim.served(1, 0.05)
        assert sum(work.result().units for work in floods) > 0
        assert victim.served(ROUNDS)
    assert most - before < ROOM.get(name, LITTLE)


@pytest.mark.long
def test_calls_that_wait_for_the_loop_are_not_cancelled() -> None:
    """gRPC by itself cancels some where more than 1,000 of all clients wait, and from 3,000 on each."""
    each = Settings().limits().streams_per_connection
    streams = {2 * number + 1 for number in range(each)}
    room = frame(WINDOW_UPDATE, 0, 0, (2**30).to_bytes(4, "big"))
    with serving() as there, ExitStack() as held:
        lines = [held.enter_context(connected(there.address)) for _ in range(4_096 // each)]
        block = request(METHOD, there.address)
        with there.held():
            for line in lines:
                calls = b"".join(headers(stream, block) + data(stream, message(b"")) for stream in sorted(streams))
                line.sendall(PREFACE + settings() + room + calls)
            assert all(hostile_connections.reached(line, 30.0) for line in lines)
        for line in lines:
            assert hostile_connections.endings(line, streams, 30.0) == dict.fromkeys(streams, HEADERS)


@pytest.mark.seeded("a release of gRPC that ends with a name that is not UTF-8")
def test_garbage(place: Place) -> None:
    with Victim(place.address) as victim:
        before = resident(place.pid)
        for seed in range(scaled(2)):
            for beginning in hostile_connections.garbage(seed, place.address):
                with connected(place.address) as line, suppress(OSError):  # it may be closed before all of it was sent
                    line.sendall(beginning)
                    line.shutdown(socket.SHUT_WR)
                    wait_closed(line, 0.05)
        assert victim.served(ROUNDS)
    assert resident(place.pid) - before < LITTLE


@pytest.mark.seeded("a call of a name that is not UTF-8 ends the server, with gRPC from 1.84 on")
@pytest.mark.seeded("a release of gRPC that ends with a name that is not UTF-8")
def test_a_call_of_a_name_that_is_not_text_ends_alone(place: Place) -> None:
    """It ended the whole server of a release of gRPC, by one connection of anybody."""
    block = request(METHOD, place.address).replace(b"GetServerInfo", b"GetServ\xe3\xffInfo")
    with Victim(place.address) as victim, connected(place.address) as line:
        line.sendall(PREFACE + settings() + headers(1, block) + data(1, message(b"")))
        assert victim.served(ROUNDS)
    with Victim(place.address) as victim:  # a new connection
        assert victim.served(1)


def test_connections_that_say_nothing(place: Place) -> None:
    """T17: each costs some kilobytes."""
    count = scaled(200)
    with ExitStack() as held, Victim(place.address) as victim:
        before = resident(place.pid)
        lines = [held.enter_context(connected(place.address)) for _ in range(count)]
        for line in lines:
            line.sendall(PREFACE + settings())
        for line in lines:
            assert line.recv(9)  # the service's own settings: it has the connection
        assert victim.served(ROUNDS)
        assert resident(place.pid) - before < count * 25_000 + 16 * MIB


@pytest.mark.long
def test_connections_beyond_the_limit_of_files_are_taken_up_when_others_leave() -> None:
    with tempfile.TemporaryDirectory() as folder, Zygote(PSOUP_TEST_FILES="150") as zygote:
        zygote.start(folder)
        address = zygote.ready()
        with Victim(address) as victim:
            with ExitStack() as held:
                for _ in range(250):
                    held.enter_context(connected(address)).sendall(PREFACE + settings())
                assert victim.served(ROUNDS)  # a connection that is there goes on
            with Victim(address) as late:
                assert late.served(ROUNDS)
        assert zygote.stop() == 0


QUICK = Settings(port=0, receive_s=1.0)


@pytest.mark.long
@pytest.mark.seeded("a connection that does not say what it is stays for ten seconds, whatever `receive_s` is")
@pytest.mark.seeded("a call whose message never comes stays")
def test_connections_that_never_end_what_they_begin_are_closed() -> None:
    block = request("IngestService/Push", "a")
    with serving(QUICK) as there, Victim(there.address) as victim:
        silent = [b"", PREFACE[:10], PREFACE, PREFACE + settings()[:5]]
        with ExitStack() as held:
            lines = [held.enter_context(connected(there.address)) for _ in range(5 * len(silent))]
            for number, line in enumerate(lines):
                line.sendall(silent[number % len(silent)])
            assert all(wait_closed(line, GONE_S) for line in lines)
        with ExitStack() as held:
            lines = [held.enter_context(connected(there.address)) for _ in range(5)]
            for line in lines:  # calls whose message does not come, or does not end
                line.sendall(PREFACE + settings() + headers(1, block) + headers(3, block))
                line.sendall(data(3, message(b"12345", declared=1_000), last=False))
            for line in lines:
                assert hostile_connections.ended(line, {1, 3}, GONE_S)
            assert there.service._calls.under_way.open <= 1  # the neighbour's
        assert victim.served(ROUNDS)


@pytest.mark.long
@pytest.mark.seeded("a connection that does not say what it is stays for ten seconds, whatever `receive_s` is")
def test_a_handshake_of_tls_a_byte_at_a_time_is_ended() -> None:
    with tempfile.TemporaryDirectory(prefix="ps") as name:
        folder = Path(name)
        Authority(folder).issue("service")
        secured = Settings(
            listen=("https://127.0.0.1:0",),
            tls_cert=str(folder / "service.pem"),
            tls_key=str(folder / "service.key"),
            receive_s=1.0,
        )
        with serving(secured) as there:
            outgoing = ssl.MemoryBIO()
            context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
            hello = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
            with suppress(ssl.SSLWantReadError):
                hello.do_handshake()
            greeting = outgoing.read()
            with ExitStack() as held:
                lines = [held.enter_context(connected(f"127.0.0.1:{there.port}")) for _ in range(5)]
                for line in lines:
                    assert hostile_connections.trickled(line, greeting, GONE_S)
            with socket.create_connection(("127.0.0.1", there.port), 10) as plain:
                assert context.wrap_socket(plain, server_hostname="localhost").version() == "TLSv1.3"


def test_a_header_that_is_cut_in_two_is_a_call() -> None:
    """The sender itself: what it writes is what a service reads."""
    with serving() as there, connected(there.address) as line:
        block = request(METHOD, there.address)
        line.sendall(PREFACE + settings() + frame(HEADERS, 0, 1, block[:30]) + frame(9, END_HEADERS, 1, block[30:]))
        line.sendall(data(1, message(b"")))
        assert hostile_connections.ended(line, {1}, 30.0)


def test_connections_beyond_the_limit_are_closed_and_there_is_room_when_one_leaves() -> None:
    with serving(Settings(port=0, connections=2)) as served, ExitStack() as opened:
        with Client(served.address) as client:
            client.create_stream("CREATE STREAM s (x BIGINT)")
            first = opened.enter_context(connected(served.address))
            first.sendall(PREFACE + settings())
            assert first.recv(1), "the second place"
            with opened.enter_context(connected(served.address)) as more:
                more.sendall(PREFACE + settings())
                assert wait_closed(more, 60.0)
            assert [stream.name for stream in client.streams()] == ["s"], "who is in goes on"
        first.close()
        assert any(_has_place(served.address) for _ in range(1_000)), "both have left"


def _has_place(address: str) -> bool:
    """Whether the service says the first word to a new connection."""
    with connected(address) as line, suppress(OSError):
        line.sendall(PREFACE + settings())
        return bool(line.recv(1))
    return False
