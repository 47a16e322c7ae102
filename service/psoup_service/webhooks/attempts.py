"""An attempt to send a message: resolve, check, connect to the checked address, POST, and read the status.

    URL ─ name resolved once ─> addresses, all checked ─ connect to one of them ─> POST, signed ─> status

TLS and the header Host use the name of the URL. Redirects are not followed. After a status from 200 to 299 the message
is taken, even if the connection fails then. The body of the reply is read up to a bound. The module imports the HTTP
client, so the service imports it only before the first attempt.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import certifi
import httpcore
from standardwebhooks import Webhook as Signer

from psoup.errors import PSoupError
from psoup.model import DEFAULT_TENANT
from psoup_service.gate.targets import Target
from psoup_service.webhooks.addresses import Addresses, refused
from psoup_service.webhooks.bounded_streams import BoundedStream
from psoup_service.webhooks.outcomes import Category, Outcome

CONNECT_S = 5.0
"""Seconds to connect, and again for the handshake of TLS."""
WHOLE_S = 30.0
"""Seconds for an attempt, until the status of the reply."""
_REST_S = 1.0
"""Seconds for the body of a reply, after its status."""
_MOST_REPLY = 64 * 1024
"""Bytes of the body of a reply after which reading stops."""
_ERROR_NUMBER = re.compile(r"^\[Errno -?\d+\] ")
_KEPT = 1_024
"""Bytes of a reply that are returned, which is enough for the reply to a challenge."""
_SHOWN = 200
"""Characters of an error that are shown."""
Headers = list[tuple[bytes, bytes]]


class Sender:
    """Sends messages. `agent`: the value of the header User-Agent."""

    def __init__(self, addresses: Addresses, agent: str) -> None:
        self._addresses = addresses
        self._agent = agent.encode()
        self._tls = ssl.create_default_context()
        self._tls.load_verify_locations(certifi.where())

    async def send(
        self,
        target: Target,
        message_id: str,
        body: bytes,
        secrets: Sequence[str],
        now: int,
        *,
        tenant: str = DEFAULT_TENANT,
        subscription_id: str = "",
    ) -> Outcome:
        """Send a message of a tenant once. A failure is an outcome, not an exception.

        `secrets`: each signs the message. `now`: the time in microseconds since 1970. `subscription_id`: the ID of the
        assistant's subscription, or "".
        """
        try:
            async with asyncio.timeout(WHOLE_S) as whole:
                addresses = await self._addresses.of(target, tenant)
                headers = self._headers(target, message_id, body, secrets, now)
                if subscription_id:
                    headers.append((b"X-MCP-Subscription-Id", subscription_id.encode()))
                return await self._post(target, addresses, headers, body, whole)
        except TimeoutError:
            return Outcome(0, "the receiver did not reply in time", "timeout")
        except PSoupError as problem:
            return Outcome(0, problem.message, "connection_refused")
        except (OSError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as problem:
            return Outcome(0, _described(problem), _category(problem))

    def _headers(self, target: Target, message_id: str, body: bytes, secrets: Sequence[str], now: int) -> Headers:
        time = datetime.fromtimestamp(now // 1_000_000, UTC)
        signature = " ".join(Signer(secret).sign(message_id, time, body.decode()) for secret in secrets)
        origin = target.origin
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        usual = origin.port == (443 if origin.scheme == "https" else 80)
        return [
            (b"Host", (host if usual else f"{host}:{origin.port}").encode()),
            (b"User-Agent", self._agent),
            (b"Content-Type", b"application/json"),
            (b"Content-Length", b"%d" % len(body)),
            (b"Connection", b"close"),
            (b"webhook-id", message_id.encode()),
            (b"webhook-timestamp", b"%d" % (now // 1_000_000)),
            (b"webhook-signature", signature.encode()),
        ]

    async def _post(
        self, target: Target, addresses: Iterable[str], headers: Headers, body: bytes, whole: asyncio.Timeout
    ) -> Outcome:
        """POST a message. After the status the bound `whole` ends, as reading the body has a bound of its own."""
        scheme, host, port = target.origin
        origin = httpcore.Origin(scheme.encode(), host.encode(), port)
        url = httpcore.URL(scheme=scheme, host=host, port=port, target=target.path)
        backend = _Checked(addresses, target)
        limits = {"connect": CONNECT_S, "read": WHOLE_S, "write": WHOLE_S, "pool": CONNECT_S}
        connection = httpcore.AsyncHTTPConnection(origin, ssl_context=self._tls, network_backend=backend)
        async with connection:
            request = httpcore.Request("POST", url, headers=headers, content=body, extensions={"timeout": limits})
            response = await connection.handle_async_request(request)
            status = int(response.status)
            whole.reschedule(None)
            reply = await _read(response)
        if 200 <= status < 300:
            return Outcome(status, "", reply=reply)
        more = ", a redirect, which is not followed" if 300 <= status < 400 else ""
        return Outcome(status, f"the receiver replied {status}{more}", "http_5xx" if status >= 500 else "http_4xx")


async def _read(response: httpcore.Response) -> bytes:
    """Read the body of a reply up to a bound, and return its beginning.

    A receiver whose reply is not read may see an error. An error of the receiver is ignored, as its status has decided.
    """
    size, beginning = 0, b""
    try:
        async with asyncio.timeout(_REST_S):
            async for part in response.aiter_stream():
                size += len(part)
                beginning += part[: _KEPT - len(beginning)]
                if size > _MOST_REPLY:
                    break
    except (TimeoutError, OSError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError):
        pass
    return beginning


class _Checked(httpcore.AsyncNetworkBackend):
    """Connects to the checked addresses, and does not resolve the name in the URL again."""

    def __init__(self, addresses: Iterable[str], target: Target) -> None:
        self._addresses = addresses
        self._target = target
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(self, host: str, port: int, *args: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that takes the connection."""
        failed: Exception = OSError("the name has no address")
        for address in self._addresses:
            try:
                stream = await self._backend.connect_tcp(address, port, *args, **options)
            except (OSError, httpcore.NetworkError, httpcore.TimeoutException) as problem:
                failed = problem
                continue
            if not self._target.trusted and _is_this_machine(stream):
                await stream.aclose()
                raise refused(self._target.origin.host, f"its address {address} belongs to this machine")
            return BoundedStream(stream)
        raise failed

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


def _is_this_machine(stream: httpcore.AsyncNetworkStream) -> bool:
    """Whether both ends of a connection have the same address."""
    ends = stream.get_extra_info("server_addr"), stream.get_extra_info("client_addr")
    return None not in ends and ends[0][0] == ends[1][0]


def _category(problem: BaseException) -> Category:
    """The category of a failure. The HTTP client wraps errors of TLS, so the causes are searched, too."""
    if isinstance(problem, httpcore.TimeoutException):
        return "timeout"
    causes: BaseException | None = problem
    while causes is not None:
        if isinstance(causes, ssl.SSLError):
            return "tls_error"
        causes = causes.__cause__ or causes.__context__
    return "connection_refused"


def _described(problem: Exception) -> str:
    text = _ERROR_NUMBER.sub("", " ".join(str(problem).split())) or type(problem).__name__
    return f"the receiver cannot be reached: {text[:_SHOWN]}"
