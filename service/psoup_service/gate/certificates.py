"""The certificate, key and authority that TLS listeners use, read again while the service runs.

    files ─> read ─> tried in a handshake in memory ─> used by the next connection        connections that stand go on
                                └── bad: the old ones stay, and the log says why, once

For each new connection, gRPC asks on its own thread and gets the pair that was read and tried last. A trial checks
a pair as a client would: the key must fit, and the certificate must be valid now.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
import stat
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import grpc

from psoup.errors import InvalidInput
from psoup.model import SECOND
from psoup_service.host.threads import Threads, on

EVERY_S = 10.0
"""Seconds between two looks at the files."""

_log = logging.getLogger(__name__)
MOST_BYTES = 1024 * 1024
"""The most bytes of a file: some hundred certificates."""

_KEYS = tuple(
    bytes.fromhex(kind)
    for kind in (
        "300d06092a864886f70d0101010500",  # RSA
        "301306072a8648ce3d020106082a8648ce3d030107",  # P-256
        "301006072a8648ce3d020106052b81040022",  # P-384
    )
)
"""The kinds of keys that gRPC clients and browsers accept, in the encoding of certificates (RFC 3279, 5480)."""
_VALIDITY = re.compile(rb"0[\x1e\x20\x22](?:\x17\x0d\d{12}Z|\x18\x0f\d{14}Z)(?:\x17\x0d(\d{12})Z|\x18\x0f(\d{14})Z)")
"""The validity of a certificate, in the encoding of certificates (RFC 5280, 4.1.2.5)."""
_FIRST = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


HTTP, POSTGRESQL = "http/1.1", "postgresql"
"""The protocols of listeners outside of gRPC, as a handshake names them (ALPN)."""


class _Files(NamedTuple):
    """The content of the files; without a `client_ca` clients show no certificate."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None


class Certificates:
    """The files of a service. Raises InvalidInput, reason TLS, if they cannot be used now.

    `not_after`: when the certificate ends, in seconds since 1970.
    """

    def __init__(self, certificate: str, key: str, client_ca: str = "") -> None:
        self._paths = (certificate, key, client_ca)
        self._seen: _Files | None = self._read()
        self.not_after, self._secured = self._try(self._seen)
        self._used = _configured(self._seen)
        self._problem = ""

    def server_credentials(self) -> grpc.ServerCredentials:
        """Credentials of one listener. Each new connection gets the pair that was read last."""
        given = first = self._used

        def newer() -> Any:
            nonlocal given
            if self._used is given:
                return None
            given = self._used
            return given

        return grpc.dynamic_ssl_server_credentials(first, newer, bool(self._paths[2]))

    def context(self, protocol: str) -> ssl.SSLContext:
        """The TLS context of a listener outside of gRPC. Each new connection gets the pair that was read last.

        `protocol`: HTTP or POSTGRESQL. The handshake tells it to clients that name their protocols.
        """
        listens = self._secured[protocol]

        def newest(opened: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
            opened.context = self._secured[protocol]

        listens.sni_callback = newest
        return listens

    def look(self) -> bool:
        """Read the files again; returns whether new ones are in use now. Unusable files are logged once."""
        try:
            files = self._read()
            if files == self._seen:
                return False
            not_after, secured = self._try(files)
        except InvalidInput as problem:
            if problem.message != self._problem:
                _log.error("the old certificate stays in use", extra={"problem": problem.message})
            self._problem = problem.message
            self._seen = None
            return False
        self.not_after, self._used, self._seen, self._problem = not_after, _configured(files), files, ""
        self._secured = secured
        _log.info("a new certificate is in use", extra={"file": self._paths[0], "not_after": not_after})
        return True

    async def run(self, threads: Threads) -> None:
        """Look every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await on(threads.gate, self.look)

    def _read(self) -> _Files:
        certificate, key, client_ca = self._paths
        return _Files(_content(certificate), _content(key), _content(client_ca) if client_ca else None)

    def _try(self, files: _Files) -> tuple[int, dict[str, ssl.SSLContext]]:
        """Try the files in a handshake.

        Returns the end of the certificate, in seconds since 1970, and a TLS context for each protocol.
        Raises InvalidInput if a client would refuse the certificate, or if the key does not fit.
        """
        certificate, key, client_ca = self._paths
        try:
            servers = {protocol: self._server_context(protocol) for protocol in (HTTP, POSTGRESQL)}
        except (ssl.SSLError, OSError) as problem:
            raise _refused(f"{certificate}, {key}", client_ca, _why(problem)) from problem
        if self._read() != files:
            raise _refused(certificate, key, "the files change while they are read")
        first = _FIRST.search(files.certificate)
        if first is None:
            raise _refused(certificate, key, "it has no block BEGIN CERTIFICATE")
        try:
            der = ssl.PEM_cert_to_DER_cert(first.group().decode("ascii"))
        except ValueError as problem:
            raise _refused(certificate, key, "its block BEGIN CERTIFICATE is not base64 alone") from problem
        if not any(kind in der for kind in _KEYS):
            raise _refused(certificate, key, "its key is not RSA, P-256 or P-384, the only ones that clients take")
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = False
        client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        client.load_verify_locations(cadata=der)
        try:
            not_after = _not_after(client, servers[HTTP])
        except ssl.SSLError as problem:
            raise _refused(certificate, key, _why(problem)) from problem
        for server in servers.values():
            server.verify_mode = ssl.CERT_REQUIRED if client_ca else ssl.CERT_NONE
        return not_after, servers

    def _server_context(self, protocol: str) -> ssl.SSLContext:
        """A TLS context with the files. Raises SSLError and OSError."""
        certificate, key, client_ca = self._paths
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(certificate, key, password=lambda: b"")
        if client_ca:
            server.load_verify_locations(client_ca)
        server.set_alpn_protocols([protocol])
        return server


def _not_after(client: ssl.SSLContext, server: ssl.SSLContext) -> int:
    """Shake hands in memory. Returns the end of the server's certificate, in seconds since 1970. Raises SSLError."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = client.wrap_bio(down, up), server.wrap_bio(up, down, server_side=True)
    waiting = True
    while waiting:
        waiting = False
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                waiting = True
    facts = ends[0].getpeercert()
    assert facts is not None, "the client has verified it"
    return int(ssl.cert_time_to_seconds(str(facts["notAfter"])))


@lru_cache(1024)
def end_of(certificate: bytes) -> int:
    """The end of a verified client certificate (PEM): microseconds since 1970. O(1) for a known certificate.

    A certificate whose end cannot be read counts as expired.
    """
    validity = _VALIDITY.search(ssl.PEM_cert_to_DER_cert(certificate.decode("ascii")))
    if validity is None:
        return 0
    text = validity[2] or (b"19" if validity[1] >= b"50" else b"20") + validity[1]
    return int(datetime.strptime(text.decode(), "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()) * SECOND


def _configured(files: _Files) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(files.key, files.certificate)], files.client_ca)


def _content(path: str) -> bytes:
    try:
        # Opening a pipe would wait for whoever writes to it, and a device may have no end.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > MOST_BYTES:
                raise _refused(path, "", f"it is not a file of up to {MOST_BYTES:,} bytes")
            return file.read(MOST_BYTES)
    except OSError as problem:
        raise _refused(path, "", problem.strerror or str(problem)) from problem


def _why(problem: Exception) -> str:
    """The reason that OpenSSL gives, in its words."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return problem.verify_message
    reason = getattr(problem, "reason", None) or getattr(problem, "strerror", None) or str(problem)
    if "PEM lib" in reason:
        return "there is no certificate in the first, or no key in the second"
    return reason.replace("_", " ").lower()


def _refused(path: str, other: str, why: str) -> InvalidInput:
    names = f"{path}, {other}" if other else path
    return InvalidInput(
        f"{names} cannot be used for TLS: {why}; give a certificate that is valid now, its key without a password, and"
        " PEM files of both (--tls-cert, --tls-key, --tls-client-ca)",
        reason="TLS",
    )
