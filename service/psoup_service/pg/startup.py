"""The start of a connection: TLS, the start-up packet, and the access token as password.

    SSLRequest ─> handshake ─┐
    handshake, with ALPN ────┤
                             ├─> start-up packet ─> does gRPC need a credential? ─> password ─> principal
    (plain, on loopback) ────┘
                             └─> cancel request: no session

A password in plain text is read only over TLS or from this machine. The token determines the tenant; the name of the
user and of the database are free.
"""

from __future__ import annotations

import ssl
import struct
from dataclasses import dataclass

from psoup.errors import InvalidInput, PermissionDenied, PSoupError, Unauthenticated
from psoup_service.gate.certificates import POSTGRESQL
from psoup_service.gate.principal import Principal
from psoup_service.pg import messages
from psoup_service.pg.calls import Calls, Client
from psoup_service.pg.cancellation import CancelKey
from psoup_service.pg.channel import Channel
from psoup_service.pg.errors import unsupported
from psoup_service.pg.messages import Body, malformed

_PACKET_BYTES = 10_000
"""The most bytes of a start-up packet, as in PostgreSQL."""

_PASSWORD_BYTES = 16 * 1024
"""The most bytes of a password. Access tokens of a provider have some thousands."""

_HANDSHAKE = b"\x16"
"""The first byte of a handshake of TLS. A start-up packet with it would have 350 MB."""

_REASONS = {
    "TOO_MANY_CONNECTIONS": "limit",
    "TLS_NEEDED": "tls",
    "PROTOCOL": "protocol",
    "NOT_SUPPORTED": "protocol",
    "DRAINING": "stopping",
}
"""The reason in the metric of refused connections, by the reason of the error."""

_NUMBER = struct.Struct("!I")


@dataclass(frozen=True, slots=True)
class Encryption:
    """The TLS of the port. `context`: None without a certificate. `needed`: connections in plain text are refused."""

    context: ssl.SSLContext | None = None
    needed: bool = False


async def first_packet(channel: Channel, encryption: Encryption, seconds: float) -> dict[str, str] | CancelKey:
    """Read up to the start-up packet, and encrypt the connection if the client asks for it.

    Returns the parameters of the packet, or the key of a cancel request. Raises InvalidInput for other bytes,
    PermissionDenied if the port needs TLS, and OSError if the handshake fails.
    """
    requests = set[int]()
    await _direct_tls(channel, encryption, seconds)
    while True:
        await channel.need(_NUMBER.size, seconds)
        (size,) = _NUMBER.unpack(channel.take(_NUMBER.size))
        if not 8 <= size <= _PACKET_BYTES:
            raise malformed(f"a start-up packet of {size:,} bytes; {_PACKET_BYTES:,} is the most")
        await channel.need(size - 4, seconds)
        body = Body(channel.take(size - 4))
        code = body.int32()
        if code in (messages.TLS, messages.GSS) and code not in requests:
            requests.add(code)
            await _answer(channel, encryption if code == messages.TLS else Encryption(), seconds)
            continue
        if code == messages.CANCEL:
            number, key = body.int32(), body.bytes(4)
            body.end()
            return CancelKey(number, key)
        if code >> 16 != 3:
            raise malformed(f"version {code >> 16}.{code & 0xFFFF}; this service speaks 3.0")
        if encryption.needed and not channel.secured:
            raise PermissionDenied(
                "this port takes only encrypted connections; connect with sslmode=require, or better verify-full",
                reason="TLS_NEEDED",
            )
        return _parameters(channel, body, code & 0xFFFF)


async def sign_in(calls: Calls, client: Client, channel: Channel, seconds: float) -> Principal:
    """Identify the client. A password is requested only if a call over gRPC would need a credential.

    Raises Unauthenticated for a wrong token.
    """
    try:
        return await calls.sign_in()
    except Unauthenticated as problem:
        if problem.reason != "NO_CREDENTIAL":
            raise
    if not (channel.secured or client.local):
        raise PermissionDenied("a password is sent only over TLS; connect with sslmode=require", reason="TLS_NEEDED")
    channel.write(messages.authentication(messages.CLEARTEXT_PASSWORD))
    client.token = await _password(channel, seconds)
    if not client.token:
        raise Unauthenticated(
            "the password is empty; the password is an access token, which an operator issues (psoup token issue)",
            reason="NO_CREDENTIAL",
        )
    return await calls.sign_in()


def reason_of_refusal(problem: PSoupError | OSError) -> str:
    """The reason why a connection ends at its start: one of `pg_connections.REASONS`; "" if the client disconnects."""
    if isinstance(problem, TimeoutError):
        return "late"
    if isinstance(problem, ssl.SSLError):
        return "tls"
    if isinstance(problem, OSError):
        return ""
    if isinstance(problem, Unauthenticated):
        return "credential"
    return _REASONS.get(problem.reason, "other")


async def _direct_tls(channel: Channel, encryption: Encryption, seconds: float) -> None:
    """Encrypt the connection of a client that begins with the handshake (sslnegotiation=direct).

    Raises InvalidInput if the client does not name PostgreSQL's protocol in the handshake (ALPN).
    """
    await channel.need(1, seconds)
    if encryption.context is None or not channel.begins_with(_HANDSHAKE):
        return
    await channel.continue_tls(encryption.context, seconds)
    if channel.agreed_protocol != POSTGRESQL:
        raise malformed(f"TLS without a request for it must name the protocol {POSTGRESQL} (ALPN)")


async def _answer(channel: Channel, encryption: Encryption, seconds: float) -> None:
    """Answer a request for encryption, and encrypt the connection if the answer is yes."""
    if encryption.context is None or channel.secured:
        channel.write(b"N")
    else:
        channel.write(b"S")
        await channel.start_tls(encryption.context, seconds)


async def _password(channel: Channel, seconds: float) -> str:
    await channel.need(5, seconds)
    kind, size = struct.unpack("!cI", channel.take(5))
    if kind != b"p" or not 5 <= size <= _PASSWORD_BYTES:
        raise malformed(f"a message of kind {kind!r} with {size:,} bytes instead of a password")
    await channel.need(size - 4, seconds)
    body = Body(channel.take(size - 4))
    password = body.text()
    body.end()
    return password


def _parameters(channel: Channel, body: Body, minor: int) -> dict[str, str]:
    """The parameters of a start-up packet. Sends the client the options and the version that are not supported."""
    parameters = dict[str, str]()
    while name := body.text():
        parameters[name] = body.text()
    body.end()
    unknown = [name for name in parameters if name.startswith("_pq_.")]
    for name in unknown:
        del parameters[name]
    if minor or unknown:
        channel.write(messages.negotiated_version(unknown))
    if not parameters.get("user"):
        raise InvalidInput("the start-up packet names no user; any name is accepted", reason="PROTOCOL")
    if parameters.get("replication", "off").lower() not in ("off", "false", "no", "0"):
        raise unsupported("connections for replication (the parameter replication)")
    return parameters
