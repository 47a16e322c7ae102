"""Listeners, as settings write them, and their need of TLS.

127.0.0.1:7433           a port of this machine, in plain text
https://127.0.0.1:7433   the same with TLS
0.0.0.0:7433             reached from other machines: always TLS, and every client brings a certificate or a token
unix:/run/psoup.sock     a Unix socket, which the file system guards
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from psoup.errors import InvalidInput

TLS = "https://"
UNIX = "unix:"

_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Listener:
    """A place to listen on: a port of `host`, or the Unix socket at `path`, if that is not empty."""

    host: str = ""
    port: int = 0
    path: str = ""
    tls: bool = False

    @property
    def outside(self) -> bool:
        """Whether other machines reach the listener."""
        return not self.path and not is_loopback(self.host)

    def __str__(self) -> str:
        return f"{UNIX}{self.path}" if self.path else f"{TLS if self.tls else ''}{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address of `host`. Raises ValueError for what is not an IP address."""
    return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback


def port_of(host: str, port: int, *, tls: bool = False) -> Listener:
    """The listener on a port of `host`. It has TLS unless `host` is loopback. Raises ValueError for other texts."""
    try:
        return Listener(host, port, tls=tls or not is_loopback(host))
    except ValueError:
        raise ValueError(f"{host!r} is neither an IP address nor localhost") from None


def listener(text: str) -> Listener:
    """Read one entry of the setting `listen`. Raises ValueError."""
    if text.startswith(UNIX):
        path = text.removeprefix(UNIX)
        path = "/" + path.lstrip("/") if path.startswith("/") else path
        if not path:
            raise ValueError(f"{text!r} names no path: write unix:PATH")
        return Listener(path=path)
    match = _PORT.fullmatch(text.removeprefix(TLS))
    if match is None or int(match["port"]) >= 1 << 16:
        raise ValueError(
            f"{text!r} is not a place to listen on: write ADDRESS:PORT, https://ADDRESS:PORT or unix:PATH, such as"
            " '127.0.0.1:7433'"
        )
    return port_of(match["host"], int(match["port"]), tls=text.startswith(TLS))


def incomplete(tls_cert: str, tls_key: str, tls_client_ca: str) -> tuple[str, str] | None:
    """Return a TLS setting that lacks its partner, and the message about it; None if the settings are complete."""
    if bool(tls_cert) != bool(tls_key):
        field, other = ("tls_cert", "tls_key") if tls_cert else ("tls_key", "tls_cert")
        return field, f"it goes together with {other}; give both or none"
    if tls_client_ca and not tls_cert:
        return "tls_client_ca", "clients show certificates over TLS only; give tls_cert and tls_key too"
    return None


def unsecured(listeners: tuple[Listener, ...], *, certificate: bool) -> str:
    """The reason for not opening these listeners, and the way out; "" if they may be opened.

    `certificate`: whether the service has a certificate. The gate checks the caller: a token, or a certificate that the
    client's authority has signed.
    """
    for place in listeners:
        if place.outside and not certificate:
            return (
                f"{place.host}:{place.port} is not a loopback address, so others reach it: what they send must be"
                " encrypted; give --tls-cert and --tls-key, the service's certificate and key, and let clients in by"
                " tokens (psoup admin init) or certificates (--tls-client-ca); or use 127.0.0.1 and a tunnel"
            )
        if place.tls and not certificate:
            return f"{place} needs a certificate; give --tls-cert and --tls-key"
    if certificate and not any(place.tls for place in listeners):
        return "nothing listens with TLS, and tls_cert is given; write https://ADDRESS:PORT in listen"
    return ""


def nobody_may_come(data_dir: str) -> InvalidInput:
    """The error for a service that other machines reach although no caller could have a credential."""
    return InvalidInput(
        "other machines reach this service, and no access token exists yet, so no caller could get in; make the first"
        f" one before the start with psoup admin init --data-dir {data_dir}, or give --tls-client-ca, who signs the"
        " certificates of clients",
        reason="NO_TOKEN",
    )
