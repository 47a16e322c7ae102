"""psoup heartbeat: promise that nothing older will come."""

from __future__ import annotations

from typing import Annotated

import typer

from psoup_cli.common import Address, Timeout, connect, message
from psoup_cli.output import iso
from psoup_client.times import to_micros


def heartbeat(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)],
    time: Annotated[str, typer.Argument(metavar="TIME", help="ISO 8601; without a zone, UTC.", show_default=False)],
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup heartbeat flights 2014-01-02T00:00:00Z

    Promise that no tuple with a smaller time will come: waiting tuples are released, and windows before it are final.
    """
    try:
        micros = to_micros(time)
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None
    with connect(address, timeout) as client:
        watermark = client.heartbeat(stream, micros)
    message(f"The watermark of {stream} is {iso(watermark) if watermark else 'not set'}.")
