"""psoup replica list, verify and rejoin: the copy of a service, and a directory that becomes a standby of it."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperGroup

from psoup_cli.commands.directory.doctor import NOT_EXAMINED
from psoup_cli.commands.directory.rejoin import rejoin
from psoup_cli.common import AsJson, message
from psoup_cli.output import byte_bar, iso, print_json, print_list
from psoup_client.phrases import counted
from psoup_client.times import from_micros

app = typer.Typer(cls=TyperGroup, no_args_is_help=True, rich_markup_mode=None, add_completion=False)

Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="s3://BUCKET/PREFIX, or a directory with a copy.", show_default=False)
]


@app.callback()
def replica() -> None:
    """\b
    Examples:
      psoup replica list s3://bucket/psoup
      psoup replica verify s3://bucket/psoup
      psoup replica rejoin s3://bucket/psoup psoup-data

    Look at the copy of a service (psoup serve --replicate). psoup restore makes a data directory of it. After another
    service took the copy over, rejoin turns the older directory into a standby.
    """


@app.command("list", short_help="List the events and times that a copy can restore.")
def list_moments(source: Source, as_json: AsJson = False) -> None:
    """\b
    Examples:
      psoup replica list s3://bucket/psoup

    List the events that a copy can restore, and when they were copied. psoup restore takes such an event or time.
    """
    from psoup.errors import PSoupError
    from psoup_storage.replica.report import spans
    from psoup_storage.replica.targets import open_target

    try:
        parts = spans(open_target(source))
    except PSoupError as problem:
        message(f"psoup: {problem.message}")
        raise typer.Exit(NOT_EXAMINED) from None
    rows = [[f"{s.first:,}", f"{s.last:,}", _short(s.begin), _short(s.end), s.images] for s in parts]
    names = ("first", "last", "from", "to", "images")
    facts = [
        span._asdict() | {"begin": iso(from_micros(span.begin)), "end": iso(from_micros(span.end))} for span in parts
    ]
    if as_json:
        for fact in facts:
            print_json(fact)
    else:
        print_list(names, rows, facts, right=(True, True, False, False, True))


def _short(micros: int) -> str:
    """Write a time to the millisecond, rounded up: a restore as of it has the same events. So a row fits a line."""
    rounded = from_micros(-(-micros // 1_000) * 1_000)
    return rounded.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@app.command("verify", short_help="Read a whole copy, and say whether it is sound.")
def verify(source: Source, as_json: AsJson = False) -> None:
    """\b
    Examples:
      psoup replica verify s3://bucket/psoup

    Read a whole copy, and check every checksum and the order of its objects. Exit codes: 0 all is well, 1 something is
    wrong, 2 it could not be read.
    """
    from psoup.errors import PSoupError
    from psoup_storage.replica.report import verify as read_all
    from psoup_storage.replica.targets import open_target

    try:
        with byte_bar("verified") as progress:
            result = read_all(open_target(source), lambda done, total: progress("reading", done, total))
    except PSoupError as problem:
        message(f"psoup: {problem.message}")
        raise typer.Exit(NOT_EXAMINED) from None
    if as_json:
        print_json(result._asdict())
    for line in () if as_json else result.problems:
        print(line)
    if result.problems:
        message(f"psoup: {counted(len(result.problems), 'object')} of {source} cannot be used")
        raise typer.Exit(1)
    size = f"{counted(result.objects, 'object')}, {counted(result.files, 'file')}, {counted(result.bytes, 'byte')}"
    message(f"{source} is sound: {size}.")


app.command("rejoin", short_help="Turn the directory of an older service into a standby.")(rejoin)
