"""psoup mcp: the tools of a service for an assistant on standard input."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from typing import Annotated
from urllib.parse import urlsplit

import typer

from psoup_cli.commands.service.open import seen_from_here
from psoup_cli.common import Address, Timeout, connect, message
from psoup_client import InvalidRequest
from psoup_client.channel.tls import CA, CERTIFICATE, KEY, tls_credentials
from psoup_client.channel.token import CallToken

_PATH = "/mcp"
_HERE = ("localhost", "127.0.0.1", "::1")
Url = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help="The endpoint, if the service does not know its address: https://HOST/mcp."
    ),
]


def mcp(address: Address = None, url: Url = None, timeout: Timeout = None) -> None:
    """\b
    Examples:
      psoup mcp
      psoup mcp --address psoup.example.org:7433
      claude mcp add psoup -- psoup mcp

    Serve the tools of a service to an assistant, such as Claude or VS Code, on standard input and output. The assistant
    starts this command by itself.

    The command carries each request to /mcp on the port of the page. The service needs the setting mcp = true. Without
    --url the command asks the service at --address for the address of its page.

    The access token comes from PSOUP_TOKEN_FILE or PSOUP_TOKEN, as for all commands.
    """
    from psoup_cli.assistant_bridge import carry

    endpoint, reached = _endpoint(address, url, timeout)
    parts = urlsplit(endpoint)
    encrypted = parts.scheme == "https"
    token = CallToken(None, reached, encrypted=True)
    if token.metadata() and not encrypted and parts.hostname not in _HERE:
        raise InvalidRequest(
            f"the access token would go to {parts.netloc} in plain text, readable on the way; give the service a"
            " certificate (tls_cert), or use --url https://…"
        )
    verify: ssl.SSLContext | bool = _context() if encrypted else False
    _check(endpoint, verify)
    asyncio.run(carry(endpoint, _headers(token), verify))


def _endpoint(address: str | None, url: str | None, timeout: float | None) -> tuple[str, str]:
    """The URL of the endpoint, and the address of the service that gets the token."""
    if url is not None:
        return url, _service_address(url)
    with connect(address, timeout) as client:
        page, reached = client.info().web_address, client.connection.routes.last.address
    if not page:
        message("The service has no port for the page, which assistants call. Start it with --mcp and --web-port 7434.")
        raise typer.Exit(1)
    return f"{_named_as(reached, seen_from_here(page, reached))}{_PATH}", reached


def _service_address(url: str) -> str:
    """The address of the service in a URL, with its port. Raises BadParameter for an invalid URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError:
        raise _invalid(url) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise _invalid(url)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    scheme, usual = ("https://", 443) if parts.scheme == "https" else ("", 80)
    return f"{scheme}{host}:{port or usual}"


def _invalid(url: str) -> typer.BadParameter:
    return typer.BadParameter(f"--url {url!r} is not a URL; write https://psoup.example.org:7434/mcp")


def _named_as(reached: str, page: str) -> str:
    """The address of a page. Over TLS it has the caller's host name, because the certificate has that name."""
    parts, host = urlsplit(page), reached.rpartition("//")[2].rpartition(":")[0]
    if parts.scheme != "https" or reached.startswith("unix:") or not host:
        return page
    return f"https://{host}:{parts.port}"


def _headers(token: CallToken) -> Callable[[], Mapping[str, str]]:
    """The headers of the next request: the access token as it is now."""
    return lambda: {name: str(value) for name, value in token.metadata()}


def _context() -> ssl.SSLContext:
    """The trusted authorities, and the certificate of this client, from the environment."""
    tls_credentials()  # names what is wrong with the files
    context = ssl.create_default_context(cafile=os.environ.get(CA) or None)
    if os.environ.get(CERTIFICATE):
        context.load_cert_chain(os.environ[CERTIFICATE], os.environ[KEY])
    return context


def _check(endpoint: str, verify: ssl.SSLContext | bool) -> None:
    """Exit with a message if the service has no endpoint for assistants, before the assistant waits for it."""
    import httpx2

    try:
        reply = httpx2.get(endpoint, verify=verify, timeout=10, trust_env=False)
    except httpx2.InvalidURL:
        raise _invalid(endpoint) from None
    except httpx2.HTTPError as problem:
        message(f"psoup: nothing answers at {endpoint}: {problem}")
        raise typer.Exit(3) from None
    if reply.status_code == httpx2.codes.METHOD_NOT_ALLOWED:  # it takes POST
        return
    message(f"psoup: {endpoint} is not an endpoint for assistants (HTTP status {reply.status_code}).")
    message("The service needs the setting mcp = true, and the package psoup[mcp]: psoup serve --mcp")
    raise typer.Exit(1)
