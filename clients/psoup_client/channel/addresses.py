"""Addresses of services: the form that users write, and the form that gRPC takes.

localhost                   localhost:7433, in plain text
https://psoup.example.org   psoup.example.org:7433, over TLS
unix:/run/psoup.sock        a Unix socket
a:7433,b:7433               two addresses, the preferred one first
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote

PORT = 7433
"""The default port of a service."""

_RESOLVED = re.compile(r"(unix|unix-abstract|vsock|dns|ipv4|ipv6|xds):")
"""The prefixes of addresses in gRPC's own form."""

TLS = "https://"
"""The prefix of addresses that are reached over TLS."""

_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^\s:/\[\]]+)(:(?P<port>[0-9]{1,5}))?")

_LONGEST_PATH = 107
"""The greatest number of bytes in the path of a Unix socket, a limit of Linux."""


def completed(address: str) -> str:
    """Return an address with its port, by default 7433. Raises TypeError, and ValueError for an invalid address."""
    if not isinstance(address, str):
        raise TypeError(f"the address is {address!r}: write it as text, such as '127.0.0.1:7433'")
    if _RESOLVED.match(address):
        return address
    scheme, name = (TLS, address.removeprefix(TLS)) if address.startswith(TLS) else ("", address)
    match = _HOST.fullmatch(name)
    if match is None or match["host"].isdecimal() or not 0 < int(match["port"] or PORT) < 1 << 16:
        way = "; leave http:// out" if "://" in address else "; a port is 1 to 65535" if match and match["port"] else ""
        raise ValueError(
            f"{address!r} is not an address: write HOST:PORT, such as '127.0.0.1:{PORT}', https://HOST:PORT, or"
            f" unix:PATH{way}"
        )
    return f"{scheme}{name}" if match["port"] else f"{scheme}{name}:{PORT}"


def separated(addresses: str) -> tuple[str, ...]:
    """Divide addresses at their commas, and give each its port. Raises the errors of `completed`, and ValueError for a
    missing address, and for one that is there twice.
    """
    if not isinstance(addresses, str) or "," not in addresses:
        return (completed(addresses),)
    named = [address.strip() for address in addresses.split(",")]
    example = f"write them as 'a:{PORT},b:{PORT}'"
    if not all(named):
        raise ValueError(f"{addresses!r} has a comma without an address on both sides: {example}")
    try:
        completed_each = tuple(map(completed, named))
    except ValueError as problem:
        raise ValueError(f"{addresses!r}: {problem}. A comma separates addresses: {example}") from None
    twice = next((each for place, each in enumerate(completed_each) if each in completed_each[:place]), None)
    if twice is not None:
        raise ValueError(f"{addresses!r} has {twice} twice: name each service once, {example}")
    return completed_each


def target(address: str) -> str:
    """Convert an address to gRPC's form: "host:port", also for TLS, or "unix:" with the path of a socket.

    Raises the errors of `completed`, and ValueError for a path that is too long for a socket.
    """
    address = completed(address)
    kind, _, path = address.partition(":")
    if kind != "unix":
        return address.removeprefix(TLS)
    path = "/" + path.lstrip("/") if path.startswith("/") else path
    if not path or "\0" in path or len(os.fsencode(path)) > _LONGEST_PATH:
        raise ValueError(
            f"{address!r} is not the address of a Unix socket: write unix:PATH, with 1 to {_LONGEST_PATH} bytes of PATH"
        )
    return f"unix:{quote(path)}"
