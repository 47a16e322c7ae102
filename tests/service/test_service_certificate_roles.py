"""Certificates of clients stand for principals: by the names that their authority has signed, and no other."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from psoup.errors import InvalidInput
from psoup_client import AccessDenied, Client, ClientOptions
from psoup_service.gate.certificate_roles import certificate_table
from psoup_service.settings import Settings
from psoup_service.settings_sources import load
from psoup_testing.authority import Authority
from psoup_testing.serving import serving


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
