"""The start of a connection: packets that are whole, half or wrong."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from psoup_service.process.settings import Settings
from psoup_testing.pg.script import pg_address, scripted
from psoup_testing.pg.socket import GSS_REQUEST, SSL_REQUEST, PgSocket, fields, packet, query, startup, text
from psoup_testing.services.threaded_service import Serving


@pytest.fixture(scope="module")
def served() -> Iterator[Serving]:
    """A service without tokens and certificates."""
    with scripted(Settings(port=0, pg_port=0)) as running:
        yield running


@pytest.mark.long
def test_half_a_start_up_packet_is_cut_in_time() -> None:
    halves = (b"", b"\0\0", b"\0\0\1\0", startup(user="x")[:-3], SSL_REQUEST[:5])
    with scripted(Settings(port=0, pg_port=0, receive_s=1)) as served:
        clients = [PgSocket(pg_address(served)) for _ in range(2 * len(halves))]
        for client, sent in zip(clients, halves * 2, strict=True):
            client.send(sent)
        for client in clients[: len(halves)]:
            client.opened.shutdown(socket.SHUT_WR)
        for client in clients:
            with client:
                assert client.ended()


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (struct.pack("!I", 0), "a start-up packet of 0 bytes"),
        (struct.pack("!I", 7), "a start-up packet of 7 bytes"),
        (struct.pack("!I", 10_001), "a start-up packet of 10,001 bytes; 10,000 is the most"),
        (struct.pack("!I", 0xFFFFFFFF), "a start-up packet of 4,294,967,295 bytes"),
        (b"GET / HTTP/1.1\r\n\r\n", "a start-up packet of 1,195,725,856 bytes"),
        (packet(struct.pack("!i", 2 << 16) + b"\0" * 300), "version 2.0; this service speaks 3.0"),
        (packet(struct.pack("!i", 3 << 16) + b"user\0x"), "a text has no end"),
        (packet(struct.pack("!i", 3 << 16) + b"user\0x\0\0more"), "4 bytes follow its last field"),
        (packet(struct.pack("!i", 3 << 16) + b"user\0\xff\0\0"), "a text is not UTF-8"),
        (startup(database="d"), "names no user"),
        (startup(user="x", replication="database"), "does not support connections for replication"),
        (SSL_REQUEST + SSL_REQUEST, "version 1234.5679"),
    ],
)
def test_a_start_up_packet_that_is_wrong_is_refused_by_name(served: Serving, sent: bytes, problem: str) -> None:
    with PgSocket(pg_address(served)) as client:
        client.send(sent)
        if sent.startswith(SSL_REQUEST):
            assert client.opened.recv(1) == b"N"
        error = client.error()
        assert (error["S"], error["C"]) == ("FATAL", "0A000" if "replication" in problem else "08P01")
        assert problem in error["M"]
        assert client.ended()


def test_encryption_without_a_certificate_is_declined_and_later_versions_are_negotiated(served: Serving) -> None:
    with PgSocket(pg_address(served)) as client:
        client.send(GSS_REQUEST)
        assert client.opened.recv(1) == b"N"
        client.send(SSL_REQUEST)
        assert client.opened.recv(1) == b"N"
        client.send(packet(struct.pack("!i", 3 << 16 | 2) + b"user\0x\0_pq_.fast\0on\0\0"))
        kind, body = client.read()
        assert (kind, body) == (b"v", struct.pack("!ii", 0, 1) + text("_pq_.fast"))
        assert client.kinds() == "RSSSKZ"
        client.send(query("rows 1"))
        assert client.kinds() == "TDCZ"


def test_errors_before_the_session_are_fatal(served: Serving) -> None:
    with PgSocket(pg_address(served)) as client:
        client.send(startup(user="x"))
        assert [kind for kind, _ in client.until(b"Z")] == [b"R", b"S", b"S", b"S", b"K", b"Z"]
        client.send(b"Q\0\0\0\3")
        error = fields(client.until(b"E")[-1][1])
        assert (error["S"], error["V"], error["C"]) == ("FATAL", "FATAL", "08P01")
