"""psoup open: the page of a service, in a browser."""

from __future__ import annotations

import webbrowser
from urllib.parse import urlsplit

import typer

from psoup_cli.common import Address, Timeout, connect, message


def open_page(address: Address = None, timeout: Timeout = None) -> None:
    """\b
    Examples:
      psoup open
      psoup open --address psoup.example.org:7433

    Open the page of a service in a browser, and print its address. Without a browser the address is only printed.
    """
    with connect(address, timeout) as client:
        url, reached = client.info().web_address, client.connection.routes.last.address
    if not url:
        message(
            "The service has no page: it was started with web_port = -1, or on a port that was not chosen or is in use."
        )
        message("Start it with psoup serve --web-port 7434.")
        raise typer.Exit(1)
    page = seen_from_here(url, reached)
    print(page)
    try:
        opened = webbrowser.open(page)
    except webbrowser.Error:
        opened = False
    if not opened:
        message("There is no browser here; open the address in one.")


def seen_from_here(page: str, reached: str) -> str:
    """Return the address of the page under the host name by which the client reached the service.

    For a Unix socket the page is on this machine.
    """
    parts = urlsplit(page)
    if parts.hostname not in ("0.0.0.0", "::"):
        return page
    host = reached.rpartition("//")[2].rpartition(":")[0]
    if reached.startswith("unix:") or not host:
        host = "localhost"
    return f"{parts.scheme}://{host}:{parts.port}"
