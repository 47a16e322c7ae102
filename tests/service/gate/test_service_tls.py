"""Listeners with TLS: accepted clients, new certificates while the service runs, and refused starts."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import shutil
import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from psoup.errors import InvalidInput
from psoup_client import Client, ClientOptions, InvalidRequest, RetryOptions, Unavailable
from psoup_service.gate.certificates import Certificates
from psoup_service.gate.listeners import Listener, listener
from psoup_service.host.threads import Threads
from psoup_service.process.settings import Settings
from psoup_service.process.settings_sources import load
from psoup_testing.services.authority import Authority
from psoup_testing.services.threaded_service import Serving, serving

ONCE = ClientOptions(retry=RetryOptions(attempts=1, restart_seconds=0))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: a Unix socket lies in it."""
    with tempfile.TemporaryDirectory(prefix="ps") as name:
        yield Path(name)


@pytest.fixture
def authority(folder: Path) -> Authority:
    made = Authority(folder)
    made.issue("service")
    made.issue("client", host="feeder.example")
    return made


def with_tls(folder: Path, *places: str, clients: bool = False) -> Settings:
    return Settings(
        listen=places or ("https://127.0.0.1:0",),
        tls_cert=str(folder / "service.pem"),
        tls_key=str(folder / "service.key"),
        tls_client_ca=str(folder / "ca.pem") if clients else "",
    )


def trusting(monkeypatch: pytest.MonkeyPatch, **paths: Path) -> None:
    for name, path in paths.items():
        monkeypatch.setenv(f"PSOUP_{name.upper()}", str(path))


def serial(service: Serving, authority: Authority) -> str:
    """The number of the certificate that a new connection is shown."""
    context = ssl.create_default_context(cafile=str(authority.ca))
    with (
        socket.create_connection(("127.0.0.1", service.port), 10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        facts = secured.getpeercert()
        assert facts is not None
        return str(facts["serialNumber"])


def test_several_places_are_one_service(folder: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    trusting(monkeypatch, ca=authority.ca)
    settings = with_tls(folder, "127.0.0.1:0", "https://127.0.0.1:0", f"unix:{folder}/s")
    with serving(settings) as service:
        plain, secured, path = service.service.addresses
        assert (service.address, path) == (plain, f"unix:{folder}/s")
        assert secured.startswith("https://127.0.0.1:")
        with (
            Client(plain, timeout=60) as first,
            Client(secured, timeout=60) as second,
            Client(path, timeout=60) as third,
        ):
            first.create_stream("CREATE STREAM s (x BIGINT)")
            assert second.push("s", {"x": [1, 2]}).accepted == 2
            assert [stream.name for stream in third.streams()] == ["s"]


@pytest.mark.seeded("F25: anybody of the machine may listen on the port first")
def test_a_client_trusts_no_other_authority_and_no_plain_text(
    folder: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(with_tls(folder)) as service:
        trusting(monkeypatch, ca=Authority(folder, "other").ca)
        with (
            Client(service.address, timeout=60, options=ONCE) as client,
            pytest.raises(Unavailable, match=r"certificate.*PSOUP_CA"),
        ):
            client.streams()
        plain = service.address.removeprefix("https://")
        with Client(plain, timeout=60, options=ONCE) as client, pytest.raises(Unavailable, match="https://"):
            client.streams()


@pytest.mark.seeded("clients need not show a certificate")
def test_clients_show_a_certificate_where_the_service_wants_one(
    folder: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting(monkeypatch, ca=authority.ca)
    with serving(with_tls(folder, "https://0.0.0.0:0", clients=True)) as service:
        address = f"https://localhost:{service.port}"
        with Client(address, timeout=60, options=ONCE) as client, pytest.raises(Unavailable, match="PSOUP_CERT"):
            client.streams()
        Authority(folder, "other").issue("stranger")
        trusting(monkeypatch, cert=folder / "stranger.pem", key=folder / "stranger.key")
        with Client(address, timeout=60, options=ONCE) as client, pytest.raises(Unavailable, match="PSOUP_CERT"):
            client.streams()
        trusting(monkeypatch, cert=folder / "client.pem", key=folder / "client.key")
        with Client(address, timeout=60) as client:
            assert client.streams() == []


@pytest.mark.seeded("a new pair is used before it was tried")
def test_a_new_certificate_is_taken_up_and_a_bad_one_is_not(
    folder: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trusting(monkeypatch, ca=authority.ca)
    monkeypatch.setattr("psoup_service.gate.certificates.EVERY_S", 3_600.0)  # only the test looks
    caplog.set_level(logging.INFO, "psoup_service.gate.certificates")
    with serving(with_tls(folder)) as service, Client(service.address, timeout=60) as standing:
        certificates = service.service.certificates
        assert certificates is not None
        assert standing.streams() == []
        before, ends = serial(service, authority), certificates.not_after
        assert not certificates.look()

        shutil.copy(folder / "client.key", folder / "service.key")
        assert not certificates.look()
        assert not certificates.look()
        assert serial(service, authority) == before
        entries = [record for record in caplog.records if record.name == "psoup_service.gate.certificates"]
        assert [record.levelname for record in entries] == ["ERROR"], "it is said once"
        assert "key values mismatch" in entries[0].__dict__["problem"]

        authority.issue("service", days=(-1, 9))
        assert certificates.look()
        after = serial(service, authority)
        assert after != before
        assert certificates.not_after > ends
        assert service.service._figures()["tls_not_after_seconds"] == certificates.not_after

        (folder / "service.key").unlink()
        assert not certificates.look()
        assert serial(service, authority) == after
        assert standing.streams() == []


def test_certificates_are_read_again_while_jobs_take_all_their_threads(
    folder: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert authority.ca.exists()
    monkeypatch.setattr("psoup_service.gate.certificates.EVERY_S", 0.0)
    used = Certificates(str(folder / "service.pem"), str(folder / "service.key"))
    threads, over = Threads(), threading.Event()

    async def script() -> None:
        looked, loop = asyncio.Event(), asyncio.get_running_loop()
        monkeypatch.setattr(used, "look", lambda: loop.call_soon_threadsafe(looked.set))
        looking = asyncio.create_task(used.run(threads))
        await asyncio.wait_for(looked.wait(), 60)
        looking.cancel()

    for _ in range(8):
        threads.jobs.submit(over.wait)
    try:
        asyncio.run(script())
    finally:
        over.set()
        threads.close()


@pytest.mark.parametrize(("days", "why"), [((-9, -2), "expired"), ((2, 9), "not yet valid")])
def test_a_certificate_that_clients_would_refuse_does_not_start(
    folder: Path, authority: Authority, days: tuple[float, float], why: str
) -> None:
    authority.issue("service", days=days)
    with pytest.raises(InvalidInput, match=f"{why}; give a certificate") as caught, serving(with_tls(folder)):
        pass
    assert caught.value.reason == "TLS"


def test_swapped_files_and_an_address_of_another_machine_are_told(folder: Path, authority: Authority) -> None:
    authority.issue("service")
    swapped = Settings(
        listen=("https://127.0.0.1:0",), tls_cert=str(folder / "service.key"), tls_key=str(folder / "service.pem")
    )
    with pytest.raises(InvalidInput, match="no certificate in the first"), serving(swapped):
        pass
    files = {"tls_cert": "service.pem", "tls_key": "service.key", "tls_client_ca": "ca.pem"}
    there = {name: str(folder / file) for name, file in files.items()}
    with (
        pytest.raises(InvalidInput, match=r"192\.0\.2\.1:7433 cannot be listened on; this machine has no such"),
        serving(Settings(listen=("https://192.0.2.1:7433",), **there)),  # type: ignore[arg-type]
    ):
        pass


@pytest.mark.parametrize("name", ["service.pem", "service.key", "ca.pem"])
def test_a_file_that_is_not_there_or_not_pem_is_named(folder: Path, authority: Authority, name: str) -> None:
    paths = [str(folder / file) for file in ("service.pem", "service.key", "ca.pem")]
    (folder / name).write_text("hello")
    with pytest.raises(InvalidInput, match=r"cannot be used for TLS"):
        Certificates(*paths)
    (folder / name).unlink()
    with pytest.raises(InvalidInput, match=f"{name} cannot be used for TLS: No such file"):
        Certificates(*paths)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"host": "0.0.0.0"}, "host = '0.0.0.0' .*flag.* not a loopback address.*--tls-cert and --tls-key"),
        ({"listen": "127.0.0.1:1,10.0.0.1:1"}, "10.0.0.1:1 is not a loopback address"),
        ({"listen": ("127.0.0.1:1", "10.0.0.1:1")}, r"^listen = '127.0.0.1:1, 10.0.0.1:1' \(from flag\) is refused"),
        ({"listen": "https://127.0.0.1:1"}, "needs a certificate; give --tls-cert"),
        ({"tls_cert": "a"}, "tls_cert = 'a' .* goes together with tls_key"),
        ({"tls_key": "a"}, "goes together with tls_cert"),
        ({"tls_client_ca": "a"}, "over TLS only"),
        ({"tls_cert": "a", "tls_key": "b"}, "nothing listens with TLS"),
        ({"listen": "example.org:1"}, "neither an IP address nor localhost"),
        ({"listen": "127.0.0.1"}, "not a place to listen on"),
        ({"listen": "127.0.0.1:65536"}, "not a place to listen on"),
        ({"listen": "unix:"}, "write unix:PATH"),
    ],
)
def test_what_is_not_secured_does_not_start(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        load(given, environ={})


@pytest.mark.seeded("a port off loopback is opened in plain text")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:7433", Listener("127.0.0.1", 7433)),
        ("localhost:0", Listener("localhost", 0)),
        ("[::1]:5", Listener("[::1]", 5)),
        ("https://[::1]:5", Listener("[::1]", 5, tls=True)),
        ("0.0.0.0:5", Listener("0.0.0.0", 5, tls=True)),
        ("[::]:5", Listener("[::]", 5, tls=True)),
        ("unix:///run/s", Listener(path="/run/s")),
    ],
)
def test_off_loopback_there_is_no_plain_text(text: str, expected: Listener) -> None:
    assert listener(text) == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"PSOUP_CA": "/nowhere.pem"}, "PSOUP_CA = '/nowhere.pem' cannot be read: No such file"),
        ({"PSOUP_CERT": "x"}, "PSOUP_CERT is set and PSOUP_KEY is not|PSOUP_CERT = 'x' cannot be read"),
    ],
)
def test_a_client_names_the_file_that_it_cannot_use(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], said: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidRequest, match=said):
        Client("https://localhost:1")


def test_a_certificate_of_a_client_has_a_key(
    folder: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting(monkeypatch, key=folder / "client.key")
    with pytest.raises(InvalidRequest, match="PSOUP_KEY is set and PSOUP_CERT is not"):
        Client("https://localhost:1")
    (folder / "client.key").write_text("hello")
    with pytest.raises(InvalidRequest, match="not a PEM file"):
        Client("https://localhost:1")


def test_a_certificate_in_a_form_of_openssl_alone_is_refused(folder: Path, authority: Authority) -> None:
    pem = folder / "service.pem"
    pem.write_bytes(pem.read_bytes().replace(b" CERTIFICATE-----", b" TRUSTED CERTIFICATE-----"))
    with pytest.raises(InvalidInput, match="no block BEGIN CERTIFICATE"):
        Certificates(str(pem), str(folder / "service.key"))


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(folder: Path, authority: Authority) -> None:
    certificates = Certificates(str(folder / "service.pem"), str(folder / "service.key"))
    (folder / "service.key").unlink()
    os.mkfifo(folder / "service.key")
    assert not certificates.look()
    with pytest.raises(InvalidInput, match="is not a file of up to"):
        Certificates(str(folder / "service.pem"), str(folder / "service.key"))


@pytest.mark.parametrize("curve", [ec.SECP521R1(), None], ids=["P-521", "Ed25519"])
def test_a_key_that_no_client_of_grpc_takes_is_refused(
    folder: Path, authority: Authority, curve: ec.EllipticCurve | None
) -> None:
    key = ed25519.Ed25519PrivateKey.generate() if curve is None else ec.generate_private_key(curve)
    now, name = dt.datetime.now(dt.UTC), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    built = x509.CertificateBuilder(name, name, key.public_key(), 1, now - dt.timedelta(1), now + dt.timedelta(1))
    signed = built.sign(key, None if curve is None else hashes.SHA256())
    certificates = Certificates(str(folder / "service.pem"), str(folder / "service.key"))
    (folder / "service.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / "service.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    assert not certificates.look()
    with pytest.raises(InvalidInput, match="its key is not RSA, P-256 or P-384"):
        Certificates(str(folder / "service.pem"), str(folder / "service.key"))
