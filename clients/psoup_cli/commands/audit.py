"""psoup audit: who changed what, and who was refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from psoup_cli.commands.doctor import NOT_EXAMINED, WRONG
from psoup_cli.common import AsJson, message
from psoup_cli.output import print_json, print_list, to_the_second
from psoup_client.wording import counted

if TYPE_CHECKING:
    from psoup_service.gate.audit_reading import Verified

app = typer.Typer(cls=TyperGroup, no_args_is_help=True, rich_markup_mode=None, add_completion=False)

_MOST = 1_000
_COLUMNS = ("time", "tenant", "principal", "token", "peer", "call", "object", "outcome")

Place = Annotated[
    Path, typer.Argument(metavar="PATH", help="A data directory, or the audit log itself.", show_default=False)
]


@app.callback()
def audit() -> None:
    """\b
    Examples:
      psoup audit show psoup-data
      psoup audit verify psoup-data

    Read the audit log of a service with access tokens: who changed what, and who was refused.
    """


@app.command("show", short_help="Show who changed what, and who was refused.")
def show(
    path: Place,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="The last so many.")] = _MOST,
    as_json: AsJson = False,
) -> None:
    """\b
    Examples:
      psoup audit show psoup-data --limit 20
      psoup audit show /archive/audit-2026-05.jsonl --json

    Show the last lines of an audit log, oldest first. The service may run meanwhile.
    """
    from collections import deque

    from psoup_service.gate.audit_reading import lines_of

    lines: list[dict[str, Any]] = list(deque(lines_of(_file(path)), limit))
    if as_json:
        for line in lines:
            print_json(line)
        return
    facts = [{name: line.get(name, "") for name in (*_COLUMNS, "unwritten", "before")} for line in lines]
    rows = [[to_the_second(str(line["time"])), *(line[name] for name in _COLUMNS[1:])] for line in facts]
    print_list(list(_COLUMNS), rows, facts)


@app.command("verify", short_help="Say whether the audit log is as it was written.")
def verify(
    path: Place,
    last: Annotated[
        str, typer.Option("--last", metavar="HASH", help="A hash that an earlier verify told; it must be there.")
    ] = "",
) -> None:
    """\b
    Examples:
      psoup audit verify psoup-data
      psoup audit verify psoup-data --last 5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef

    Follow the chain of hashes through an audit log. A line that was changed, taken out or put in breaks it: exit code
    1. Lines that were cut off at the end are told by a hash noted before, elsewhere: note the one that this prints. So
    are lines cut off at the beginning, which looks as if they were in an earlier file.
    """
    from psoup_service.gate import audit_reading

    found = audit_reading.verify(_file(path), last)
    torn = f", {counted(found.torn, 'line')} cut off in writing" if found.torn else ""
    if problem := _problem(found, last):
        message(f"psoup: {problem}{torn}")
        raise typer.Exit(WRONG)
    print(found.last)
    message(f"{counted(found.lines, 'line')}, each follows from the one before{torn}. The hash of the last is printed.")
    if found.after:
        message(
            f"The first follows a line of an earlier file with the hash {found.after}, or lines before it are gone."
        )


def _problem(found: Verified, last: str) -> str:
    """The fault of the log; "" if there is none."""
    if not found.lines:
        return "the log is empty: nothing was written yet, or all was taken out"
    if found.foreign:
        return f"line {found.foreign:,} is none of an audit log: the log was changed there, or the file is another one"
    if found.broken:
        return (
            f"line {found.broken:,} does not follow from line {found.broken - 1:,}: one of the two was changed, or"
            " lines were taken out or put in between them"
        )
    if last and not found.there:
        return f"no line has the hash {last[:64]}: lines are missing, or it is of another log"
    return ""


def _file(path: Path) -> Path:
    from psoup.errors import PSoupError
    from psoup_service.gate.audit_reading import audit_file

    try:
        return audit_file(path)
    except PSoupError as problem:
        message(f"psoup: {problem.message}")
        raise typer.Exit(NOT_EXAMINED) from None
