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
    forward by more than a minute: the service's time then goes on by the time since the machine was started, until the
    wall clock has held for ten minutes, or an operator accepts it.
    """
    if context.invoked_subcommand is not None:
        return
    with connect(address) as client:
        told = client.info().clock
    if told is None:
        message("The service does not tell its time: it is of an earlier version.")
        raise typer.Exit(1)
    if as_json:
        print_json({**dataclasses.asdict(told), "ahead": told.ahead, "behind": told.behind})
        return
    print_pairs(_pairs(told))
    if told.pending_since is not None:
        message("If the wall clock is right, accept it now: psoup clock accept. If it is wrong, set it right.")


@app.command("accept", short_help="Let the service follow the wall clock now.")
def accept(address: Address = None) -> None:
    """\b
    Examples:
      psoup clock accept

    Let the service follow the wall clock of its machine at once. It takes a token with the role operator, of the tenant
    default. Look at the time first (psoup clock): streams in system time lose what is too old by the new time, and a
    time that was accepted is never taken back.
    """
    with connect(address) as client:
        accepted, told = client.accept_clock(), client.info().clock
    at = "" if told is None else f": it is {show(to_the_second(told.time))}"
    message(f"The wall clock is accepted{at}." if accepted else f"The service follows the wall clock already{at}.")


def clock_line(told: ServiceClock) -> str:
    """The state of a service's clock in a line: whether it follows the wall clock, and any fault."""
    if told.pending_since is not None:
        left = _seconds(told.followed_in)
        return f"the wall clock is {_seconds(told.ahead)} ahead, followed in {left}; see psoup clock"
    if told.behind >= dt.timedelta(minutes=1):
        return f"{_seconds(told.behind)} before the last time that the service had; see psoup clock"
    return "the wall clock"


def _pairs(told: ServiceClock) -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = [
        ("wall clock", to_the_second(told.wall)),
        ("service time", to_the_second(told.time)),
        ("difference", _seconds(told.ahead)),
    ]
    if told.pending_since is not None:
        pairs += [("set forward at", to_the_second(told.pending_since)), ("followed in", _seconds(told.followed_in))]
    if told.behind >= dt.timedelta(minutes=1):
        pairs += [("greatest time so far", to_the_second(told.last_time)), ("reached in", _seconds(told.behind))]
    return [*pairs, ("steps since the start", f"{told.steps:,}")]


def _seconds(span: dt.timedelta) -> str:
    """A duration as hours, minutes and seconds: 2:00:05."""
    return str(dt.timedelta(seconds=span // dt.timedelta(seconds=1)))
