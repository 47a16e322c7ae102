"""Certificates of clients stand for principals: by the names that their authority has signed, and no other."""

from __future__ import annotations

import json
import ssl
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from psoup.errors import InvalidInput
from psoup.work.clock import VirtualClock
from psoup_client import AccessDenied, Client, ClientOptions
from psoup_service.gate.certificate_roles import certificate_table
from psoup_service.gate.certificates import end_of
from psoup_service.process.settings import Settings
from psoup_service.process.settings_sources import load
from psoup_testing.services.authority import Authority
from psoup_testing.services.threaded_service import serving

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.seeded("a certificate's common name is believed")
@pytest.mark.seeded("a table of certificates leaves plain text open")
@pytest.mark.seeded("the tenant of a certificate need not be there")
def test_a_certificate_has_the_roles_of_its_name_and_of_nothing_else(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    service, key = authority.issue("service")
    settings = Settings(
        listen=("https://127.0.0.1:0", "127.0.0.1:0"),
        tls_cert=str(service),
        tls_key=str(key),
        tls_client_ca=str(authority.ca),
        certificate_roles=("owner.example.org=owner+operator", "reader.example.org = reader", "a.org=reader@acme"),
    )

    def client(address: str, host: str, common: str = "", token: str = "") -> Client:
        shown, own = authority.issue("client", host=host, common=common)
        files = authority.ca.read_bytes(), own.read_bytes(), shown.read_bytes()
        return Client(address, options=ClientOptions(credentials=grpc.ssl_channel_credentials(*files), token=token))

    with serving(settings) as running:
        secured, plain = running.service.addresses
        with Client(plain, options=ClientOptions(token="")) as nobody, pytest.raises(AccessDenied):
            nobody.streams()
        with client(secured, "owner.example.org") as owner:
            owner.create_stream("CREATE STREAM s (x BIGINT)")
            assert owner.tokens() == []
            token = owner.issue_token("op", ["operator"], first=True).secret
        with client(secured, "reader.example.org") as reader:
            assert [stream.name for stream in reader.streams()] == ["s"]
            with pytest.raises(AccessDenied, match=r"'reader\.example\.org' \(reader\)"):
                reader.create_stream("CREATE STREAM t (x BIGINT)")
        with client(secured, "reader.example.org", token=token) as judged, pytest.raises(AccessDenied, match="'op'"):
            judged.ask("SELECT x FROM s")
        with client(secured, "a.org") as theirs, client(secured, "owner.example.org", token=token) as operator:
            with pytest.raises(AccessDenied, match="no such tenant") as denied:
                theirs.streams()
            assert denied.value.reason == "UNKNOWN_TENANT"
            operator.create_tenant("acme")
            assert (theirs.streams(), theirs.tenant().name) == ([], "acme")
        for host, common in ("other.example.org", "owner.example.org"), ("sub.reader.example.org", ""):
            with client(secured, host, common) as stranger, pytest.raises(AccessDenied) as denied:
                stranger.streams()
            assert denied.value.reason == "NO_CREDENTIAL"
            assert f"'{host}'" in denied.value.message and "certificate_roles" in denied.value.message


def page(connection: HTTPSConnection) -> Any:
    """What a page is told of streams."""
    headers = {"content-type": "application/json", "x-psoup": "1"}
    connection.request("POST", "/api/psoup.v1.StreamService/ListStreams", "{}", headers)
    return json.loads(connection.getresponse().read())


@pytest.mark.long
def test_a_certificate_ends_at_its_time_also_on_a_connection_that_stands(tmp_path: Path) -> None:
    authority, clock = Authority(tmp_path), VirtualClock(time.time_ns() // 1_000)
    service, key = authority.issue("service", days=(-1, 9))
    shown, own = authority.issue("client", host="reader.example.org")
    settings = Settings(
        listen=("https://127.0.0.1:0",),
        tls_cert=str(service),
        tls_key=str(key),
        tls_client_ca=str(authority.ca),
        certificate_roles=("reader.example.org=reader",),
        host="localhost",
        web_port=0,
    )
    files = authority.ca.read_bytes(), own.read_bytes(), shown.read_bytes()
    context = ssl.create_default_context(cafile=str(authority.ca))
    context.load_cert_chain(shown, own)

    with serving(settings, clock=clock) as running:
        credentials = grpc.ssl_channel_credentials(*files)
        gateway = running.service.gateway
        assert gateway is not None
        address = gateway.address.removeprefix("https://")
        with (
            Client(running.address, options=ClientOptions(credentials=credentials, token="")) as reader,
            grpc.secure_channel(running.address.removeprefix("https://"), credentials) as channel,
            closing(HTTPSConnection(address, context=context, timeout=60)) as connection,
        ):
            health = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
            assert next(health) == b"\x08\x01"
            clock.advance(seconds=86_000)
            assert (reader.streams(), page(connection)) == ([], {})
            clock.advance(seconds=500)
            with pytest.raises(AccessDenied) as denied:
                reader.streams()
            assert denied.value.reason == "CERTIFICATE_EXPIRED"
            assert "CERTIFICATE_EXPIRED" in str(page(connection))
            with pytest.raises(grpc.RpcError) as ended:
                next(health)
            assert ended.value.code() == grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("year", [1951, 2049, 2050, 9999])
def test_the_end_of_a_certificate_is_read_in_both_of_its_forms(year: int) -> None:
    key, end = ec.generate_private_key(ec.SECP256R1()), datetime(year, 12, 31, 23, 59, 58, tzinfo=UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "0\x1e\x17")])
    built = x509.CertificateBuilder(name, name, key.public_key(), 1, datetime(1950, 2, 3, tzinfo=UTC), end)
    pem = built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    assert end_of(pem) == (end - EPOCH) // timedelta(microseconds=1)


def test_names_and_roles_are_read() -> None:
    table = certificate_table(["spiffe://a/b?x=1=reader+producer", " c.org = owner ", "x@y.org=reader @ acme"])
    assert {name: (principal.roles, principal.tenant) for name, principal in table.items()} == {
        "spiffe://a/b?x=1": (("reader", "producer"), "default"),
        "c.org": (("owner",), "default"),
        "x@y.org": (("reader",), "acme"),
    }


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ("a.org", "NAME=ROLE"),
        ("=reader", "NAME=ROLE"),
        ("a.org=king", "roles are reader"),
        ("a.org=reader@", "NAME=ROLE@TENANT"),
        ("a.org=reader,a.org=owner", "twice"),
        ("a.org=reader", "tls_client_ca"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(entries: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=f"certificate_roles = .*{said}"):
        load({}, environ={"PSOUP_CERTIFICATE_ROLES": entries})
