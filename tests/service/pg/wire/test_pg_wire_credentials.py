"""Credentials of PostgreSQL's clients: access tokens as passwords, TLS, and certificates."""

from __future__ import annotations

import json
import socket
import ssl
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from psoup_client import Client, ClientOptions
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.pg.script import pg_address
from psoup_testing.pg.socket import SSL_REQUEST, PgSocket, message, packet, startup
from psoup_testing.services.authority import Authority
from psoup_testing.services.threaded_service import Serving, serving


@dataclass
class Guarded:
    """A service with tokens of two tenants and with certificates, on all addresses of the machine."""

    serving: Serving
    owner: Client
    token: str
    foreign: str
    authority: Authority
    audit: Path
    folder: Path

    def connect(self, password: str = "", **more: str) -> psycopg.Connection[tuple[object, ...]]:
        """A connection over TLS."""
        port = int(pg_address(self.serving).rsplit(":", 1)[1])
        options = {"sslmode": "verify-full", "sslrootcert": str(self.authority.ca), **more}
        return psycopg.connect(
            host="localhost", port=port, user="x", dbname="d", password=password, autocommit=True, **options
        )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """The service behind its gate."""
    folder = tmp_path_factory.mktemp("pg")
    authority = Authority(folder)
    certificate, key = authority.issue("service")
    settings = Settings(
        host="0.0.0.0",
        listen=("127.0.0.1:0", "https://127.0.0.1:0"),
        web_port=-1,
        pg_port=0,
        tls_cert=str(certificate),
        tls_key=str(key),
    )
    store = DurableStore(folder / "data", reserve_bytes=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Settings, "lets_nobody_in", lambda self: False)
        with serving(settings, store=store) as running:
            with Client(running.address) as client:
                token = client.issue_token("ann", ["owner", "operator"], first=True).secret
            with Client(running.address, options=ClientOptions(token=token)) as owner:
                owner.create_stream("CREATE STREAM trades (n INT)")
                owner.push("trades", [{"n": 1}])
                owner.create_tenant("acme")
                foreign = owner.issue_token("bob", ["owner"], tenant="acme").secret
                yield Guarded(running, owner, token, foreign, authority, folder / "data" / "audit.jsonl", folder)


def test_a_password_is_asked_where_a_call_needs_a_token(guarded: Guarded) -> None:
    with guarded.connect(guarded.token) as connection:
        assert connection.execute("SELECT n FROM trades").fetchall() == [(1,)]
    refusals = {
        "": "no password supplied",
        "psoup_wrong": "the access token is not valid here",
        guarded.token[:-1]: "the access token is not valid here",
        "é": "the access token is not valid here",
    }
    for password, problem in refusals.items():
        with pytest.raises(psycopg.OperationalError, match=problem):
            guarded.connect(password)
    last = json.loads(guarded.audit.read_text().splitlines()[-1])
    assert (last["outcome"], last["peer"][:3]) == ("UNAUTHENTICATED", "pg:")


def test_the_token_determines_the_tenant(guarded: Guarded) -> None:
    unknown = pytest.raises(psycopg.errors.UndefinedTable, match="trades")
    with guarded.connect(guarded.foreign) as connection, unknown:
        connection.execute("SELECT n FROM trades")
    issued = guarded.owner.issue_token("carl", ["reader"])
    with guarded.connect(issued.secret) as connection:
        assert connection.execute("SELECT n FROM trades").fetchall() == [(1,)]
        guarded.owner.revoke_token(issued.token.id)
        with pytest.raises(psycopg.Error, match="the access token is not valid here") as refused:
            connection.execute("SELECT n FROM trades")
        assert refused.value.sqlstate == "28P01"


def test_other_machines_need_tls_and_a_cancel_request_does_not(guarded: Guarded) -> None:
    with pytest.raises(psycopg.OperationalError, match="takes only encrypted connections"):
        guarded.connect(guarded.token, sslmode="disable")
    with PgSocket(pg_address(guarded.serving).replace("0.0.0.0", "127.0.0.1")) as client:
        client.send(packet(struct.pack("!iii", 1234 << 16 | 5678, 1, 2)))
        assert client.read() == (b"", b""), "a cancel request gets no answer"


def test_bytes_before_the_handshake_and_other_handshakes_end_the_connection(guarded: Guarded) -> None:
    address = pg_address(guarded.serving).replace("0.0.0.0", "127.0.0.1")
    with PgSocket(address) as client:
        client.send(SSL_REQUEST + startup(user="x"))
        assert client.opened.recv(1) in (b"S", b"E")
        assert client.ended(), "bytes in plain text do not become part of the encrypted connection"
    with PgSocket(address) as client:
        client.send(SSL_REQUEST)
        assert client.opened.recv(1) == b"S"
        client.send(startup(user="x"))
        assert client.ended()
    with PgSocket(address) as client:
        client.send(SSL_REQUEST)
        assert client.opened.recv(1) == b"S"
        context = ssl.create_default_context(cafile=str(guarded.authority.ca))
        client.opened = context.wrap_socket(client.opened, server_hostname="localhost")
        client.send(startup(user="x"))
        assert client.read() == (b"R", struct.pack("!i", 3))
        client.send(message(b"p", b"x" * 20_000))
        assert "a message of kind b'p' with 20,004 bytes instead of a password" in client.error()["M"]


def test_a_certificate_takes_the_place_of_a_password(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("service")
    shown, shown_key = authority.issue("ann", host="ann.example")
    settings = Settings(
        host="127.0.0.1",
        listen=("https://127.0.0.1:0",),
        web_port=-1,
        pg_port=0,
        tls_cert=str(certificate),
        tls_key=str(key),
        tls_client_ca=str(authority.ca),
        certificate_roles=("ann.example=owner",),
    )
    with serving(settings) as running:
        port = pg_address(running).rsplit(":", 1)[1]
        address = f"host=localhost port={port} user=x dbname=d sslrootcert={authority.ca}"
        shown_key.chmod(0o600)
        certified = f"{address} sslmode=verify-full sslcert={shown} sslkey={shown_key}"
        unknown = pytest.raises(psycopg.errors.UndefinedTable)
        with psycopg.connect(certified, autocommit=True) as connection, unknown:
            connection.execute("SELECT n FROM nothing")
        with pytest.raises(psycopg.OperationalError, match="takes only encrypted connections"):
            psycopg.connect(f"{address} sslmode=disable")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(f"{address} sslmode=require")


def direct(guarded: Guarded, *protocols: str) -> PgSocket:
    """A connection that begins with the handshake of TLS, and names its protocols (ALPN)."""
    client = PgSocket(pg_address(guarded.serving).replace("0.0.0.0", "127.0.0.1"))
    context = ssl.create_default_context(cafile=str(guarded.authority.ca))
    if protocols:
        context.set_alpn_protocols(protocols)
    client.opened = context.wrap_socket(client.opened, server_hostname="localhost")
    return client


def test_a_connection_may_begin_with_tls_that_names_the_protocol(guarded: Guarded) -> None:
    with direct(guarded, "postgresql") as client:
        assert client.opened.selected_alpn_protocol() == "postgresql"  # type: ignore[attr-defined]
        client.send(startup(user="x"))
        assert client.read() == (b"R", struct.pack("!i", 3))
        client.send(message(b"p", guarded.token.encode() + b"\0"))
        assert client.kinds().endswith("KZ")
    for protocols in ((), ("http/1.1",)):
        with direct(guarded, *protocols) as client:
            client.send(startup(user="x"))
            error = client.error()
            assert (error["S"], error["C"]) == ("FATAL", "08P01")
            assert "must name the protocol postgresql (ALPN)" in error["M"]
            assert client.ended()


def test_a_broken_handshake_at_the_begin_ends_the_connection(guarded: Guarded) -> None:
    for sent in (b"\x16", b"\x16\x03\x01\x00\x05hello", b"\x16" * 20_000):
        with PgSocket(pg_address(guarded.serving).replace("0.0.0.0", "127.0.0.1")) as client:
            client.send(sent)
            client.opened.shutdown(socket.SHUT_WR)
            assert client.ended()
    with guarded.connect(guarded.token) as connection:
        assert connection.execute("SELECT n FROM trades").fetchall() == [(1,)]
