"""Connections of clients outside of gRPC: their greatest number, their certificate, and their end if a client vanishes.

The gateway of pages and the port of PostgreSQL's protocol share these rules.
"""

from __future__ import annotations

import resource
import socket
import ssl
from typing import Any

from psoup.errors import InvalidInput
from psoup.model import SECOND
from psoup_service.gate.listeners import Listener

BACKLOG = 256
"""The most connections that the system holds until the service accepts them."""

_SEND_BYTES = 256 * 1024
"""The approximate bytes that the system buffers for a client that does not read."""

_SHARE = 4
"""Divisor of the files that the process may open. The quotient limits the connections, because the data needs files,
too."""

_VANISHED_MS = 60_000
"""Milliseconds without an acknowledgement from the client, after which the system ends its connection."""


def opened_socket(place: Listener, purpose: str, setting: str) -> socket.socket:
    """A socket that listens on a host and port. Raises InvalidInput if the system refuses to open it.

    `purpose`: what the port serves, for the error. `setting`: the option that chooses the port.
    """
    host = place.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        opened = socket.create_server((host, place.port), family=family, backlog=BACKLOG)
    except OSError as problem:
        why = str(problem.strerror).partition(" (while ")[0]  # create_server repeats the address
        raise InvalidInput(
            f"{place.host}:{place.port} cannot be listened on for {purpose} ({why}); choose another"
            f" {setting}, 0 for a free one, or -1 for none",
            reason="ADDRESS_IN_USE",
        ) from problem
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
    opened.setblocking(False)
    return opened


def bounded_by_files(connections: int) -> int:
    """The most connections at once: at most `connections`, and at most a share of the files of the process."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return connections if files == resource.RLIM_INFINITY else min(connections, files // _SHARE)


def certificate_of(secured: ssl.SSLObject | None) -> tuple[tuple[str, ...], int]:
    """The names in a client's certificate (URIs, then DNS names), and its end in microseconds since 1970; () and 0
    without a certificate.
    """
    shown = (secured.getpeercert() if secured is not None else None) or {}
    if not shown:
        return (), 0
    names: Any = shown.get("subjectAltName", ())
    ends = int(ssl.cert_time_to_seconds(str(shown["notAfter"]))) * SECOND
    return tuple(name for kind in ("URI", "DNS") for label, name in names if label == kind), ends


def notice_vanished(opened: socket.socket | None) -> None:
    """Have the system end a connection whose other side does not answer any more."""
    if opened is None:
        return
    if opened.family == socket.AF_UNIX:  # the system ends it with its process
        return
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _VANISHED_MS)
