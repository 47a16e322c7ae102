"""Requests of pages on other hosts (CORS), for the origins of the setting `web_origins`.

    preflight   OPTIONS, which a browser sends first: 204 with the methods and headers that a call may have
    a call      its response names the origin, so that the page may read it; an error as well

Only calls and streams of events are open to other pages. No cookie and no client certificate counts for them: a browser
adds these by itself, so they say nothing about the page. The permission for credentials is never given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

from psoup.errors import Unauthenticated
from psoup_service.gate.page_origins import ANY, page_origins

FOREIGN = "psoup.foreign_page"
"""The key in the scope of a request whose value says whether a page on another host sends it."""

_HEADERS = ", ".join(
    (
        "Accept",
        "Authorization",
        "Content-Encoding",
        "Content-Type",
        "Idempotency-Key",
        "Last-Event-ID",
        "Traceparent",
        "X-Psoup",
    )
)
_PREFLIGHT = {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": _HEADERS,
    "access-control-max-age": "7200",
    "cache-control": "no-store",
}
_EXPOSED = "Psoup-Completeness, Retry-After"


class ForeignPages:
    """The pages of other hosts that may call. `origins`: the setting. Raises InvalidInput for a wrong one."""

    def __init__(self, origins: Iterable[str] = ()) -> None:
        self._origins = page_origins(origins)

    def origin(self, scheme: str, headers: Headers) -> str:
        """The origin of a request of another page, if it is listed; else ""."""
        given = headers.getlist("origin")
        if len(given) != 1 or not self._origins or given[0] in own_origins(scheme, headers.get("host", "").lower()):
            return ""
        # Any file, and any frame in a sandbox, has the origin null.
        listed = given[0] in self._origins or (ANY in self._origins and given[0] != "null")
        return given[0] if listed else ""

    def check_token(self, headers: Headers, is_open: Callable[[], bool]) -> None:
        """Raise Unauthenticated for a call without an access token, if the setting is `*`.

        `is_open`: whether the service takes calls without a credential. Then it would also take any text as a token.
        """
        if ANY not in self._origins:
            return
        if is_open():
            raise Unauthenticated(
                "web_origins is '*', so a call of a page on another host needs an access token, and this service has"
                " none yet; an operator issues tokens (psoup admin init), or the operator names the origin of the page",
                reason="NO_CREDENTIAL",
            )
        if not headers.get("authorization", "").lower().startswith("bearer "):
            raise Unauthenticated(
                "web_origins is '*', so a call of a page on another host has Authorization: Bearer TOKEN",
                reason="NO_CREDENTIAL",
            )

    def add_headers(self, origin: str, headers: MutableHeaders) -> None:
        """Add the headers of a response to a call. `origin`: as `origin` gives it."""
        if not self._origins:
            return
        headers.add_vary_header("Origin")
        if origin:
            headers["access-control-allow-origin"] = origin
            headers["access-control-expose-headers"] = _EXPOSED


def own_origins(scheme: str, host: str) -> tuple[str, str]:
    """The origins of the page itself. Behind a proxy that ends TLS it has https, and the gateway does not know it."""
    return f"{scheme}://{host}", f"https://{host}"


def is_preflight(method: str, headers: Headers) -> bool:
    """Whether a request is a browser's question if another page may send a call."""
    return method == "OPTIONS" and "access-control-request-method" in headers


def preflight() -> Response:
    """The response to that question of a listed page."""
    return Response(status_code=204, headers=_PREFLIGHT)
