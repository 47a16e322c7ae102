"""The gateway stands behind the gate: tokens, roles, certificates and the audit log are those of calls over gRPC."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pydantic import ValidationError

from psoup.errors import InvalidInput
from psoup_client import Client, ClientOptions
from psoup_service.gate.audit_chain import lines_of
from psoup_service.process.settings import Settings
from psoup_service.web.gateway import Gateway, opened_gateway
from psoup_storage import DurableStore
from psoup_testing.browser.page_requests import CALL, Page, WebRefusal, path_of
from psoup_testing.services.authority import Authority
from psoup_testing.services.threaded_service import Serving, serving

INFO, LIST = "ServerService/GetServerInfo", "QueryService/ListQueries"
REGISTER = {"statement": "SELECT n FROM s"}


def refused(page: Page, call: str, request: dict[str, object] | None = None) -> tuple[int, str, str]:
    with pytest.raises(WebRefusal) as problem:
        page.call(call, request)
    return problem.value.status, problem.value.told["code"], problem.value.told["reason"]


def bearer(service: Serving, secret: str) -> Page:
    return Page(service.service, authorization=f"Bearer {secret}")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Serving, Client, Path]]:
    """A service with tokens, a client of its owner, and its audit log."""
    path = tmp_path_factory.mktemp("guarded") / "data"
    with serving(Settings(port=0, web_port=0), store=DurableStore(path, reserve_bytes=0)) as service:
        with Client(service.address) as client:
            client.create_stream("CREATE STREAM s (n BIGINT)")
            owner = client.issue_token("ann", ["owner", "operator"], first=True).secret
        with Client(service.address, options=ClientOptions(token=owner)) as client:
            yield service, client, path / "audit.jsonl"


@pytest.mark.seeded("a page is let in past the gate")
@pytest.mark.seeded("of two credentials the first counts")
def test_a_page_without_a_token_or_with_a_wrong_one_is_told_nothing(guarded: tuple[Serving, Client, Path]) -> None:
    service, client, _ = guarded
    assert refused(Page(service.service), INFO) == (401, "UNAUTHENTICATED", "NO_CREDENTIAL")
    good = client.issue_token("x", ["reader"]).secret
    for wrong in ("psoup_wrong", good[:-1], good + "x", "", "é"):
        page = Page(service.service, authorization=f"Bearer {wrong}")
        assert refused(page, INFO)[:2] == (401, "UNAUTHENTICATED"), wrong
    for scheme in (good, f"Basic {good}", f"bearer {good}", f"Bearer  {good}"):
        assert refused(Page(service.service, authorization=scheme), INFO)[0] == 401, scheme
    twice = Page(service.service).post(
        INFO, "{}", {"authorization": f"Bearer {good}", "Authorization": f"Bearer {good}"}
    )
    assert twice.status == 401, "two credentials are none"
    for cookie in (f"authorization=Bearer {good}", f"Bearer {good}", f"token={good}"):
        answered = Page(service.service).post(INFO, "{}", {"cookie": cookie})
        assert answered.status == 401, "a cookie is no credential"
    assert bearer(service, good).call(INFO)["state"] == "serving"
    assert Page(service.service).send("GET", "/healthz").status == 200


def test_two_credentials_are_none(guarded: tuple[Serving, Client, Path]) -> None:
    service, owner, _ = guarded
    secret = owner.issue_token("two", ["reader"]).secret
    once = f"Authorization: Bearer {secret}\r\n"
    for lines, status in ((once, b"200"), (once * 2, b"401")):
        with bearer(service, secret).raw() as opened:
            more = "".join(f"{name}: {value}\r\n" for name, value in {**CALL, "Content-Length": "2"}.items())
            opened.sendall(f"POST {path_of(INFO)} HTTP/1.1\r\nHost: localhost\r\n{more}{lines}\r\n{{}}".encode())
            assert opened.recv(12) == b"HTTP/1.1 " + status


def test_roles_hold_for_pages_too(guarded: tuple[Serving, Client, Path]) -> None:
    service, client, _ = guarded
    reader = bearer(service, client.issue_token("bob", ["reader"]).secret)
    registrar = bearer(service, client.issue_token("reg", ["registrar"]).secret)
    assert refused(reader, "QueryService/Register", REGISTER) == (403, "PERMISSION_DENIED", "PERMISSION_DENIED")
    assert reader.call("QueryService/Check", REGISTER)["query"]["stream"] == "s"
    assert registrar.call("QueryService/Register", REGISTER)["query"]["queryId"]
    assert refused(registrar, "StatementService/Execute", {"statement": "DROP STREAM s"})[0] == 403
    assert reader.call(LIST)["queries"]


def test_a_push_of_rows_needs_the_role_and_is_paid(guarded: tuple[Serving, Client, Path]) -> None:
    service, client, _ = guarded
    rows = {"stream": "s", "rows": [{"n": 1}]}
    reader = bearer(service, client.issue_token("bo", ["reader"]).secret)
    producer = bearer(service, client.issue_token("pat", ["producer"]).secret)
    assert refused(reader, "IngestService/PushRows", rows) == (403, "PERMISSION_DENIED", "PERMISSION_DENIED")
    assert producer.call("IngestService/PushRows", rows)["accepted"] == "1"
    assert refused(producer, "StatementService/Ask", {"statement": "SELECT n FROM s"})[0] == 403
    client.create_tenant("small", pushed_bytes_per_second=1)
    owner = bearer(service, client.issue_token("o", ["owner"], tenant="small").secret)
    owner.call("StatementService/Execute", {"statement": "CREATE STREAM s (n BIGINT)"})
    many = {"stream": "s", "rows": [{"n": n} for n in range(1_000)]}
    assert owner.call("IngestService/PushRows", many)["accepted"] == "1000"
    assert refused(owner, "IngestService/PushRows", many)[:2] == (429, "RESOURCE_EXHAUSTED"), (
        "the first is not paid yet"
    )


def test_quotas_hold_for_pages_too(guarded: tuple[Serving, Client, Path]) -> None:
    service, client, _ = guarded
    client.create_tenant("loud", calls_per_second=0.01)
    page = bearer(service, client.issue_token("l", ["reader"], tenant="loud").secret)
    answers = [page.post(LIST, "{}") for _ in range(3)]
    assert answers[-1].status == 429
    told = answers[-1].json
    assert (told["code"], told["metadata"]["quota"]) == ("RESOURCE_EXHAUSTED", "calls_per_second")
    assert told["retryAfterMs"] > 1_000
    assert "queries" not in answers[0].json, "nothing of another tenant is shown"


def test_the_audit_log_names_pages(guarded: tuple[Serving, Client, Path]) -> None:
    service, client, log = guarded
    page = bearer(service, client.issue_token("eve", ["registrar"]).secret)
    page.call("QueryService/Register", {**REGISTER, "key": "of-eve"})
    refused(Page(service.service), LIST)
    lines = [*lines_of(log)]
    (made,) = [line for line in lines if line["principal"] == "eve" and line["call"] == "QueryService/Register"]
    assert (made["outcome"], made["object"]) == ("OK", "of-eve") and made["peer"].startswith("http:127.0.0.1:")
    assert [line for line in lines if line["outcome"] == "UNAUTHENTICATED" and line["peer"].startswith("http:")]


def test_a_watch_ends_when_its_token_is_revoked(guarded: tuple[Serving, Client, Path]) -> None:
    service, client, _ = guarded
    token = client.issue_token("gone", ["registrar"])
    page = bearer(service, token.secret)
    query = page.call("QueryService/Register", REGISTER)["query"]["queryId"]
    with page.events("SyncService/Watch", {"wants": [{"queryId": query}], "progressSeconds": 300}) as events:
        told = iter(events)
        assert next(told)[0] == "message"
        client.revoke_token(token.token.id)
        kind, last = next(told)
        assert (kind, last["code"]) == ("error", "UNAUTHENTICATED")


def test_a_drain_ends_watches_and_refuses_new_connections() -> None:
    with serving(Settings(port=0, web_port=0)) as service:
        page = Page(service.service)
        page.call("StatementService/Execute", {"statement": "CREATE STREAM s (n BIGINT)"})
        query = page.call("QueryService/Register", REGISTER)["query"]["queryId"]
        with page.events("SyncService/Watch", {"wants": [{"queryId": query}], "progressSeconds": 300}) as events:
            told = iter(events)
            next(told)
            idle = page.opened()
            idle.connect()
            service.stop()
            assert [(kind, said["reason"]) for kind, said in told] == [("error", "DRAINING")]
        with suppress(ConnectionResetError):
            assert idle.sock.recv(1) == b"", "a connection without a call is closed"
        idle.close()
        with pytest.raises(ConnectionRefusedError):
            page.call(INFO)


def context(authority: Authority, *pair: Path) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(authority.ca))
    if pair:
        made.load_cert_chain(*map(str, pair))
    return made


@pytest.mark.seeded("clients need not show a certificate, or it does not stand for its roles")
@pytest.mark.seeded("a new one is not taken up")
@pytest.mark.seeded("a client certificate counts for a page on another host")
def test_tls_is_that_of_the_service_and_certificates_stand_for_roles(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    certificate, key = authority.issue("service")
    settings = Settings(
        listen=("https://127.0.0.1:0",),
        web_port=0,
        tls_cert=str(certificate),
        tls_key=str(key),
        tls_client_ca=str(shutil.copy(authority.ca, tmp_path / "clients.pem")),
        certificate_roles=("phone.example=reader",),
        web_origins=("https://app.example.org",),
    )
    phone, stranger = authority.issue("phone", host="phone.example"), authority.issue("stranger", host="no.example")
    with serving(settings) as service:
        gateway = service.service.gateway
        assert gateway is not None and gateway.address.startswith("https://")
        secured = Page(service.service, secured=context(authority, *phone))
        assert secured.call(INFO)["state"] == "serving"
        elsewhere = secured.post(INFO, "{}", {"origin": "https://app.example.org"})
        assert (elsewhere.status, elsewhere.json["reason"]) == (401, "NO_CREDENTIAL"), "a browser shows it by itself"
        assert refused(secured, "QueryService/Register", REGISTER)[0] == 403
        known = Page(service.service, secured=context(authority, *stranger))
        assert refused(known, INFO) == (401, "UNAUTHENTICATED", "NO_CREDENTIAL")
        for wrong in (context(authority), context(authority, *other.issue("x", host="phone.example"))):
            with pytest.raises((ssl.SSLError, ConnectionResetError, BrokenPipeError)):
                Page(service.service, secured=wrong).call(INFO)
        with pytest.raises(ssl.SSLCertVerificationError):
            Page(service.service, secured=context(other)).call(INFO)
        with Page(service.service).raw() as opened:
            opened.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200" not in opened.recv(4096), "no plain text on this port"
        taken_up(service, secured, authority, certificate, key)
        shutil.copy(other.ca, tmp_path / "clients.pem")
        assert looked(service)
        with pytest.raises((ssl.SSLError, ConnectionResetError, BrokenPipeError)):
            secured.call(INFO)
        anew = context(authority, *other.issue("again", host="phone.example"))
        assert Page(service.service, secured=anew).call(INFO)["state"] == "serving", "the new authority is in use"
        (tmp_path / "clients.pem").write_text("nothing")
        assert not looked(service)
        assert Page(service.service, secured=anew).call(INFO)["state"] == "serving", "a bad file changes nothing"


def looked(service: Serving) -> bool:
    """Have the service look at its files; whether new ones are in use."""

    async def look() -> bool:
        assert service.service.certificates is not None
        return service.service.certificates.look()

    return asyncio.run_coroutine_threadsafe(look(), service._loop).result()


def taken_up(service: Serving, page: Page, authority: Authority, certificate: Path, key: Path) -> None:
    """A new certificate in the same files is for the next connection."""

    def served() -> bytes:
        connection = page.opened()
        connection.connect()
        found = connection.sock.getpeercert(binary_form=True)  # type: ignore[attr-defined]
        connection.close()
        return bytes(found)

    before = served()
    for made, place in zip(authority.issue("newer"), (certificate, key), strict=True):
        place.write_bytes(made.read_bytes())
    assert looked(service)
    assert served() != before
    assert page.call(INFO)["state"] == "serving", "clients still show theirs"


@pytest.mark.seeded("off loopback a page needs no TLS, or nobody a credential")
def test_off_loopback_there_is_no_page_without_tls_and_without_a_credential(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="not a loopback address"):
        Settings(host="0.0.0.0", listen=("127.0.0.1:0",), web_port=0)
    certificate, key = Authority(tmp_path).issue("service")
    secured = {"listen": ("https://127.0.0.1:0",), "tls_cert": str(certificate), "tls_key": str(key)}
    outside = Settings.model_validate({"host": "0.0.0.0", "web_port": 0, **secured})
    place = outside.web_listener()
    assert place is not None and place.tls and place.outside
    with pytest.raises(InvalidInput, match="no caller could get in"), serving(outside):
        pass


@pytest.mark.parametrize(
    ("given", "port"),
    [
        ({}, 7434),
        ({"port": 8000}, 8001),
        ({"port": 0}, None),
        ({"port": 65_535}, None),
        ({"socket": "/run/psoup.sock"}, None),
        ({"listen": ("127.0.0.1:9000",)}, None),
        ({"web_port": -1}, None),
        ({"port": 0, "web_port": 9000}, 9000),
        ({"socket": "/run/psoup.sock", "web_port": 9000}, 9000),
    ],
)
def test_where_the_page_is(given: dict[str, object], port: int | None) -> None:
    place = Settings.model_validate(given).web_listener()
    assert (None if place is None else place.port) == port


def test_a_port_that_another_program_has_is_an_error_only_if_it_was_asked_for(served: Serving) -> None:
    gateway, service = served.service.gateway, served.service
    assert gateway is not None
    taken = int(gateway.address.rpartition(":")[2])

    def opened(settings: Settings) -> Gateway | None:
        making = opened_gateway(settings, service._answering, service._serving, None, lambda: "serving")
        return asyncio.run_coroutine_threadsafe(making, served._loop).result()

    assert opened(Settings(port=taken - 1)) is None
    with pytest.raises(InvalidInput, match="--web-port"):
        opened(Settings(port=0, web_port=taken))
