"""psoup demo: a year of flights, replayed, and questions about it."""

from __future__ import annotations

import shutil
import sys
from contextlib import ExitStack
from typing import Annotated

import typer
from rich.console import Console

from psoup_cli.common import Address, message
from psoup_cli.flights.child import ChildService
from psoup_cli.flights.dataset import load
from psoup_cli.flights.show import make_console, say
from psoup_cli.flights.story import Story
from psoup_cli.settings import client_settings

START_SECONDS = 60.0


def demo(
    serve: Annotated[bool, typer.Option("--serve", help="Start a service for it, up until Ctrl-C.")] = False,
    once: Annotated[bool, typer.Option("--once", help="With --serve: end when the demo ends.")] = False,
    speed: Annotated[
        float, typer.Option("--speed", metavar="X", min=0, help="1: the year in about 30 s; 2: in 15; 0: no pauses.")
    ] = 1.0,
    port: Annotated[
        int | None, typer.Option("--port", metavar="N", min=0, max=65_535, help="With --serve: the port.")
    ] = None,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup demo --serve
      psoup demo --serve --once --speed 4
      psoup demo --address 127.0.0.1:7433

    Replay all 336,776 departures from New York in 2013 into a service, and ask a dozen standing queries about
    them: before, while and after they are replayed, and after going away and coming back.
    """
    if serve and address:
        raise typer.BadParameter("--serve starts a service of its own; leave --address out, or --serve")
    if not serve and (once or port is not None):
        raise typer.BadParameter("--once and --port go with --serve")
    target = client_settings(address).address
    console = make_console()
    with ExitStack() as stack:
        child = None
        if serve:
            wanted = int(target.rpartition(":")[2]) if port is None else port
            child = stack.enter_context(ChildService(wanted))
            say(console, f"Starting a service on {child.address} ...")
            child.wait_ready(START_SECONDS)
            target = child.address
        story = Story(console, target, load(), speed)
        story.run()
        _what_next(console, story, target, staying=child is not None and not once)
        if child is not None and not once:
            _stay(child)


def _what_next(console: Console, story: Story, address: str, staying: bool) -> None:
    """Commands to type, as they work here."""
    program = "psoup" if shutil.which("psoup") else sys.argv[0]
    at = "" if address == client_settings().address else f" --address {address}"
    say(console, "\nWhat to type next, in another terminal:" if staying else "\nWhat to type next:", "bold")
    for line in (
        f"invoke {story.query_id('hawaiian')}{at}",
        f"invoke {story.query_id('jfk')} --as-of 2013-12-24T22:00:00Z{at}",
        f"register \"SELECT * FROM {story.stream} WHERE dest = 'ANC' BEGIN (START)\"{at}",
        f"queries{at}",
        f"explain {story.query_id('record')}{at}",
    ):
        say(console, f"  {program} {line}")
    if not staying and at == "":
        say(console, "They need the service up: psoup demo --serve keeps it.")


def _stay(child: ChildService) -> None:
    message(f"\nThe service stays up on {child.address}; nothing survives its end. Ctrl-C stops it.")
    code = child.wait()
    message(f"psoup: the service ended by itself with exit code {code}\n{child.log_end()}")
    raise typer.Exit(1)
