"""An OpenID provider under test: keys behind a URL of loopback, and access tokens signed with them, or forged."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from psoup_service.process.settings import Settings

ISSUER, AUDIENCE = "https://id.example.org", "psoup"


@cache
def rsa_key(number: int = 0) -> rsa.RSAPrivateKey:
    """A key that tests share: making one takes a tenth of a second."""
    return rsa.generate_private_key(65_537, 2_048)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


class Identity:
    """The provider. `keys`: what its URL answers, by name; `down`: it answers with an error; `asked`: how often.

    `document`: what it says of itself; `sent`: another place that it sends those to who ask for that.
    """

    def __init__(self, address: str = "") -> None:
        self.issuer, self.url = f"http://{address}", f"http://{address}/keys"
        self.document: Any = {"issuer": self.issuer, "jwks_uri": self.url}
        self.sent, self.documents = "", 0
        self.keys: list[dict[str, Any]] = [
            {"kid": "one", "use": "sig", **RSAAlgorithm.to_jwk(rsa_key().public_key(), as_dict=True)},
            {"kid": "two", "alg": "ES256", **ECAlgorithm.to_jwk(ec_key().public_key(), as_dict=True)},
            {"kid": "secret", "kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"},
        ]
        self.down, self.asked = False, 0

    def settings(self, **more: Any) -> Settings:
        """Settings of a service that accepts the provider's tokens."""
        named = {"oidc_issuer": ISSUER, "oidc_audience": AUDIENCE, "oidc_jwks_url": self.url}
        return Settings(port=0, **{**named, **more})


def claims(**more: Any) -> dict[str, Any]:
    """The claims of a token that is well, for the next hour, but for `more`; None takes one out."""
    now = int(time.time())
    content = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ada",
        "exp": now + 3_600,
        "iat": now,
        "roles": ["owner", "operator"],
    }
    return {name: value for name, value in {**content, **more}.items() if value is not None}


def signed(key: Any = None, algorithm: str = "RS256", kid: str | None = "one", header: Any = None, **more: Any) -> str:
    """A token of these claims."""
    headers = {**({} if kid is None else {"kid": kid}), **(header or {})}
    return jwt.encode(claims(**more), rsa_key() if key is None else key, algorithm, headers)


@contextmanager
def provider() -> Iterator[Identity]:
    """A provider that answers on loopback."""

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/.well-known/openid-configuration":
                identity.documents += 1
                body = json.dumps(identity.document).encode()
                self.send_response(302 if identity.sent else 200)
                if identity.sent:
                    self.send_header("location", identity.sent)
            else:
                identity.asked += 1
                body = json.dumps({"keys": identity.keys}).encode()
                self.send_response(503 if identity.down else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Keys)
    identity = Identity(f"127.0.0.1:{server.server_address[1]}")
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield identity
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
