"""The first check of a request: any page in a browser can send some requests to a service on the same machine.

    Host             a name of this machine, or of `web_hosts`: else a foreign page may use DNS rebinding
    Origin           absent, or our own; for calls and event streams also one of `web_origins`
    Sec-Fetch-Site   absent, or from our own page; a link from elsewhere may lead to the page itself
    an event stream  GET, and never a link from elsewhere: a foreign page cannot read it, and must not begin it
    a call           POST, application/json, and X-Psoup or an access token: a foreign page needs a CORS preflight
                     (OPTIONS) to send these, and the gateway refuses that, but for `web_origins` (`foreign_pages`)
    the description  GET, which has no secrets
    rows             POST: rows in have an Idempotency-Key; for rows out X-Psoup or an access token

There are no cookies, so a page that passes these checks has no rights by itself. The guard does not look at the call or
its caller; the gate checks these, as for gRPC.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import Scope

from psoup.errors import InvalidInput, PermissionDenied, PSoupError
from psoup_service.web.foreign_pages import own_origins
from psoup_service.web.row_paths import OPENAPI, gives_rows, takes_rows

HEADER = "x-psoup"
"""The header that every call has, with the value 1."""

CALLS = "/api/"
"""The beginning of the paths of calls."""

EVENTS = "/follow"
"""The path of the event stream of matches."""

_BETWEEN = 4
"""Bytes of a header line in addition to its name and value."""

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_JSON = "application/json"

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Sources that the page may load and run: its own files, but no inline scripts or styles."""

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
"""Headers of every response."""


class RequestGuard:
    """The guard of the gateway. `hosts`: further names of the gateway, in addition to this machine's names. A name with
    a port is valid for that port only.
    """

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        self._hosts = frozenset((*_LOOPBACK, *map(str.lower, hosts)))

    def check(self, method: str, path: str, scheme: str, headers: Headers, *, foreign: bool = False) -> None:
        """Raise PermissionDenied or InvalidInput for a request that the gateway refuses. O(headers).

        `foreign`: the request is a call of a page on another host, which `web_origins` lists.
        """
        host = self._host(headers)
        if not foreign:
            self._check_page(path, scheme, host, headers)
        if path.startswith(CALLS):
            _check_call(method, path, headers)
        if path == EVENTS and method != "GET":
            raise InvalidInput(f"an event stream is GET, not {method[:10]!r}", reason="METHOD", allow="GET")

    def check_host(self, headers: Headers) -> None:
        """Raise PermissionDenied for a request to a name that is not one of the gateway."""
        self._host(headers)

    def _check_page(self, path: str, scheme: str, host: str, headers: Headers) -> None:
        given = headers.getlist("origin")
        if given and (len(given) > 1 or given[0] not in own_origins(scheme, host)):
            raise _refused(
                "ORIGIN",
                f"the request comes from a page of {given[0][:100]!r}; open the gateway's own page, or let the operator"
                " add that origin to web_origins",
            )
        call, events = path.startswith(CALLS), path == EVENTS
        site = headers.get("sec-fetch-site", "none")
        arrives = not call and not events and headers.get("sec-fetch-mode") == "navigate"
        if site not in ("same-origin", "none") and not arrives:
            raise _refused("SITE", f"the request comes from another site ({site[:40]!r}); open the page itself")

    def _host(self, headers: Headers) -> str:
        given = headers.getlist("host")
        host = given[0].lower() if len(given) == 1 else ""
        name, _, port = host.rpartition(":")
        if not port.isdecimal() or not name:
            name = host
        if name not in self._hosts and host not in self._hosts:
            raise _refused(
                "HOST",
                f"the Host {host[:100]!r} is not a name of this service; an operator can add it to the setting"
                " web_hosts",
            )
        return host


def check_head(scope: Scope, limit: int) -> None:
    """Raise InvalidInput for a head of more than `limit` bytes. h11 measures only heads that come in parts."""
    lines = sum(len(name) + len(value) + _BETWEEN for name, value in scope["headers"])
    size = len(scope["raw_path"]) + len(scope["query_string"]) + lines
    if size > limit:
        raise InvalidInput(
            f"the head of the request has {size:,} bytes; {limit:,} is the most", reason="HEAD_TOO_LARGE"
        )


def _check_call(method: str, path: str, headers: Headers) -> None:
    if path == OPENAPI:
        if method != "GET":
            raise InvalidInput(f"the description is GET, not {method[:10]!r}", reason="METHOD", allow="GET")
        return
    if method != "POST":
        raise InvalidInput(f"calls are POST, not {method[:10]!r}", reason="METHOD")
    if "transfer-encoding" in headers:  # it overrides a length, so the end of the body is not known
        raise InvalidInput("a body cannot have Transfer-Encoding; send Content-Length", reason="LENGTH_REQUIRED")
    if takes_rows(path):  # they need the header Idempotency-Key, which a foreign page cannot send either
        return
    if gives_rows(path):
        _check_header(headers)
        return
    kind, _, charset = headers.get("content-type", "").lower().partition(";")
    if kind.strip() != _JSON or charset.strip() not in ("", "charset=utf-8"):
        raise InvalidInput(
            f"the request has no content-type {_JSON}; send its body as {_JSON} in UTF-8, with this content-type",
            reason="CONTENT_TYPE",
        )
    _check_header(headers)


def _check_header(headers: Headers) -> None:
    """Raise PermissionDenied for a request that a foreign page can send, or that a browser completes by itself.

    A browser adds Authorization with the scheme Basic, but never with Bearer.
    """
    if headers.get(HEADER) != "1" and not headers.get("authorization", "").lower().startswith("bearer "):
        raise _refused("HEADER", "a call needs the header X-Psoup: 1, or Authorization: Bearer TOKEN")


def _refused(reason: str, why: str) -> PSoupError:
    return PermissionDenied(why, reason=reason)
