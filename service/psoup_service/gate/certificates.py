"""The certificate, key and authority that TLS listeners use, read again while the service runs.

    files ─> read ─> tried in a handshake in memory ─> used by the next connection        connections that stand go on
                                └── bad: the old ones stay, and the log says why, once

gRPC asks at each new connection, on a thread of its own, and is only handed what was read and tried before. A pair is
tried as a client would: whether the key fits, and whether the certificate is valid now.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from psoup.errors import InvalidInput
from psoup_service.host.threads import Threads, on

EVERY_S = 10.0
"""Seconds between two looks at the files."""

_log = logging.getLogger(__name__)
_FIRST = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class _Files(NamedTuple):
    """What is in the files; without a `client_ca` clients show no certificate."""

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
        """Credentials of one listener: each new connection gets what was read last."""
        given = first = self._used

        def newer() -> Any:
            nonlocal given
            if self._used is given:
                return None
            given = self._used
            return given

        return grpc.dynamic_ssl_server_credentials(first, newer, bool(self._paths[2]))

    def context(self) -> ssl.SSLContext:
        """The same for a listener that is not of gRPC."""
        listens = self._secured

        def newest(opened: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
            opened.context = self._secured

        listens.sni_callback = newest
        return listens

    def look(self) -> bool:
        """Read the files again; returns whether new ones are in use now. Bad ones are logged, once."""
        try:
            files = self._read()
            if files == self._seen:
                return False
            not_after, secured = self._try(files)
        except InvalidInput as problem:
            if problem.message != self._problem:
                _log.error("the old certificate stays in use", extra={"problem": problem.message})
            self._problem, self._seen = problem.message, None
            return False
        self.not_after, self._used, self._seen, self._problem = not_after, _configured(files), files, ""
        self._secured = secured
        _log.info("a new certificate is in use", extra={"file": self._paths[0], "not_after": not_after})
        return True

    async def run(self, threads: Threads) -> None:
        """Look every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await on(threads.jobs, self.look)

    def _read(self) -> _Files:
        certificate, key, client_ca = self._paths
        return _Files(_content(certificate), _content(key), _content(client_ca) if client_ca else None)

    def _try(self, files: _Files) -> tuple[int, ssl.SSLContext]:
        """When the certificate ends, and a context of it.

        Raises InvalidInput if a client would refuse it, or the key is another's.
        """
        certificate, key, client_ca = self._paths
        try:
            server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            server.load_cert_chain(certificate, key, password=lambda: b"")
            if client_ca:
                server.load_verify_locations(client_ca)
        except (ssl.SSLError, OSError) as problem:
            raise _refused(f"{certificate}, {key}", client_ca, _why(problem)) from problem
        if self._read() != files:
            raise _refused(certificate, key, "the files change while they are read")
        first = _FIRST.search(files.certificate)
        if first is None:
            raise _refused(certificate, key, "it has no block BEGIN CERTIFICATE")
        client.check_hostname = False
        client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        client.load_verify_locations(cadata=first.group().decode("ascii"))
        try:
            not_after = _not_after(client, server)
        except ssl.SSLError as problem:
            raise _refused(certificate, key, _why(problem)) from problem
        server.verify_mode = ssl.CERT_REQUIRED if client_ca else ssl.CERT_NONE
        server.set_alpn_protocols(["http/1.1"])
        return not_after, server


def _not_after(client: ssl.SSLContext, server: ssl.SSLContext) -> int:
    """Shake hands in memory; returns when the server's certificate ends. Raises SSLError."""
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


def _configured(files: _Files) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(files.key, files.certificate)], files.client_ca)


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise _refused(path, "", problem.strerror or str(problem)) from problem


def _why(problem: Exception) -> str:
    """What OpenSSL says, in its words."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return problem.verify_message
    reason = getattr(problem, "reason", None) or getattr(problem, "strerror", None) or str(problem)
    return reason.replace("_", " ").lower()


def _refused(path: str, other: str, why: str) -> InvalidInput:
    names = f"{path}, {other}" if other else path
    return InvalidInput(
        f"{names} cannot be used for TLS: {why}; give a certificate that is valid now, its key without a password, and"
        " PEM files of both (--tls-cert, --tls-key, --tls-client-ca)",
        reason="TLS",
    )
