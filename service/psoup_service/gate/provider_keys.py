"""The keys of an OpenID provider, fetched from its own addresses only, in bounded size and time.

    oidc_issuer/.well-known/openid-configuration ── the same issuer? ─> jwks_uri ──┬─> {"keys": [...]}
                                                                oidc_jwks_url ─────┘

The document is read every hour, and after the keys could not be fetched. If it cannot be read, its last content is
used. Only https URLs and this machine are contacted, and redirects are not followed. For one thread at a time.
"""

from __future__ import annotations

import json
import time
from http.client import HTTPResponse
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from psoup_service.gate.provider import Provider, trusted

DOCUMENT_S = 3_600.0
"""Seconds after which the document is read again."""

FETCH_S = 10.0
"""Seconds that one fetch may take."""

MOST_BYTES = 1024 * 1024
"""The most bytes of a document, or of a set of keys."""

_PIECE = 64 * 1024
_PLACE = "/.well-known/openid-configuration"


class KeySource:
    """The keys of a provider. `url`: the address of the keys, "" while it is not known."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.url = provider.keys_url
        self._found = float("-inf")
        """The time at which the document was read, by a clock that never goes back."""

    def listed(self) -> list[dict[str, Any]]:
        """The keys of the provider, as JSON. Raises OSError and HTTPException, and ValueError for an invalid reply."""
        if not self._provider.keys_url and time.monotonic() - self._found > DOCUMENT_S:
            self._find()
        try:
            reply = _fetched(self.url)
        except Exception:
            self._found = float("-inf")
            raise
        listed = reply.get("keys", []) if isinstance(reply, dict) else []
        return [key for key in listed if isinstance(key, dict)]

    def _find(self) -> None:
        """Read the address of the keys in the provider's document.

        A failure is raised only if no address is known yet.
        """
        try:
            self.url = keys_url(_fetched(self._provider.issuer.removesuffix("/") + _PLACE), self._provider.issuer)
            self._found = time.monotonic()
        except Exception:
            if not self.url:
                raise


def keys_url(document: Any, issuer: str) -> str:
    """The address of the keys that a provider's document names.

    Raises ValueError if the document names another issuer, or an address that cannot be trusted.
    """
    if not isinstance(document, dict):
        raise ValueError("the provider's openid-configuration is not an object of JSON")
    if document.get("issuer") != issuer:
        raise ValueError(
            f"the provider's openid-configuration names the issuer {str_of(document.get('issuer'))}, and oidc_issuer is"
            f" {issuer!r}: write it letter by letter as the provider does"
        )
    url = document.get("jwks_uri")
    if not isinstance(url, str) or not url:
        raise ValueError("the provider's openid-configuration has no jwks_uri; give oidc_jwks_url, where its keys are")
    if not trusted(url):
        raise ValueError(f"the provider's jwks_uri is {str_of(url)}, and must be https, or http on loopback")
    return url


def str_of(value: object) -> str:
    """A value from the provider as a short ASCII text, for messages."""
    return ascii(value)[:200]


class _NobodyElse(HTTPRedirectHandler):
    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        raise HTTPError(req.full_url, code, "it sends to another place, which is not asked", headers, fp)


_OPENER = build_opener(_NobodyElse)


def _fetched(url: str) -> Any:
    """Fetch the JSON at a URL. Raises ValueError if it is too long or too slow."""
    end, parts, size = time.monotonic() + FETCH_S, list[bytes](), 0
    response: HTTPResponse
    with _OPENER.open(Request(url, headers={"accept": "application/json"}), timeout=max(FETCH_S, 0.1)) as response:
        while part := response.read1(_PIECE):
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                raise ValueError(f"{url} has more than {MOST_BYTES:,} bytes")
            if time.monotonic() > end:
                raise ValueError(f"{url} did not answer in {FETCH_S:g} seconds")
    return json.loads(b"".join(parts))
