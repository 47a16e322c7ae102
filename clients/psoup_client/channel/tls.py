"""The TLS credentials of a client: environment variables name files with trusted authorities and its own certificate.

    PSOUP_CA                 PEM file of the authorities that may sign the service's certificate
    PSOUP_CERT, PSOUP_KEY    PEM files of the client's own certificate and key, if the service asks for one

Without PSOUP_CA, gRPC's own list of public authorities is used. The files are read when a client is created.
`ClientOptions` accepts credentials from any other source.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import grpc

from psoup_client.errors import InvalidRequest

CA = "PSOUP_CA"
CERTIFICATE = "PSOUP_CERT"
KEY = "PSOUP_KEY"
VARIABLES = (CA, CERTIFICATE, KEY)
"""The environment variables, each with the path of a file."""


def tls_credentials() -> grpc.ChannelCredentials:
    """Load the credentials that the environment names. Raises InvalidRequest for a missing or unreadable file."""
    authorities, certificate, key = map(_content, VARIABLES)
    if (certificate is None) != (key is None):
        present, missing = (CERTIFICATE, KEY) if key is None else (KEY, CERTIFICATE)
        raise InvalidRequest(f"{present} is set and {missing} is not: a client's certificate and its key go together")
    _check(authorities, certificate)
    return grpc.ssl_channel_credentials(authorities, key, certificate)


def _check(authorities: bytes | None, certificate: bytes | None) -> None:
    """Raise InvalidRequest for invalid files. gRPC would only log them, and report a broken service."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authorities is not None:
        try:
            context.load_verify_locations(cadata=authorities.decode("ascii", "replace"))
        except (ssl.SSLError, ValueError):
            raise InvalidRequest(f"{_named(CA)} has no certificate that can be read") from None
    if certificate is None:
        return
    try:
        context.load_cert_chain(os.environ[CERTIFICATE], os.environ[KEY], password=lambda: b"")
    except (ssl.SSLError, OSError, ValueError) as problem:
        if getattr(problem, "reason", None) == "KEY_VALUES_MISMATCH":
            raise InvalidRequest(f"{_named(KEY)} is not the key of {_named(CERTIFICATE)}") from None
        raise InvalidRequest(
            f"{_named(CERTIFICATE)} has no certificate that can be read, or {_named(KEY)} no key without a password"
        ) from None


def _named(variable: str) -> str:
    return f"{variable} = {os.environ.get(variable)!r}"


def _content(variable: str) -> bytes | None:
    path = os.environ.get(variable)
    if not path:
        return None
    try:
        content = Path(path).read_bytes()
    except OSError as problem:
        raise InvalidRequest(f"{variable} = {path!r} cannot be read: {problem.strerror}") from None
    if b"-----BEGIN " not in content:
        raise InvalidRequest(f"{variable} = {path!r} is not a PEM file")
    return content
