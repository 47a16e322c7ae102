"""URLs that the service may send to, and the addresses behind their names.

    https://hooks.example.org/a     public addresses only
    http://localhost:9000/a         only if `webhook_hosts` names http://localhost:9000

Each attempt resolves the name again, and checks all its addresses. So a name that changes its address does not lead
into the operator's network.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from psoup.errors import InvalidInput

MOST_URL = 2_048
"""Characters of a URL at most."""
_PORTS = {"https": 443, "http": 80}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_UNICAST = ipaddress.ip_network("2000::/3")
"""The IPv6 addresses that are assigned to networks of the Internet."""
_SHOWN = 100


class Origin(NamedTuple):
    """A scheme, a host in lower case, and a port."""

    scheme: str
    host: str
    port: int


class Target(NamedTuple):
    """A URL that the service may send to. `path`: with the query. `trusted`: named by `webhook_hosts`."""

    origin: Origin
    path: str
    trusted: bool


def origins_of(texts: Iterable[str]) -> frozenset[Origin]:
    """The hosts of the setting `webhook_hosts`. Raises InvalidInput for a text that is not SCHEME://HOST[:PORT]."""
    return frozenset(map(_origin_alone, texts))


def _origin_alone(text: str) -> Origin:
    if "://" not in text:
        raise _not_valid(text, "write it with its scheme, such as http://localhost:9000", "host")
    parts = _split(text)
    if parts.path not in ("", "/") or parts.query:
        raise _not_valid(
            text, "it has a path; write SCHEME://HOST or SCHEME://HOST:PORT, such as http://localhost:9000"
        )
    return _origin(parts, text)


def target_of(url: str, trusted: frozenset[Origin]) -> Target:
    """The target of a URL. `trusted`: hosts of `webhook_hosts`. Raises InvalidInput with reason WEBHOOK_URL."""
    parts = _split(url)
    origin = _origin(parts, url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if origin in trusted:
        return Target(origin, path, True)
    named = "name the host with its scheme in the setting webhook_hosts to allow it"
    if origin.scheme != "https":
        raise _not_valid(url, f"the service sends over https only; {named}")
    if _is_address(origin.host) and not is_public(origin.host):
        raise _not_valid(url, f"{origin.host} is not a public address; {named}")
    if origin.host == "localhost" or origin.host.endswith(".localhost"):
        raise _not_valid(url, f"{origin.host} is not a public host; {named}")
    return Target(origin, path, False)


def is_public(address: str) -> bool:
    """Whether an IP address is public, and also each IPv4 address that it contains."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:  # such as an address with a zone, which is valid on one network only
        return False
    if not ip.is_global or ip.is_multicast:
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        return True
    if ip.scope_id is not None or (ip not in _UNICAST and ip not in _NAT64 and ip.ipv4_mapped is None):
        return False
    inner = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
    if ip in _NAT64:
        inner.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    return all(part is None or is_public(str(part)) for part in inner)


def _split(url: str) -> SplitResult:
    if len(url) > MOST_URL:
        raise _not_valid(url, f"it has {len(url):,} characters; the limit is {MOST_URL:,}")
    if not url.isascii() or any(letter <= " " or letter in "\x7f\\" for letter in url):
        raise _not_valid(url, "write other characters than ASCII in percent encoding, and the host in Punycode")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as problem:
        raise _not_valid(url, str(problem)) from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise _not_valid(url, "write https://HOST/PATH")
    if "@" in parts.netloc:
        raise _not_valid(url, "it has a user name or a password; the signature is enough for the receiver")
    if "#" in url:
        raise _not_valid(url, "it has a fragment (#), which is never sent")
    return parts


def _origin(parts: SplitResult, url: str) -> Origin:
    host = (parts.hostname or "").rstrip(".")
    if not host or not (_is_address(host) or all(0 < len(part) < 64 for part in host.split("."))):
        raise _not_valid(url, "its host is not a valid name")
    if parts.port == 0:
        raise _not_valid(url, "0 is not a valid port")
    return Origin(parts.scheme, host, parts.port or _PORTS[parts.scheme])


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _not_valid(url: str, why: str, thing: str = "URL") -> InvalidInput:
    shown = url if len(url) <= _SHOWN else f"{url[:_SHOWN]}…"
    return InvalidInput(f"{shown!r} is not a valid {thing} of a webhook: {why}", reason="WEBHOOK_URL", field="url")
