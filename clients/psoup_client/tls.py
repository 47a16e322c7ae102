"""TLS of a client, from files that the environment names: whom it trusts, and what it shows of itself.

    PSOUP_CA                 PEM file of the authorities that may sign the service's certificate
    PSOUP_CERT, PSOUP_KEY    PEM files of the client's own certificate and key, where the service wants one

Without PSOUP_CA the public authorities that gRPC comes with. The files are read when a client is made. `ClientOptions`
take credentials that were made otherwise.
"""

from __future__ import annotations

import os
from pathlib import Path

import grpc

from psoup_client.errors import InvalidRequest

CA, CERTIFICATE, KEY = "PSOUP_CA", "PSOUP_CERT", "PSOUP_KEY"
VARIABLES = (CA, CERTIFICATE, KEY)
"""All variables of the environment, each the path of a file."""


def tls_credentials() -> grpc.ChannelCredentials:
    """Credentials as the environment names them. Raises InvalidRequest for what cannot be read, or is missing."""
    authorities, certificate, key = map(_content, VARIABLES)
    if (certificate is None) != (key is None):
        there, missing = (CERTIFICATE, KEY) if key is None else (KEY, CERTIFICATE)
        raise InvalidRequest(f"{there} is set and {missing} is not: a client's certificate and its key go together")
    return grpc.ssl_channel_credentials(authorities, key, certificate)


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
