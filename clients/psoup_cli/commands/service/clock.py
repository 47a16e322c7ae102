"""psoup clock: the service's time, and the wall clock of its machine."""

from __future__ import annotations

import dataclasses
import datetime as dt

import typer
from typer.core import TyperGroup

from psoup_cli.common import Address, AsJson, connect, message
from psoup_cli.output import print_json, print_pairs, show, to_the_second
from psoup_client import ServiceClock

app = typer.Typer(cls=TyperGroup, invoke_without_command=True, rich_markup_mode=None, add_completion=False)


@app.callback()
def clock(context: typer.Context, as_json: AsJson = False, address: Address = None) -> None:
    """\b
    Examples:
      psoup clock
      psoup clock accept

    Show the wall clock of the service's machine and the time of the service. They differ after the wall clock was set
    forward by more than a minute. The service then counts its time from the machine's start. It follows the wall clock
    again when that has been steady for ten minutes, or when an operator accepts it.
    """
    if context.invoked_subcommand is not None:
        if as_json:
            raise typer.BadParameter(f"--json is for psoup clock alone, not for {context.invoked_subcommand}")
        context.obj = address
        return
    with connect(address) as client:
        times = client.info().clock
    if times is None:
        message("The service does not report its time, because it has an earlier version.")
        raise typer.Exit(1)
    if as_json:
        print_json({**dataclasses.asdict(times), "ahead": times.ahead, "behind": times.behind})
        return
    print_pairs(_pairs(times))
    if times.pending_since is not None:
        message("If the wall clock is right, accept it now: psoup clock accept. If it is wrong, set it right.")


@app.command("accept", short_help="Let the service follow the wall clock now.")
def accept(context: typer.Context, address: Address = None) -> None:
    """\b
    Examples:
      psoup clock accept

    Let the service follow the wall clock of its machine at once. The command takes a token with the role operator, of
    the tenant default. Look at the time first (psoup clock). Streams in system time lose tuples that are too old by the
    new time, and an accepted time cannot be taken back.
    """
    with connect(address or context.obj) as client:
        accepted, times = client.accept_clock(), client.info().clock
    at = "" if times is None else f": it is {show(to_the_second(times.time))}"
    message(f"The wall clock is accepted{at}." if accepted else f"The service follows the wall clock already{at}.")


def clock_line(times: ServiceClock) -> str:
    """Describe the state of a service's clock in one line: whether it follows the wall clock, and any fault."""
    if times.pending_since is not None:
        left = _seconds(times.followed_in)
        return f"the wall clock is {_seconds(times.ahead)} ahead, followed in {left}; see psoup clock"
    if times.behind >= dt.timedelta(minutes=1):
        return f"{_seconds(times.behind)} before the last time that the service had; see psoup clock"
    return "the wall clock"


def _pairs(times: ServiceClock) -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = [
        ("wall clock", to_the_second(times.wall)),
        ("service time", to_the_second(times.time)),
        ("difference", _seconds(times.ahead)),
    ]
    if times.pending_since is not None:
        pairs += [("set forward at", to_the_second(times.pending_since)), ("followed in", _seconds(times.followed_in))]
    if times.behind >= dt.timedelta(minutes=1):
        pairs += [("greatest time so far", to_the_second(times.last_time)), ("reached in", _seconds(times.behind))]
    return [*pairs, ("steps since the start", f"{times.steps:,}")]


def _seconds(span: dt.timedelta) -> str:
    """Write a duration in hours, minutes and seconds, such as 2:00:05."""
    return str(dt.timedelta(seconds=span // dt.timedelta(seconds=1)))
