"""Origins of pages on other hosts, as the setting `web_origins` writes them.

https://app.example.org      exactly this one: scheme, host and port
http://localhost:5173
*                            any page, but each of its calls needs an access token of the service
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from psoup.errors import InvalidInput

ANY = "*"
"""The entry that stands for every origin."""
_ORIGIN = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?)(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_PORTS = {"http": 80, "https": 443}
_SHOWN = 100
_HOW = "write SCHEME://HOST or SCHEME://HOST:PORT, such as https://app.example.org"


def page_origins(texts: Iterable[str]) -> frozenset[str]:
    """The origins of the setting, each as a browser writes it: in lower case, and without the port of its scheme.

    Raises InvalidInput for a text that is not an origin of http or https. `*` must be the only entry.
    """
    given = tuple(texts)
    if ANY in given:
        if len(given) > 1:
            raise InvalidInput("'*' stands for all origins; give it alone, or leave it out", field="web_origins")
        return frozenset(given)
    return frozenset(map(_origin, given))


def _origin(text: str) -> str:
    match = _ORIGIN.fullmatch(text.lower().removesuffix("/"))
    if match is None:
        raise _not_valid(text, _why(text))
    scheme, host, port = match["scheme"], match["host"], match["port"]
    host = _host(text, host)
    if port is None or int(port) == _PORTS[scheme]:
        return f"{scheme}://{host}"
    if not 0 < int(port) < 65_536:
        raise _not_valid(text, f"{port} is not a valid port")
    return f"{scheme}://{host}:{int(port)}"


def _host(text: str, host: str) -> str:
    """A host as a browser writes it. Raises InvalidInput for an address that is not valid.

    A browser reads a name whose last label is a number as an IPv4 address, in several spellings: 127.1 is 127.0.0.1.
    """
    if host.startswith("["):
        try:
            return f"[{ipaddress.IPv6Address(host[1:-1]).compressed}]"
        except ValueError:
            raise _not_valid(text, f"{host} is not an IPv6 address") from None
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise _not_valid(text, f"{host} is not an IPv4 address; write four numbers: 127.0.0.1") from None
    return host


def _why(text: str) -> str:
    if "*" in text:
        return f"a pattern is not possible; name each origin, or give '*' alone; {_HOW}"
    if text.lower() == "null":
        return f"'null' is the origin of any file and of any frame in a sandbox; {_HOW}"
    if "://" not in text:
        return f"it has no scheme; {_HOW}"
    if not text.isascii():
        return f"a name has ASCII letters only; write it as browsers send it, with xn--; {_HOW}"
    if "@" in text:
        return f"it has a user name; {_HOW}"
    if text.isascii() and re.fullmatch(r"https?://[^/?#]+[/?#].*", text.lower()):
        return f"an origin has no path; {_HOW}"
    return _HOW


def _not_valid(text: str, why: str) -> InvalidInput:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return InvalidInput(f"{shown!r} is not a valid origin of a page: {why}", field="web_origins")
